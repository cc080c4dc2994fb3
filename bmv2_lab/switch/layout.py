# SPDX-License-Identifier: Apache-2.0
"""Where each header field lives in the flat list `P` that stands for one packet.

After one mark come the metadata fields, one slot each, then the registers of the packet itself,
then one block per header: slot 0 is its validity, the others are *containers*, machine words of 1,
2, 4 or 8 bytes that together cover the header in wire order. A whole header is so read by one
`struct.unpack_from` and one slice assignment, and written by one `struct.pack`; fields narrower
than their container are shifted out where they are used. A varbit field is one slot of bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from bmv2_lab.switch.containers import (
    FieldLayout,
    JsonObject,
    TypeLayout,
    header_layout,
    metadata_layout,
)
from bmv2_lab.switch.document import reading
from bmv2_lab.switch.errors import ProgramError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderInstance:
    """A header or metadata instance at its place in `P`."""

    name: str
    base: int
    type: TypeLayout
    metadata: bool
    siblings: tuple[str, ...] = ()  # other members of the same header union


@dataclass(frozen=True, slots=True, kw_only=True)
class StackInstance:
    """A header stack: elements in adjacent blocks, and the slot of its next free index."""

    name: str
    next_slot: int
    base: int
    type: TypeLayout
    depth: int
    elements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionStackInstance:
    """A stack of header unions; each element is the tuple of its member header names."""

    name: str
    next_slot: int
    elements: tuple[tuple[str, ...], ...]
    member_names: tuple[str, ...]


class Slots:
    """The registers of a packet that are no P4 fields, as slot numbers after the metadata."""

    def __init__(self, first: int) -> None:
        self.flags = first
        self.packet_length = first + 1
        self.ingress_length = first + 2
        self.frame = first + 3
        self.payload = first + 4  # offset in the frame of the first byte that was not parsed
        self.clone_session = first + 5
        self.clone_list = first + 6
        self.learn_list = first + 7
        self.resubmit_list = first + 8
        self.recirculate_list = first + 9
        self.truncate = first + 10
        self.parser_error = first + 11
        self.checksum_error = first + 12
        self.sink = first + 13  # written when a program lacks the field that would be written
        self.rounds = first + 14  # times that the packet has started over by recirculation
        self.end = first + 15


GENERATION_SLOT = 0
"""Holds a mark of the loaded program, so that packets of an earlier one are recognised."""
METADATA_START = 1

FLAG_CLONE = 1
FLAG_LEARN = 2
FLAG_RESUBMIT = 4
FLAG_RECIRCULATE = 8
FLAG_TRUNCATE = 16
FLAG_EXIT = 32


class PhvLayout:
    """The slots of every field, header and stack of one program."""

    def __init__(self, document: JsonObject) -> None:
        with reading("header_types"):
            types = {str(item["name"]): item for item in document["header_types"]}
        self.headers: dict[str, HeaderInstance] = {}
        self.stacks: dict[str, StackInstance] = {}
        self.unions: dict[str, tuple[str, ...]] = {}
        self.union_members: dict[str, tuple[str, ...]] = {}
        self.union_stacks: dict[str, UnionStackInstance] = {}
        self.aliases: dict[str, tuple[str, str]] = {}
        with reading("field_aliases"):
            for alias, target in document.get("field_aliases") or []:
                self.aliases[str(alias)] = (str(target[0]), str(target[1]))
        template: list[object] = [None]
        instances = document["headers"]
        names = [str(item["name"]) for item in instances]
        for name in names:
            if names.count(name) > 1:
                raise ProgramError(f"headers[{name}]", "two headers have this name")
        for item in instances:
            if item["metadata"]:
                name = str(item["name"])
                with reading(f"headers[{name}]"):
                    layout = metadata_layout(self._type(types, item))
                self.headers[name] = HeaderInstance(
                    name=name, base=len(template), type=layout, metadata=True
                )
                template += [b"" if field.varbit else 0 for field in layout.by_index]
        self.metadata_end = len(template)
        self.slots = Slots(self.metadata_end)
        template += [0] * (self.slots.end - self.metadata_end)
        template[self.slots.frame] = b""
        self.header_start = len(template)

        with reading("header_unions"):
            siblings = self._read_unions(document)
        layouts: dict[str, TypeLayout] = {}
        with reading("header_stacks"):
            self._place_stacks(document, types, layouts, template, siblings)
        for item in instances:
            name = str(item["name"])
            if name not in self.headers:
                with reading(f"headers[{name}]"):
                    self._place(name, template, self._shared(layouts, types, item), siblings)
        with reading("header_union_stacks"):
            self._read_union_stacks(document, template)
        self.template = template
        self._voids: dict[str, int] = {}

    def void(self, layout: TypeLayout) -> int:
        """First slot of a block that is no header: reads and writes outside of a stack go there."""
        if layout.name not in self._voids:
            self._voids[layout.name] = len(self.template)
            self.template += layout.empty()
        return self._voids[layout.name]

    def _elements(self, stack: JsonObject, by_id: dict[int, JsonObject]) -> list[str]:
        """Names of the headers of a stack, which must be of one type and in no other stack."""
        where = f"header_stacks[{stack['name']}]"
        items = [by_id[number] for number in stack["header_ids"]]
        names = [str(item["name"]) for item in items]
        if len({str(item["header_type"]) for item in items}) != 1:
            raise ProgramError(where, "its headers are not of one type")
        if len(set(names)) != len(names) or any(name in self.headers for name in names):
            raise ProgramError(where, "a header stands twice in stacks, or is metadata")
        return names

    def _place_stacks(
        self,
        document: JsonObject,
        types: dict[str, JsonObject],
        layouts: dict[str, TypeLayout],
        template: list[object],
        siblings: dict[str, tuple[str, ...]],
    ) -> None:
        by_id = {item["id"]: item for item in document["headers"]}
        for stack in document.get("header_stacks") or []:
            template.append(0)
            base = len(template)
            names = self._elements(stack, by_id)
            layout = self._shared(layouts, types, by_id[stack["header_ids"][0]])
            for name in names:
                self._place(name, template, layout, siblings)
            self.stacks[str(stack["name"])] = StackInstance(
                name=str(stack["name"]),
                next_slot=base - 1,
                base=base,
                type=layout,
                depth=len(names),
                elements=tuple(names),
            )

    def _read_union_stacks(self, document: JsonObject, template: list[object]) -> None:
        unions = {item["id"]: str(item["name"]) for item in document.get("header_unions") or []}
        for stack in document.get("header_union_stacks") or []:
            names = [unions[number] for number in stack["header_union_ids"]]
            kinds = {tuple(self.headers[m].type.name for m in self.unions[name]) for name in names}
            if len(kinds) != 1:
                where = f"header_union_stacks[{stack['name']}]"
                raise ProgramError(where, "its unions are not of one type")
            template.append(0)
            self.union_stacks[str(stack["name"])] = UnionStackInstance(
                name=str(stack["name"]),
                next_slot=len(template) - 1,
                elements=tuple(self.unions[name] for name in names),
                member_names=self.union_members[names[0]],
            )

    def _read_unions(self, document: JsonObject) -> dict[str, tuple[str, ...]]:
        by_id = {item["id"]: str(item["name"]) for item in document["headers"]}
        types = {
            str(item["name"]): tuple(str(row[0]) for row in item["headers"])
            for item in document.get("header_union_types") or []
        }
        siblings: dict[str, tuple[str, ...]] = {}
        for union in document.get("header_unions") or []:
            members = tuple(by_id[number] for number in union["header_ids"])
            self.unions[str(union["name"])] = members
            self.union_members[str(union["name"])] = types[str(union["union_type"])]
            for member in members:
                siblings[member] = tuple(other for other in members if other != member)
        return siblings

    @staticmethod
    def _type(types: dict[str, JsonObject], item: JsonObject) -> JsonObject:
        try:
            return types[str(item["header_type"])]
        except KeyError:
            raise ProgramError(
                f"headers[{item['name']}]", f"unknown header type {item['header_type']}"
            ) from None

    def _shared(
        self, layouts: dict[str, TypeLayout], types: dict[str, JsonObject], item: JsonObject
    ) -> TypeLayout:
        name = str(item["header_type"])
        if name not in layouts:
            layouts[name] = header_layout(self._type(types, item))
        return layouts[name]

    def _place(
        self,
        name: str,
        template: list[object],
        layout: TypeLayout,
        siblings: dict[str, tuple[str, ...]],
    ) -> None:
        self.headers[name] = HeaderInstance(
            name=name,
            base=len(template),
            type=layout,
            metadata=False,
            siblings=siblings.get(name, ()),
        )
        template += layout.empty()

    def header(self, name: str, where: str) -> HeaderInstance:
        """The instance of that name, or a ProgramError naming the place that asked."""
        try:
            return self.headers[name]
        except KeyError:
            raise ProgramError(where, f"unknown header {name}") from None

    def field(self, path: Iterable[str], where: str) -> tuple[HeaderInstance, FieldLayout]:
        """The field of a JSON [header, field] pair."""
        header_name, field_name = (str(part) for part in path)
        header = self.header(header_name, where)
        try:
            return header, header.type.fields[field_name]
        except KeyError:
            raise ProgramError(where, f"unknown field {header_name}.{field_name}") from None

    @cache  # noqa: B019 - one layout per program, kept as long as the program
    def intrinsic(self, name: str) -> int | None:
        """Slot of a field that the target knows by name, such as `standard_metadata.egress_spec`.

        Field aliases of the JSON win; None when the program does not define the field.
        """
        path = self.aliases.get(name)
        if path is None:
            header_name, field_name = name.split(".")
            path = (header_name, field_name)
        header = self.headers.get(path[0])
        if header is None or path[1] not in header.type.fields or not header.metadata:
            return None
        return header.base + header.type.fields[path[1]].pieces[0].slot

    def intrinsic_bits(self, name: str) -> int:
        """Width of an intrinsic field; 0 when the program does not define it."""
        path = self.aliases.get(name) or tuple(name.split("."))
        header = self.headers.get(path[0])
        if header is None or path[1] not in header.type.fields:
            return 0
        return header.type.fields[path[1]].bits
