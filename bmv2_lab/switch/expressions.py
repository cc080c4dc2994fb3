# SPDX-License-Identifier: Apache-2.0
"""BMv2 expressions as Python source.

BMv2 computes with unlimited precision and cuts a value to its width only when it is stored; Python
integers do the same. Each piece of source carries an upper bound in bits where one is known, so
that a store masks only where it must.
"""

from collections.abc import Callable, Sequence
from typing import Any

from bmv2_lab.switch.containers import FieldLayout, JsonObject
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.fields import Source, arithmetic, field_at, load_field, store_field
from bmv2_lab.switch.header_refs import (
    HeaderPlace,
    HeaderRefs,
    UnionPlace,
    end_of,
    parse_hex,
    slot,
    unwrap,
)
from bmv2_lab.switch.layout import HeaderInstance, PhvLayout
from bmv2_lab.switch.stores import Line

# Entry of a table as the generated code sees it: [function, action index, hit, packets, bytes,
# argument...]; see tables.py.
ENTRY_ARGUMENTS = 5


# BMv2 counts the last index of an empty stack in 64 bits.
EMPTY_STACK_INDEX = (1 << 64) - 1


_COMPARISONS = {"==": "==", "!=": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}


class Expressions:
    """Translates the expressions of one program.

    `locals_bits` gives the widths of the runtime data of the action being translated; its values
    are read from the entry `e`.
    """

    def __init__(
        self, layout: PhvLayout, registers: dict[str, str], register_arrays: list[JsonObject]
    ) -> None:
        self.layout = layout
        self.refs = HeaderRefs(layout, self.fail)
        self.registers = registers  # array name -> Python name of its list or object
        self.register_arrays = {str(item["name"]): item for item in register_arrays}
        self.local_bits: list[int] | None = None
        self.local_source: Callable[[int], Source] = self._argument
        self.where = "program"

    def fail(self, message: str) -> ProgramError:
        """A ProgramError at the JSON object being translated."""
        return ProgramError(self.where, message)

    # Fields

    def load(self, field: FieldLayout, base: int | str, *, raw: bool = False) -> Source:
        """Source of a field's value; its block starts at `base`, `raw` as in `load_field`."""
        return load_field(field, base, raw=raw)

    def store(self, field: FieldLayout, base: int | str, value: Source) -> list[Line]:
        """Lines that store a value into a field, cut to its width."""
        if field.varbit:
            raise self.fail(f"field {field.name} has no fixed width; assign_VL is needed")
        return store_field(field, base, value)

    def field_path(self, path: Sequence[str]) -> tuple[HeaderInstance, FieldLayout]:
        """Instance and layout of a [header, field] pair."""
        return self.layout.field(path, self.where)

    def load_path(self, path: Sequence[Any], *, raw: bool = False) -> Source:
        """Source of the field at a [header, field] pair; `$valid$` is its header's validity."""
        header_name, field_name = path
        if isinstance(header_name, dict):  # p4c 1.2.4 puts an element of a stack here
            base, header = self.header_block(header_name)
            if field_name == "$valid$":
                return Source(slot(base, 0), 1)
            return self.load(self.layout.field((header.name, field_name), self.where)[1], base)
        if field_name == "$valid$":
            if header_name in self.layout.unions:
                union = self.refs.named_union(header_name)
                return Source(f"(1 if {self.union_valid(union)} else 0)", 1)
            return Source(self.valid(self.layout.header(header_name, self.where)), 1)
        header, field = self.field_path(path)
        return self.load(field, header.base, raw=raw)

    # Headers

    def valid(self, header: HeaderInstance) -> str:
        """Source that is truthy when the header is valid."""
        return "1" if header.metadata else f"P[{header.base}]"

    def union_valid(self, union: UnionPlace) -> str:
        """Source of the validity of a header union."""
        if isinstance(union.bases, str):
            return f"any(P[number] for number in {union.bases})"
        return "(" + (" or ".join(f"P[{base}]" for base in union.bases) or "False") + ")"

    def _index(self, item: JsonObject) -> tuple[str, int | None]:
        source = self.value(item)
        return source.text, source.bits

    def union(self, item: JsonObject) -> UnionPlace:
        """The header union that an expression means."""
        return self.refs.union(item, self._index)

    def header_place(self, item: JsonObject) -> HeaderPlace:
        """The header that an expression means."""
        item = unwrap(item)
        if item.get("type") == "header":
            return self.refs.place_of(self.layout.header(str(item["value"]), self.where))
        op = item.get("op")
        if op in ("dereference_header_stack", "dereference_stack"):
            stack = self.refs.stack(str(unwrap(item["left"])["value"]))
            return self.refs.element(stack, item["right"], self._index)
        if op == "access_union_header":
            return self.refs.member(self.union(item["left"]), int(item["right"]))
        if op == "?":
            left = self.header_place(item["left"])
            right = self.header_place(item["right"])
            condition = self.boolean(item["cond"])
            return HeaderPlace(f"({left.base} if {condition} else {right.base})", left.header)
        raise self.fail(f"unsupported header expression {op or item.get('type')}")

    def header_block(self, item: JsonObject) -> tuple[int | str, HeaderInstance]:
        """First slot of a header expression, and an instance of the same type."""
        place = self.header_place(item)
        return place.base, place.header

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
        if kind == "field" and isinstance(content, list):
            return self.load_path(content)
        if kind in ("local", "runtime_data"):
            return self._local(int(str(content)))
        if kind == "bool":
            return Source("1" if content else "0", 1)
        if kind == "stack_field" and isinstance(content, list):
            stack = self.refs.stack(str(content[0]))
            return self.load(stack.type.fields[str(content[1])], self.refs.last(stack).base)
        if kind == "register" and isinstance(content, list):
            return self._register(str(content[0]), content[1])
        if kind in ("header", "header_union"):
            return Source(f"(1 if {self.boolean(item)} else 0)", 1)
        raise self.fail(f"unsupported value of type {kind}")

    def _register(self, name: str, index: JsonObject) -> Source:
        """A cell of a register; 0 outside of the array."""
        item = self.register_arrays.get(name)
        if item is None:
            raise self.fail(f"unknown register {name}")
        python, size, bits = self.registers[name], int(item["size"]), int(item["bitwidth"])
        value = self.value(index)
        if value.text.isdigit():
            if int(value.text) >= size:
                raise self.fail(f"index {value.text} is outside of register {name}")
            return Source(f"{python}[{value.text}]", bits)
        return Source(f"({python}[q] if 0 <= (q := {value.text}) < {size} else 0)", bits)

    def _local(self, number: int) -> Source:
        if self.local_bits is None or not 0 <= number < len(self.local_bits):
            raise self.fail(f"no runtime data {number} here")
        return self.local_source(number)

    def _argument(self, number: int) -> Source:
        bits = self.local_bits[number] if self.local_bits is not None else None
        return Source(f"e[{ENTRY_ARGUMENTS + number}]", bits)

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
                if op == "size_stack":
                    return Source(stack, 31)
                return Source(f"({stack} - 1 & {EMPTY_STACK_INDEX:#x})", 64)
            case "access_field":
                base, header = self.header_block(item["left"])
                return self.load(field_at(header, int(item["right"])), base)
            case "dereference_header_stack" | "dereference_stack" | "access_union_header":
                raise self.fail("a header stands where a value is needed")
        found = arithmetic(op, self._left(item), self.value(item["right"]))
        if found is None:
            raise self.fail(f"unsupported operator {op}")
        return found

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
                return self.union_valid(self.union(item))
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
                return self.union_valid(self.union(item["right"]))
            case "?":
                left, right = self.boolean(item["left"]), self.boolean(item["right"])
                return f"({left} if {self.boolean(item['cond'])} else {right})"
        if op in _COMPARISONS:
            return self._comparison(op, unwrap(item["left"]), unwrap(item["right"]))
        return self.value(item).text

    def _comparison(self, op: str, left: JsonObject, right: JsonObject) -> str:
        if self._is_header(left) and self._is_header(right):
            return self._headers_equal(op, left, right)
        if self._is_boolean(left) and self._is_boolean(right):
            return f"(bool({self.boolean(left)}) {op} bool({self.boolean(right)}))"
        if self._is_union(left) and self._is_union(right):
            return self._unions_equal(op, left, right)
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
            "dereference_stack",
            "access_union_header",
        )

    @staticmethod
    def _is_union(item: JsonObject) -> bool:
        return item.get("type") == "header_union" or item.get("op") == "dereference_union_stack"

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
        """Equal if both are valid and all fields are the same, as in BMv2."""
        a, header = self.header_block(left)
        b, _ = self.header_block(right)
        size = header.type.slots
        same = f"P[{a}:{end_of(a, size)}] == P[{b}:{end_of(b, size)}]"
        if not header.metadata:
            same = f"{slot(a, 0)} and {slot(b, 0)} and {same}"
        return f"({same})" if op == "==" else f"(not ({same}))"

    def _unions_equal(self, op: str, left: JsonObject, right: JsonObject) -> str:
        """Equal if the same member is valid in both, with the same fields, as in BMv2."""
        a, b = self.union(left), self.union(right)
        sizes = tuple(member.type.slots for member in a.members)
        same = f"same_union(P, {a.bases}, {b.bases}, {sizes})"
        return same if op == "==" else f"(not {same})"
