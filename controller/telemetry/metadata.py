# SPDX-License-Identifier: Apache-2.0
"""One hop's values, as an INT-MD stack entry or as the metadata of a report.

Both use the same bitmap (INT 5.7, TR 3.4; bit 0 is the highest). They differ in bit 15: checksum
complement, last of the entry, in a stack; drop information, in place, in a report. Older standards
have other widths and, in reports, another order of bits (`MetadataForm`).
"""

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, compile_unpacker, packer
from controller.telemetry.layout import (
    INT_BUFFER,
    INT_CHECKSUM_COMPLEMENT,
    INT_EGRESS_TSTAMP,
    INT_EGRESS_TSTAMP_32,
    INT_HOP_LATENCY,
    INT_INGRESS_TSTAMP,
    INT_INGRESS_TSTAMP_32,
    INT_LEVEL1_PORTS,
    INT_LEVEL2_PORTS,
    INT_LEVEL2_PORTS_16,
    INT_NODE_ID,
    INT_QUEUE,
    INT_QUEUE_CONGESTION,
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
    congestion_queue_id: int | None = None
    """INT v0.5 alone."""
    queue_congestion: int | None = None
    """INT v0.5 alone."""


class MetadataItem(NamedTuple):
    """What one bit of a bitmap stands for."""

    wire_bit: int
    layout: HeaderLayout[Any]
    bit: int
    """The bit of INT v2.1 with the same meaning."""


@dataclass(frozen=True, slots=True, eq=False)
class MetadataForm:
    """Values in the order of a bitmap, highest bit first: one form per standard and deviation."""

    name: str
    items: tuple[MetadataItem, ...]

    def words(self, bitmap: int) -> int:
        """Words that the values of a bitmap take, domain specific ones not counted."""
        return sum(item.layout.byte_count // 4 for item in self.items if bitmap & item.wire_bit)


def _form(name: str, *items: tuple[int, HeaderLayout[Any], int]) -> MetadataForm:
    return MetadataForm(name, tuple(MetadataItem(*item) for item in items))


def _same(*items: tuple[int, HeaderLayout[Any]]) -> tuple[tuple[int, HeaderLayout[Any], int], ...]:
    return tuple((bit, layout, bit) for bit, layout in items)


_COMMON = _same(
    (BIT_NODE_ID, INT_NODE_ID),
    (BIT_LEVEL1_PORTS, INT_LEVEL1_PORTS),
    (BIT_HOP_LATENCY, INT_HOP_LATENCY),
    (BIT_QUEUE, INT_QUEUE),
)
_WIDE_TSTAMPS = _same(
    (BIT_INGRESS_TSTAMP, INT_INGRESS_TSTAMP), (BIT_EGRESS_TSTAMP, INT_EGRESS_TSTAMP)
)
_NARROW_TSTAMPS = _same(
    (BIT_INGRESS_TSTAMP, INT_INGRESS_TSTAMP_32), (BIT_EGRESS_TSTAMP, INT_EGRESS_TSTAMP_32)
)
_RESERVED = _same(*((0x0040 >> k, INT_CHECKSUM_COMPLEMENT) for k in range(6)))
"""One word each, ignored."""
_LEVEL2_PORTS = _same((BIT_LEVEL2_PORTS, INT_LEVEL2_PORTS))
_TX_UTILIZATION = _same((BIT_TX_UTILIZATION, INT_TX_UTILIZATION))
_BIT_8_RESERVED = ((BIT_BUFFER, INT_CHECKSUM_COMPLEMENT, 0x0040),)
_CHECKSUM_COMPLEMENT = _same((BIT_LAST, INT_CHECKSUM_COMPLEMENT))
_V2 = (
    *(*_COMMON, *_WIDE_TSTAMPS, *_LEVEL2_PORTS, *_TX_UTILIZATION),
    *(*_same((BIT_BUFFER, INT_BUFFER)), *_RESERVED),
)

STACK_V2 = _form("stack_v2", *_V2, *_CHECKSUM_COMPLEMENT)
"""INT v2.1 (INT 5.7)."""
REPORT_V2 = _form("report_v2", *_V2, *_same((BIT_LAST, REPORT_DROP)))
"""RepMdBits of Telemetry Report v2.0 (TR 3.4)."""
STACK_V1 = _form(
    "stack_v1",
    *(*_COMMON, *_NARROW_TSTAMPS, *_LEVEL2_PORTS, *_TX_UTILIZATION),
    *(*_BIT_8_RESERVED, *_RESERVED, *_CHECKSUM_COMPLEMENT),
)
"""INT v1.0: stamps of one word (INT v1.0 4.7)."""
STACK_V1_WIDE_TSTAMPS = _form(
    "stack_v1_wide_tstamps",
    *(*_COMMON, *_WIDE_TSTAMPS, *_same((BIT_LEVEL2_PORTS, INT_LEVEL2_PORTS_16))),
    *(*_TX_UTILIZATION, *_BIT_8_RESERVED, *_RESERVED, *_CHECKSUM_COMPLEMENT),
)
"""INT v1.0 with stamps of two words and level 2 ports in one."""
STACK_V05 = _form(
    "stack_v05",
    *(*_COMMON, *_NARROW_TSTAMPS, (BIT_LEVEL2_PORTS, INT_QUEUE_CONGESTION, 0)),
    *(*_TX_UTILIZATION, *_BIT_8_RESERVED, *_RESERVED, (BIT_LAST, INT_CHECKSUM_COMPLEMENT, 0x0040)),
)
"""INT v0.5: a word per bit, bit 6 is queue congestion (INT v0.5 5.3.4)."""
REPORT_V1 = _form(
    "report_v1",
    (0x20, INT_LEVEL1_PORTS, BIT_LEVEL1_PORTS),
    (0x10, INT_HOP_LATENCY, BIT_HOP_LATENCY),
    (0x08, INT_QUEUE, BIT_QUEUE),
    (0x04, INT_EGRESS_TSTAMP_32, BIT_EGRESS_TSTAMP),
    (0x02, REPORT_DROP, BIT_LAST),
    (0x01, INT_TX_UTILIZATION, BIT_TX_UTILIZATION),
)
"""RepMdBits of Telemetry Report v1.0, a word each (TR v1.0 3.2)."""
METADATA_FORMS = (*(STACK_V2, REPORT_V2, STACK_V1, STACK_V1_WIDE_TSTAMPS, STACK_V05, REPORT_V1),)


def bitmap_words(bitmap: int) -> int:
    """Words that the values of an INT v2.1 bitmap take, domain specific ones not counted.

    >>> bitmap_words(0xFF80), bitmap_words(0xFC00)
    (12, 8)
    """
    return bitmap.bit_count() + (bitmap & _BITS_TWO_WORDS).bit_count()


def decode_stack_entry(
    bitmap: int, ds_words: int, data: Buffer, offset: int, form: MetadataForm = STACK_V2
) -> HopMetadata:
    """One hop's entry: bits 0 to 14, domain specific words, then the checksum complement."""
    hop = _decoder(bitmap & ~BIT_LAST, form)(data, offset)
    if not ds_words and not bitmap & BIT_LAST:
        return hop
    ds_start = offset + form.words(bitmap & ~BIT_LAST) * 4
    ds_end = ds_start + ds_words * 4
    last = _decoder(bitmap & BIT_LAST, form)(data, ds_end)
    return hop._replace(
        checksum_complement=last.checksum_complement,
        unavailable_bits=hop.unavailable_bits | last.unavailable_bits,
        domain_specific=bytes(data[ds_start:ds_end]),
    )


def decode_report_metadata(
    bitmap: int, ds_words: int, data: Buffer, offset: int, form: MetadataForm = REPORT_V2
) -> HopMetadata:
    """A report's metadata: all bits in order, then the domain specific words."""
    hop = _decoder(bitmap, form)(data, offset)
    if not ds_words:
        return hop
    ds_start = offset + form.words(bitmap) * 4
    return hop._replace(domain_specific=bytes(data[ds_start : ds_start + ds_words * 4]))


def encode_stack_entry(bitmap: int, hop: HopMetadata, form: MetadataForm = STACK_V2) -> bytes:
    """The inverse of `decode_stack_entry`; None becomes all-ones."""
    return (
        _encode(bitmap & ~BIT_LAST, hop, form)
        + hop.domain_specific
        + _encode(bitmap & BIT_LAST, hop, form)
    )


def encode_report_metadata(bitmap: int, hop: HopMetadata, form: MetadataForm = REPORT_V2) -> bytes:
    """The inverse of `decode_report_metadata`; None becomes all-ones."""
    return _encode(bitmap, hop, form) + hop.domain_specific


@functools.lru_cache(maxsize=_DECODERS_CACHED_MAX)
def _decoder(bitmap: int, form: MetadataForm) -> Callable[[Buffer, int], HopMetadata]:
    """(buffer, offset) -> values of the bitmap."""
    items = [item for item in form.items if bitmap & item.wire_bit]
    if not items:
        return lambda data, offset: HopMetadata()
    fields = tuple(row for item in items for row in item.layout.fields)
    unpack = compile_unpacker(fields)
    places: list[tuple[int, int, int, tuple[int, ...], int]] = []
    first = 0
    for _wire_bit, layout, bit in items:
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


def _encode(bitmap: int, hop: HopMetadata, form: MetadataForm) -> bytes:
    pieces = []
    for wire_bit, layout, bit in form.items:
        if not bitmap & wire_bit:
            continue
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
