# SPDX-License-Identifier: Apache-2.0
"""One hop's values, as an INT-MD stack entry or as the metadata of a report.

Both use the same bitmap (INT 5.7, TR 3.4; bit 0 is the highest). They differ in bit 15: checksum
complement, last of the entry, in a stack; drop information, in place, in a report.
"""

import functools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, compile_unpacker, packer
from controller.telemetry.layout import (
    INT_BUFFER,
    INT_CHECKSUM_COMPLEMENT,
    INT_EGRESS_TSTAMP,
    INT_HOP_LATENCY,
    INT_INGRESS_TSTAMP,
    INT_LEVEL1_PORTS,
    INT_LEVEL2_PORTS,
    INT_NODE_ID,
    INT_QUEUE,
    INT_TX_UTILIZATION,
    REPORT_DROP,
    HeaderLayout,
)

BIT_NODE_ID = 0x8000
BIT_LEVEL1_PORTS = 0x4000
BIT_HOP_LATENCY = 0x2000
BIT_QUEUE = 0x1000
BIT_INGRESS_TSTAMP = 0x0800
BIT_EGRESS_TSTAMP = 0x0400
BIT_LEVEL2_PORTS = 0x0200
BIT_TX_UTILIZATION = 0x0100
BIT_BUFFER = 0x0080
BITS_RESERVED = 0x007E
BIT_LAST = 0x0001
"""Checksum complement in a stack, drop information in a report."""
_BITS_TWO_WORDS = BIT_INGRESS_TSTAMP | BIT_EGRESS_TSTAMP | BIT_LEVEL2_PORTS
_BITS_TSTAMP = BIT_INGRESS_TSTAMP | BIT_EGRESS_TSTAMP

REPORT_BITS_UNDEFINED = BIT_NODE_ID | BITS_RESERVED
"""RepMdBits that must be clear: the node id is in the group header, the rest have no length."""

_DECODERS_CACHED_MAX = 512
"""Compiled bitmaps kept: a fabric uses a handful, damaged input could ask for 2^17."""


class HopMetadata(NamedTuple):
    """What one node says about one packet; None: not asked for or not available.

    Stamps and latency are raw, in the device's own unit; `dialect` turns them into ns.
    """

    node_id: int | None = None
    ingress_port: int | None = None
    egress_port: int | None = None
    hop_latency: int | None = None
    queue_id: int | None = None
    queue_depth: int | None = None
    ingress_tstamp: int | None = None
    egress_tstamp: int | None = None
    ingress_interface: int | None = None
    egress_interface: int | None = None
    tx_utilization: int | None = None
    buffer_id: int | None = None
    buffer_depth: int | None = None
    checksum_complement: int | None = None
    drop_queue_id: int | None = None
    drop_reason: int | None = None
    unavailable_bits: int = 0
    """Bits that were asked for and came as all-ones, or as zero for a stamp; level 2 interfaces
    count when one of the two did."""
    domain_specific: bytes = b""


_STACK_ITEMS: tuple[tuple[int, HeaderLayout[Any]], ...] = (
    (BIT_NODE_ID, INT_NODE_ID),
    (BIT_LEVEL1_PORTS, INT_LEVEL1_PORTS),
    (BIT_HOP_LATENCY, INT_HOP_LATENCY),
    (BIT_QUEUE, INT_QUEUE),
    (BIT_INGRESS_TSTAMP, INT_INGRESS_TSTAMP),
    (BIT_EGRESS_TSTAMP, INT_EGRESS_TSTAMP),
    (BIT_LEVEL2_PORTS, INT_LEVEL2_PORTS),
    (BIT_TX_UTILIZATION, INT_TX_UTILIZATION),
    (BIT_BUFFER, INT_BUFFER),
    *((0x0040 >> k, INT_CHECKSUM_COMPLEMENT) for k in range(6)),  # reserved: one word, ignored
    (BIT_LAST, INT_CHECKSUM_COMPLEMENT),
)
_REPORT_ITEMS = (*_STACK_ITEMS[:-1], (BIT_LAST, REPORT_DROP))


def bitmap_words(bitmap: int) -> int:
    """Words that the values of a bitmap take, domain specific ones not counted.

    >>> bitmap_words(0xFF80), bitmap_words(0xFC00)
    (12, 8)
    """
    return bitmap.bit_count() + (bitmap & _BITS_TWO_WORDS).bit_count()


def decode_stack_entry(bitmap: int, ds_words: int, data: Buffer, offset: int) -> HopMetadata:
    """One hop's entry: bits 0 to 14, domain specific words, then the checksum complement."""
    hop = _decoder(bitmap & ~BIT_LAST, False)(data, offset)
    if not ds_words and not bitmap & BIT_LAST:
        return hop
    ds_start = offset + bitmap_words(bitmap & ~BIT_LAST) * 4
    ds_end = ds_start + ds_words * 4
    last = _decoder(bitmap & BIT_LAST, False)(data, ds_end)
    return hop._replace(
        checksum_complement=last.checksum_complement,
        unavailable_bits=hop.unavailable_bits | last.unavailable_bits,
        domain_specific=bytes(data[ds_start:ds_end]),
    )


def decode_report_metadata(bitmap: int, ds_words: int, data: Buffer, offset: int) -> HopMetadata:
    """A report's metadata: all bits in order, then the domain specific words."""
    hop = _decoder(bitmap, True)(data, offset)
    if not ds_words:
        return hop
    ds_start = offset + bitmap_words(bitmap) * 4
    return hop._replace(domain_specific=bytes(data[ds_start : ds_start + ds_words * 4]))


def encode_stack_entry(bitmap: int, hop: HopMetadata) -> bytes:
    """The inverse of `decode_stack_entry`; None becomes all-ones."""
    return (
        _encode(bitmap & ~BIT_LAST, hop, False)
        + hop.domain_specific
        + _encode(bitmap & BIT_LAST, hop, False)
    )


def encode_report_metadata(bitmap: int, hop: HopMetadata) -> bytes:
    """The inverse of `decode_report_metadata`; None becomes all-ones."""
    return _encode(bitmap, hop, True) + hop.domain_specific


def _items(bitmap: int, report: bool) -> list[tuple[int, HeaderLayout[Any]]]:
    table = _REPORT_ITEMS if report else _STACK_ITEMS
    return [(bit, layout) for bit, layout in table if bitmap & bit]


@functools.lru_cache(maxsize=_DECODERS_CACHED_MAX)
def _decoder(bitmap: int, report: bool) -> Callable[[Buffer, int], HopMetadata]:
    """(buffer, offset) -> values of the bitmap."""
    items = _items(bitmap, report)
    if not items:
        return lambda data, offset: HopMetadata()
    fields = tuple(row for _bit, layout in items for row in layout.fields)
    unpack = compile_unpacker(fields)
    places: list[tuple[int, int, int, tuple[int, ...], int]] = []
    first = 0
    for bit, layout in items:
        rows = [row for row in layout.fields if row.name != "reserved"]
        # values of one bit come and go together, but each level 2 interface has an owner of its own
        size = 1 if bit == BIT_LEVEL2_PORTS else len(rows)
        for start in range(0, 0 if bit & BITS_RESERVED else len(rows), size):
            ones = tuple(row.value_max for row in rows[start : start + size])
            place = _FIELD_INDEX[_hop_field(layout, rows[start].name)]
            places.append((first + start, first + start + size, place, ones, bit))
        first += len(layout.fields)

    def decode_hop(data: Buffer, offset: int) -> HopMetadata:
        try:
            values = unpack(data, offset)
        except struct.error:
            raise DecodeError(DecodeReason.TRUNCATED, offset) from None
        row: list[Any] = list(_EMPTY)
        for first, last, place, ones, bit in places:
            part = values[first:last]
            if part == ones or (bit & _BITS_TSTAMP and part == (0,)):
                row[_UNAVAILABLE_BITS] |= bit
            else:
                row[place : place + last - first] = part
        return HopMetadata._make(row)

    return decode_hop


def _encode(bitmap: int, hop: HopMetadata, report: bool) -> bytes:
    pieces = []
    for bit, layout in _items(bitmap, report):
        values = tuple(
            row.value_max
            if bit & BITS_RESERVED
            else _value(hop, _hop_field(layout, row.name), row.value_max)
            for row in layout.fields
        )
        pieces.append(packer(layout)(values))
    return b"".join(pieces)


def _hop_field(layout: HeaderLayout[Any], name: str) -> str:
    """The field of `HopMetadata` for a row; a report may hold two queue ids."""
    return "drop_queue_id" if layout is REPORT_DROP and name == "queue_id" else name


def _value(hop: HopMetadata, name: str, ones: int) -> int:
    if name == "reserved":
        return 0
    value: int | None = getattr(hop, name)
    return ones if value is None else value


_EMPTY = HopMetadata()
_FIELD_INDEX = {name: index for index, name in enumerate(HopMetadata._fields)}
_UNAVAILABLE_BITS = _FIELD_INDEX["unavailable_bits"]
