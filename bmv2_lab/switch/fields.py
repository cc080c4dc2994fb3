# SPDX-License-Identifier: Apache-2.0
"""Reading and writing fields, and arithmetic on what was read, as Python source.

Each piece of source carries an upper bound in bits where one is known, so that a store masks only
where it must.
"""

import re
from dataclasses import dataclass

from bmv2_lab.switch.containers import FieldLayout, Piece
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.header_refs import slot
from bmv2_lab.switch.layout import HeaderInstance
from bmv2_lab.switch.runtime import SHIFT_LIMIT_BITS
from bmv2_lab.switch.stores import ContainerStore, Line


@dataclass(frozen=True, slots=True)
class Source:
    """Python source of a value that is at least 0 and below 2**bits; `bits` None = not known."""

    text: str
    bits: int | None = None


# A read that is as cheap as a local variable.
_SIMPLE = re.compile(r"[Pe]\[\d+\]")


def _store(piece: Piece, base: int | str, text: str) -> ContainerStore:
    """The store of a value into one piece of a field."""
    number = base + piece.slot if isinstance(base, int) else None
    full = (1 << piece.container_bits) - 1
    target = slot(base, piece.slot)
    return ContainerStore.of(target, number, full, piece.bits, piece.shift, text)


def load_field(field: FieldLayout, base: int | str, *, raw: bool = False) -> Source:
    """Source of a field's value; its block starts at `base`.

    `raw` leaves a signed field as the bits on the wire, as keys and hashes see it.
    """
    if field.varbit:
        return Source(f"int.from_bytes({slot(base, field.pieces[0].slot)}, 'big')")
    parts, position = [], field.bits
    for piece in field.pieces:
        position -= piece.bits
        text = slot(base, piece.slot)
        if piece.shift:
            text = f"{text} >> {piece.shift}"
        if piece.shift + piece.bits < piece.container_bits:
            text = f"{text} & {(1 << piece.bits) - 1:#x}"
        if position:
            text = f"({text}) << {position}"
        parts.append(text)
    text = parts[0] if len(parts) == 1 else " | ".join(f"({part})" for part in parts)
    if not text.endswith("]") or " " in text:
        text = f"({text})"
    if field.signed and not raw:
        half = 1 << (field.bits - 1)
        return Source(f"(({text} ^ {half:#x}) - {half:#x})")
    return Source(text, field.bits)


def store_field(field: FieldLayout, base: int | str, value: Source) -> list[Line]:
    """Lines that store a value into a field, cut to its width."""
    fits = value.bits is not None and value.bits <= field.bits - field.signed
    text = value.text
    if field.saturating and not fits:
        text = f"{'sat' if field.signed else 'usat'}_cast({text}, {field.bits})"
        fits = not field.signed
    if not fits:
        text = f"{text} & {(1 << field.bits) - 1:#x}"
    if len(field.pieces) == 1:
        return [_store(field.pieces[0], base, text)]
    # A field across containers: its value is computed once.
    simple = _SIMPLE.fullmatch(text) is not None
    lines: list[Line] = [] if simple else [f"x = {text}"]
    name, position = text if simple else "x", field.bits
    for piece in field.pieces:
        position -= piece.bits
        part = f"{name} >> {position}" if position else name
        if position + piece.bits < field.bits:
            part = f"({part}) & {(1 << piece.bits) - 1:#x}"
        lines.append(_store(piece, base, part))
    return lines


def field_at(header: HeaderInstance, number: int) -> FieldLayout:
    """A field by its place in the JSON."""
    fields = header.type.by_index
    if not 0 <= number < len(fields):
        raise ProgramError(f"headers[{header.name}]", f"no field number {number}")
    return fields[number]


def arithmetic(op: str, left: Source, right: Source) -> Source | None:
    """Source of an operation on two values; None for an operator that BMv2 does not have."""
    a, b = left.text, right.text
    both = left.bits is not None and right.bits is not None
    wider = max(left.bits or 0, right.bits or 0)
    constant = int(b) if b.isdigit() else None
    match op:
        case "+":
            return Source(f"({a} + {b})", wider + 1 if both else None)
        case "-":
            return Source(f"({a} - {b})")
        case "*":
            bits = (left.bits or 0) + (right.bits or 0) if both else None
            return Source(f"({a} * {b})", bits)
        case "/" | "%":
            bits = left.bits if right.bits is not None else None
            if not constant:
                return Source(f"{'divide' if op == '/' else 'modulo'}({a}, {b})", bits)
            if op == "%" and left.bits is not None:
                bits = min(left.bits, right.bits or 0)
            return Source(f"({a} {'//' if op == '/' else '%'} {b})", bits)
        case "&":
            known = [bits for bits in (left.bits, right.bits) if bits is not None]
            if constant is not None and left.bits is not None:
                full = (1 << left.bits) - 1
                if constant & full == full:
                    return left  # the mask keeps all
            return Source(f"({a} & {b})", min(known) if known else None)
        case "|" | "^":
            return Source(f"({a} {op} {b})", wider if both else None)
        case "<<":
            if constant is not None and constant < SHIFT_LIMIT_BITS:
                bits = left.bits + constant if left.bits is not None else None
                return Source(f"({a} << {constant})", bits)
            return Source(f"shift_left({a}, {b})")
        case ">>":
            if constant is not None and left.bits is not None:
                return Source(f"({a} >> {constant})", max(left.bits - constant, 0))
            if right.bits is None:
                return Source(f"shift_right({a}, {b})", left.bits)
            return Source(f"({a} >> {b})", left.bits)
        case "two_comp_mod":
            return Source(f"two_comp_mod({a}, {b})")
        case "usat_cast":
            return Source(f"usat_cast({a}, {b})", constant or None)
        case "sat_cast":
            return Source(f"sat_cast({a}, {b})")
    return None
