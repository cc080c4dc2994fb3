# SPDX-License-Identifier: Apache-2.0
"""What a parser state does before it goes on: extract, set, verify, advance."""

import struct

from bmv2_lab.switch.containers import JsonObject, TypeLayout
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.fields import Source
from bmv2_lab.switch.header_refs import end_of, slot, unwrap
from bmv2_lab.switch.layout import HeaderInstance
from bmv2_lab.switch.primitives import Primitives
from bmv2_lab.switch.writer import Writer


class ParserOperations:
    """Writes the operations of parser states: `d` is the frame, `o` the offset, `n` the length."""

    def __init__(
        self,
        codes: dict[str, int],
        expressions: Expressions,
        primitives: Primitives,
        writer: Writer,
    ) -> None:
        self.codes = codes
        self.expressions = expressions
        self.primitives = primitives
        self.layout = expressions.layout
        self.writer = writer
        self.error_slot = self.layout.slots.parser_error

    def _error(self, name: str) -> None:
        self._error_code(str(self.codes[name]))

    def _error_code(self, text: str) -> None:
        self.writer.line(f"P[{self.error_slot}] = {text}")
        self.writer.line("return o")

    def operation(self, item: JsonObject) -> None:
        op, parameters = str(item["op"]), item["parameters"]
        match op:
            case "extract":
                self._extract(parameters[0], None)
            case "extract_VL":
                self._extract(parameters[0], parameters[1])
            case "set":
                self._set(parameters[0], parameters[1])
            case "verify":
                code = self.expressions.value(parameters[1]).text
                with self.writer.block(f"if not {self.expressions.boolean(parameters[0])}:"):
                    self._error_code(code)
            case "shift":
                self._advance(Source(str(8 * int(parameters[0])), 64))
            case "advance":
                self._advance(self.expressions.value(parameters[0]))
            case "primitive":
                self.primitives.one(parameters[0])
            case _:
                raise self.expressions.fail(f"unsupported parser operation {op}")

    def _advance(self, bits: Source) -> None:
        """Skip a number of bits, which must be whole bytes."""
        if bits.text.isdigit() and int(bits.text) % 8 == 0:
            self.writer.line(f"x = o + {int(bits.text) // 8}")
        else:
            self.writer.line(f"b = {bits.text}")
            with self.writer.block("if b & 7:" if bits.bits is not None else "if b & 7 or b < 0:"):
                self._error("ParserInvalidArgument")
            self.writer.line("x = o + (b >> 3)")
        self._need("x")
        self.writer.line("o = x")

    def _need(self, end: str) -> None:
        with self.writer.block(f"if {end} > n:"):
            self._error("PacketTooShort")

    def _extract(self, target: JsonObject, length: JsonObject | None) -> None:
        kind, value = str(target["type"]), target["value"]
        if kind == "regular":
            header = self.layout.header(str(value), self.expressions.where)
            if header.metadata:
                raise self.expressions.fail(f"{value} is metadata and cannot be extracted")
            self._extract_block(header.base, header, length)
            for sibling in header.siblings:
                self.writer.line(f"P[{self.layout.headers[sibling].base}] = 0")
        elif kind == "stack":
            stack = self.expressions.refs.stack(str(value))
            self._need_free(stack.next_slot, stack.depth)
            self.writer.line(f"b = {stack.base} + {stack.type.slots} * P[{stack.next_slot}]")
            self._extract_block("b", self.layout.headers[stack.elements[0]], length)
            self.writer.line(f"P[{stack.next_slot}] += 1")
        elif kind == "union_stack":
            unions = self.expressions.refs.union_stack(str(value[0]))
            member = unions.member_names.index(str(value[1]))
            self._need_free(unions.next_slot, len(unions.elements))
            table = self.writer.constant("bases_", self.expressions.refs.bases(unions))
            self.writer.line(f"u = {table}[P[{unions.next_slot}]]")
            self.writer.line(f"b = u[{member}]")
            self._extract_block("b", self.layout.headers[unions.elements[0][member]], length)
            self.writer.line("only_member(P, u, b)")
            self.writer.line(f"P[{unions.next_slot}] += 1")
        else:
            raise self.expressions.fail(f"unsupported extract of {kind}")

    def _need_free(self, number: int, depth: int) -> None:
        with self.writer.block(f"if P[{number}] >= {depth}:"):
            self._error("StackOutOfBounds")

    def _extract_block(
        self, base: int | str, header: HeaderInstance, length: JsonObject | None
    ) -> None:
        writer, layout = self.writer, header.type
        if layout.varbit_slot is None:
            writer.line(f"x = o + {layout.fixed_bytes}")
            self._need("x")
            writer.line(f"{slot(base, 0)} = 1")
            self._unpack(base, 1, layout.head_slots, layout.head, "o")
            writer.line("o = x")
            return
        if length is None and layout.varbit_length is not None:
            self._extract_by_own_length(base, header)
            return
        if length is None:
            raise self.expressions.fail(
                f"{layout.name} has a variable length; extract_VL is needed"
            )
        writer.line(f"v = {self.expressions.value(length).text}")
        self._varbit_checks(layout)
        writer.line(f"{slot(base, 0)} = 1")
        self._unpack(base, 1, layout.head_slots, layout.head, "o")
        self._extract_varbit(base, layout)

    def _varbit_checks(self, layout: TypeLayout) -> None:
        """`v` bits of variable length: whole bytes, in the packet, and below the limit."""
        writer = self.writer
        with writer.block("if v & 7:"):
            self._error("ParserInvalidArgument")
        writer.line("v >>= 3")
        writer.line(f"x = o + {layout.fixed_bytes} + v")
        with writer.block("if v < 0 or x > n:"):
            self._error("PacketTooShort")
        if layout.varbit_max_bytes:
            with writer.block(f"if v > {layout.varbit_max_bytes - layout.fixed_bytes}:"):
                self._error("HeaderTooShort")

    def _extract_varbit(self, base: int | str, layout: TypeLayout) -> None:
        """The variable field of `v` bytes and what follows it."""
        assert layout.varbit_slot is not None
        start = layout.head.size
        self.writer.line(f"{slot(base, layout.varbit_slot)} = d[o + {start}:o + {start} + v]")
        if layout.tail is not None:
            first = layout.varbit_slot + 1
            self._unpack(base, first, layout.tail_slots, layout.tail, f"o + {start} + v")
        self.writer.line("o = x")

    def _extract_by_own_length(self, base: int | str, header: HeaderInstance) -> None:
        """P4_14: fields in front of the variable one say how long it is (`length_exp`)."""
        layout, writer = header.type, self.writer
        assert layout.varbit_length is not None
        writer.line(f"x = o + {layout.fixed_bytes}")
        self._need("x")
        self._unpack(base, 1, layout.head_slots, layout.head, "o")
        local_bits, local_source = self.expressions.local_bits, self.expressions.local_source
        self.expressions.local_source = lambda number: self.expressions.load(
            layout.by_index[number], base
        )
        self.expressions.local_bits = [field.bits for field in layout.by_index]
        writer.line(f"v = {self.expressions.value(layout.varbit_length).text}")
        self.expressions.local_bits, self.expressions.local_source = local_bits, local_source
        self._varbit_checks(layout)
        writer.line(f"{slot(base, 0)} = 1")
        self._extract_varbit(base, layout)

    def _unpack(
        self, base: int | str, first: int, count: int, layout: struct.Struct, offset: str
    ) -> None:
        if count == 0:
            return
        unpack = self.writer.constant("unpack_", layout.unpack_from)
        if count == 1:
            self.writer.line(f"{slot(base, first)}, = {unpack}(d, {offset})")
            return
        begin = end_of(base, first)
        self.writer.line(f"P[{begin}:{end_of(begin, count)}] = {unpack}(d, {offset})")

    def lookahead(self, value: list[int]) -> Source:
        """Source of bits ahead of the cursor; writes the length check first."""
        offset, width = int(value[0]), int(value[1])
        first, end = offset // 8, (offset + width + 7) // 8
        self._need(f"o + {end}")
        text = f"int.from_bytes(d[o + {first}:o + {end}], 'big')"
        drop = end * 8 - offset - width
        if drop:
            text = f"{text} >> {drop}"
        if offset % 8:
            text = f"({text}) & {(1 << width) - 1:#x}"
        return Source(f"({text})", width)

    def _set(self, target: JsonObject, source: JsonObject) -> None:
        item = unwrap(source)
        if item.get("type") == "lookahead":
            value = self.lookahead(item["value"])
        else:
            value = self.expressions.value(item)
        header, field = self.expressions.field_path(unwrap(target)["value"])
        for line in self.expressions.store(field, header.base, value):
            self.writer.line(line)
