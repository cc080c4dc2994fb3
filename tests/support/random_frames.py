# SPDX-License-Identifier: Apache-2.0
"""Seeded random frames for a switch that runs the INT program: valid ones, and damaged ones."""

import random
from collections.abc import Callable, Sequence

HOST_PORTS = (11, 12)
FABRIC_PORTS = (1, 2, 3, 4)
CPU_PORT = 510
MARKED = (27, 1, 47)
UNMARKED = (26, 0, 46, 10)
ROCE_OPCODES = (0x00, 0x04, 0x06, 0x0A, 0x0B, 0x0C, 0x0D, 0x0F, 0x10, 0x11, 0x12, 0x81, 0xFF)
BITMAPS = (0xFC00, 0x8000, 0xFF80, 0xFE81, 0x0C00, 0x3000, 0xFC02, 0x0000, 0x4C01)
IPV4_ADDRESSES = (
    "0a000101",
    "0a000102",
    "0a000201",
    "0a000301",
    "0a00ff01",
    "0aff0001",
    "c0a80001",
)
IPV6_ADDRESSES = tuple(f"fd00000000000000000000000000{tail}" for tail in ("0101", "0201", "0301"))
MACS = ("020000000101", "0200000001fe", "011b19000000", "0180c200000e", "ffffffffffff")


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071 over whole words."""
    padded = data + bytes(len(data) % 2)
    total = int.from_bytes(padded, "big") if any(padded) else 0
    return (total % 0xFFFF or 0xFFFF) if total else 0


class RandomFrames:
    """Frames and the ports where they arrive; equal seeds give equal frames."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def next(self) -> tuple[bytes, int]:
        """One frame and its port."""
        port = self.random.choice((*HOST_PORTS, *FABRIC_PORTS, *FABRIC_PORTS))
        kinds: Sequence[Callable[[], bytes]] = (
            self.ip,
            self.ip,
            self.ip,
            self.ip,
            self.l2_ptp,
            self.other,
        )
        frame = self.random.choice(kinds)()
        if self.random.random() < 0.25:
            frame = self.damaged(frame)
        if self.random.random() < 0.05:
            to_ingress = self.random.getrandbits(1)
            head = self.random.choice((1, 2, 11, 12, 509, 511)) << 7 | to_ingress << 6
            return head.to_bytes(2, "big") + frame, CPU_PORT
        return frame, port

    # Parts

    def choice(self, values: Sequence[str]) -> bytes:
        return bytes.fromhex(self.random.choice(values))

    def number(self, bits: int) -> int:
        return self.random.getrandbits(bits)

    def ethernet(self, ether_type: int) -> bytes:
        head = self.choice(MACS) + self.choice(MACS)
        if self.random.random() < 0.15:
            head += b"\x81\x00" + self.random.randrange(1 << 16).to_bytes(2, "big")
        return head + ether_type.to_bytes(2, "big")

    def l2_ptp(self) -> bytes:
        return self.ethernet(0x88F7) + self.ptp()

    def other(self) -> bytes:
        kind = self.random.choice((0x0806, 0x88CC, 0x8100, 0x1234, 0x0800, 0x86DD))
        return self.ethernet(kind) + self.random.randbytes(self.random.choice((0, 10, 46, 100)))

    def ptp(self) -> bytes:
        kind = self.random.choice((0, 1, 2, 3, 8, 9, 11))
        version = 2 if self.random.random() < 0.9 else 1
        length = self.random.choice((44, 54, 34))
        correction = self.random.choice((0, 1 << 16, (1 << 63) - 1, self.number(64)))
        body = bytes([self.number(4) << 4 | kind, version]) + length.to_bytes(2, "big")
        body += bytes([self.random.choice((0, 24)), 0, self.number(2), 0])
        body += correction.to_bytes(8, "big") + bytes(4) + self.random.randbytes(10)
        return body + self.random.randbytes(length - len(body))

    def roce(self) -> bytes:
        opcode = self.random.choice(ROCE_OPCODES)
        body = bytes([opcode, self.number(8), 0xFF, 0xFF, self.number(2) << 6])
        body += self.random.choice((0x12, 0x34)).to_bytes(3, "big")
        body += bytes([self.number(1) << 7]) + self.number(24).to_bytes(3, "big")
        return body + self.random.randbytes(4 * self.random.choice((1, 4, 5, 16, 64, 256)))

    def int_headers(self, dscp: int) -> bytes:
        """Shim, INT-MD or INT-MX header, and a stack of some hops."""
        bitmap = self.random.choice(BITMAPS)
        wide = sum(2 for bit in (0x0800, 0x0400, 0x0200) if bitmap & bit)
        words = wide + (bitmap & ~0x0E7E).bit_count()
        if self.random.random() < 0.1:
            words = self.number(5)
        domain = self.random.choice((0x5454, 0, 7)).to_bytes(2, "big")
        if self.random.random() < 0.3:
            rest = self.random.choice((b"", b"", self.random.randbytes(8)))
            length = 3 + len(rest) // 4
            header = bytes([0x20 | self.number(1) << 3, 0, 0, 0])
            kind = 3
        else:
            hops = self.random.choice((0, 1, 2, 5, 30))
            hops = min(hops, 252 // max(words, 1))
            rest = self.random.randbytes(4 * words * hops)
            length = 3 + words * hops
            flags = self.random.choice((0, 0, 0, 8, 4, 2))
            header = bytes([0x20 | flags, 0, words, self.random.choice((0, 1, 5, 255))])
            kind = 1
        if self.random.random() < 0.05:
            kind, length = self.number(4), self.number(8)
        shim = bytes([kind << 4, length, 0, dscp << 2])
        return shim + header + bitmap.to_bytes(2, "big") + domain + bytes(4) + rest

    def probe(self) -> bytes:
        head = self.random.choice((0x1000, 0x1800, 0x1000, 0x2000)).to_bytes(2, "big")
        return head + b"\x00\x01" + (7).to_bytes(4, "big") + self.number(16).to_bytes(4, "big")

    def ip(self) -> bytes:
        """IPv4 or IPv6 with UDP, TCP or something else, right checksums or none."""
        six = self.random.random() < 0.3
        addresses = IPV6_ADDRESSES if six else IPV4_ADDRESSES
        source, target = self.choice(addresses), self.choice(addresses)
        marked = self.random.random() < 0.4
        dscp = self.random.choice(MARKED if marked else UNMARKED)
        ttl = self.random.choice((64, 64, 64, 255, 2, 1, 0))
        kind = self.random.choice(("roce", "roce", "roce", "ptp", "probe", "udp", "tcp", "icmp"))
        protocol = {"tcp": 6, "icmp": 58 if six else 1}.get(kind, 17)
        if protocol == 17:
            body = self.udp(kind, marked, source + target)
        else:
            body = self.random.randbytes(self.random.choice((4, 20, 40)))
            if kind == "icmp":
                body = bytes([self.random.choice((128, 133, 135, 136, 137))]) + body
        ecn = self.number(2)
        if six:
            first = 6 << 28 | (dscp << 2 | ecn) << 20 | self.number(20)
            head = first.to_bytes(4, "big") + len(body).to_bytes(2, "big")
            head += bytes([protocol, ttl]) + source + target
        else:
            options = self.random.randbytes(4 * self.random.choice((0, 0, 0, 0, 1, 3, 10)))
            words = 5 + len(options) // 4
            fragment = self.random.choice((0x4000, 0x4000, 0x4000, 0, 0x2000, 0x0010))
            head = bytes([0x40 | words, dscp << 2 | ecn]) + (words * 4 + len(body)).to_bytes(
                2, "big"
            )
            head += self.number(16).to_bytes(2, "big") + fragment.to_bytes(2, "big")
            head += bytes([ttl, protocol, 0, 0]) + source + target + options
            head = with_ipv4_checksum(head)
        padding = bytes(self.random.choice((0, 0, 0, 6)))
        return self.ethernet(0x86DD if six else 0x0800) + head + body + padding

    def udp(self, kind: str, marked: bool, pseudo: bytes) -> bytes:
        port = {"roce": 4791, "ptp": self.random.choice((319, 320)), "probe": 32767}.get(kind, 9000)
        payload = {"roce": self.roce, "ptp": self.ptp, "probe": self.probe}.get(
            kind, self.any_payload
        )()
        if marked and self.random.random() < 0.9:
            payload = self.int_headers(self.random.choice(UNMARKED)) + payload
        length = 8 + len(payload)
        sport = self.random.choice((0xC000, 0xC123, 0xFFFF, 319))
        head = sport.to_bytes(2, "big") + port.to_bytes(2, "big") + length.to_bytes(2, "big")
        checksum = 0
        if kind != "probe" and self.random.random() < 0.5:
            summed = pseudo + b"\0\x11" + length.to_bytes(2, "big") + head + payload
            checksum = 0xFFFF - ones_complement_sum(summed) or 0xFFFF
        return head + checksum.to_bytes(2, "big") + payload

    def any_payload(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 18, 100)))

    # Damage

    def damaged(self, frame: bytes) -> bytes:
        """Bytes changed, cut off, or added; the IPv4 checksum is sometimes made right again.

        An Ethernet header always remains: BMv2 reads anything of a header that is not there.
        """
        data = bytearray(frame)
        for _ in range(self.random.choice((0, 1, 1, 2, 5))):
            data[self.random.randrange(min(len(data), 90))] = self.number(8)
        if self.random.random() < 0.3:
            del data[self.random.randrange(14, len(data) + 1) :]
        if self.random.random() < 0.1:
            data += self.random.randbytes(5)
        if self.random.random() < 0.6 and data[12:14] == b"\x08\x00" and len(data) >= 34:
            size = 4 * (data[14] & 15)
            if 20 <= size <= len(data) - 14:
                data[14 : 14 + size] = with_ipv4_checksum(bytes(data[14 : 14 + size]))
        return bytes(data)


def with_ipv4_checksum(header: bytes) -> bytes:
    """The header with its checksum made right."""
    blank = header[:10] + b"\0\0" + header[12:]
    return blank[:10] + (0xFFFF - ones_complement_sum(blank)).to_bytes(2, "big") + blank[12:]
