# SPDX-License-Identifier: Apache-2.0
"""INT v2.1 headers and the values of one hop, as they should be."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.p4.wire import Offsets

if TYPE_CHECKING:
    from tests.p4.harness import Node, Sent

DOMAIN_ID = 0x5454
NO_INTERFACE = 0xFFFFFFFF


def expected_hop(
    node: "Node",
    sent: "Sent",
    bitmap: int,
    ingress_port: int,
    egress_port: int,
    queue: int,
    *,
    drop: tuple[int, int] | None = None,
) -> bytes:
    """One hop's values, written from INT v2.1 section 5.4; `drop`: (queue id, reason) of a report.

    What v1model does not have is all ones.
    """
    interface = node.interfaces.get(ingress_port, NO_INTERFACE) << 32
    interface |= node.interfaces.get(egress_port, NO_INTERFACE)
    last = 0xFFFFFFFF if drop is None else drop[0] << 24 | drop[1] << 16
    values: list[tuple[int, int, int]] = [
        (0x8000, 4, node.node_id),
        (0x4000, 4, ingress_port << 16 | egress_port),
        (0x2000, 4, sent.egress_tstamp - sent.ingress_tstamp & 0xFFFFFFFF),
        (0x1000, 4, queue << 24 | node.queue_depth),
        (0x0800, 8, sent.ingress_tstamp),
        (0x0400, 8, sent.egress_tstamp),
        (0x0200, 8, interface),
        (0x0100, 4, 0xFFFFFFFF),
        (0x0080, 4, 0xFFFFFFFF),
        (0x0001, 4, last),
    ]
    return b"".join(v.to_bytes(size, "big") for bit, size, v in values if bitmap & bit)


def hop_words(bitmap: int) -> int:
    """Words of one hop's entry (INT v2.1 section 5.4)."""
    return bitmap.bit_count() + (bitmap & 0x0E00).bit_count()


def int_md(
    stack: bytes = b"",
    *,
    bitmap: int = 0xFC00,
    dscp: int = 26,
    remaining_hop_count: int = 8,
    flags: int = 0,
    domain_id: int = DOMAIN_ID,
) -> bytes:
    """Shim, INT-MD header and stack; `flags`: D 4, E 2, M 1."""
    shim = bytes([0x10, 3 + len(stack) // 4, 0, dscp << 2])
    first = 2 << 28 | flags << 25 | hop_words(bitmap) << 8 | remaining_hop_count
    header = first.to_bytes(4, "big") + bitmap.to_bytes(2, "big") + domain_id.to_bytes(2, "big")
    return shim + header + bytes(4) + stack


def int_mx(
    *, bitmap: int = 0xFC00, dscp: int = 26, discard: int = 0, metadata: bytes = b""
) -> bytes:
    """Shim and INT-MX header, and what domain specific metadata the source added."""
    shim = bytes([0x30, 3 + len(metadata) // 4, 0, dscp << 2])
    first = (2 << 28 | discard << 27).to_bytes(4, "big")
    rest = bitmap.to_bytes(2, "big") + DOMAIN_ID.to_bytes(2, "big") + bytes(4)
    return shim + first + rest + metadata


@dataclass(frozen=True)
class IntStack:
    """Shim, INT-MD header and stack of a frame, read by offsets."""

    shim: bytes
    header: bytes
    words: bytes

    @classmethod
    def of(cls, frame: bytes) -> "IntStack":
        start = Offsets.of(frame).payload
        shim = frame[start : start + 4]
        end = start + 4 + shim[1] * 4
        return cls(shim, frame[start + 4 : start + 16], frame[start + 16 : end])

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
    def remaining_hop_count(self) -> int:
        return self.bits & 0xFF

    def hops(self) -> list[bytes]:
        """Newest hop first."""
        size = (self.bits >> 8 & 0x1F) * 4
        return [self.words[i : i + size] for i in range(0, len(self.words), size)] if size else []
