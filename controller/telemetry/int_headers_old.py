# SPDX-License-Identifier: Apache-2.0
"""INT headers of v1.0 and v0.5 in a packet: the hop by hop type, which nodes push onto."""

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.int_headers import NPT_DSCP, NPT_UDP_PORT, IntHeaders, IntStack
from controller.telemetry.layout import (
    INT_HOP_BY_HOP_V05,
    INT_HOP_BY_HOP_V1,
    INT_SHIM_V05,
    INT_SHIM_V1,
    INT_TAIL_V05,
)
from controller.telemetry.metadata import (
    BIT_EGRESS_TSTAMP,
    BIT_HOP_LATENCY,
    BIT_QUEUE,
    STACK_V05,
    STACK_V1,
    STACK_V1_WIDE_TSTAMPS,
    HopMetadata,
    MetadataForm,
    decode_stack_entry,
)
from controller.telemetry.profiles import Dialect

SHIM_TYPE_HOP_BY_HOP = 1
INT_VERSION_V1 = 1
INT_VERSION_V05 = 0
_V1_BYTES = INT_SHIM_V1.byte_count + INT_HOP_BY_HOP_V1.byte_count
_V05_BYTES = INT_SHIM_V05.byte_count + INT_HOP_BY_HOP_V05.byte_count + INT_TAIL_V05.byte_count
_HIGHEST_NIBBLE = 0xF000


def stack_form_v1(dialect: Dialect) -> MetadataForm:
    """The form of an INT v1.0 stack entry."""
    return STACK_V1_WIDE_TSTAMPS if dialect.wide_tstamps else STACK_V1


def pushed_bitmap(bitmap: int, dialect: Dialect) -> int:
    """The instructions that a node follows when it reads `bitmap`."""
    nibble_3 = bitmap & _HIGHEST_NIBBLE == BIT_HOP_LATENCY | BIT_QUEUE
    if dialect.nibble_3_is_egress_tstamp and nibble_3:
        return bitmap & ~BIT_QUEUE | BIT_EGRESS_TSTAMP
    return bitmap


def decode_int_v1(data: Buffer, offset: int, dialect: Dialect) -> IntHeaders:
    """Shim, header and stack of INT v1.0; the length in the shim counts the shim."""
    shim = decode(INT_SHIM_V1, data, offset)
    if shim.shim_type != SHIM_TYPE_HOP_BY_HOP:
        raise DecodeError(DecodeReason.INT_SHIM_TYPE, offset)
    stack_bytes = shim.length_words * 4 - _V1_BYTES
    if stack_bytes < 0:
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 2)
    header_start = offset + INT_SHIM_V1.byte_count
    header = decode(INT_HOP_BY_HOP_V1, data, header_start)
    if header.version != INT_VERSION_V1:
        raise DecodeError(DecodeReason.INT_VERSION, header_start)
    form = stack_form_v1(dialect)
    bitmap = pushed_bitmap(header.instruction_bitmap, dialect)
    hop_bytes = header.hop_metadata_len_words * 4
    if hop_bytes != form.words(bitmap) * 4:
        raise DecodeError(DecodeReason.INT_HOP_LENGTH, header_start + 2)
    if stack_bytes and (not hop_bytes or stack_bytes % hop_bytes):
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 2)
    stack_start = offset + _V1_BYTES
    hops = _hops(data, stack_start, stack_bytes, hop_bytes, bitmap, form)
    if dialect.hop_latency_factor != 1:
        hops = tuple(_scaled(hop, dialect.hop_latency_factor) for hop in hops)
    stack = IntStack(
        hops,
        header.instruction_bitmap,
        hop_bytes,
        _V1_BYTES,
        header.remaining_hop_count,
        False,
        bool(header.max_hop_count_exceeded),
        bool(header.mtu_exceeded),
        0,
    )
    return IntHeaders(NPT_DSCP, 0, _V1_BYTES + stack_bytes, stack, shim.dscp)


def decode_int_v05(data: Buffer, offset: int) -> IntHeaders:
    """Shim, header, stack and tail of INT v0.5; the length in the shim counts them all."""
    shim = decode(INT_SHIM_V05, data, offset)
    if shim.shim_type != SHIM_TYPE_HOP_BY_HOP:
        raise DecodeError(DecodeReason.INT_SHIM_TYPE, offset)
    stack_bytes = shim.length_words * 4 - _V05_BYTES
    if stack_bytes < 0:
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 2)
    header_start = offset + INT_SHIM_V05.byte_count
    header = decode(INT_HOP_BY_HOP_V05, data, header_start)
    if header.version != INT_VERSION_V05:
        raise DecodeError(DecodeReason.INT_VERSION, header_start)
    if header.instruction_count != header.instruction_bitmap.bit_count():
        raise DecodeError(DecodeReason.INT_HOP_LENGTH, header_start + 1)
    hop_bytes = header.instruction_count * 4
    if stack_bytes != header.total_hop_count * hop_bytes:
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 2)
    stack_start = header_start + INT_HOP_BY_HOP_V05.byte_count
    hops = _hops(data, stack_start, stack_bytes, hop_bytes, header.instruction_bitmap, STACK_V05)
    tail = decode(INT_TAIL_V05, data, stack_start + stack_bytes)
    stack = IntStack(
        hops,
        header.instruction_bitmap,
        hop_bytes,
        _V05_BYTES,
        max(0, header.max_hop_count - header.total_hop_count),
        False,
        bool(header.max_hop_count_exceeded),
        False,
        0,
    )
    dscp = tail.dscp & 0x3F
    return IntHeaders(NPT_UDP_PORT, tail.dst_port, _V05_BYTES + stack_bytes, stack, dscp)


def _hops(
    data: Buffer,
    stack_start: int,
    stack_bytes: int,
    hop_bytes: int,
    bitmap: int,
    form: MetadataForm,
) -> tuple[HopMetadata, ...]:
    """Entries of a stack whose length is a multiple of `hop_bytes`, oldest first."""
    if stack_start + stack_bytes > len(data):
        raise DecodeError(DecodeReason.TRUNCATED, len(data))
    starts = range(stack_start, stack_start + stack_bytes, hop_bytes or 1)
    return tuple(decode_stack_entry(bitmap, 0, data, start, form) for start in reversed(starts))


def _scaled(hop: HopMetadata, factor: int) -> HopMetadata:
    if hop.hop_latency is None:
        return hop
    return hop._replace(hop_latency=hop.hop_latency * factor)
