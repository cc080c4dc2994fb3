# SPDX-License-Identifier: Apache-2.0
"""INT headers in a packet: INT-MD and INT-MX of v2.1 (INT 5.6 to 5.8); older: `int_headers_old`."""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.layout import (
    INT_MD,
    INT_MD_LATE_FLAGS,
    INT_MX,
    INT_SHIM,
    IntMd,
    IntMdLateFlags,
    IntShim,
)
from controller.telemetry.metadata import HopMetadata, bitmap_words, decode_stack_entry
from controller.telemetry.profiles import Dialect

SHIM_TYPE_MD = 1
SHIM_TYPE_MX = 3
NPT_DSCP = 0
NPT_UDP_PORT = 1
NPT_INSERTED_UDP = 2
INT_VERSION = 2
DS_INSTRUCTION_SOURCE_ONLY = 0x8000
"""Bit of DSInstruction by which a profile's `source_only_words` are asked for."""
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
    """How the packet was marked; a v0.5 tail counts as NPT 1: it holds the original port."""
    npt_value: int
    """NPT 1: original port; NPT 2: original protocol."""
    byte_count: int
    """From the shim to the end of the stack or of the source's metadata."""
    stack: IntStack | None
    """None for INT-MX: nodes add nothing to the packet."""
    original_dscp: int | None = None
    """As the shim or the tail has it; None where it holds something else."""
    node_values: HopMetadata | None = None
    """What the reporting node says of itself, where its dialect puts that behind the MX header."""
    appended_bytes: int = 0
    """Part of `byte_count` that is in the report alone, not in the packet on its way."""


def decode_int_headers(data: Buffer, offset: int, dialect: Dialect) -> IntHeaders:
    """Shim and what it announces; `DecodeError` for what is not INT-MD or INT-MX of version 2."""
    shim = decode(INT_SHIM, data, offset)
    is_md = shim.shim_type == dialect.shim_type_md
    if not (is_md or shim.shim_type == SHIM_TYPE_MX) or shim.npt > NPT_INSERTED_UDP:
        raise DecodeError(DecodeReason.INT_SHIM_TYPE, offset)
    length_words = shim.length_words - dialect.shim_length_counts_shim
    # INT-MD and INT-MX headers are equally long
    if length_words * 4 < INT_MD.byte_count:
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 1)
    start = offset + INT_SHIM.byte_count
    end = start + length_words * 4
    original_dscp, npt_value = _npt_values(shim, dialect)
    if is_md:
        stack = _decode_stack(data, start, end, dialect)
        return IntHeaders(shim.npt, npt_value, end - offset, stack, original_dscp)
    mx = decode(INT_MX, data, start)
    if mx.version != INT_VERSION:
        raise DecodeError(DecodeReason.INT_VERSION, start)
    node_values, appended_bytes = None, 0
    extra_bytes = length_words * 4 - INT_MX.byte_count
    if dialect.mx_values_follow:
        appended_bytes = bitmap_words(mx.instruction_bitmap) * 4
        if extra_bytes not in (0, appended_bytes):
            raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 1)
        values_start = start + INT_MX.byte_count
        end = values_start + appended_bytes
        node_values = decode_stack_entry(mx.instruction_bitmap, 0, data, values_start)
    elif extra_bytes and not mx.domain_specific_id:
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 1)
    if end > len(data):
        raise DecodeError(DecodeReason.TRUNCATED, len(data))
    return IntHeaders(
        shim.npt, npt_value, end - offset, None, original_dscp, node_values, appended_bytes
    )


def _npt_values(shim: IntShim, dialect: Dialect) -> tuple[int | None, int]:
    """(original DSCP for NPT 0, original port or protocol for NPT 1 and 2) of bytes 2 and 3."""
    number = shim.reserved2 << 8 | shim.dscp << 2 | shim.reserved3
    if shim.npt == NPT_DSCP:
        return (shim.reserved2 >> 2 if dialect.shim_dscp_in_byte_2 else shim.dscp), 0
    if shim.npt == NPT_INSERTED_UDP:
        return None, (number >> 8 if dialect.npt2_protocol_in_byte_2 else number & 0xFF)
    return None, number


def _decode_stack(data: Buffer, offset: int, end: int, dialect: Dialect) -> IntStack:
    """INT-MD header at `offset` and the stack behind it, up to `end`.

    The stack is k * HopML words, plus what the source alone adds under a domain's instructions.
    An unknown domain is no error: its words are kept as bytes.
    """
    md: IntMd | IntMdLateFlags
    if dialect.md_flags_late:
        md = decode(INT_MD_LATE_FLAGS, data, offset)
    else:
        md = decode(INT_MD, data, offset)
    if md.version != INT_VERSION:
        raise DecodeError(DecodeReason.INT_VERSION, offset)
    stack_start = offset + INT_MD.byte_count
    stack_bytes = end - stack_start
    baseline_words = bitmap_words(md.instruction_bitmap)
    hop_words = baseline_words if dialect.hop_length_from_bitmap else md.hop_metadata_len_words
    hop_bytes = hop_words * 4
    ds_words = hop_words - baseline_words
    if ds_words < 0 or (ds_words and not md.domain_specific_id):
        raise DecodeError(DecodeReason.INT_HOP_LENGTH, offset + 2)
    length_offset = offset - INT_SHIM.byte_count + 1
    known_bytes = 0
    if dialect.source_only_words and md.ds_instruction & DS_INSTRUCTION_SOURCE_ONLY:
        known_bytes = dialect.source_only_words * 4
    if stack_bytes and (not hop_bytes or stack_bytes < known_bytes + hop_bytes):
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, length_offset)
    hop_count, source_only_bytes = divmod(stack_bytes - known_bytes, hop_bytes or 1)
    if not stack_bytes:
        hop_count = source_only_bytes = known_bytes = 0
    if source_only_bytes and (known_bytes or not (md.domain_specific_id and hop_count)):
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
        _SHIM_AND_MD_BYTES + source_only_bytes + known_bytes,
        md.remaining_hop_count,
        bool(md.discard),
        bool(md.max_hop_count_exceeded),
        bool(md.mtu_exceeded),
        md.domain_specific_id,
    )
