# SPDX-License-Identifier: Apache-2.0
"""BMv2 expressions as Python source.

BMv2 computes with unlimited precision and cuts a value to its width only when it is stored; Python
integers do the same. Each piece of source carries an upper bound in bits where one is known, so
that a store masks only where it must.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bmv2_lab.switch.containers import FieldLayout, JsonObject, Piece
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.layout import HeaderInstance, PhvLayout
from bmv2_lab.switch.writer import ContainerStore

# Shifting further than this gives zero in every field that P4 can declare.
SHIFT_LIMIT_BITS = 1 << 14

# Entry of a table as the generated code sees it: [function, action index, hit, packets, bytes,
# argument...]; see tables.py.
ENTRY_ARGUMENTS = 5


@dataclass(frozen=True, slots=True)
class Source:
    """Python source of a value that is at least 0 and below 2**bits; `bits` None = not known."""

    text: str
    bits: int | None = None


def shift_left(value: int, amount: int) -> int:
    """`value << amount`, where a huge amount gives 0 instead of a huge integer."""
    return value << amount if amount < SHIFT_LIMIT_BITS else 0


def two_comp_mod(value: int, width: int) -> int:
    """The value of the low `width` bits in two's complement.

    >>> two_comp_mod(257, 8), two_comp_mod(-129, 8)
    (1, 127)
    """
    half = 1 << (width - 1)
    return ((value + half) & ((half << 1) - 1)) - half


def usat_cast(value: int, width: int) -> int:
    """Clamp to 0 .. 2**width - 1."""
    return min(max(value, 0), (1 << width) - 1)


def sat_cast(value: int, width: int) -> int:
    """Clamp to the range of a signed integer of `width` bits."""
    half = 1 << (width - 1)
    return min(max(value, -half), half - 1)


RUNTIME: dict[str, object] = {
    "shift_left": shift_left,
    "two_comp_mod": two_comp_mod,
    "usat_cast": usat_cast,
    "sat_cast": sat_cast,
}

_COMPARISONS = {"==": "==", "!=": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
_HEADER_TYPES = {"header"}


def parse_hex(text: str) -> int:
    """A JSON hexstr, which may have a sign.

    >>> parse_hex("0x1f"), parse_hex("-0x01")
    (31, -1)
    """
    return int(str(text), 16)


def slot(base: int | str, offset: int) -> str:
    """Source of a slot: `base` is a number, or source that computes the first slot of a block."""
    if isinstance(base, int):
        return f"P[{base + offset}]"
    return f"P[{base} + {offset}]" if offset else f"P[{base}]"


def _keep(piece: Piece) -> int:
    """The bits of a container that a store into one piece leaves alone."""
    return ((1 << piece.container_bits) - 1) ^ (((1 << piece.bits) - 1) << piece.shift)


def unwrap(item: JsonObject) -> JsonObject:
    """Strip the `expression` wrappers until an operation or a typed value is left."""
    while "op" not in item and item.get("type") == "expression":
        item = item["value"]
    return item


class Expressions:
    """Translates the expressions of one program.

    `locals_bits` gives the widths of the runtime data of the action being translated; its values
    are read from the entry `e`.
    """

    def __init__(self, layout: PhvLayout, registers: dict[str, str]) -> None:
        self.layout = layout
        self.registers = registers  # register array name -> Python name of its list
        self.local_bits: list[int] | None = None
        self.local_text: Callable[[int], str] = lambda number: f"e[{ENTRY_ARGUMENTS + number}]"
        self.where = "program"

    def fail(self, message: str) -> ProgramError:
        """A ProgramError at the JSON object being translated."""
        return ProgramError(self.where, message)

    # Fields

    def load(self, field: FieldLayout, base: int | str) -> Source:
        """Source of a field's value; its block starts at `base`."""
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
        if field.signed:
            half = 1 << (field.bits - 1)
            return Source(f"(({text} ^ {half:#x}) - {half:#x})")
        return Source(text, field.bits)

    def store(
        self, field: FieldLayout, base: int | str, value: Source
    ) -> list[str | ContainerStore]:
        """Lines that store a value into a field, cut to its width."""
        if field.varbit:
            raise self.fail(f"field {field.name} has no fixed width; assign_VL is needed")
        fits = value.bits is not None and value.bits <= field.bits
        text = value.text if fits else f"{value.text} & {(1 << field.bits) - 1:#x}"
        if len(field.pieces) == 1:
            piece = field.pieces[0]
            target = slot(base, piece.slot)
            if piece.bits == piece.container_bits:
                return [f"{target} = {text}"]
            return [ContainerStore.of(target, _keep(piece), text, piece.shift)]
        lines: list[str | ContainerStore] = [f"x = {text}"]
        position = field.bits
        for piece in field.pieces:
            position -= piece.bits
            part = f"x >> {position}" if position else "x"
            if position + piece.bits < field.bits:
                part = f"{part} & {(1 << piece.bits) - 1:#x}"
            target = slot(base, piece.slot)
            if piece.bits == piece.container_bits:
                lines.append(f"{target} = {part}")
            else:
                lines.append(ContainerStore.of(target, _keep(piece), part, piece.shift))
        return lines

    def field_path(self, path: Sequence[str]) -> tuple[HeaderInstance, FieldLayout]:
        """Instance and layout of a [header, field] pair."""
        return self.layout.field(path, self.where)

    def load_path(self, path: Sequence[str]) -> Source:
        """Source of the field at a [header, field] pair; `$valid$` is its header's validity."""
        header_name, field_name = path
        if field_name == "$valid$":
            if header_name in self.layout.unions:
                return Source(f"(1 if {self.union_valid(header_name)} else 0)", 1)
            return Source(self.valid(self.layout.header(header_name, self.where)), 1)
        header, field = self.field_path(path)
        return self.load(field, header.base)

    # Headers

    def valid(self, header: HeaderInstance) -> str:
        """Source that is truthy when the header is valid."""
        return "1" if header.metadata else f"P[{header.base}]"

    def union_valid(self, name: str) -> str:
        """Source of the validity of a header union."""
        members = self.layout.unions[name]
        return "(" + " or ".join(f"P[{self.layout.headers[m].base}]" for m in members) + ")"

    def header_block(self, item: JsonObject) -> tuple[int | str, HeaderInstance]:
        """First slot of a header expression, and an instance of the same type."""
        item = unwrap(item)
        if item.get("type") == "header":
            header = self.layout.header(str(item["value"]), self.where)
            return header.base, header
        op = item.get("op")
        if op == "dereference_header_stack":
            stack = self.layout.stacks[str(unwrap(item["left"])["value"])]
            example = self.layout.headers[stack.elements[0]]
            index = unwrap(item["right"])
            if index.get("type") == "hexstr":
                number = parse_hex(index["value"])
                if not 0 <= number < stack.depth:
                    raise self.fail(f"index {number} is outside of stack {stack.name}")
                return stack.base + number * stack.type.slots, example
            value = self.value(index)
            # BMv2 has no defined result for an index outside of the stack; the last element
            # stands in for it.
            safe = f"min({value.text}, {stack.depth - 1})"
            return f"({stack.base} + {stack.type.slots} * {safe})", example
        if op == "access_union_header":
            name, members = self._union_of(unwrap(item["left"]))
            member = members[int(item["right"])]
            header = self.layout.headers[member]
            if isinstance(name, int):
                return header.base, header
            return f"{name}[{int(item['right'])}]", header
        if op == "?":
            left, header = self.header_block(item["left"])
            right, _ = self.header_block(item["right"])
            return f"({left} if {self.boolean(item['cond'])} else {right})", header
        raise self.fail(f"unsupported header expression {op or item.get('type')}")

    def _union_of(self, item: JsonObject) -> tuple[int | str, tuple[str, ...]]:
        """Members of a union expression; the first part is 0 when they are known statically."""
        if item.get("type") == "header_union":
            return 0, self.layout.unions[str(item["value"])]
        if item.get("op") == "dereference_union_stack":
            stack = self.layout.union_stacks[str(unwrap(item["left"])["value"])]
            index = unwrap(item["right"])
            if index.get("type") == "hexstr":
                return 0, stack.elements[parse_hex(index["value"])]
            bases = [[self.layout.headers[m].base for m in e] for e in stack.elements]
            table = "(" + ", ".join(str(tuple(row)) for row in bases) + ",)"
            safe = f"min({self.value(index).text}, {len(bases) - 1})"
            return f"{table}[{safe}]", stack.elements[0]
        raise self.fail(f"unsupported header union expression {item.get('op') or item.get('type')}")

    # Values

    def value(self, item: JsonObject) -> Source:
        """Source of a data value (an integer)."""
        item = unwrap(item)
        if "op" in item:
            return self._operation(item)
        kind, content = item.get("type"), item.get("value")
        if kind == "hexstr":
            number = parse_hex(str(content))
            return (
                Source(f"{number}", number.bit_length()) if number >= 0 else Source(f"({number})")
            )
        if kind == "field":
            assert isinstance(content, list)
            return self.load_path(content)
        if kind in ("local", "runtime_data"):
            return self._local(int(str(content)))
        if kind == "bool":
            return Source("1" if content else "0", 1)
        if kind == "stack_field":
            assert isinstance(content, list)
            stack = self.layout.stacks[str(content[0])]
            field = stack.type.fields[str(content[1])]
            last = f"({stack.base} + {stack.type.slots} * (P[{stack.next_slot}] - 1))"
            return self.load(field, last)
        if kind == "register":
            assert isinstance(content, list)
            name = self.registers[str(content[0])]
            return Source(f"{name}[{self.value(content[1]).text}]")
        if kind in ("header", "header_union"):
            return Source(f"(1 if {self.boolean(item)} else 0)", 1)
        raise self.fail(f"unsupported value of type {kind}")

    def _local(self, number: int) -> Source:
        if self.local_bits is None or number >= len(self.local_bits):
            raise self.fail(f"no runtime data {number} here")
        return Source(self.local_text(number), self.local_bits[number])

    def _operation(self, item: JsonObject) -> Source:  # one case per operator
        op = str(item["op"])
        if op in _COMPARISONS or op in ("and", "or", "not", "d2b", "valid", "valid_union"):
            return Source(f"(1 if {self.boolean(item)} else 0)", 1)
        match op:
            case "b2d":
                return Source(f"(1 if {self.boolean(item['right'])} else 0)", 1)
            case "?":
                left, right = self.value(item["left"]), self.value(item["right"])
                bits = None
                if left.bits is not None and right.bits is not None:
                    bits = max(left.bits, right.bits)
                condition = self.boolean(item["cond"])
                return Source(f"({left.text} if {condition} else {right.text})", bits)
            case "~":
                return Source(f"(~{self.value(item['right']).text})")
            case "last_stack_index" | "size_stack":
                stack = self._stack_next(unwrap(item["right"] or item["left"]))
                return Source(f"({stack} - 1)") if op == "last_stack_index" else Source(stack, 31)
            case "access_field":
                base, header = self.header_block(item["left"])
                return self.load(header.type.by_index[int(item["right"])], base)
            case "dereference_header_stack":
                raise self.fail("a header stands where a value is needed")
        return self._arithmetic(op, self._left(item), self.value(item["right"]))

    def _stack_next(self, item: JsonObject) -> str:
        name = str(item["value"])
        if name in self.layout.stacks:
            return f"P[{self.layout.stacks[name].next_slot}]"
        if name in self.layout.union_stacks:
            return f"P[{self.layout.union_stacks[name].next_slot}]"
        raise self.fail(f"unknown stack {name}")

    def _left(self, item: JsonObject) -> Source:
        if item.get("left") is None:
            return Source("0", 0)
        return self.value(item["left"])

    def _arithmetic(self, op: str, left: Source, right: Source) -> Source:
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
            case "/":
                return Source(f"({a} // {b})", left.bits)
            case "%":
                return Source(f"({a} % {b})", right.bits)
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
                return Source(f"({a} >> {b})", left.bits)
            case "two_comp_mod":
                return Source(f"two_comp_mod({a}, {b})")
            case "usat_cast":
                return Source(f"usat_cast({a}, {b})", constant)
            case "sat_cast":
                return Source(f"sat_cast({a}, {b})")
        raise self.fail(f"unsupported operator {op}")

    # Conditions

    def boolean(self, item: JsonObject) -> str:
        """Source of a condition: true or false in Python's sense, not always a bool."""
        item = unwrap(item)
        if "op" not in item:
            kind, content = item.get("type"), item.get("value")
            if kind == "bool":
                return "True" if content else "False"
            if kind == "header":
                return self.valid(self.layout.header(str(content), self.where))
            if kind == "header_union":
                return self.union_valid(str(content))
            return self.value(item).text
        op = str(item["op"])
        match op:
            case "and" | "or":
                return f"({self.boolean(item['left'])} {op} {self.boolean(item['right'])})"
            case "not":
                return f"(not {self.boolean(item['right'])})"
            case "d2b":
                return self.value(item["right"]).text
            case "valid":
                base, header = self.header_block(item["right"])
                return "True" if header.metadata else slot(base, 0)
            case "valid_union":
                return self._union_condition(unwrap(item["right"]))
            case "?":
                left, right = self.boolean(item["left"]), self.boolean(item["right"])
                return f"({left} if {self.boolean(item['cond'])} else {right})"
        if op in _COMPARISONS:
            return self._comparison(op, unwrap(item["left"]), unwrap(item["right"]))
        return self.value(item).text

    def _union_condition(self, item: JsonObject) -> str:
        base, members = self._union_of(item)
        if isinstance(base, int):
            return "(" + " or ".join(f"P[{self.layout.headers[m].base}]" for m in members) + ")"
        return f"any(P[number] for number in {base})"

    def _comparison(self, op: str, left: JsonObject, right: JsonObject) -> str:
        if self._is_header(left) and self._is_header(right):
            return self._headers_equal(op, left, right)
        if self._is_boolean(left) and self._is_boolean(right):
            return f"(bool({self.boolean(left)}) {op} bool({self.boolean(right)}))"
        if {left.get("type"), right.get("type")} == {"header_union"}:
            pairs = zip(
                self.layout.unions[str(left["value"])],
                self.layout.unions[str(right["value"])],
                strict=True,
            )
            tests = [
                self._headers_equal(
                    "==", {"type": "header", "value": a}, {"type": "header", "value": b}
                )
                for a, b in pairs
            ]
            joined = "(" + " and ".join(tests) + ")"
            return joined if op == "==" else f"(not {joined})"
        a, b = self.value(left), self.value(right)
        if b.text == "0" and op in ("==", "!="):  # the truth of an integer is cheaper to test
            return f"(not {a.text})" if op == "==" else a.text
        if b.text == "1" and a.bits == 1 and op in ("==", "!="):
            return a.text if op == "==" else f"(not {a.text})"
        return f"({a.text} {op} {b.text})"

    @staticmethod
    def _is_header(item: JsonObject) -> bool:
        return item.get("type") == "header" or item.get("op") in (
            "dereference_header_stack",
            "access_union_header",
        )

    @staticmethod
    def _is_boolean(item: JsonObject) -> bool:
        return item.get("type") == "bool" or item.get("op") in (
            *_COMPARISONS,
            "and",
            "or",
            "not",
            "d2b",
            "valid",
            "valid_union",
        )

    def _headers_equal(self, op: str, left: JsonObject, right: JsonObject) -> str:
        a, header = self.header_block(left)
        b, _ = self.header_block(right)
        n = header.type.slots
        a_end = a + n if isinstance(a, int) else f"{a} + {n}"
        b_end = b + n if isinstance(b, int) else f"{b} + {n}"
        if header.metadata:
            same = f"P[{a}:{a_end}] == P[{b}:{b_end}]"
        else:
            same = (
                f"(not {slot(a, 0)} and not {slot(b, 0)} or "
                f"{slot(a, 0)} and {slot(b, 0)} and P[{a}:{a_end}] == P[{b}:{b_end}])"
            )
        return f"({same})" if op == "==" else f"(not {same})"
