# SPDX-License-Identifier: Apache-2.0
"""Primitives that assign, add, remove and move whole headers."""

from collections.abc import Iterable

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.fields import field_at
from bmv2_lab.switch.header_refs import HeaderPlace, end_of, parse_hex, slot, unwrap
from bmv2_lab.switch.layout import HeaderInstance
from bmv2_lab.switch.runtime import Blocks
from bmv2_lab.switch.stores import HeaderFill, Line
from bmv2_lab.switch.writer import Writer


class HeaderPrimitives:
    """The part of the primitives that knows headers, stacks and unions."""

    def __init__(self, expressions: Expressions, writer: Writer) -> None:
        self.expressions = expressions
        self.layout = expressions.layout
        self.writer = writer

    def lines(self, lines: Iterable[Line]) -> None:
        """Write several lines."""
        for text in lines:
            self.writer.line(text)

    # Variable-length fields

    def op_assign_VL(self, target: JsonObject, source: JsonObject) -> None:
        self.writer.line(f"{self._varbit(target)} = {self._varbit(source)}")

    def _varbit(self, item: JsonObject) -> str:
        item = unwrap(item)
        if item.get("type") == "field":
            header, field = self.expressions.field_path(item["value"])
            base: int | str = header.base
        elif item.get("type") == "stack_field":
            stack = self.expressions.refs.stack(str(item["value"][0]))
            field = stack.type.fields[str(item["value"][1])]
            base = self.expressions.refs.last(stack).base
        else:
            base, header = self.expressions.header_block(item["left"])
            field = field_at(header, int(item["right"]))
        if not field.varbit:
            raise self.expressions.fail(f"{field.name} is no variable-length field")
        return slot(base, field.pieces[0].slot)

    # Whole headers

    def _settled(self, item: JsonObject) -> HeaderPlace:
        """The place of a header, computed once."""
        place = self.expressions.header_place(item)
        if isinstance(place.base, int):
            return place
        self.writer.line(f"b = {place.base}")
        return HeaderPlace("b", place.header, place.union)

    def _only_member(self, place: HeaderPlace) -> None:
        """The header has become valid: no other member of its union is."""
        if isinstance(place.union, str):
            self.writer.line(f"only_member(P, {place.union}, {place.base})")
            return
        for other in place.union:
            self.writer.line(f"P[{other}] = 0")

    def op_assign_header(self, target: JsonObject, source: JsonObject) -> None:
        origin, header = self.expressions.header_block(source)
        if not isinstance(origin, int):
            self.writer.line(f"s = {origin}")
            origin = "s"
        place = self._settled(target)
        if place.header.type.slots != header.type.slots or place.header.metadata != header.metadata:
            raise self.expressions.fail("a header is assigned to one of another type")
        to, n = place.base, header.type.slots
        copy = f"P[{to}:{end_of(to, n)}] = P[{origin}:{end_of(origin, n)}]"
        if header.metadata:
            self.writer.line(copy)
            return
        with self.writer.block(f"if {slot(origin, 0)}:"):
            self.writer.line(copy)
            self._only_member(place)
        with self.writer.block("else:"):
            self.writer.line(f"{slot(to, 0)} = 0")

    op_copy_header = op_assign_header

    def op_add_header(self, item: JsonObject) -> None:
        place = self._settled(item)
        base, header = place.base, place.header
        if header.metadata:
            return  # always valid
        block = header.type.empty()
        block[0] = 1
        fresh = self.writer.constant("fresh_", tuple(block))
        varbit = header.type.varbit_slot
        if isinstance(base, int) and isinstance(place.union, tuple) and varbit is None:
            self.writer.line(
                HeaderFill(
                    base=base,
                    fresh=fresh,
                    slots=header.type.slots,
                    length=header.type.fixed_bytes,
                    length_slot=self.layout.slots.packet_length,
                    invalidated=place.union,
                )
            )
            return
        with self.writer.block(f"if not {slot(base, 0)}:"):
            length = str(header.type.fixed_bytes)
            if varbit is not None:  # as in BMv2, one that this packet had before keeps its length
                self.writer.line(f"v = bytes(len({slot(base, varbit)}))")
                length += " + len(v)"
            self.writer.line(f"P[{base}:{end_of(base, header.type.slots)}] = {fresh}")
            if varbit is not None:
                self.writer.line(f"{slot(base, varbit)} = v")
            self.writer.line(f"P[{self.layout.slots.packet_length}] += {length}")
            self._only_member(place)

    def op_add_header_fast(self, item: JsonObject) -> None:
        place = self._settled(item)
        if not place.header.metadata:
            self.writer.line(f"{slot(place.base, 0)} = 1")
            self._only_member(place)

    def op_remove_header(self, item: JsonObject) -> None:
        if unwrap(item).get("type") == "header_union":
            for member in self.expressions.union(item).members:
                self._remove(self.expressions.refs.place_of(member))
        else:
            self._remove(self._settled(item))

    def _remove(self, place: HeaderPlace) -> None:
        header = place.header
        if header.metadata:
            return
        with self.writer.block(f"if {slot(place.base, 0)}:"):
            size = str(header.type.fixed_bytes)
            if header.type.varbit_slot is not None:
                size = f"{size} + len({slot(place.base, header.type.varbit_slot)})"
            self.writer.line(f"P[{self.layout.slots.packet_length}] -= {size}")
            self.writer.line(f"{slot(place.base, 0)} = 0")

    # Unions and stacks

    def _copy(self, targets: Iterable[HeaderInstance], sources: Iterable[HeaderInstance]) -> None:
        rows = tuple(
            (target.base, source.base, source.type.slots)
            for target, source in zip(targets, sources, strict=True)
        )
        self.writer.line(f"copy_blocks(P, {self.writer.constant('rows_', rows)})")

    def op_assign_union(self, target: JsonObject, source: JsonObject) -> None:
        a, b = self.expressions.union(target), self.expressions.union(source)
        if not isinstance(a.bases, str) and not isinstance(b.bases, str):
            self._copy(a.members, b.members)
            return
        sizes = tuple(member.type.slots for member in a.members)
        self.writer.line(f"copy_union(P, {a.bases}, {b.bases}, {sizes})")

    def op_assign_header_stack(self, target: JsonObject, source: JsonObject) -> None:
        a = self.expressions.refs.stack(str(unwrap(target)["value"]))
        b = self.expressions.refs.stack(str(unwrap(source)["value"]))
        self.writer.line(f"P[{a.next_slot}] = P[{b.next_slot}]")
        headers = self.layout.headers
        self._copy((headers[n] for n in a.elements), (headers[n] for n in b.elements))

    def op_assign_union_stack(self, target: JsonObject, source: JsonObject) -> None:
        a = self.expressions.refs.union_stack(str(unwrap(target)["value"]))
        b = self.expressions.refs.union_stack(str(unwrap(source)["value"]))
        self.writer.line(f"P[{a.next_slot}] = P[{b.next_slot}]")
        headers = self.layout.headers
        self._copy(
            (headers[name] for element in a.elements for name in element),
            (headers[name] for element in b.elements for name in element),
        )

    def _blocks(self, name: str) -> tuple[int, Blocks]:
        """The slot of a stack's next index, and where the members of its elements lie."""
        refs, headers = self.expressions.refs, self.layout.headers
        if name in self.layout.union_stacks:
            unions = refs.union_stack(name)
            members = (headers[member] for member in unions.elements[0])
            sizes = [member.type.slots for member in members]
            columns = zip(*refs.bases(unions), strict=True)
            return unions.next_slot, tuple(zip(columns, sizes, strict=True))
        stack = refs.stack(name)
        bases = tuple(headers[element].base for element in stack.elements)
        return stack.next_slot, ((bases, stack.type.slots),)

    def _move(self, stack: JsonObject, count: JsonObject, *, front: bool) -> None:
        name = str(unwrap(stack)["value"])
        number, blocks = self._blocks(name)
        item = unwrap(count)
        if item.get("type") == "hexstr":
            text = str(min(max(parse_hex(str(item["value"])), 0), len(blocks[0][0])))
        else:
            text = self.expressions.value(item).text
        rows = self.writer.constant("blocks_", blocks)
        how = f"front={front}, unions={name in self.layout.union_stacks}"
        self.writer.line(f"move_stack(P, {number}, {rows}, {text}, {how})")

    def op_push(self, stack: JsonObject, count: JsonObject) -> None:
        self._move(stack, count, front=True)

    def op_pop(self, stack: JsonObject, count: JsonObject) -> None:
        self._move(stack, count, front=False)
