# SPDX-License-Identifier: Apache-2.0
"""Switches running the committed program, programmed by table and action names.

A `Node` is one embedded switch plus the little traffic manager that its tests need. Expectations
are computed in the tests from the standards and docs/p4.md, not with the product's encoders.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted, SwitchProgram
from bmv2_lab.switch.state import exact_match
from controller.pipeline import load_pipeline
from tests.p4.control import COLLECTOR_IP, Control
from tests.p4.dissect import COLLECTOR_UDP_PORTS
from tests.p4.int_headers import DOMAIN_ID
from tests.p4.reports import ExpectedReport, ReportBytes, expect_reports

REPORT_PORT = 60
RECIRCULATION_PORT = 509
CPU_PORT = 510
RESIDENCE = 1500
QUEUE_WAIT_MARGIN = 400
"""How much shorter than the residence the time in the queue is."""

SEND_OBSERVERS: list[Callable[["Node", bytes, int, "Sent"], None]] = []
"""Called at the end of every `Node.send`: BMv2, where it is installed, gets the same frames."""


@functools.lru_cache(maxsize=1)
def program() -> SwitchProgram:
    """The committed program, translated once for all tests."""
    return SwitchProgram.from_json(load_pipeline().bmv2_json)


@dataclass
class Node(Control):
    """One switch: host ports strip and start INT, the other ports are fabric links."""

    now: int = 1_000_000
    queue_depth: int = 3

    def __post_init__(self) -> None:
        self.switch = EmbeddedSwitch(program(), device_id=self.node_id)
        self.names = {name.rsplit(".", 1)[-1]: name for name in self.state.tables}
        self.set_default("int_node", "set_int_node", self.node_id, DOMAIN_ID)
        self.set_report_config()
        self.destination_default(COLLECTOR_IP)
        for port in self.host_ports:
            self.add("int_edge_ports", [exact_match(port)], "set_int_source_edge")
            self.add("int_sink_ports", [exact_match(port)], "set_int_sink")
        for dscp, queue in ((26, 1), (27, 1), (46, 2), (47, 2)):
            self.add("qos_class", [exact_match(dscp)], "set_queue", queue)
        for marked, unmarked in ((27, 26), (1, 0), (47, 46)):
            self.add("int_marked_dscp", [exact_match(marked)], "set_marked", unmarked)
        for session in (1, 2):
            self.clone_session(session, RECIRCULATION_PORT)
        self.route(COLLECTOR_IP, 32, REPORT_PORT)

    def send(
        self,
        frame: bytes,
        port: int,
        *,
        residence: int = RESIDENCE,
        at: int | None = None,
        drop_clones: bool = False,
    ) -> "Sent":
        """Push one frame through; each copy stays `residence` units, `at` sets the clock."""
        self.now = self.now + 10_000 if at is None else at
        start = self.now
        waiting: list[EgressCopy] = list(self.switch.ingress(frame, port, start))
        sent = Sent(
            node=self, ingress_tstamp=start, egress_tstamp=start + residence, received=frame
        )
        while waiting:
            copy = waiting.pop(0)
            sent.queues.append((copy.egress_port, copy.queue_id))
            if drop_clones and copy.egress_port == RECIRCULATION_PORT:
                continue
            outputs = self.switch.egress(
                copy,
                enq_timestamp=start + min(QUEUE_WAIT_MARGIN, residence) & 0xFFFFFFFF,
                enq_qdepth=self.queue_depth + 1,
                deq_timedelta=max(residence - QUEUE_WAIT_MARGIN, 0),
                deq_qdepth=self.queue_depth,
                egress_tstamp=start + residence,
            )
            for output in outputs:
                if isinstance(output, Emitted):
                    sent.emitted.append((output.port, output.frame))
                else:
                    waiting.append(output)
        for observe in SEND_OBSERVERS:
            observe(self, frame, port, sent)
        return sent

    def packet_out(self, frame: bytes, port: int) -> "Sent":
        """A frame that the controller sends out of one port."""
        return self.send((port << 7).to_bytes(2, "big") + frame, CPU_PORT)

    def expect_reports(self, sent: "Sent", *expected: ExpectedReport) -> None:
        """Exactly these reports were sent, every header as it should be."""
        expect_reports(self, sent.reports, expected)


@dataclass
class Sent:
    """What one frame made a switch send."""

    node: Node
    ingress_tstamp: int
    egress_tstamp: int
    received: bytes
    emitted: list[tuple[int, bytes]] = field(default_factory=list)
    queues: list[tuple[int, int]] = field(default_factory=list)

    @property
    def forwarded(self) -> list[tuple[int, bytes]]:
        """All but this switch's own reports."""
        return [(port, frame) for port, frame in self.emitted if not self._is_own_report(frame)]

    @property
    def frame(self) -> bytes:
        ((_, frame),) = self.forwarded
        return frame

    @property
    def port(self) -> int:
        ((port, _),) = self.forwarded
        return port

    @property
    def reports(self) -> list[ReportBytes]:
        """This switch's reports, ingress clones first."""
        found = [ReportBytes(f, port) for port, f in self.emitted if self._is_own_report(f)]
        return sorted(found, key=lambda report: report.hw_id)

    def _is_own_report(self, frame: bytes) -> bool:
        l3 = 18 if frame[12:14] == b"\x81\x00" else 14
        source = frame[l3 + 12 : l3 + 16]
        is_udp = frame[l3 - 2 : l3] == b"\x08\x00" and frame[l3 + 9] == 17
        is_own = source == self.node.address.to_bytes(4, "big")
        is_own &= int.from_bytes(frame[l3 + 22 : l3 + 24], "big") in COLLECTOR_UDP_PORTS
        return is_udp and is_own and not self.received.endswith(frame[l3 + 20 :])
