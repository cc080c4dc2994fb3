# SPDX-License-Identifier: Apache-2.0
"""Action primitives of simple_switch as lines of Python.

One method per primitive, found by its JSON name; an unknown one is a ProgramError when the program
is loaded, never a surprise at the first packet.
"""

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

from bmv2_lab.switch import layout as slots
from bmv2_lab.switch.calculations import Calculations
from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.document import reading
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.fields import Source, field_at
from bmv2_lab.switch.header_refs import parse_hex, unwrap
from bmv2_lab.switch.packet_primitives import UINT64, PacketPrimitives
from bmv2_lab.switch.writer import Writer


class Primitives(PacketPrimitives):
    """Writes the body of actions."""

    def __init__(
        self,
        document: JsonObject,
        expressions: Expressions,
        calculations: Calculations,
        writer: Writer,
    ) -> None:
        super().__init__(expressions, writer)
        self.calculations = calculations
        self.arrays: dict[str, JsonObject] = {
            str(item["name"]): item
            for kind in ("register_arrays", "counter_arrays", "meter_arrays")
            for item in document.get(kind, [])
        }

    # Entry points

    def body(self, primitives: list[JsonObject], where: str) -> None:
        """The lines of an action body, in order, with its jumps resolved."""
        self.expressions.where = where
        if any(str(item["op"]).startswith("_jump") for item in primitives):
            self._with_jumps(primitives)
            return
        for item in primitives:
            self.one(item)

    def one(self, item: JsonObject) -> None:
        """One primitive call."""
        op = str(item["op"])
        method: Callable[..., None] | None = getattr(self, f"op_{op}", None)
        if method is None:
            raise self.expressions.fail(f"unsupported primitive {op}")
        parameters = item["parameters"]
        accepted = inspect.signature(method).parameters.values()
        least = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in accepted)
        most = math.inf if any(p.kind is p.VAR_POSITIONAL for p in accepted) else len(accepted)
        if not isinstance(parameters, list) or not least <= len(parameters) <= most:
            raise self.expressions.fail(f"primitive {op} takes other parameters")
        where = self.expressions.where
        with reading(f"{where}: primitive {op}"):
            method(*parameters)

    def _with_jumps(self, primitives: list[JsonObject]) -> None:
        """Basic blocks between jump targets, chosen by `pc`."""
        targets = {0, len(primitives)}
        for number, item in enumerate(primitives):
            if str(item["op"]).startswith("_jump"):
                target = self._jump_target(item)
                if not number < target <= len(primitives):
                    raise self.expressions.fail(f"a jump from {number} to {target}")
                targets |= {target, number + 1}
        starts = sorted(targets)
        writer = self.writer
        writer.line("pc = 0")
        with writer.block("while True:"):
            for begin, end in itertools.pairwise(starts):
                with writer.block(f"if pc == {begin}:"):
                    for item in primitives[begin:end]:
                        op = str(item["op"])
                        if op == "_jump":
                            writer.line(f"pc = {self._jump_target(item)}; continue")
                        elif op == "_jump_if_zero":
                            condition = self.expressions.value(item["parameters"][0]).text
                            with writer.block(f"if not {condition}:"):
                                writer.line(f"pc = {self._jump_target(item)}; continue")
                        else:
                            self.one(item)
                    writer.line(f"pc = {end}")
            writer.line("break")

    def _jump_target(self, item: JsonObject) -> int:
        parameter = unwrap(item["parameters"][-1])
        if parameter.get("type") != "hexstr":
            raise self.expressions.fail("a jump target that is not constant")
        return parse_hex(str(parameter["value"]))

    # Helpers

    def _assign(self, target: JsonObject, value: Source) -> None:
        """Store into a field, a stack element's field or a register cell."""
        target = unwrap(target)
        kind = target.get("type")
        base: int | str
        if kind == "field":
            header, field = self.expressions.field_path(target["value"])
            base = header.base
        elif target.get("op") == "access_field":
            base, header = self.expressions.header_block(target["left"])
            field = field_at(header, int(target["right"]))
        elif kind == "stack_field":
            stack = self.expressions.refs.stack(str(target["value"][0]))
            field = stack.type.fields[str(target["value"][1])]
            base = self.expressions.refs.last(stack).base
        elif kind == "register":
            self._register_write(str(target["value"][0]), target["value"][1], value)
            return
        else:
            raise self.expressions.fail(f"cannot assign to {kind or target.get('op')}")
        if not isinstance(base, int):
            self.writer.line(f"b = {base}")
            base = "b"
        self.lines(self.expressions.store(field, base, value))

    def _array(self, array: JsonObject) -> tuple[str, JsonObject]:
        name = str(array["value"])
        if name not in self.arrays:
            raise self.expressions.fail(f"unknown array {name}")
        return self.expressions.registers[name], self.arrays[name]

    def _at(self, item: JsonObject, size: int, use: Callable[[str], None]) -> None:
        """Write `use(index)`; an index outside of the array does nothing, as in BMv2."""
        value = self.expressions.value(item)
        if value.text.isdigit():
            if int(value.text) < size:
                use(value.text)
            return
        self.writer.line(f"i = {value.text}")
        low = "" if value.bits is not None else "0 <= "
        with self.writer.block(f"if {low}i < {size}:"):
            use("i")

    # Assignments

    def op_assign(self, target: JsonObject, source: JsonObject) -> None:
        self._assign(target, self.expressions.value(source))

    op_modify_field = op_assign
    op_set = op_assign

    # P4_14 arithmetic, still used by older JSON

    def _binary(self, op: str, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._assign(target, self.expressions.value({"op": op, "left": a, "right": b}))

    def op_add(self, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._binary("+", target, a, b)

    def op_subtract(self, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._binary("-", target, a, b)

    def op_bit_and(self, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._binary("&", target, a, b)

    def op_bit_or(self, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._binary("|", target, a, b)

    def op_bit_xor(self, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._binary("^", target, a, b)

    def op_shift_left(self, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._binary("<<", target, a, b)

    def op_shift_right(self, target: JsonObject, a: JsonObject, b: JsonObject) -> None:
        self._binary(">>", target, a, b)

    def op_add_to_field(self, target: JsonObject, a: JsonObject) -> None:
        self._binary("+", target, target, a)

    def op_subtract_from_field(self, target: JsonObject, a: JsonObject) -> None:
        self._binary("-", target, target, a)

    # Stateful objects

    def op_register_read(self, target: JsonObject, array: JsonObject, index: JsonObject) -> None:
        python, item = self._array(array)
        bits = int(item["bitwidth"])
        self._at(
            index,
            int(item["size"]),
            lambda i: self._assign(target, Source(f"{python}[{i}]", bits)),
        )

    def op_register_write(self, array: JsonObject, index: JsonObject, source: JsonObject) -> None:
        self._register_write(str(array["value"]), index, self.expressions.value(source))

    def _register_write(self, name: str, index: JsonObject, value: Source) -> None:
        python, item = self._array({"value": name})
        bits = int(item["bitwidth"])
        fits = value.bits is not None and value.bits <= bits
        text = value.text if fits else f"{value.text} & {(1 << bits) - 1:#x}"
        self._at(index, int(item["size"]), lambda i: self.writer.line(f"{python}[{i}] = {text}"))

    def op_count(self, array: JsonObject, index: JsonObject) -> None:
        python, item = self._array(array)
        length = self.layout.slots.ingress_length
        self._at(
            index,
            int(item["size"]),
            lambda i: self.lines(
                [f"{python}_packets[{i}] += 1", f"{python}_bytes[{i}] += P[{length}]"]
            ),
        )

    def op_execute_meter(self, array: JsonObject, index: JsonObject, target: JsonObject) -> None:
        python, item = self._array(array)
        self._at(
            index,
            int(item["size"]),
            lambda i: self._assign(target, Source(f"{python}.execute({i}, P)", 2)),
        )

    def op_exit(self) -> None:
        self.writer.line(f"P[{self.layout.slots.flags}] |= {slots.FLAG_EXIT}")

    def op_no_op(self, *_: JsonObject) -> None:
        pass

    def op_modify_field_with_hash_based_offset(
        self, target: JsonObject, base: JsonObject, calculation: JsonObject, size: JsonObject
    ) -> None:
        function = self.calculations.named(str(calculation["value"]), self.expressions.where)
        low, count = self.expressions.value(base), self.expressions.value(size)
        bits = 64
        if count.text.isdigit():
            n = int(count.text) & UINT64 or 1
            text, bits = f"{function}(P) % {n}", (n - 1).bit_length()
        else:
            text = f"{function}(P) % ({self._cut(size, UINT64)} or 1)"
            if count.bits is not None and count.bits < 64:
                bits = count.bits
        if low.text != "0":
            text = f"{text} + {self._cut(base, UINT64)}"
            bits = max(bits, min(low.bits if low.bits is not None else 64, 64)) + 1
        self._assign(target, Source(f"({text})", bits))

    def op_modify_field_rng_uniform(
        self, target: JsonObject, low: JsonObject, high: JsonObject
    ) -> None:
        a, b = self._cut(low, UINT64), self._cut(high, UINT64)
        with self.writer.block(f"if {a} <= {b}:"):
            self._assign(target, Source(f"random_between({a}, {b})", 64))

    # Debugging

    def op_assert(self, condition: JsonObject) -> None:
        self._check("assert", condition)

    def op_assume(self, condition: JsonObject) -> None:
        self._check("assume", condition)

    def _check(self, kind: str, condition: JsonObject) -> None:
        with self.writer.block(f"if not {self.expressions.boolean(condition)}:"):
            self.writer.line(f"raise AssertionFailed({f'{kind} in {self.expressions.where}'!r})")

    def op_log_msg(self, text: JsonObject, values: JsonObject | None = None) -> None:
        items: list[Any] = values["value"] if values else []
        arguments = ", ".join(self.expressions.value(item).text for item in items)
        self.writer.line(f"log_message({str(text['value'])!r}, ({arguments}{',' * bool(items)}))")
