# SPDX-License-Identifier: Apache-2.0
"""Bytes of a frame: where its headers start, its checksums, and single fields of it."""

import ipaddress
import zlib
from dataclasses import dataclass

UDP_PROTOCOL = 17
IPV4, IPV6, VLAN, ARP, LLDP, PTP = 0x0800, 0x86DD, 0x8100, 0x0806, 0x88CC, 0x88F7
"""EtherTypes."""


def packed(address: str) -> bytes:
    """An IPv4 or IPv6 address as it stands on the wire."""
    return ipaddress.ip_address(address).packed


def ip(address: str) -> int:
    """An IPv4 or IPv6 address as a number."""
    return int(ipaddress.ip_address(address))


@dataclass(frozen=True)
class Offsets:
    """Where the headers of an IP frame start."""

    l3: int
    l4: int
    version: int

    @classmethod
    def of(cls, frame: bytes) -> "Offsets":
        l3 = 18 if frame[12:14] == b"\x81\x00" else 14
        version = 6 if frame[l3 - 2 : l3] == b"\x86\xdd" else 4
        return cls(l3, l3 + (40 if version == 6 else (frame[l3] & 15) * 4), version)

    @property
    def payload(self) -> int:
        """First byte after UDP."""
        return self.l4 + 8

    def udp_end(self, frame: bytes) -> int:
        """First byte after the datagram, by its UDP length."""
        return self.l4 + int.from_bytes(frame[self.l4 + 4 : self.l4 + 6], "big")


def replaced(frame: bytes, offset: int, data: bytes) -> bytes:
    """The frame with the bytes at `offset` overwritten."""
    return frame[:offset] + data + frame[offset + len(data) :]


def added(frame: bytes, offset: int, size: int, change: int) -> bytes:
    """The frame with a big-endian field raised by `change`, modulo its size."""
    value = int.from_bytes(frame[offset : offset + size], "big") + change
    return replaced(frame, offset, (value % (1 << 8 * size)).to_bytes(size, "big"))


def refresh_ip(frame: bytes) -> bytes:
    """The frame with a right IPv4 header checksum."""
    at = Offsets.of(frame)
    if at.version == 6:
        return frame
    cleared = replaced(frame, at.l3 + 10, b"\0\0")
    checksum = 0xFFFF - ones_sum(cleared[at.l3 : at.l4])
    return replaced(frame, at.l3 + 10, checksum.to_bytes(2, "big"))


def ones_sum(data: bytes) -> int:
    """Ones' complement sum of 16-bit words; 0xFFFF over anything with a right checksum in it."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def udp_checksum_is_right(frame: bytes) -> bool:
    """Whether the UDP checksum verifies; a checksum of 0 counts as right."""
    at = Offsets.of(frame)
    length = int.from_bytes(frame[at.l4 + 4 : at.l4 + 6], "big")
    if frame[at.l4 + 6 : at.l4 + 8] == b"\0\0":
        return True
    addresses = frame[at.l4 - 32 : at.l4] if at.version == 6 else frame[at.l3 + 12 : at.l3 + 20]
    pseudo = addresses + length.to_bytes(4, "big") + bytes([0, 0, 0, UDP_PROTOCOL])
    return ones_sum(pseudo + frame[at.l4 : at.l4 + length]) == 0xFFFF


def ip_checksum_is_right(frame: bytes) -> bool:
    """Whether the IPv4 header checksum verifies; IPv6 has none."""
    at = Offsets.of(frame)
    return at.version == 6 or ones_sum(frame[at.l3 : at.l4]) == 0xFFFF


def icrc(frame: bytes) -> bytes:
    """The RoCEv2 ICRC of a frame, as it stands on the wire (its place is known by UDP length)."""
    at = Offsets.of(frame)
    masked = bytearray(frame[at.l3 : at.udp_end(frame) - 4])
    l4 = at.l4 - at.l3
    if at.version == 6:
        masked[0] |= 0x0F
        ones = [1, 2, 3, 7]
    else:
        ones = [1, 8, 10, 11]
    for index in (*ones, l4 + 6, l4 + 7, l4 + 12):
        masked[index] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def icrc_is_right(frame: bytes) -> bool:
    """Whether the last four bytes of the UDP payload are the ICRC."""
    end = Offsets.of(frame).udp_end(frame)
    return icrc(frame) == frame[end - 4 : end]


def flow_hash(frame: bytes) -> int:
    """CRC-32 over addresses, protocol and ports: what docs/p4.md calls the flow hash."""
    at = Offsets.of(frame)
    addresses = frame[at.l4 - 32 : at.l4] if at.version == 6 else frame[at.l3 + 12 : at.l3 + 20]
    protocol = frame[at.l3 + (6 if at.version == 6 else 9)]
    return zlib.crc32(addresses + bytes([protocol]) + frame[at.l4 : at.l4 + 4])
