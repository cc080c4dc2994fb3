# SPDX-License-Identifier: Apache-2.0
"""Telemetry Report v2.0 frames: read by offsets, and made as they should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.p4.dissect import expect_frame
from tests.p4.frames import ethernet, ip_frame
from tests.p4.wire import Offsets, ip, ip_checksum_is_right

ETHERNET, IPV4, IPV6 = 3, 4, 5
"""Inner types."""
INNER_BYTES_MIN = {ETHERNET: 80, IPV4: 64, IPV6: 84}
"""However small truncate_bytes is: what identifies a RoCEv2 or PTP packet stays."""
FREE_FIELDS = (
    "udp.src_port",
    "ipv4.ttl",
    "ipv4.identification",
    "ipv4.header_checksum",
    "ipv4.ecn",
)
"""Outer fields that the contract leaves open; the ones with rules are checked on their own."""


class Reporter(Protocol):
    """What of a switch shows in its reports."""

    node_id: int
    truncate_bytes: int
    report_dscp: int

    @property
    def mac(self) -> int: ...

    @property
    def address(self) -> int: ...


class ReportBytes:
    """A report frame taken apart by offsets (Telemetry Report v2.0)."""

    def __init__(self, frame: bytes, port: int) -> None:
        at = Offsets.of(frame)
        self.frame, self.port, self.at = frame, port, at
        self.dst_ip = frame[at.l3 + 16 : at.l3 + 20]
        self.src_port = int.from_bytes(frame[at.l4 : at.l4 + 2], "big")
        self.dst_port = int.from_bytes(frame[at.l4 + 2 : at.l4 + 4], "big")
        body = frame[at.payload :]
        self.version = body[0] >> 4
        self.hw_id = int.from_bytes(body[0:2], "big") >> 6 & 0x3F
        self.sequence = int.from_bytes(body[0:4], "big") & 0x3FFFFF
        self.node_id = int.from_bytes(body[4:8], "big")
        self.types, self.length_words, self.metadata_words, self.flags = body[8:12]
        self.bits = int.from_bytes(body[12:14], "big")
        self.domain_id = int.from_bytes(body[14:16], "big")
        self.metadata = body[20 : 20 + self.metadata_words * 4]
        self.inner = body[20 + self.metadata_words * 4 :]

    @property
    def flag_letters(self) -> str:
        """The flags that are set, of "DQFI"."""
        return "".join(letter for i, letter in enumerate("DQFI") if self.flags & 0x80 >> i)

    def check_lengths(self) -> None:
        """IP, UDP and report length all say what the frame really holds."""
        frame, at = self.frame, self.at
        assert int.from_bytes(frame[at.l3 + 2 : at.l3 + 4], "big") == len(frame) - at.l3
        assert int.from_bytes(frame[at.l4 + 4 : at.l4 + 6], "big") == len(frame) - at.l4
        words, remainder = divmod(len(frame) - at.payload - 12, 4)
        assert remainder == 0
        assert self.length_words == min(words, 255)
        assert ip_checksum_is_right(frame)


@dataclass(frozen=True, kw_only=True)
class ExpectedReport:
    """A report as the standards and the contract want it."""

    bits: int
    metadata: bytes
    inner: bytes
    """The whole inner packet; the report holds its first bytes."""
    inner_type: int = 0
    """0: that of an IP packet's version."""
    hw_id: int = 1
    sequence: int = 0
    flags: str = "F"
    int_bytes: int = 0
    """Bytes of INT in the inner packet, which do not count when it is cut."""
    collector: str = "10.255.0.1"
    udp_port: int = 32766
    port: int = 60
    domain_id: int = 0x5454

    def frame(self, node: Reporter, *, vlan: int | None = None) -> bytes:
        """The whole frame, with the open fields as they may be."""
        inner_type = self.inner_type or (IPV6 if self.inner[0] >> 4 == 6 else IPV4)
        limit = max(node.truncate_bytes, INNER_BYTES_MIN[inner_type]) + self.int_bytes
        inner = self.inner[: min(limit, len(self.inner)) & ~3]
        words = 2 + (len(self.metadata) + len(inner)) // 4
        flags = sum(0x80 >> "DQFI".index(letter) for letter in self.flags)
        body = (2 << 28 | self.hw_id << 22 | self.sequence).to_bytes(4, "big")
        body += node.node_id.to_bytes(4, "big")
        body += bytes([0x10 | inner_type, min(words, 255), len(self.metadata) // 4, flags])
        body += self.bits.to_bytes(2, "big") + self.domain_id.to_bytes(2, "big") + bytes(4)
        body += self.metadata + inner
        udp = b"\xc0\x00" + self.udp_port.to_bytes(2, "big") + (8 + len(body)).to_bytes(2, "big")
        source = ".".join(map(str, node.address.to_bytes(4, "big")))
        routed = ip_frame(
            udp + b"\0\0" + body, 17, src=source, dst=self.collector, dscp=node.report_dscp
        )
        destination = 0x020000000000 | self.port
        return ethernet(0x0800, routed[14:], dst=destination, src=node.mac, vlan=vlan)


def expect_reports(
    node: Reporter, reports: Sequence[ReportBytes], expected: Sequence[ExpectedReport]
) -> None:
    """Exactly these reports, in order of hw id, equal in every header."""
    for report, wanted in zip(reports, expected, strict=False):
        report.check_lengths()
        expect_frame(report.frame, wanted.frame(node), ignored=FREE_FIELDS)
        assert report.port == wanted.port
        assert report.src_port >= 0xC000
        assert report.frame[report.at.l3 + 8] > 16, "TTL"
        assert int.from_bytes(report.dst_ip, "big") == ip(wanted.collector)
    kinds = [(report.hw_id, hex(report.bits), report.flag_letters) for report in reports]
    assert len(reports) == len(expected), f"reports: {kinds}, expected {len(expected)}"
