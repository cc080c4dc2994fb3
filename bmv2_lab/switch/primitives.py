# SPDX-License-Identifier: Apache-2.0
"""Action primitives of simple_switch as lines of Python.

One method per primitive, found by its JSON name; an unknown one is a ProgramError when the program
is loaded, never a surprise at the first packet.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from bmv2_lab.switch import layout as slots
from bmv2_lab.switch.calculations import Calculations
from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.expressions import Expressions, Source, parse_hex, slot, unwrap
from bmv2_lab.switch.layout import HeaderInstance
from bmv2_lab.switch.writer import ContainerStore, Writer

DROP_PORT = 511


class Primitives:
    """Writes the body of actions."""

    def __init__(
        self,
        document: JsonObject,
        expressions: Expressions,
        calculations: Calculations,
        writer: Writer,
    ) -> None:
        self.expressions = expressions
        self.calculations = calculations
        self.layout = expressions.layout
        self.writer = writer
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
        try:
            method(*item["parameters"])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ProgramError(
                self.expressions.where, f"primitive {op} has unexpected parameters: {error!r}"
            ) from error

    def _with_jumps(self, primitives: list[JsonObject]) -> None:
        """Basic blocks between jump targets, chosen by `pc`."""
        targets = {0, len(primitives)}
        for number, item in enumerate(primitives):
            if str(item["op"]).startswith("_jump"):
                targets.add(self._jump_target(item))
                targets.add(number + 1)
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

    def _lines(self, lines: Iterable[str | ContainerStore]) -> None:
        for text in lines:
            self.writer.line(text)

    def _assign(self, target: JsonObject, value: Source) -> None:
        """Store into a field, a stack element's field or a register cell."""
        target = unwrap(target)
        kind = target.get("type")
        if kind == "field":
            header, field = self.expressions.field_path(target["value"])
            self._lines(self.expressions.store(field, header.base, value))
        elif target.get("op") == "access_field":
            base, header = self.expressions.header_block(target["left"])
            field = header.type.by_index[int(target["right"])]
            if not isinstance(base, int):
                self.writer.line(f"b = {base}")
                base = "b"
            self._lines(self.expressions.store(field, base, value))
        elif kind == "stack_field":
            stack = self.layout.stacks[str(target["value"][0])]
            field = stack.type.fields[str(target["value"][1])]
            self.writer.line(f"b = {stack.base} + {stack.type.slots} * (P[{stack.next_slot}] - 1)")
            self._lines(self.expressions.store(field, "b", value))
        else:
            raise self.expressions.fail(f"cannot assign to {kind or target.get('op')}")

    def _intrinsic(self, name: str) -> int:
        number = self.layout.intrinsic(name)
        return self.layout.slots.sink if number is None else number

    def _index(self, array: JsonObject, item: JsonObject) -> tuple[str, int, str | None]:
        """(array name, size, index source or None when a constant index lies outside)."""
        name = str(array["value"])
        known = self.arrays.get(name)
        if known is None:
            raise self.expressions.fail(f"unknown array {name}")
        size = int(known["size"])
        value = self.expressions.value(item)
        if value.text.isdigit():
            return name, size, value.text if int(value.text) < size else None
        return name, size, value.text

    def _guarded(self, index: str, size: int, use: Callable[[str], None]) -> None:
        """Write `use(index)`; an index outside of the array does nothing, as in BMv2."""
        if index.isdigit():
            use(index)
            return
        self.writer.line(f"i = {index}")
        with self.writer.block(f"if i < {size}:"):
            use("i")

    # Assignments

    def op_assign(self, target: JsonObject, source: JsonObject) -> None:
        self._assign(target, self.expressions.value(source))

    op_modify_field = op_assign
    op_set = op_assign

    def op_assign_VL(self, target: JsonObject, source: JsonObject) -> None:
        self.writer.line(f"{self._varbit(target)} = {self._varbit(source)}")

    def _varbit(self, item: JsonObject) -> str:
        item = unwrap(item)
        if item.get("type") == "field":
            header, field = self.expressions.field_path(item["value"])
            base: int | str = header.base
        else:
            base, header = self.expressions.header_block(item["left"])
            field = header.type.by_index[int(item["right"])]
        if not field.varbit:
            raise self.expressions.fail(f"{field.name} is no variable-length field")
        return slot(base, field.pieces[0].slot)

    def op_assign_header(self, target: JsonObject, source: JsonObject) -> None:
        to, header = self.expressions.header_block(target)
        origin, _ = self.expressions.header_block(source)
        n = header.type.slots
        if header.metadata:
            self.writer.line(f"P[{to}:{to} + {n}] = P[{origin}:{origin} + {n}]")
            return
        with self.writer.block(f"if {slot(origin, 0)}:"):
            self.writer.line(f"P[{to}:{to} + {n}] = P[{origin}:{origin} + {n}]")
            self._only_member(header)
        with self.writer.block("else:"):
            self.writer.line(f"{slot(to, 0)} = 0")

    op_copy_header = op_assign_header

    def op_assign_union(self, target: JsonObject, source: JsonObject) -> None:
        pairs = zip(
            self.layout.unions[str(target["value"])],
            self.layout.unions[str(source["value"])],
            strict=True,
        )
        for to, origin in pairs:
            a, b = self.layout.headers[to], self.layout.headers[origin]
            n = a.type.slots
            self.writer.line(f"P[{a.base}:{a.base + n}] = P[{b.base}:{b.base + n}]")

    def op_assign_header_stack(self, target: JsonObject, source: JsonObject) -> None:
        a = self.layout.stacks[str(unwrap(target)["value"])]
        b = self.layout.stacks[str(unwrap(source)["value"])]
        n = 1 + a.depth * a.type.slots
        self.writer.line(f"P[{a.next_slot}:{a.next_slot + n}] = P[{b.next_slot}:{b.next_slot + n}]")

    def op_assign_union_stack(self, target: JsonObject, source: JsonObject) -> None:
        a = self.layout.union_stacks[str(unwrap(target)["value"])]
        b = self.layout.union_stacks[str(unwrap(source)["value"])]
        self.writer.line(f"P[{a.next_slot}] = P[{b.next_slot}]")
        for to_members, from_members in zip(a.elements, b.elements, strict=True):
            for to, origin in zip(to_members, from_members, strict=True):
                x, y = self.layout.headers[to], self.layout.headers[origin]
                n = x.type.slots
                self.writer.line(f"P[{x.base}:{x.base + n}] = P[{y.base}:{y.base + n}]")

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

    # Headers and stacks

    def _size(self, base: int | str, header: HeaderInstance) -> str:
        """Source of the length of a header on the wire in bytes."""
        if header.type.varbit_slot is None:
            return str(header.type.fixed_bytes)
        return f"{header.type.fixed_bytes} + len({slot(base, header.type.varbit_slot)})"

    def _only_member(self, header: HeaderInstance) -> None:
        for sibling in header.siblings:
            self.writer.line(f"P[{self.layout.headers[sibling].base}] = 0")

    def op_add_header(self, item: JsonObject) -> None:
        base, header = self.expressions.header_block(item)
        block = header.type.empty()
        block[0] = 1
        fresh = self.writer.constant("fresh_", tuple(block))
        with self.writer.block(f"if not {slot(base, 0)}:"):
            self.writer.line(f"P[{base}:{base} + {header.type.slots}] = {fresh}")
            self.writer.line(f"P[{self.layout.slots.packet_length}] += {header.type.fixed_bytes}")
            self._only_member(header)

    def op_add_header_fast(self, item: JsonObject) -> None:
        base, _ = self.expressions.header_block(item)
        self.writer.line(f"{slot(base, 0)} = 1")

    def op_remove_header(self, item: JsonObject) -> None:
        item = unwrap(item)
        if item.get("type") == "header_union":
            for member in self.layout.unions[str(item["value"])]:
                self.op_remove_header({"type": "header", "value": member})
            return
        base, header = self.expressions.header_block(item)
        with self.writer.block(f"if {slot(base, 0)}:"):
            size = self._size(base, header)
            self.writer.line(f"P[{self.layout.slots.packet_length}] -= {size}")
            self.writer.line(f"{slot(base, 0)} = 0")

    def _shift(self, stack_item: JsonObject, count_item: JsonObject, *, front: bool) -> None:
        """push_front / pop_front of P4_16: the whole stack moves, new elements are invalid."""
        stack = self.layout.stacks.get(str(unwrap(stack_item)["value"]))
        if stack is None:
            raise self.expressions.fail("push and pop of header union stacks are not supported")
        count = unwrap(count_item)
        if count.get("type") != "hexstr":
            raise self.expressions.fail("push or pop by a count that is not constant")
        n = min(parse_hex(str(count["value"])), stack.depth)
        width, end = stack.type.slots, stack.base + stack.depth * stack.type.slots
        empty = self.writer.constant("empty_", tuple(stack.type.empty() * n))
        number = stack.next_slot
        if front:
            self.writer.line(
                f"P[{stack.base}:{end}] = {empty} + tuple(P[{stack.base}:{end - n * width}])"
            )
            self.writer.line(f"P[{number}] = min(P[{number}] + {n}, {stack.depth})")
        else:
            self.writer.line(
                f"P[{stack.base}:{end}] = tuple(P[{stack.base + n * width}:{end}]) + {empty}"
            )
            self.writer.line(f"P[{number}] = max(P[{number}] - {n}, 0)")

    def op_push(self, stack: JsonObject, count: JsonObject) -> None:
        self._shift(stack, count, front=True)

    def op_pop(self, stack: JsonObject, count: JsonObject) -> None:
        self._shift(stack, count, front=False)

    # Stateful objects

    def op_register_read(self, target: JsonObject, array: JsonObject, index: JsonObject) -> None:
        name, size, number = self._index(array, index)
        if number is None:
            return
        python = self.expressions.registers[name]
        bits = int(self.arrays[name]["bitwidth"])
        self._guarded(number, size, lambda i: self._assign(target, Source(f"{python}[{i}]", bits)))

    def op_register_write(self, array: JsonObject, index: JsonObject, source: JsonObject) -> None:
        name, size, number = self._index(array, index)
        if number is None:
            return
        python = self.expressions.registers[name]
        bits = int(self.arrays[name]["bitwidth"])
        value = self.expressions.value(source)
        fits = value.bits is not None and value.bits <= bits
        text = value.text if fits else f"{value.text} & {(1 << bits) - 1:#x}"
        self._guarded(number, size, lambda i: self.writer.line(f"{python}[{i}] = {text}"))

    def op_count(self, array: JsonObject, index: JsonObject) -> None:
        name, size, number = self._index(array, index)
        if number is None:
            return
        python = self.expressions.registers[name]
        length = self.layout.slots.ingress_length
        self._guarded(
            number,
            size,
            lambda i: self._lines(
                [f"{python}_packets[{i}] += 1", f"{python}_bytes[{i}] += P[{length}]"]
            ),
        )

    def op_execute_meter(self, array: JsonObject, index: JsonObject, target: JsonObject) -> None:
        name, size, number = self._index(array, index)
        if number is None:
            return
        python = self.expressions.registers[name]
        self._guarded(
            number,
            size,
            lambda i: self._assign(target, Source(f"{python}.execute({i}, P)", 2)),
        )

    # Packet operations

    def op_mark_to_drop(self, *_: JsonObject) -> None:
        self.writer.line(f"P[{self._intrinsic('standard_metadata.egress_spec')}] = {DROP_PORT}")
        group = self.layout.intrinsic("intrinsic_metadata.mcast_grp")
        if group is not None:
            self.writer.line(f"P[{group}] = 0")

    op_drop = op_mark_to_drop

    def _request(self, flag: int, number: int, value: JsonObject, mask: int = 0xFFFF) -> None:
        source = self.expressions.value(value)
        fits = source.bits is not None and source.bits <= mask.bit_length()
        text = source.text if fits else f"{source.text} & {mask:#x}"
        self.writer.line(f"P[{number}] = {text}")
        self.writer.line(f"P[{self.layout.slots.flags}] |= {flag}")

    def op_clone_ingress_pkt_to_egress(self, session: JsonObject, fields: JsonObject) -> None:
        place = self.layout.slots
        self._request(slots.FLAG_CLONE, place.clone_session, session, 0x7FFF)
        self.writer.line(f"P[{place.clone_list}] = {self.expressions.value(fields).text}")

    op_clone_egress_pkt_to_egress = op_clone_ingress_pkt_to_egress

    def op_resubmit(self, fields: JsonObject) -> None:
        self._request(slots.FLAG_RESUBMIT, self.layout.slots.resubmit_list, fields)

    def op_recirculate(self, fields: JsonObject) -> None:
        self._request(slots.FLAG_RECIRCULATE, self.layout.slots.recirculate_list, fields)

    def op_generate_digest(self, _receiver: JsonObject, learn: JsonObject) -> None:
        self._request(slots.FLAG_LEARN, self.layout.slots.learn_list, learn)

    def op_truncate(self, length: JsonObject) -> None:
        number = self.layout.slots.truncate
        text = self.expressions.value(length).text
        flags = self.layout.slots.flags
        with self.writer.block(f"if P[{flags}] & {slots.FLAG_TRUNCATE}:"):
            self.writer.line(f"P[{number}] = min(P[{number}], {text})")
        with self.writer.block("else:"):
            self.writer.line(f"P[{number}] = {text}")
            self.writer.line(f"P[{flags}] |= {slots.FLAG_TRUNCATE}")

    def op_exit(self) -> None:
        self.writer.line(f"P[{self.layout.slots.flags}] |= {slots.FLAG_EXIT}")

    def op_no_op(self, *_: JsonObject) -> None:
        pass

    def op_modify_field_with_hash_based_offset(
        self, target: JsonObject, base: JsonObject, calculation: JsonObject, size: JsonObject
    ) -> None:
        name = str(calculation["value"])
        function = self.calculations.named(name, self.expressions.where)
        low, count = self.expressions.value(base), self.expressions.value(size)
        if count.text.isdigit():
            n = int(count.text) or 1
            text = f"{function}(P) % {n}"
            bits: int | None = (n - 1).bit_length()
        else:
            text, bits = f"{function}(P) % ({count.text} or 1)", count.bits
        if low.text != "0":
            text = f"{text} + {low.text}"
            both = bits is not None and low.bits is not None
            bits = max(bits or 0, low.bits or 0) + 1 if both else None
        self._assign(target, Source(f"({text})", bits))

    def op_modify_field_rng_uniform(
        self, target: JsonObject, low: JsonObject, high: JsonObject
    ) -> None:
        a, b = self.expressions.value(low), self.expressions.value(high)
        with self.writer.block(f"if {a.text} <= {b.text}:"):
            self._assign(target, Source(f"random_between({a.text}, {b.text})", b.bits))

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
