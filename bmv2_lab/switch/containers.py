# SPDX-License-Identifier: Apache-2.0
"""How a header type is cut into containers, and where each field lies in them.

Containers are machine words of 1, 2, 4 or 8 bytes that together cover a header in wire order, so
that one `struct.unpack_from` reads it and one `struct.pack` writes it. They are chosen so that few
fields are cut and most fill theirs exactly.
"""

import struct
from dataclasses import dataclass
from typing import Any

from bmv2_lab.switch.errors import ProgramError

JsonObject = dict[str, Any]

CONTAINER_BYTES = (8, 4, 2, 1)
# A header longer than any packet is a mistake, and would take minutes to lay out.
HEADER_BYTES_MAX = 1 << 14
FIELD_BITS_MAX = 1 << 14
_FORMAT = {8: "Q", 4: "I", 2: "H", 1: "B"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The part of a field that lies in one container, most significant piece first."""

    slot: int  # relative to the block of the header
    shift: int  # bits of the container below the piece
    bits: int
    container_bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLayout:
    """One field of a header type. `bits` is 0 for a varbit field, whose slot holds bytes."""

    name: str
    index: int
    bits: int
    signed: bool
    varbit: bool
    pieces: tuple[Piece, ...]
    saturating: bool = False  # P4_14: a value that does not fit becomes the nearest that does


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLayout:
    """One header type: its fields and the struct formats of its containers."""

    name: str
    fields: dict[str, FieldLayout]
    slots: int  # size of a block, validity included
    fixed_bytes: int
    head: struct.Struct  # containers before the varbit field, all of them if there is none
    head_slots: int
    tail: struct.Struct | None  # containers after the varbit field
    tail_slots: int
    varbit_slot: int | None
    varbit_max_bytes: int  # whole header with the longest varbit; 0 = not limited
    varbit_length: JsonObject | None = None  # P4_14: bits of the varbit from fields before it

    @property
    def by_index(self) -> list[FieldLayout]:
        return list(self.fields.values())

    def empty(self) -> list[object]:
        """An invalid block with all fields zero."""
        block: list[object] = [0] * self.slots
        if self.varbit_slot is not None:
            block[self.varbit_slot] = b""
        return block


def _container_sizes(total_bytes: int, spans: list[tuple[int, int]]) -> list[int]:
    """Split a header into containers so that few fields are cut and most fill theirs exactly."""
    best: list[tuple[int, int]] = [(0, 0)] * (total_bytes + 1)
    for start in range(total_bytes - 1, -1, -1):
        choices = []
        for size in CONTAINER_BYTES:
            if start + size > total_bytes:
                continue
            first, last = start * 8, (start + size) * 8
            cost = 1
            for low, high in spans:
                if high <= first or low >= last or (low, high) == (first, last):
                    continue
                cost += 3 if first <= low and high <= last else 8
            choices.append((cost + best[start + size][0], size))
        best[start] = min(choices)
    sizes, start = [], 0
    while start < total_bytes:
        sizes.append(best[start][1])
        start += sizes[-1]
    return sizes


def _pieces(
    sizes: list[int], first_slot: int, spans: list[tuple[int, int]]
) -> list[tuple[Piece, ...]]:
    """The pieces of each field span, given the container sizes in bytes."""
    edges, position = [], 0
    for size in sizes:
        edges.append((position, position + size * 8))
        position += size * 8
    result = []
    for low, high in spans:
        parts = []
        for number, (first, last) in enumerate(edges):
            begin, end = max(low, first), min(high, last)
            if begin < end:
                parts.append(
                    Piece(
                        slot=first_slot + number,
                        shift=last - end,
                        bits=end - begin,
                        container_bits=last - first,
                    )
                )
        result.append(tuple(parts))
    return result


def _segment(
    widths: list[int], first_slot: int, where: str
) -> tuple[list[tuple[Piece, ...]], struct.Struct, int, int]:
    """Lay out a run of fixed fields: pieces, struct, number of containers, bytes."""
    spans, position = [], 0
    for width in widths:
        spans.append((position, position + width))
        position += width
    if position % 8:
        raise ProgramError(where, f"fields add up to {position} bits, not a whole number of bytes")
    if position // 8 > HEADER_BYTES_MAX:
        raise ProgramError(where, f"fields add up to {position // 8} bytes")
    sizes = _container_sizes(position // 8, spans)
    pieces = _pieces(sizes, first_slot, spans)
    layout = struct.Struct(">" + "".join(_FORMAT[size] for size in sizes))
    return pieces, layout, len(sizes), position // 8


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of `fields` in the JSON."""

    name: str
    bits: int
    signed: bool
    saturating: bool
    varbit: bool


def _fields_of(header_type: JsonObject) -> list[_Row]:
    where = f"header_types[{header_type['name']}]"
    rows: list[_Row] = []
    for row in header_type["fields"]:
        varbit = row[1] == "*"
        bits = 0 if varbit else int(row[1])
        signed = len(row) > 2 and bool(row[2])
        if not varbit and not 1 + signed <= bits <= FIELD_BITS_MAX:
            kind = "signed field" if signed else "field"
            raise ProgramError(where, f"{kind} {row[0]} of {bits} bits")
        if any(known.name == row[0] for known in rows):
            raise ProgramError(where, f"two fields are called {row[0]}")
        saturating = len(row) > 3 and bool(row[3])
        rows.append(_Row(str(row[0]), bits, signed, saturating, varbit))
    return rows


def _field(row: _Row, index: int, pieces: tuple[Piece, ...]) -> FieldLayout:
    return FieldLayout(
        name=row.name,
        index=index,
        bits=row.bits,
        signed=row.signed,
        varbit=row.varbit,
        pieces=pieces,
        saturating=row.saturating,
    )


def metadata_layout(header_type: JsonObject) -> TypeLayout:
    """A metadata type: one slot per field, no containers, no validity slot of its own."""
    fields: dict[str, FieldLayout] = {}
    for index, row in enumerate(_fields_of(header_type)):
        piece = Piece(slot=index, shift=0, bits=row.bits, container_bits=row.bits)
        fields[row.name] = _field(row, index, (piece,))
    return TypeLayout(
        name=str(header_type["name"]),
        fields=fields,
        slots=len(fields),
        fixed_bytes=0,
        head=struct.Struct(">"),
        head_slots=0,
        tail=None,
        tail_slots=0,
        varbit_slot=None,
        varbit_max_bytes=0,
    )


def header_layout(header_type: JsonObject) -> TypeLayout:
    """A packet header type."""
    where = f"header_types[{header_type['name']}]"
    rows = _fields_of(header_type)
    varbits = [index for index, row in enumerate(rows) if row.varbit]
    if len(varbits) > 1:
        raise ProgramError(where, "more than one variable-length field")
    cut = varbits[0] if varbits else len(rows)
    pieces, head, head_slots, head_bytes = _segment([row.bits for row in rows[:cut]], 1, where)
    tail: struct.Struct | None = None
    tail_slots = tail_bytes = 0
    varbit_slot: int | None = None
    if varbits:
        varbit_slot = 1 + head_slots
        whole = Piece(slot=varbit_slot, shift=0, bits=0, container_bits=0)
        rest, tail, tail_slots, tail_bytes = _segment(
            [row.bits for row in rows[cut + 1 :]], varbit_slot + 1, where
        )
        pieces = [*pieces, (whole,), *rest]
        if not rows[cut + 1 :]:
            tail = None
    fields = {row.name: _field(row, index, pieces[index]) for index, row in enumerate(rows)}
    return TypeLayout(
        name=str(header_type["name"]),
        fields=fields,
        slots=1 + head_slots + (1 + tail_slots if varbits else 0),
        fixed_bytes=head_bytes + tail_bytes,
        head=head,
        head_slots=head_slots,
        tail=tail,
        tail_slots=tail_slots,
        varbit_slot=varbit_slot,
        varbit_max_bytes=int(header_type.get("max_length") or 0),
        varbit_length=header_type.get("length_exp"),
    )
