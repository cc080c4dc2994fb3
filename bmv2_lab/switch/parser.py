# SPDX-License-Identifier: Apache-2.0
"""The parser as generated functions: `state(P, d, o, n) -> o`.

`d` is the frame, `o` the offset of the next byte, `n` the frame length; the result is the offset
where parsing ended. A state that only one other state leads to is written in place of the jump; a
loop of states becomes one function with a `while`. A parser error stores its code and ends the
parser, as in BMv2: headers extracted so far stay valid.
"""

from dataclasses import dataclass

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.fields import Source
from bmv2_lab.switch.header_refs import parse_hex
from bmv2_lab.switch.parser_graph import find_loops
from bmv2_lab.switch.parser_operations import ParserOperations
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


class ParserTranslator(ParserOperations):
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
        super().__init__(codes, expressions, primitives, writer)
        self.parser_name = str(parser["name"])
        self.states: dict[str, JsonObject] = {
            str(state["name"]): state for state in parser["parse_states"]
        }
        self.start = parser.get("init_state")
        self.value_sets = value_sets
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

    def _emit_state(self, name: str) -> None:
        state = self.states[name]
        self.expressions.where = self._where(name)
        self.writer.line(f"# {name}")
        for operation in state["parser_ops"]:
            self.operation(operation)
            self.expressions.where = self._where(name)
        self._transitions(state)

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
                source = self.lookahead(value)
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
