# SPDX-License-Identifier: Apache-2.0
"""Bytes to header values and back, compiled from the tables of `layout`.

Decoding never reads past the buffer and raises nothing but `DecodeError`. Encoding is exact: a
value that does not fit its field is a programming error and raises `ValueError`.
"""

import functools
import struct
from collections.abc import Callable, Sequence
from enum import Enum, unique
from typing import NamedTuple, NewType, TypeVar

from controller.telemetry.layout import ALL_LAYOUTS, Field, HeaderLayout

Buffer = bytes | bytearray | memoryview

HeaderT = TypeVar("HeaderT", bound=NamedTuple)
_Values = tuple[int, ...]
_Group = NewType("_Group", tuple[Field, ...])
"""Neighbouring fields that together fill whole bytes."""


@unique
class DecodeReason(Enum):
    """Why bytes were rejected. The value is the label of the counter."""

    meaning: str

    def __new__(cls, label: str, meaning: str) -> "DecodeReason":
        """A member whose value is the label alone."""
        member = object.__new__(cls)
        member._value_ = label
        member.meaning = meaning
        return member

    TRUNCATED = ("truncated", "The buffer ends inside a header, the metadata or the INT stack.")
    ETHER_TYPE = ("ether_type", "The frame is neither IPv4 nor IPv6, with four VLAN tags at most.")
    IP_HEADER = ("ip_header", "IP version, header length or total length is impossible.")
    IP_CHECKSUM = ("ip_checksum", "The IPv4 header checksum is wrong.")
    IP_FRAGMENT = ("ip_fragment", "A fragment: its transport header or its end is elsewhere.")
    NOT_UDP = ("not_udp", "The outer packet is not UDP.")
    UDP_PORT = ("udp_port", "The outer UDP destination port is not the report port.")
    UDP_LENGTH = ("udp_length", "The outer UDP length disagrees with the IP total length.")
    UDP_CHECKSUM = ("udp_checksum", "The outer UDP checksum is present and wrong.")
    REPORT_VERSION = ("report_version", "Not the report version of the sender's dialect.")
    REPORT_TYPE = ("report_type", "RepType 2 (IOAM) or reserved.")
    INNER_TYPE = ("inner_type", "A reserved InType or NProto.")
    REPORT_LENGTH = (
        "report_length",
        "ReportLength is shorter than the report's own fixed words and metadata.",
    )
    METADATA_LENGTH = (
        "metadata_length",
        "MDLength disagrees with RepMdBits, or is not 0 in a report without metadata.",
    )
    RESERVED_BITS = ("reserved_bits", "RepMdBits sets a bit whose length is not defined.")
    NO_REPORT = ("no_report", "A group header without an individual report.")
    NO_PACKET = (
        "no_packet",
        "The report holds no packet (InType 0 or 2, or TLVs of other data) and tells of no event.",
    )
    TLV_TYPE = ("tlv_type", "A reserved TLVType.")
    TLV_LENGTH = ("tlv_length", "A TLV reaches past the end of its report.")
    HEADER_LENGTH = (
        "header_length",
        "Length of a v1.0 report disagrees with its RepMdBits: 4 words and one for each bit.",
    )
    INNER_IP_HEADER = (
        "inner_ip_header",
        "The reported packet's IP header is impossible, or not of InType's version, or a fragment.",
    )
    INNER_ETHER_TYPE = (
        "inner_ether_type",
        "The reported frame is neither IP nor PTP.",
    )
    INNER_PROTOCOL = (
        "inner_protocol",
        "The reported packet is neither RoCEv2 nor a PTP event message nor a link probe.",
    )
    PTP_VERSION = ("ptp_version", "The reported PTP message is not of version 2.")
    PROBE_VERSION = ("probe_version", "The reported link probe is not of version 1.")
    INT_SHIM_TYPE = (
        "int_shim_type",
        "Shim type other than INT-MD and INT-MX (hop by hop before v2.0), or an undefined NPT.",
    )
    INT_VERSION = ("int_version", "Not the INT header version of the sender's dialect.")
    INT_STACK_LENGTH = (
        "int_stack_length",
        "The stack is not a whole number of hops plus source-only metadata.",
    )
    INT_HOP_LENGTH = ("int_hop_length", "HopML disagrees with the instruction bitmap.")
    UNKNOWN_NODE = ("unknown_node", "A reporting node or a node on the stack is not in the fabric.")


class DecodeError(ValueError):
    """Bytes that do not decode: the reason and the offset where it shows.

    An expected event, counted by reason and not logged per packet.
    """

    def __init__(self, reason: DecodeReason, offset: int) -> None:
        super().__init__(f"{reason.value} at byte {offset}")
        self.reason = reason
        self.offset = offset


def decode(layout: HeaderLayout[HeaderT], data: Buffer, offset: int = 0) -> HeaderT:
    """The header at `offset`; `DecodeError(TRUNCATED)` when the buffer ends before it does."""
    try:
        return layout.make(unpacker(layout)(data, offset))
    except struct.error:
        raise DecodeError(DecodeReason.TRUNCATED, offset) from None


def encode(value: NamedTuple) -> bytes:
    """The header's bytes; `ValueError` names the field that does not fit."""
    layout = layout_of(type(value))
    for row, number in zip(layout.fields, value, strict=True):
        if not 0 <= number <= row.value_max:
            raise ValueError(f"{layout.name}.{row.name}: {number} does not fit {row.bits} bits")
    return packer(layout)(value)


@functools.cache
def layout_of(value_type: type[NamedTuple]) -> HeaderLayout[NamedTuple]:
    """The table of a header value's type."""
    return next(layout for layout in ALL_LAYOUTS if layout.value_type is value_type)


@functools.cache
def unpacker(layout: HeaderLayout[NamedTuple]) -> Callable[[Buffer, int], _Values]:
    """(buffer, offset) -> field values in table order; `struct.error` when it is too short.

    The compiled core of `decode`, for callers that decode many headers of one kind.
    """
    return compile_unpacker(layout.fields)


def compile_unpacker(fields: Sequence[Field]) -> Callable[[Buffer, int], _Values]:
    """The unpacker of an ad hoc run of fields, not cached."""
    groups = _byte_groups(fields)
    compiled = struct.Struct("!" + "".join(_format(group) for group in groups))
    items = [f"g{index}" for index in range(len(groups))]
    values: list[str] = []
    for item, group in zip(items, groups, strict=True):
        number = item if _byte_count(group) in _INTEGER_CODES else f"from_bytes({item})"
        if len(group) == 1:
            values.append(number)
            continue
        values.extend(f"{number} >> {shift} & {mask}" for shift, mask in _shifts(group))
    if values == items:
        return compiled.unpack_from
    # Generated source: the same shifts in an interpreted loop take three times as long, and this
    # runs for every header of every report. Its only input is the table.
    source = f"lambda {', '.join(items)}: ({', '.join(values)},)"
    split: Callable[..., _Values] = eval(source, {"from_bytes": int.from_bytes})
    unpack_from = compiled.unpack_from
    return lambda data, offset: split(*unpack_from(data, offset))


@functools.cache
def packer(layout: HeaderLayout[NamedTuple]) -> Callable[[_Values], bytes]:
    """Field values in table order -> bytes. The caller vouches that each value fits."""
    shifts: list[int] = []
    shift = layout.byte_count * 8
    for row in layout.fields:
        shift -= row.bits
        shifts.append(shift)
    byte_count = layout.byte_count

    def pack(values: _Values) -> bytes:
        number = 0
        for value, left in zip(values, shifts, strict=True):
            number |= value << left
        return number.to_bytes(byte_count, "big")

    return pack


_INTEGER_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _byte_groups(fields: Sequence[Field]) -> list[_Group]:
    groups: list[_Group] = []
    pending: tuple[Field, ...] = ()
    for row in fields:
        pending += (row,)
        if sum(item.bits for item in pending) % 8 == 0:
            groups.append(_Group(pending))
            pending = ()
    assert not pending
    return groups


def _byte_count(group: _Group) -> int:
    return sum(row.bits for row in group) // 8


def _format(group: _Group) -> str:
    byte_count = _byte_count(group)
    return _INTEGER_CODES.get(byte_count, f"{byte_count}s")


def _shifts(group: _Group) -> tuple[tuple[int, int], ...]:
    """(right shift, mask) of each field of the group."""
    shift = sum(row.bits for row in group)
    rows = []
    for row in group:
        shift -= row.bits
        rows.append((shift, row.value_max))
    return tuple(rows)
