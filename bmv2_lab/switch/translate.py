# SPDX-License-Identifier: Apache-2.0
"""From BMv2 JSON to a Python module, once per document.

`SwitchProgram.source` is the generated text, to be read when in doubt. It is compiled once and run
once per switch with that switch's tables and arrays as globals.
"""

import hashlib
import json
from collections import OrderedDict
from types import CodeType
from typing import Any, ClassVar

from bmv2_lab.switch import layout as phv
from bmv2_lab.switch.calculations import Calculations
from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.controls import ControlTranslator, emit_action
from bmv2_lab.switch.deparser import DeparserTranslator
from bmv2_lab.switch.errors import AssertionFailed, ProgramError
from bmv2_lab.switch.expressions import RUNTIME, Expressions
from bmv2_lab.switch.layout import PhvLayout
from bmv2_lab.switch.parser import ParserTranslator, error_codes
from bmv2_lab.switch.primitives import DROP_PORT, Primitives
from bmv2_lab.switch.tables import KeyField, MatchKind, TableSpec
from bmv2_lab.switch.writer import Writer

# Translated programs kept for reuse; a lab runs one or two.
CACHE_LIMIT = 16

_SPECIAL_AT_INGRESS = phv.FLAG_CLONE | phv.FLAG_LEARN | phv.FLAG_RESUBMIT
_SPECIAL_AT_EGRESS = phv.FLAG_CLONE | phv.FLAG_RECIRCULATE
_QUEUEING = ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth")


def _complete(document: JsonObject) -> JsonObject:
    """Fill in what older compilers leave out: empty sections and the ids of a table's actions."""
    for section in ("header_types", "headers", "parsers", "deparsers", "actions", "pipelines"):
        document.setdefault(section, [])
    by_name = {str(item["name"]): item["id"] for item in document["actions"]}
    for item in document["headers"]:
        item.setdefault("metadata", False)
    for pipeline in document["pipelines"]:
        pipeline.setdefault("conditionals", [])
        for table in pipeline["tables"]:
            if "action_ids" not in table:
                table["action_ids"] = [by_name[str(name)] for name in table["actions"]]
    return document


class SwitchProgram:
    """One translated program. Immutable; any number of switches may run it."""

    _cache: ClassVar[OrderedDict[str, "SwitchProgram"]] = OrderedDict()

    def __init__(self, document: JsonObject, digest: str, *, inline_actions: bool = True) -> None:
        self.document = document
        self.inline_actions = inline_actions
        self.digest = digest
        self.layout = PhvLayout(document)
        self.error_codes = error_codes(document)
        self.no_error = self.error_codes["NoError"]
        self._share_intrinsic_slots()
        self.arrays: dict[str, str] = {}
        for kind in ("register", "counter", "meter"):
            for item in document.get(f"{kind}_arrays", []):
                self.arrays[str(item["name"])] = f"{kind}_{item['id']}"
        self.value_sets = {
            str(item["name"]): f"value_set_{item['id']}" for item in document.get("parse_vsets", [])
        }
        self.actions: dict[int, JsonObject] = {
            int(item["id"]): item for item in document["actions"]
        }
        self.tables: dict[str, TableSpec] = {}
        self.table_items: dict[str, JsonObject] = {}
        for pipeline in document["pipelines"]:
            for item in pipeline["tables"]:
                spec = self._table_spec(item)
                self.tables[spec.name] = spec
                self.table_items[spec.name] = item
        self.profiles: dict[str, JsonObject] = {
            str(item["name"]): item
            for pipeline in document["pipelines"]
            for item in pipeline.get("action_profiles", [])
        }
        self.field_lists = self._field_lists(document.get("field_lists", []))
        self.learn_lists: dict[int, JsonObject] = {
            int(item["id"]): item for item in document.get("learn_lists", [])
        }
        self.action_functions: dict[int, str | None] = {}
        self.selectors: dict[str, str] = {}  # action profile -> name of its hash function
        self.source, self.constants = self._translate()
        self.code: CodeType = compile(self.source, f"<switch program {digest[:12]}>", "exec")

    @classmethod
    def from_json(cls, text: str | bytes) -> "SwitchProgram":
        """Translate a document, or return the program that the same text gave before.

        ProgramError names the JSON object that is wrong or not supported.
        """
        data = text.encode() if isinstance(text, str) else text
        digest = hashlib.sha256(data).hexdigest()
        known = cls._cache.get(digest)
        if known is not None:
            cls._cache.move_to_end(digest)
            return known
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ProgramError("document", f"not JSON: {error}") from error
        if not isinstance(document, dict):
            raise ProgramError("document", "not a JSON object")
        try:
            program = cls(_complete(document), digest)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ProgramError("document", f"malformed BMv2 JSON: {error!r}") from error
        cls._cache[digest] = program
        while len(cls._cache) > CACHE_LIMIT:
            cls._cache.popitem(last=False)
        return program

    def without_inlining(self) -> "SwitchProgram":
        """The same program with every action of a table in a function of its own, to profile."""
        return SwitchProgram(self.document, self.digest, inline_actions=False)

    def _share_intrinsic_slots(self) -> None:
        """Let the packet registers that P4 can see live in their metadata fields."""
        for name in ("parser_error", "checksum_error"):
            number = self.layout.intrinsic(f"standard_metadata.{name}")
            if number is not None:
                setattr(self.layout.slots, name, number)
        self.layout.template[self.layout.slots.parser_error] = self.no_error

    def _table_spec(self, item: JsonObject) -> TableSpec:
        where = f"tables[{item['name']}]"
        key = []
        for part in item["key"]:
            kind = str(part["match_type"])
            if kind == "selector":
                continue
            bits = 1
            target = part["target"]
            if kind != "valid" and target[1] != "$valid$":
                bits = self.layout.field(target, where)[1].bits
            name = str(part.get("name") or (target if kind == "valid" else ".".join(target)))
            try:
                key.append(KeyField(name=name, kind=MatchKind(kind), bits=bits))
            except ValueError:
                raise ProgramError(where, f"unsupported match type {kind}") from None
        try:
            kind_of_table = MatchKind(str(item["match_type"]))
        except ValueError:
            raise ProgramError(where, f"unsupported match type {item['match_type']}") from None
        kind_of_type = str(item.get("type", "simple"))
        if kind_of_type not in ("simple", "indirect", "indirect_ws"):
            raise ProgramError(where, f"unsupported table type {kind_of_type}")
        profile = item.get("action_profile", item.get("act_prof_name"))
        default = item.get("default_entry") or {}
        return TableSpec(
            name=str(item["name"]),
            number=int(item["id"]),
            kind=kind_of_table,
            key=tuple(key),
            max_size=int(item.get("max_size") or 1024),
            action_names=tuple(str(name) for name in item["actions"]),
            action_ids=tuple(int(number) for number in item["action_ids"]),
            with_counters=bool(item.get("with_counters")),
            support_timeout=bool(item.get("support_timeout")),
            profile=str(profile) if kind_of_type != "simple" else None,
            const_entries=bool(item.get("entries")),
            default_const=bool(default.get("action_const") or default.get("action_entry_const")),
            direct_meter=item.get("direct_meters"),
        )

    def _field_lists(self, items: list[JsonObject]) -> dict[int, list[tuple[int, int]]]:
        """Slots of the metadata fields of each field list, as ranges begin..end (exclusive)."""
        lists: dict[int, list[tuple[int, int]]] = {}
        for item in items:
            where = f"field_lists[{item.get('name', item['id'])}]"
            numbers: set[int] = set()
            for element in item["elements"]:
                if element["type"] != "field":
                    continue  # constants and headers are not copied between packets
                header, field = self.layout.field(element["value"], where)
                numbers |= {header.base + piece.slot for piece in field.pieces}
            ranges: list[tuple[int, int]] = []
            for number in sorted(numbers):
                if ranges and ranges[-1][1] == number:
                    ranges[-1] = (ranges[-1][0], number + 1)
                else:
                    ranges.append((number, number + 1))
            lists[int(item["id"])] = ranges
        return lists

    # Generated module

    def _translate(self) -> tuple[str, dict[str, object]]:
        document, writer = self.document, Writer()
        expressions = Expressions(self.layout, self.arrays)
        calculations = Calculations(document, expressions, writer)
        primitives = Primitives(document, expressions, calculations, writer)
        writer.line('"""Generated by bmv2_lab.switch.translate; do not edit."""')
        for item in document.get("calculations", []):
            calculations.named(str(item["name"]), "calculations")
        for name, profile in self.profiles.items():
            selector = profile.get("selector")
            if selector is not None:
                where = f"action_profiles[{name}].selector"
                self.selectors[name] = calculations.emit(
                    str(selector["algo"]), selector["input"], where
                )
        parsers = document["parsers"]
        parse = "parse"
        if parsers:
            parse = ParserTranslator(
                parsers[0], self.error_codes, expressions, primitives, writer, self.value_sets
            ).emit()
        else:
            with writer.block("def parse(P, d, o, n):"):
                writer.line("return o")
        for number, action in self.actions.items():
            self.action_functions[number] = emit_action(action, expressions, primitives, writer)
        pipelines = {str(item["name"]): item for item in document["pipelines"]}
        numbers = {name: spec.number for name, spec in self.tables.items()}
        for name in ("ingress", "egress"):
            if name in pipelines:
                ControlTranslator(
                    pipelines[name],
                    self.actions,
                    expressions,
                    primitives,
                    writer,
                    self.selectors,
                    numbers,
                    inline_actions=self.inline_actions,
                ).emit(f"pipeline_{name}")
            else:
                writer.line(f"def pipeline_{name}(P): pass")
        deparser = DeparserTranslator(document, expressions, primitives, calculations, writer)
        verify = deparser.emit_verify()
        if document["deparsers"]:
            deparser.emit(document["deparsers"][0], "deparse")
        else:
            deparser.emit({"name": "deparser", "order": []}, "deparse")
        self._emit_ingress(writer, parse, verify)
        self._emit_egress(writer)
        constants = {**RUNTIME, **writer.constants, "AssertionFailed": AssertionFailed}
        return writer.text(), constants

    def _stamp(self, writer: Writer, name: str, text: str) -> None:
        """Store an intrinsic value, cut to the width of its field; nothing if there is none."""
        number = self.layout.intrinsic(name)
        if number is not None:
            mask = (1 << self.layout.intrinsic_bits(name)) - 1
            writer.line(f"P[{number}] = {text} & {mask:#x}")

    def _required(self, name: str) -> int:
        number = self.layout.intrinsic(name)
        return self.layout.slots.sink if number is None else number

    def _emit_ingress(self, writer: Writer, parse: str, verify: bool) -> None:
        place = self.layout.slots
        with writer.block("def start(frame, n):"):
            writer.line('"""A packet before the parser, all metadata zero."""')
            writer.line("P = template[:]")
            writer.line(f"P[{place.frame}] = frame")
            writer.line(f"P[{place.packet_length}] = P[{place.ingress_length}] = n")
            writer.line("return P")
        with writer.block("def parse_packet(P):"):
            writer.line(f"P[{place.parser_error}] = {self.no_error}")
            writer.line(f"d = P[{place.frame}]")
            writer.line(f"P[{place.payload}] = {parse}(P, d, 0, len(d))")
            if verify:
                writer.line("verify_checksums(P)")
        spec = self._required("standard_metadata.egress_spec")
        instance = self._required("standard_metadata.instance_type")
        length = self._required("standard_metadata.packet_length")
        group = self.layout.intrinsic("intrinsic_metadata.mcast_grp")
        priority = self.layout.intrinsic("intrinsic_metadata.priority")
        queue = f"P[{priority}]" if priority is not None else "0"
        with writer.block("def ingress(frame, port, ingress_tstamp):"):
            writer.line("n = len(frame)")
            writer.line("P = template[:]")
            writer.line(f"P[{place.frame}] = frame")
            writer.line(f"P[{place.packet_length}] = P[{place.ingress_length}] = P[{length}] = n")
            self._stamp(writer, "standard_metadata.ingress_port", "port")
            self._stamp(writer, "intrinsic_metadata.ingress_global_timestamp", "ingress_tstamp")
            writer.line(f"P[{place.payload}] = {parse}(P, frame, 0, n)")
            if verify:
                writer.line("verify_checksums(P)")
            writer.line("pipeline_ingress(P)")
            special = f"P[{place.flags}] & {_SPECIAL_AT_INGRESS}"
            if group is not None:
                special = f"P[{group}] or {special}"
            with writer.block(f"if {special}:"):
                writer.line("return after_ingress(P)")
            writer.line(f"port = P[{spec}]")
            with writer.block(f"if port == {DROP_PORT}:"):
                writer.line("return []")
            writer.line(f"P[{instance}] = 0")
            writer.line(f"return [EgressCopy(port, {queue}, P[{place.packet_length}], P)]")

    def _emit_egress(self, writer: Writer) -> None:
        place = self.layout.slots
        spec = self._required("standard_metadata.egress_spec")
        bits = self.layout.intrinsic_bits("standard_metadata.egress_spec") or 9
        length = self._required("standard_metadata.packet_length")
        arguments = "enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth, egress_tstamp"
        with writer.block(f"def egress(copy, {arguments}):"):
            writer.line("P = copy.state")
            writer.line("port = copy.egress_port")
            writer.line(f"P[{place.flags}] &= {phv.FLAG_TRUNCATE}")
            self._stamp(writer, "intrinsic_metadata.egress_global_timestamp", "egress_tstamp")
            names = [f"queueing_metadata.{name}" for name in _QUEUEING]
            if all(self.layout.intrinsic(name) is not None for name in names):
                for name, short in zip(names, _QUEUEING, strict=True):
                    self._stamp(writer, name, short)
                self._stamp(writer, "queueing_metadata.qid", "copy.queue_id")
            self._stamp(writer, "standard_metadata.egress_port", "port")
            writer.line(f"P[{spec}] = {(DROP_PORT + 1) & (1 << bits) - 1}")
            writer.line(f"P[{length}] = P[{place.packet_length}]")
            writer.line("pipeline_egress(P)")
            with writer.block(f"if P[{place.flags}] & {_SPECIAL_AT_EGRESS}:"):
                writer.line("return after_egress(P, port, egress_tstamp)")
            with writer.block(f"if P[{spec}] == {DROP_PORT}:"):
                writer.line("return []")
            writer.line("return [Emitted(port, deparse(P))]")

    def namespace(self) -> dict[str, Any]:
        """Fresh globals for one switch: constants and generated functions come on top."""
        return dict(self.constants)
