# SPDX-License-Identifier: Apache-2.0
"""Priority flow control of one switch: what each ingress port has in the buffers decides when its
peer is paused and when it may go on (IEEE 802.1Qbb)."""

from collections import Counter
from collections.abc import Callable

LOSSLESS_QUEUE = 1
"""The RoCE class; the others are never paused."""
REACTION_NS = 400
"""From the decision to the peer's queue, beyond the cable: a pause frame's way through two MACs."""

SendPause = Callable[[int, bool], None]
"""`send_pause(ingress_port, paused)`: XOFF or XON to the peer of a port."""


class PfcAccount:
    """Bytes of the lossless class that each ingress port has in the switch."""

    __slots__ = ("_held", "_paused", "_send_pause", "_xoff_bytes", "_xon_bytes")

    def __init__(self, *, xoff_bytes: int, xon_bytes: int, send_pause: SendPause) -> None:
        self._xoff_bytes = xoff_bytes
        self._xon_bytes = xon_bytes
        self._send_pause = send_pause
        self._held: Counter[int] = Counter()
        self._paused: set[int] = set()

    def arrived(self, ingress_port: int, queue_id: int, frame_bytes: int) -> None:
        """A frame went into a queue."""
        if queue_id != LOSSLESS_QUEUE:
            return
        self._held[ingress_port] += frame_bytes
        if self._held[ingress_port] > self._xoff_bytes and ingress_port not in self._paused:
            self._paused.add(ingress_port)
            self._send_pause(ingress_port, True)

    def left(self, ingress_port: int, queue_id: int, frame_bytes: int) -> None:
        """It left the queue."""
        if queue_id != LOSSLESS_QUEUE:
            return
        self._held[ingress_port] -= frame_bytes
        if self._held[ingress_port] < self._xon_bytes and ingress_port in self._paused:
            self._paused.discard(ingress_port)
            self._send_pause(ingress_port, False)
