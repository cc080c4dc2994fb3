# SPDX-License-Identifier: Apache-2.0
"""Frames of the INT program cut into named fields, and which of them depend on time.

Written from the standards' layouts (INT v2.1, Telemetry Report v2.0, IEEE 1588-2019), not from the
product's decoder. What is not recognised is payload.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

ETHERNET, IPV4, IPV6 = 3, 4, 5  # InType of Telemetry Report v2.0
ETHER_TYPES = {0x0800: IPV4, 0x86DD: IPV6}
ETHER_TYPE_VLAN, ETHER_TYPE_PTP = 0x8100, 0x88F7
CPU_PORT = 510
UDP_PORT_ROCEV2, UDP_PORT_PROBE = 4791, 32767
UDP_PORTS_PTP = (319, 320)
INT_MD, INT_MX = 1, 3

# Bit, bytes, name, and the bytes of it that depend on time: the queue's id does not.
METADATA = (
    (0x8000, 4, "node_id", None),
    (0x4000, 4, "level1_ports", None),
    (0x2000, 4, "hop_latency", (0, 4)),
    (0x1000, 4, "queue", (1, 4)),
    (0x0800, 8, "ingress_tstamp", (0, 8)),
    (0x0400, 8, "egress_tstamp", (0, 8)),
    (0x0200, 8, "level2_ports", None),
    (0x0100, 4, "tx_utilization", None),
    (0x0080, 4, "buffer", None),
    (0x0040, 4, "reserved9", None),
    (0x0020, 4, "reserved10", None),
    (0x0010, 4, "reserved11", None),
    (0x0008, 4, "reserved12", None),
    (0x0004, 4, "reserved13", None),
    (0x0002, 4, "reserved14", None),
    (0x0001, 4, "bit15", None),  # checksum complement, in a report queue id and drop reason
)
IPV4_FIELDS = (
    ("version_ihl", 1),
    ("tos", 1),
    ("total_length", 2),
    ("identification", 2),
    ("fragment", 2),
    ("ttl", 1),
    ("protocol", 1),
    ("header_checksum", 2),
    ("src_addr", 4),
    ("dst_addr", 4),
)
IPV6_FIELDS = (
    ("version_class_label", 4),
    ("payload_length", 2),
    ("next_header", 1),
    ("hop_limit", 1),
    ("src_addr", 16),
    ("dst_addr", 16),
)
PTP_FIELDS = (
    ("message_type", 1),
    ("version", 1),
    ("message_length", 2),
    ("domain_number", 1),
    ("minor_sdo_id", 1),
    ("flag_field", 2),
    ("correction_field", 8),
    ("message_type_specific", 4),
    ("source_port_identity", 10),
    ("sequence_id", 2),
    ("control_field", 1),
    ("log_message_interval", 1),
)


@dataclass(frozen=True, slots=True)
class Field:
    """Bytes `start` to `end` (exclusive) of a frame."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class Dissection:
    """The fields of one frame in order, without gaps.

    `timing` are those that hold a stamp, a duration or a queue depth; `segments` are the UDP
    datagrams (start, end) with a checksum over one of these; `sequence` is a report's number.
    """

    frame: bytes
    fields: list[Field] = field(default_factory=list)
    timing: list[Field] = field(default_factory=list)
    segments: list[Field] = field(default_factory=list)
    sequence: Field | None = None

    def name_at(self, position: int) -> str:
        """The field in which a byte lies."""
        for item in self.fields:
            if item.start <= position < item.end:
                return item.name
        return "end"

    def without(self, removed: list[Field]) -> bytes:
        """The frame with the bytes of some fields zero."""
        data = bytearray(self.frame)
        for item in removed:
            data[item.start : item.end] = bytes(item.end - item.start)
        return bytes(data)


def dissect(frame: bytes, port: int = 0) -> Dissection:
    """Cut a frame that left on a port; on the CPU port a controller header comes first."""
    result = Dissection(frame)
    cutter = _Cutter(result)
    if port == CPU_PORT:
        cutter.take("packet_in", 2)
    cutter.ethernet("")
    cutter.take("payload", len(frame) - cutter.at)
    return result


class _Cutter:
    """Walks through a frame; what is cut short ends it."""

    def __init__(self, result: Dissection) -> None:
        self.result = result
        self.frame = result.frame
        self.at = 0

    def left(self) -> int:
        return len(self.frame) - self.at

    def number(self, offset: int, size: int) -> int:
        return int.from_bytes(self.frame[self.at + offset : self.at + offset + size], "big")

    def take(self, name: str, size: int) -> Field:
        end = min(self.at + size, len(self.frame))
        item = Field(name, self.at, end)
        if end > self.at:
            self.result.fields.append(item)
        self.at = end
        return item

    def timed(self, item: Field, begin: int, end: int) -> None:
        part = Field(item.name, item.start + begin, min(item.start + end, item.end))
        if part.end > part.start:
            self.result.timing.append(part)

    def rows(self, prefix: str, rows: tuple[tuple[str, int], ...]) -> Iterator[Field]:
        for name, size in rows:
            yield self.take(f"{prefix}.{name}", size)

    def ethernet(self, prefix: str) -> None:
        if self.left() < 14:
            return
        self.take(f"{prefix}ethernet.dst_addr", 6)
        self.take(f"{prefix}ethernet.src_addr", 6)
        kind = self.number(0, 2)
        self.take(f"{prefix}ethernet.ether_type", 2)
        if kind == ETHER_TYPE_VLAN and self.left() >= 4:
            kind = self.number(2, 2)
            self.take(f"{prefix}vlan", 4)
        if kind == ETHER_TYPE_PTP:
            self.ptp(prefix)
        elif kind in ETHER_TYPES:
            self.ip(prefix, ETHER_TYPES[kind])

    def ip(self, prefix: str, kind: int) -> None:
        if kind == IPV4:
            if self.left() < 20 or self.frame[self.at] >> 4 != 4:
                return
            header = (self.frame[self.at] & 15) * 4
            dscp, protocol = self.frame[self.at + 1] >> 2, self.frame[self.at + 9]
            fragment = self.number(6, 2) & 0x3FFF
            list(self.rows(f"{prefix}ipv4", IPV4_FIELDS))
            if header > 20:
                self.take(f"{prefix}ipv4.options", header - 20)
            if header < 20 or fragment:
                return
        else:
            if self.left() < 40 or self.frame[self.at] >> 4 != 6:
                return
            dscp, protocol = self.number(0, 2) >> 6 & 0x3F, self.frame[self.at + 6]
            list(self.rows(f"{prefix}ipv6", IPV6_FIELDS))
        if protocol == 17 and self.left() >= 8:
            self.udp(prefix, dscp)

    def udp(self, prefix: str, dscp: int) -> None:
        begin, known = self.at, len(self.result.timing)
        dst_port, length = self.number(2, 2), self.number(4, 2)
        self.take(f"{prefix}udp.src_port", 2)
        self.take(f"{prefix}udp.dst_port", 2)
        self.take(f"{prefix}udp.length", 2)
        checksum = self.take(f"{prefix}udp.checksum", 2)
        if dscp & 1:
            self.int_(prefix)
        if dst_port in UDP_PORTS_PTP:
            self.ptp(prefix)
        elif dst_port == UDP_PORT_ROCEV2:
            self.take(f"{prefix}bth", 12)
        elif dst_port == UDP_PORT_PROBE:
            self.take(f"{prefix}probe", 12)
        elif not prefix and self.left() >= 20 and self.is_report():
            self.report()
            return
        if len(self.result.timing) > known and any(self.frame[checksum.start : checksum.end]):
            end = min(begin + length, len(self.frame))
            self.result.segments.append(Field(checksum.name, begin, end))
            self.result.timing.append(checksum)

    def is_report(self) -> bool:
        version, types = self.frame[self.at] >> 4, self.frame[self.at + 8]
        return version == 2 and types >> 4 == 1 and types & 15 in (ETHERNET, IPV4, IPV6)

    def report(self) -> None:
        hw_id = self.take("report.version_hw_id", 1)
        del hw_id
        self.result.sequence = self.take("report.sequence_number", 3)
        self.take("report.node_id", 4)
        inner = self.frame[self.at] & 15
        words = self.frame[self.at + 2]
        self.take("report.individual", 4)
        bits = self.number(0, 2)
        self.take("report.main", 8)
        end = self.at + words * 4
        self.metadata("report", bits)
        if self.at != end:
            self.take("report.more_metadata", end - self.at)
        if inner == ETHERNET:
            self.ethernet("inner.")
        else:
            self.ip("inner.", inner)

    def metadata(self, prefix: str, bits: int) -> None:
        for bit, size, name, timed in METADATA:
            if bits & bit:
                item = self.take(f"{prefix}.{name}", size)
                if timed is not None:
                    self.timed(item, *timed)

    def int_(self, prefix: str) -> None:
        """Shim, INT header, stack. Only the newest entry can be of the switch that sent this."""
        if self.left() < 16:
            return
        kind, npt, words = self.frame[self.at] >> 4, self.frame[self.at] & 0x0C, self.number(1, 1)
        if kind not in (INT_MD, INT_MX) or npt or words < 3 or self.frame[self.at + 4] >> 4 != 2:
            return
        self.take(f"{prefix}int_shim", 4)
        hop_words, bits = self.number(2, 1) & 0x1F, self.number(4, 2)
        self.take(f"{prefix}int_header.flags", 2)
        self.take(f"{prefix}int_header.hop_words_and_count", 2)
        self.take(f"{prefix}int_header.rest", 8)
        end = min(self.at + words * 4 - 12, len(self.frame))
        needed = sum(size for bit, size, _, _ in METADATA if bits & bit)
        if kind == INT_MD and hop_words * 4 == needed and end - self.at >= needed > 0:
            self.metadata(f"{prefix}int_stack[newest]", bits)
        self.take(f"{prefix}int_stack", end - self.at)

    def ptp(self, prefix: str) -> None:
        event = self.left() > 0 and self.frame[self.at] & 0x0F < 4
        for item in self.rows(f"{prefix}ptp", PTP_FIELDS):
            if event and item.name.endswith("correction_field"):
                self.timed(item, 0, 8)


def ones_sum(data: bytes) -> int:
    """Sum of 16-bit words modulo 0xFFFF."""
    padded = data + bytes(len(data) % 2)
    return sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2)) % 0xFFFF
