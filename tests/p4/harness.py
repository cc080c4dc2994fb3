# SPDX-License-Identifier: Apache-2.0
"""Switches running the committed program, programmed by table and action names.

A `Node` is one embedded switch plus the little traffic manager that its tests need; a `Path` is
several of them in a row. Expectations are computed here from the standards, with scapy or from raw
bytes, not with the product's decoder.
"""

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted, SwitchProgram
from bmv2_lab.switch.state import (
    CloneSession,
    SwitchState,
    exact_match,
    lpm_match,
    ternary_match,
)
from bmv2_lab.switch.tables import Entry
from controller.pipeline import load_pipeline

REPORT_PORT = 60
CPU_PORT = 510
COLLECTOR_IP = "10.255.0.1"
COLLECTOR_PORT = 32766
DOMAIN_ID = 0x5454
RESIDENCE = 1500
ALL_ONES = (1 << 64) - 1

SEND_OBSERVERS: list[Callable[["Node", bytes, int, "Sent"], None]] = []
"""Called at the end of every `Node.send`: BMv2, where it is installed, gets the same frames."""


@functools.lru_cache(maxsize=1)
def program() -> SwitchProgram:
    """The committed program, translated once for all tests."""
    return SwitchProgram.from_json(load_pipeline().bmv2_json)


def ip(address: str) -> int:
    """Dotted decimal to integer."""
    return int.from_bytes(bytes(map(int, address.split("."))), "big")


@dataclass
class Node:
    """One switch: host ports strip and start INT, the other ports are fabric links."""

    node_id: int
    host_ports: tuple[int, ...] = ()
    switch: EmbeddedSwitch = field(init=False)
    now: int = 1_000_000
    queue_depth: int = 3

    def __post_init__(self) -> None:
        self.switch = EmbeddedSwitch(program(), device_id=self.node_id)
        self.names = {name.rsplit(".", 1)[-1]: name for name in self.state.tables}
        self.set_default("int_node", "set_int_node", self.node_id, DOMAIN_ID)
        self.set_report_config()
        for port in self.host_ports:
            self.add("int_edge_ports", [exact_match(port)], "set_int_source_edge")
            self.add("int_sink_ports", [exact_match(port)], "set_int_sink")
        for dscp, queue in ((26, 1), (27, 1), (46, 2), (47, 2)):
            self.add("qos_class", [exact_match(dscp)], "set_queue", queue)
        for marked, unmarked in ((27, 26), (1, 0), (47, 46)):
            self.add("int_marked_dscp", [exact_match(marked)], "set_marked", unmarked)
        for session in (1, 2):
            self.state.clone_sessions[session] = CloneSession(
                session_id=session, replicas=((REPORT_PORT, 1),)
            )

    @property
    def state(self) -> SwitchState:
        return self.switch.state

    def set_report_config(self, truncate_bytes: int = 64) -> None:
        self.set_default(
            "report_config",
            "set_report_config",
            0x02FF00000001,
            ip(COLLECTOR_IP),
            0x02EE00000000 | self.node_id,
            ip("10.254.0.0") | self.node_id,
            COLLECTOR_PORT,
            truncate_bytes,
        )

    def _action(self, table: str, action: str) -> tuple[str, str]:
        """Full names of a table and of an action as that table knows it."""
        spec = self.state.table(self.names[table]).spec
        full = next(name for name in spec.action_names if name.rsplit(".", 1)[-1] == action)
        return spec.name, full

    def set_default(self, table: str, action: str, *arguments: int) -> None:
        self.state.set_default(*self._action(table, action), arguments)

    def add(
        self, table: str, match: list[Any], action: str, *arguments: int, priority: int = 0
    ) -> Entry:
        names = self._action(table, action)
        return self.state.add_entry(names[0], tuple(match), names[1], arguments, priority=priority)

    def route(self, prefix: str, bits: int, *ports: int) -> None:
        """A route over one member per port."""
        table, forward = self._action("ipv4_lpm", "forward")
        self.state.add_route(
            table,
            (lpm_match(ip(prefix), bits, 32),),
            [(forward, (port, 0x020000000000 | port)) for port in ports],
        )

    def watch(
        self,
        *,
        bitmap: int = 0xFC00,
        remaining_hop_count: int = 8,
        marked_dscp: int = 27,
        psn: tuple[int, int] = (0, 0),
        dst_port: tuple[int, int] = (0, 0),
    ) -> Entry:
        """Trace every flow from host ports, or those with a PSN or port that fits value/mask."""
        match = [ternary_match(0, 0) for _ in range(8)]
        match[7] = ternary_match(*psn)
        match[4] = ternary_match(*dst_port)
        arguments = (bitmap, remaining_hop_count, marked_dscp)
        return self.add("int_watchlist", match, "int_source", *arguments, priority=10)

    def exempt_collector(self) -> None:
        match = [ternary_match(0, 0) for _ in range(8)]
        match[1] = ternary_match(ip(COLLECTOR_IP), 0xFFFFFFFF)
        self.add("int_watchlist", match, "int_exempt", priority=1000)

    def watch_ptp(self, bits: int = 0x7C00) -> None:
        match = [ternary_match(0, 0) for _ in range(4)]
        self.add("ptp_watchlist", match, "ptp_postcard", bits, priority=1)

    def counter(self, table: str) -> int:
        """Packets that hit any entry of a table."""
        entries = self.state.table(self.names[table]).entries.values()
        return sum(int(entry.cell[3]) for entry in entries)

    def event(self, index: int) -> int:
        return self.state.counter_packets["TempoIngress.ingress_events"][index]

    def send(
        self, frame: bytes, port: int, *, residence: int = RESIDENCE, drop_clones: bool = False
    ) -> "Sent":
        """Push one frame through; queues are empty, and each copy stays `residence` units."""
        self.now += 10_000
        start = self.now
        waiting: list[EgressCopy] = list(self.switch.ingress(frame, port, start))
        sent = Sent(ingress_tstamp=start, egress_tstamp=start + residence)
        while waiting:
            copy = waiting.pop(0)
            sent.queues.append((copy.egress_port, copy.queue_id))
            if drop_clones and copy.egress_port == REPORT_PORT:
                continue
            outputs = self.switch.egress(
                copy,
                enq_timestamp=start + 400,
                enq_qdepth=self.queue_depth + 1,
                deq_timedelta=residence - 400,
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


@dataclass
class Sent:
    """What one frame made a switch send."""

    ingress_tstamp: int
    egress_tstamp: int
    emitted: list[tuple[int, bytes]] = field(default_factory=list)
    queues: list[tuple[int, int]] = field(default_factory=list)

    @property
    def forwarded(self) -> list[tuple[int, bytes]]:
        return [(port, frame) for port, frame in self.emitted if port != REPORT_PORT]

    @property
    def frame(self) -> bytes:
        ((_, frame),) = self.forwarded
        return frame

    @property
    def reports(self) -> list["ReportBytes"]:
        found = [ReportBytes(frame) for port, frame in self.emitted if port == REPORT_PORT]
        return sorted(found, key=lambda report: report.hw_id)


class ReportBytes:
    """A report frame taken apart by offsets (Telemetry Report v2.0)."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        packet = Ether(frame)
        self.ip, self.udp = packet[IP], packet[UDP]
        body = frame[42:]
        self.version = body[0] >> 4
        self.hw_id = int.from_bytes(body[0:2], "big") >> 6 & 0x3F
        self.sequence = int.from_bytes(body[0:4], "big") & 0x3FFFFF
        self.node_id = int.from_bytes(body[4:8], "big")
        self.types, self.length_words, self.metadata_words, self.flags = body[8:12]
        self.bits = int.from_bytes(body[12:14], "big")
        self.domain_id = int.from_bytes(body[14:16], "big")
        self.metadata = body[20 : 20 + self.metadata_words * 4]
        self.inner = body[20 + self.metadata_words * 4 :]

    def check_lengths(self) -> None:
        """IP, UDP and report length all say what the frame really holds."""
        assert len(self.frame) == 14 + self.ip.len == 34 + self.udp.len
        words = (len(self.frame) - 42 - 12) // 4
        assert (len(self.frame) - 42) % 4 == 0
        assert self.length_words == min(words, 255)
        assert ones_sum(self.frame[14:34]) == 0xFFFF


def ones_sum(data: bytes) -> int:
    """Ones' complement sum of 16-bit words; 0xFFFF over anything with a right checksum in it."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def udp_checksum_is_right(frame: bytes) -> bool:
    """Checks a frame without IP options; a checksum of 0 counts as right."""
    length = int.from_bytes(frame[38:40], "big")
    if frame[40:42] == b"\0\0":
        return True
    pseudo = frame[26:34] + b"\0\x11" + length.to_bytes(2, "big")
    return ones_sum(pseudo + frame[34 : 34 + length]) == 0xFFFF


def icrc(frame: bytes) -> bytes:
    """The RoCEv2 ICRC of a frame without IP options, as it stands on the wire."""
    masked = bytearray(frame[14 : 34 + int.from_bytes(frame[38:40], "big") - 4])
    for index in (1, 8, 10, 11, 26, 27, 32):
        masked[index] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def roce(
    *,
    src: str = "10.0.1.1",
    dst: str = "10.0.2.1",
    sport: int = 0xC123,
    opcode: int = 4,
    psn: int = 7,
    payload: bytes = b"payload.",
    dscp: int = 26,
    ecn: int = 2,
    ttl: int = 64,
    udp_checksum: bool = False,
) -> bytes:
    """A RoCEv2 frame from scapy, with BTH and ICRC by hand."""
    bth = bytes([opcode, 0, 0xFF, 0xFF, 0]) + (0x1234).to_bytes(3, "big")
    bth += bytes([0x80]) + psn.to_bytes(3, "big")
    header = Ether(src="02:00:00:00:01:01", dst="02:00:00:00:01:fe") / IP(
        src=src, dst=dst, tos=dscp << 2 | ecn, ttl=ttl, flags="DF", id=0x1A2B
    )
    body = bth + payload + bytes(-len(payload) % 4)
    draft = bytes(header / UDP(sport=sport, dport=4791, chksum=0) / Raw(body + bytes(4)))
    crc = icrc(draft)
    checksum: dict[str, int] = {} if udp_checksum else {"chksum": 0}
    return bytes(header / UDP(sport=sport, dport=4791, **checksum) / Raw(body + crc))


def ptp(
    message_type: int = 0,
    *,
    version: int = 2,
    src: str = "10.0.1.1",
    dst: str = "10.0.2.1",
    length: int = 44,
    udp_checksum: bool = False,
) -> bytes:
    """A PTP message over UDP: event types on port 319, the others on 320."""
    port = 319 if message_type < 4 else 320
    body = bytes([message_type, version]) + length.to_bytes(2, "big") + bytes([24])
    body += bytes(range(length - len(body)))
    checksum: dict[str, int] = {} if udp_checksum else {"chksum": 0}
    return bytes(
        Ether(src="02:00:00:00:01:01", dst="02:00:00:00:01:fe")
        / IP(src=src, dst=dst, tos=0, flags="DF")
        / UDP(sport=port, dport=port, **checksum)
        / Raw(body)
    )


@dataclass(frozen=True)
class IntStack:
    """Shim, INT-MD header and stack of a frame without IP options, read by offsets."""

    shim: bytes
    header: bytes
    words: bytes

    @classmethod
    def of(cls, ip_packet: bytes) -> "IntStack":
        shim = ip_packet[28:32]
        length = shim[1] * 4
        return cls(shim=shim, header=ip_packet[32:44], words=ip_packet[44 : 32 + length])

    @property
    def bits(self) -> int:
        return int.from_bytes(self.header[0:4], "big")

    @property
    def exceeded(self) -> bool:
        return bool(self.bits >> 26 & 1)

    @property
    def mtu_exceeded(self) -> bool:
        return bool(self.bits >> 25 & 1)

    @property
    def hop_words(self) -> int:
        return self.bits >> 8 & 0x1F

    @property
    def remaining_hop_count(self) -> int:
        return self.bits & 0xFF

    @property
    def bitmap(self) -> int:
        return int.from_bytes(self.header[4:6], "big")

    def hops(self) -> list[bytes]:
        """Newest hop first."""
        size = self.hop_words * 4
        return [self.words[i : i + size] for i in range(0, len(self.words), size)]


def expected_hop(
    node: Node, sent: Sent, bitmap: int, ingress_port: int, egress_port: int, queue: int
) -> bytes:
    """One stack entry, written from INT v2.1 section 5."""
    values: list[tuple[int, int, int]] = [
        (0x8000, 4, node.node_id),
        (0x4000, 4, ingress_port << 16 | egress_port),
        (0x2000, 4, sent.egress_tstamp - sent.ingress_tstamp),
        (0x1000, 4, queue << 24 | node.queue_depth),
        (0x0800, 8, sent.ingress_tstamp),
        (0x0400, 8, sent.egress_tstamp),
        (0x0200, 8, ALL_ONES),
        (0x0100, 4, 0xFFFFFFFF),
        (0x0080, 4, 0xFFFFFFFF),
        (0x0001, 4, 0xFFFFFFFF),
    ]
    return b"".join(v.to_bytes(size, "big") for bit, size, v in values if bitmap & bit)
