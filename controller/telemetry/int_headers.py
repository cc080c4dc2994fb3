# SPDX-License-Identifier: Apache-2.0
"""INT headers in a packet: shim, INT-MD header with its stack, INT-MX header (INT 5.6 to 5.8)."""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.dialect import Dialect
from controller.telemetry.layout import INT_MD, INT_MX, INT_SHIM
from controller.telemetry.metadata import HopMetadata, bitmap_words, decode_stack_entry

SHIM_TYPE_MD = 1
SHIM_TYPE_MX = 3
NPT_DSCP = 0
NPT_UDP_PORT = 1
NPT_INSERTED_UDP = 2
INT_VERSION = 2
_SHIM_AND_MD_BYTES = INT_SHIM.byte_count + INT_MD.byte_count


class IntStack(NamedTuple):
    """The INT-MD header of a reported packet and what the nodes on its way have added."""

    hops: tuple[HopMetadata, ...]
    """Oldest (source) first; on the wire the newest comes first."""
    instruction_bitmap: int
    hop_metadata_bytes: int
    """What every hop adds to the frame."""
    source_bytes: int
    """What the source adds besides its hop: shim, header, source-only metadata, new UDP header."""
    remaining_hop_count: int
    discard: bool
    max_hop_count_exceeded: bool
    mtu_exceeded: bool
    domain_specific_id: int


class IntHeaders(NamedTuple):
    """What stands between the UDP header and the packet's own payload."""

    npt: int
    npt_value: int
    """Bytes 2 and 3 of the shim: original DSCP << 2, original port or original protocol."""
    byte_count: int
    """From the shim to the end of the stack or of the source's metadata."""
    stack: IntStack | None
    """None for INT-MX: nodes add nothing to the packet."""


def decode_int_headers(data: Buffer, offset: int, dialect: Dialect) -> IntHeaders:
    """Shim and what it announces; `DecodeError` for what is not INT-MD or INT-MX of version 2."""
    shim = decode(INT_SHIM, data, offset)
    if shim.shim_type not in (SHIM_TYPE_MD, SHIM_TYPE_MX) or shim.npt > NPT_INSERTED_UDP:
        raise DecodeError(DecodeReason.INT_SHIM_TYPE, offset)
    length_words = shim.length_words - dialect.shim_length_counts_shim
    # INT-MD and INT-MX headers are equally long
    if length_words * 4 < INT_MD.byte_count:
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 1)
    start = offset + INT_SHIM.byte_count
    end = start + length_words * 4
    if shim.shim_type == SHIM_TYPE_MD:
        stack = _decode_stack(data, start, end)
    else:
        stack = None
        mx = decode(INT_MX, data, start)
        if mx.version != INT_VERSION:
            raise DecodeError(DecodeReason.INT_VERSION, start)
        if length_words * 4 > INT_MX.byte_count and not mx.domain_specific_id:
            raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 1)
        if end > len(data):
            raise DecodeError(DecodeReason.TRUNCATED, len(data))
    npt_value = shim.reserved2 << 8 | shim.dscp << 2 | shim.reserved3
    return IntHeaders(shim.npt, npt_value, end - offset, stack)


def _decode_stack(data: Buffer, offset: int, end: int) -> IntStack:
    """INT-MD header at `offset` and the stack behind it, up to `end`.

    The stack is k * HopML words, plus what the source alone adds under a domain's instructions.
    An unknown domain is no error: its words are kept as bytes.
    """
    md = decode(INT_MD, data, offset)
    if md.version != INT_VERSION:
        raise DecodeError(DecodeReason.INT_VERSION, offset)
    stack_start = offset + INT_MD.byte_count
    stack_bytes = end - stack_start
    hop_bytes = md.hop_metadata_len_words * 4
    ds_words = md.hop_metadata_len_words - bitmap_words(md.instruction_bitmap)
    if ds_words < 0 or (ds_words and not md.domain_specific_id):
        raise DecodeError(DecodeReason.INT_HOP_LENGTH, offset + 2)
    length_offset = offset - INT_SHIM.byte_count + 1
    if stack_bytes and not hop_bytes:
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, length_offset)
    hop_count, source_only_bytes = divmod(stack_bytes, hop_bytes) if hop_bytes else (0, 0)
    if source_only_bytes and not (md.domain_specific_id and hop_count):
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, length_offset)
    if end > len(data):
        raise DecodeError(DecodeReason.TRUNCATED, len(data))
    hops = tuple(
        decode_stack_entry(md.instruction_bitmap, ds_words, data, stack_start + index * hop_bytes)
        for index in range(hop_count - 1, -1, -1)
    )
    return IntStack(
        hops,
        md.instruction_bitmap,
        hop_bytes,
        _SHIM_AND_MD_BYTES + source_only_bytes,
        md.remaining_hop_count,
        bool(md.discard),
        bool(md.max_hop_count_exceeded),
        bool(md.mtu_exceeded),
        md.domain_specific_id,
    )
