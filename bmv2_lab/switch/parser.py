# SPDX-License-Identifier: Apache-2.0
"""The parser as generated functions: `state(P, d, o, n) -> o`.

`d` is the frame, `o` the offset of the next byte, `n` the frame length; the result is the offset
where parsing ended. A state that only one other state leads to is written in place of the jump; a
loop of states becomes one function with a `while`. A parser error stores its code and ends the
parser, as in BMv2: headers extracted so far stay valid.
"""

import struct
from dataclasses import dataclass

from bmv2_lab.switch.containers import JsonObject, TypeLayout
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.expressions import Expressions, Source
from bmv2_lab.switch.header_refs import end_of, parse_hex, slot, unwrap
from bmv2_lab.switch.layout import HeaderInstance
from bmv2_lab.switch.parser_graph import find_loops
from bmv2_lab.switch.primitives import Primitives
from bmv2_lab.switch.writer import Writer

# P4 parsers may loop without taking bytes; BMv2 would hang, we report ParserTimeout.
LOOP_LIMIT = 4096
# States are written in place of the jump only up to this depth of indentation.
INLINE_DEPTH = 40
DICT_CASES = 4  # from this many exact cases on, a dict is faster than comparisons

CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)


def error_codes(document: JsonObject) -> dict[str, int]:
    """Number of each parser error; core errors that the JSON leaves out get unused numbers."""
    codes = {str(name): int(value) for name, value in document.get("errors", [])}
    unused = max(codes.values(), default=-1) + 1
    for name in CORE_ERRORS:
        if name not in codes:
            codes[name] = unused
            unused += 1
    return codes


@dataclass(frozen=True, slots=True)
class _Key:
    source: Source
    width_bytes: int


class ParserTranslator:
    """Writes one parser of the JSON."""

    def __init__(
        self,
        parser: JsonObject,
        codes: dict[str, int],
        expressions: Expressions,
        primitives: Primitives,
        writer: Writer,
        value_sets: dict[str, str],
    ) -> None:
        self.parser_name = str(parser["name"])
        self.states: dict[str, JsonObject] = {
            str(state["name"]): state for state in parser["parse_states"]
        }
        self.start = parser.get("init_state")
        self.codes = codes
        self.expressions = expressions
        self.primitives = primitives
        self.layout = expressions.layout
        self.writer = writer
        self.value_sets = value_sets
        self.error_slot = self.layout.slots.parser_error
        self.loop_of: dict[str, int] = {}
        self.loops: list[list[str]] = []
        self.incoming: dict[str, int] = {}
        self.in_loop: list[str] | None = None

    def _next(self, name: str) -> list[str]:
        targets = [edge["next_state"] for edge in self.states[name]["transitions"]]
        for target in targets:
            if target is not None and target not in self.states:
                raise ProgramError(self._where(name), f"unknown next state {target}")
        return [str(target) for target in targets if target is not None]

    def _where(self, state: str) -> str:
        return f"parsers[{self.parser_name}].{state}"

    # Output

    def emit(self) -> str:
        """Write all functions; returns the name of the one to call first."""
        self.loops = find_loops({name: self._next(name) for name in self.states})
        self.loop_of = {name: n for n, names in enumerate(self.loops) for name in names}
        for name in self.states:
            for target in self._next(name):
                self.incoming[target] = self.incoming.get(target, 0) + 1
        if self.start is None:
            with self.writer.block("def parse(P, d, o, n):"):
                self.writer.line("return o")
            return "parse"
        self.pending: list[str] = [str(self.start)]
        self.done: set[str] = set()
        while self.pending:
            name = self.pending.pop()
            if name in self.done:
                continue
            if name in self.loop_of:
                self._emit_loop(self.loops[self.loop_of[name]])
            else:
                self.done.add(name)
                with self.writer.block(f"def {self._function(name)}(P, d, o, n):"):
                    self._emit_state(name)
                self.writer.line("")
        start = str(self.start)
        if start in self.loop_of:
            position = self.loops[self.loop_of[start]].index(start)
            with self.writer.block("def parse(P, d, o, n):"):
                self.writer.line(f"return {self._loop(start)}(P, d, o, n, {position})")
            return "parse"
        return self._function(start)

    def _function(self, name: str) -> str:
        return f"state_{self.states[name]['id']}"

    def _loop(self, name: str) -> str:
        return f"loop_{self.loop_of[name]}"

    def _emit_loop(self, names: list[str]) -> None:
        self.done.update(names)
        self.in_loop = names
        with self.writer.block(f"def {self._loop(names[0])}(P, d, o, n, state):"):
            with self.writer.block(f"for _ in range({LOOP_LIMIT}):"):
                for number, name in enumerate(names):
                    with self.writer.block(f"if state == {number}:"):
                        self._emit_state(name)
            self.in_loop = None
            self._error("ParserTimeout")
        self.writer.line("")

    def _go(self, target: str | None) -> None:
        """Lines that continue in another state, or end the parser."""
        if target is None:
            self.writer.line("return o")
        elif self.in_loop is not None and target in self.in_loop:
            self.writer.line(f"state = {self.in_loop.index(target)}; continue")
        elif target in self.loop_of:
            self.pending.append(target)
            position = self.loops[self.loop_of[target]].index(target)
            self.writer.line(f"return {self._loop(target)}(P, d, o, n, {position})")
        elif (
            self.incoming.get(target, 0) == 1
            and self.writer.depth < INLINE_DEPTH
            and target != self.start
        ):
            self._emit_state(target)
        else:
            self.pending.append(target)
            self.writer.line(f"return {self._function(target)}(P, d, o, n)")

    def _error(self, name: str) -> None:
        self._error_code(str(self.codes[name]))

    def _error_code(self, text: str) -> None:
        self.writer.line(f"P[{self.error_slot}] = {text}")
        self.writer.line("return o")

    def _emit_state(self, name: str) -> None:
        state = self.states[name]
        self.expressions.where = self._where(name)
        self.writer.line(f"# {name}")
        for operation in state["parser_ops"]:
            self._operation(operation)
            self.expressions.where = self._where(name)
        self._transitions(state)

    # Operations

    def _operation(self, item: JsonObject) -> None:
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

    def _lookahead(self, value: list[int]) -> Source:
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
            value = self._lookahead(item["value"])
        else:
            value = self.expressions.value(item)
        header, field = self.expressions.field_path(unwrap(target)["value"])
        for line in self.expressions.store(field, header.base, value):
            self.writer.line(line)

    # Transitions

    def _keys(self, state: JsonObject) -> list[_Key]:
        keys = []
        for item in state["transition_key"]:
            kind, value = str(item["type"]), item["value"]
            if kind == "field":
                source = self.expressions.load_path(value, raw=True)
            elif kind == "stack_field":
                stack = self.expressions.refs.stack(str(value[0]))
                field = stack.type.fields[str(value[1])]
                source = self.expressions.load(
                    field, self.expressions.refs.last(stack).base, raw=True
                )
            elif kind == "lookahead":
                source = self._lookahead(value)
            elif kind == "union_stack_field":
                source = self._union_stack_field(value)
            else:
                raise self.expressions.fail(f"unsupported transition key {kind}")
            bits = source.bits if source.bits is not None else 64
            keys.append(_Key(source, (bits + 7) // 8))
        return keys

    def _union_stack_field(self, value: list[str]) -> Source:
        stack = self.expressions.refs.union_stack(str(value[0]))
        member = stack.member_names.index(str(value[1]))
        header = self.layout.headers[stack.elements[0][member]]
        # With no element extracted yet, index -1 is the block of its own.
        rows = [row[member] for row in self.expressions.refs.bases(stack)]
        table = self.writer.constant("bases_", (*rows, self.layout.void(header.type)))
        field = header.type.fields[str(value[2])]
        return self.expressions.load(field, f"{table}[P[{stack.next_slot}] - 1]", raw=True)

    @staticmethod
    def _split(number: int, keys: list[_Key]) -> list[int]:
        """A byte-padded value or mask cut into one number per key."""
        parts = []
        for key in reversed(keys):
            parts.append(number & (1 << 8 * key.width_bytes) - 1)
            number >>= 8 * key.width_bytes
        return parts[::-1]

    def _transitions(self, state: JsonObject) -> None:
        edges = state["transitions"]
        cases = [edge for edge in edges if not self._is_default(edge)]
        defaults = [edge for edge in edges if self._is_default(edge)]
        otherwise = defaults[-1]["next_state"] if defaults else None
        if not state["transition_key"]:
            cases = []
        if not cases:
            self._go(None if otherwise is None else str(otherwise))
            return
        keys = self._keys(state)
        names = []
        for number, key in enumerate(keys):
            text = key.source.text
            if not (text.startswith("P[") and text.endswith("]") and " " not in text):
                self.writer.line(f"k{number} = {text}")
                text = f"k{number}"
            names.append(text)
        if len(names) == 1 and " " not in names[0] and len(cases) > 2 and names[0] != "k0":
            self.writer.line(f"k0 = {names[0]}")
            names = ["k0"]
        for edge in cases:
            with self.writer.block(f"if {self._test(edge, keys, names)}:"):
                self._go(None if edge["next_state"] is None else str(edge["next_state"]))
        self._go(None if otherwise is None else str(otherwise))

    @staticmethod
    def _is_default(edge: JsonObject) -> bool:
        return edge.get("type") == "default" or edge.get("value") in (None, "default")

    def _test(self, edge: JsonObject, keys: list[_Key], names: list[str]) -> str:
        mask_text = edge.get("mask")
        full = [(1 << 8 * key.width_bytes) - 1 for key in keys]
        masks = full if mask_text is None else self._split(parse_hex(str(mask_text)), keys)
        if edge.get("type") == "parse_vset":
            name = self.value_sets.get(str(edge["value"]))
            if name is None:
                raise self.expressions.fail(f"unknown parse value set {edge['value']}")
            values_now = f"({', '.join(names)},)"
            if masks == full:
                return f"({values_now} in {name} or {name}.masked and {name}.matches({values_now}))"
            return f"{name}.has_masked({values_now}, {tuple(masks)})"
        if edge.get("type", "hexstr") != "hexstr":
            raise self.expressions.fail(f"unsupported transition of type {edge['type']}")
        values = self._split(parse_hex(str(edge["value"])), keys)
        tests = []
        for key, name, value, mask in zip(keys, names, values, masks, strict=True):
            bits = key.source.bits
            if mask == 0:
                continue
            if bits is not None and mask & (1 << bits) - 1 == (1 << bits) - 1:
                tests.append(f"{name} == {value & mask}")
            else:
                tests.append(f"{name} & {mask:#x} == {value & mask}")
        return " and ".join(tests) or "True"
