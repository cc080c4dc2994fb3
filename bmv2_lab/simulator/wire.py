# SPDX-License-Identifier: Apache-2.0
"""One direction of a cable: true delay, true stamp-point latencies, one-sided jitter."""

from collections.abc import Callable

import numpy as np

from bmv2_lab.simulator.engine import Engine

FCS_BYTES = 4
FRAME_BYTES_MIN = 64
"""Shorter frames are padded on the wire (IEEE 802.3 section 4A.2.3.2.4)."""
JITTER_POOL = 4_096
"""Jitter values are drawn this many at a time."""

Receive = Callable[[bytes, int, int], None]
"""`receive(frame, port, stamp_true_ns)`: the true instant of the ingress stamp."""


def wire_bytes(frame: bytes) -> int:
    """Length of `frame` on the wire, with padding and FCS, without preamble and gap."""
    return max(len(frame) + FCS_BYTES, FRAME_BYTES_MIN)


class Wire:
    """Carries frames from one port to its peer; keeps their order."""

    __slots__ = (
        "_delay_ns",
        "_egress_latency_ns",
        "_engine",
        "_fault_extra_ns",
        "_fault_until_ns",
        "_free_ns",
        "_ingress_at_frame_end",
        "_ingress_latency_ns",
        "_jitter",
        "_jitter_max_ns",
        "_jitter_mean_ns",
        "_ns_per_byte",
        "_peer_port",
        "_peer_processing_ns",
        "_receive",
        "_rng",
        "down",
        "lost",
    )

    def __init__(
        self,
        engine: Engine,
        rng: np.random.Generator,
        *,
        delay_ns: int,
        egress_latency_ns: int,
        ingress_latency_ns: int,
        ingress_at_frame_end: bool,
        rate_bps: int,
        jitter_mean_ns: float,
        jitter_max_ns: int,
        peer_port: int,
        peer_processing_ns: int,
        receive: Receive,
    ) -> None:
        self._engine = engine
        self._rng = rng
        self._delay_ns = delay_ns
        self._egress_latency_ns = egress_latency_ns
        self._ingress_latency_ns = ingress_latency_ns
        self._ingress_at_frame_end = ingress_at_frame_end
        self._ns_per_byte = 8e9 / rate_bps
        self._jitter_mean_ns = jitter_mean_ns
        self._jitter_max_ns = jitter_max_ns
        self._jitter: list[int] = []
        self._peer_port = peer_port
        self._peer_processing_ns = peer_processing_ns
        self._receive = receive
        self._free_ns = 0
        self._fault_extra_ns = 0
        self._fault_until_ns = -1
        self.down = False
        """Frames sent now are lost."""
        self.lost = 0

    def send(self, frame: bytes) -> None:
        """The frame was dequeued, and its egress stamp taken, now."""
        now_ns = self._engine.now_ns
        if self.down:
            self.lost += 1
            return
        if not self._jitter:
            drawn = self._rng.exponential(self._jitter_mean_ns, JITTER_POOL)
            self._jitter = np.minimum(drawn, self._jitter_max_ns).round().astype(int).tolist()
        serialisation_ns = wire_bytes(frame) * self._ns_per_byte
        first_bit_ns = max(now_ns + self._egress_latency_ns + self._jitter.pop(), self._free_ns)
        self._free_ns = first_bit_ns + int(serialisation_ns)
        stamp_ns = first_bit_ns + self._delay_ns + self._ingress_latency_ns
        if now_ns <= self._fault_until_ns:
            stamp_ns += self._fault_extra_ns
        if self._ingress_at_frame_end:
            stamp_ns += round(serialisation_ns)
        self._engine.at(
            stamp_ns + self._peer_processing_ns, self._receive, frame, self._peer_port, stamp_ns
        )

    def delay_more(self, extra_ns: int, until_ns: int) -> None:
        """Every frame sent until `until_ns` takes `extra_ns` longer (an injected fault)."""
        self._fault_extra_ns = extra_ns
        self._fault_until_ns = until_ns
