# SPDX-License-Identifier: Apache-2.0
"""Hash and checksum inputs as generated functions `P -> int`.

BMv2 packs the inputs bit by bit without padding, leaves out fields of invalid headers, and fills
the last byte with zeros on the right. The generated function has one fast line for the case that
all headers are valid, and a general path behind it.
"""

import struct
from dataclasses import dataclass

from bmv2_lab.switch.containers import FieldLayout, JsonObject
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.hashes import CUSTOM_CRC_BITS, PerSwitch, algorithm
from bmv2_lab.switch.header_refs import parse_hex
from bmv2_lab.switch.layout import FLAG_TRUNCATE, HeaderInstance
from bmv2_lab.switch.writer import Writer

_WORDS = {8: "B", 16: "H", 32: "I", 64: "Q"}


@dataclass(frozen=True, slots=True)
class _Part:
    """Bits of a container or constant, in packing order. `bits` 0 = a varbit field (bytes)."""

    text: str
    bits: int
    valid_slot: int | None
    slot: int | None = None
    shift: int = 0
    container_bits: int = 0


def _field_parts(header: HeaderInstance, field: FieldLayout) -> list[_Part]:
    valid = None if header.metadata else header.base
    parts = []
    for piece in field.pieces:
        number = header.base + piece.slot
        parts.append(
            _Part(f"P[{number}]", piece.bits, valid, number, piece.shift, piece.container_bits)
        )
    return parts


def _merge(parts: list[_Part]) -> list[_Part]:
    """Join neighbours that are neighbours in one container too."""
    merged: list[_Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if (
            last is not None
            and part.slot is not None
            and last.slot == part.slot
            and last.shift == part.shift + part.bits
        ):
            merged[-1] = _Part(
                last.text,
                last.bits + part.bits,
                last.valid_slot,
                last.slot,
                part.shift,
                last.container_bits,
            )
        else:
            merged.append(part)
    return merged


def _text(part: _Part) -> str:
    """Source of the bits of a part, moved to the bottom."""
    text = part.text
    if part.slot is not None:
        if part.shift:
            text = f"({text} >> {part.shift})"
        if part.shift + part.bits < part.container_bits:
            text = f"({text} & {(1 << part.bits) - 1:#x})"
    return text


class Calculations:
    """Generates one function per named calculation or selector."""

    def __init__(self, document: JsonObject, expressions: Expressions, writer: Writer) -> None:
        self.expressions = expressions
        self.writer = writer
        self.frame_slot = expressions.layout.slots.frame
        self.payload_slot = expressions.layout.slots.payload
        self._by_name = {str(item["name"]): item for item in document.get("calculations") or []}
        self._emitted: dict[str, str] = {}
        self.hash_names: dict[str, tuple[str, str]] = {}  # calculation -> algorithm, global
        slots = expressions.layout.slots
        self.truncated = f"P[{slots.flags}] & {FLAG_TRUNCATE}"
        self.truncate_slot = slots.truncate

    def named(self, name: str, where: str) -> str:
        """Name of the function of a JSON calculation, generated on first use."""
        if name not in self._emitted:
            item = self._by_name.get(name)
            if item is None:
                raise ProgramError(where, f"unknown calculation {name}")
            algo = str(item["algo"])
            self._emitted[name] = self.emit(algo, item["input"], f"calculations[{name}]")
            self.hash_names[name] = (algo, self._last_hash)
        return self._emitted[name]

    def bits(self, checksum: JsonObject) -> int | None:
        """Width of what a checksum computes, where it is known."""
        item = self._by_name.get(str(checksum.get("calculation")))
        algo = "csum16" if item is None else str(item["algo"])
        return 16 if algo in ("csum16", "cksum16", "crc16", "crc16_custom", "xor16") else None

    def of_ipv4(self, item: JsonObject, where: str) -> str:
        """Name of the function of a checksum of the old type `ipv4`: a whole header without it."""
        name, target = (str(part) for part in item["target"])
        header = self.expressions.layout.header(name, where)
        inputs = [
            {"type": "field", "value": [name, field]}
            for field in header.type.fields
            if field != target
        ]
        return self.emit("csum16", inputs, where)

    def emit(self, algo: str, inputs: list[JsonObject], where: str) -> str:
        """Write a module-level function for an algorithm over inputs; returns its name."""
        parts, payload = self._parts(inputs, where)
        found = algorithm(algo, where)
        if algo in CUSTOM_CRC_BITS or algo == "toeplitz" or isinstance(found, PerSwitch):
            function = self.writer.own_constant("hash_", found)  # may differ from its like
        else:
            function = self.writer.constant("hash_", found)
        self._last_hash = function
        name = self.writer.name("calculation_")
        writer, saved = self.writer, self.writer.depth
        with writer.block(f"def {name}(P):"):
            writer.line(f'"""{algo} of {where}"""')
            fixed = [part for part in parts if part.bits]
            valid = sorted({p.valid_slot for p in fixed if p.valid_slot is not None})
            tests = [f"P[{number}]" for number in valid]
            for part in parts:  # the fast line is for packets whose varbit fields are empty
                if not part.bits:
                    present = "" if part.valid_slot is None else f"P[{part.valid_slot}] and "
                    tests.append(f"not ({present}{part.text})")
            fast = None
            if fixed:
                total = sum(part.bits for part in fixed)
                if algo in ("csum16", "cksum16") and not (payload and total % 16):
                    fast = self._sum(_merge(fixed), total, payload)
                elif not payload:
                    fast = [f"return {function}({self._packed(_merge(fixed), total)})"]
            if fast is not None:
                if tests:
                    with writer.block(f"if {' and '.join(tests)}:"):
                        for line in fast:
                            writer.line(line)
                else:
                    for line in fast:
                        writer.line(line)
            if fast is None or tests:
                self._general(parts, payload, function)
        writer.depth = saved
        writer.line("")
        return name

    def _parts(self, inputs: list[JsonObject], where: str) -> tuple[list[_Part], bool]:
        parts: list[_Part] = []
        payload = False
        layout = self.expressions.layout
        for item in inputs:
            kind, content = str(item["type"]), item.get("value")
            if kind == "field" and isinstance(content, list):
                header, field = layout.field(content, where)
                parts += self._of_field(header, field)
            elif kind == "hexstr":
                number, bits = parse_hex(str(content)), int(item["bitwidth"])
                parts.append(_Part(f"{number & (1 << bits) - 1:#x}", bits, None))
            elif kind == "header":
                header = layout.header(str(content), where)
                for field in header.type.by_index:
                    parts += self._of_field(header, field)
            elif kind == "payload":
                payload = True
            else:
                raise ProgramError(where, f"unsupported input of type {kind}")
        return parts, payload

    @staticmethod
    def _of_field(header: HeaderInstance, field: FieldLayout) -> list[_Part]:
        if field.varbit:
            number = header.base + field.pieces[0].slot
            return [_Part(f"P[{number}]", 0, None if header.metadata else header.base)]
        return _field_parts(header, field)

    def _packed(self, parts: list[_Part], total: int) -> str:
        """Source of the bytes of parts with fixed widths."""
        words: list[tuple[str, int]] = []
        for part in parts:
            text, bits = _text(part), part.bits
            if words and words[-1][1] not in _WORDS:
                text = f"({words[-1][0]} << {bits} | {text})"
                bits += words.pop()[1]
            words.append((text, bits))
        if all(bits in _WORDS for _, bits in words):
            layout = struct.Struct(">" + "".join(_WORDS[bits] for _, bits in words))
            pack = self.writer.constant("pack_", layout.pack)
            return f"{pack}({', '.join(text for text, _ in words)})"
        fill = -total % 8
        position, terms = total + fill, []
        for part in parts:
            position -= part.bits
            terms.append(f"{_text(part)} << {position}" if position else _text(part))
        return (
            f"({' | '.join(f'({term})' for term in terms)}).to_bytes({(total + fill) // 8}, 'big')"
        )

    def _sum(self, parts: list[_Part], total: int, payload: bool) -> list[str]:
        """Lines that return the Internet checksum without building the bytes.

        A word at bit offset o weighs 2**(16k + r), which is 2**r modulo 0xFFFF.
        """
        end = total + (-total % 16)
        terms = []
        for part in parts:
            end -= part.bits
            shift = end % 16
            terms.append(f"({_text(part)} << {shift})" if shift else _text(part))
        lines = [f"s = {' + '.join(terms)}"]
        if payload:
            lines += self._payload()
            lines.append("s += int.from_bytes(d + b'\\0' if len(d) & 1 else d, 'big')")
        lines.append("return 0xFFFF - ((s % 0xFFFF or 0xFFFF) if s else 0)")
        return lines

    def _payload(self) -> list[str]:
        """Lines that set `d` to what was not parsed, as much as a truncated packet still has."""
        return [
            f"d = P[{self.frame_slot}][P[{self.payload_slot}]:]",
            f"if {self.truncated}: d = d[:P[{self.truncate_slot}]]",
        ]

    def _general(self, parts: list[_Part], payload: bool, function: str) -> None:
        writer = self.writer
        writer.line("v = bits = 0")
        for part in parts:
            if part.bits:
                text = f"v = v << {part.bits} | {_text(part)}; bits += {part.bits}"
            else:
                text = (
                    f"v = v << 8 * len({part.text}) | int.from_bytes({part.text}, 'big'); "
                    f"bits += 8 * len({part.text})"
                )
            if part.valid_slot is None:
                writer.line(text)
            else:
                with writer.block(f"if P[{part.valid_slot}]:"):
                    writer.line(text)
        writer.line("data = (v << (-bits % 8)).to_bytes((bits + 7) // 8, 'big')")
        if payload:
            for line in self._payload():
                writer.line(line)
            writer.line("data += d")
        writer.line(f"return {function}(data)")
