# SPDX-License-Identifier: Apache-2.0
"""From BMv2 JSON to a Python module, once per document.

`SwitchProgram.source` is the generated text, to be read when in doubt. It is compiled once and run
once per switch with that switch's tables and arrays as globals.
"""

import hashlib
import json
import random
from collections import OrderedDict
from dataclasses import dataclass
from types import CodeType
from typing import Any, ClassVar

from bmv2_lab.switch.calculations import Calculations
from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.controls import ControlTranslator, emit_action
from bmv2_lab.switch.deparser import DeparserTranslator
from bmv2_lab.switch.document import REQUIRED_FIELDS, complete, named, reading
from bmv2_lab.switch.errors import AssertionFailed, ProgramError
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.halves import Halves
from bmv2_lab.switch.hashes import PerSwitch
from bmv2_lab.switch.layout import PhvLayout
from bmv2_lab.switch.meters import MeterArray
from bmv2_lab.switch.parser import ParserTranslator, error_codes
from bmv2_lab.switch.primitives import Primitives
from bmv2_lab.switch.runtime import RUNTIME
from bmv2_lab.switch.table_specs import table_spec
from bmv2_lab.switch.tables import TableSpec
from bmv2_lab.switch.writer import Writer

# Translated programs kept for reuse; a lab runs one or two.
CACHE_LIMIT = 16


@dataclass(frozen=True, slots=True)
class FieldList:
    """The fields that a packet keeps when it starts anew or is cloned.

    Whole slots as ranges begin..end (exclusive), and bits of slots that other fields share.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    bits: tuple[tuple[int, int], ...] = ()


class SwitchProgram:
    """One translated program. Immutable; any number of switches may run it."""

    _cache: ClassVar[OrderedDict[str, "SwitchProgram"]] = OrderedDict()

    def __init__(self, document: JsonObject, digest: str, *, inline_actions: bool = True) -> None:
        self.document = document
        self.inline_actions = inline_actions
        self.digest = digest
        with reading("headers"):
            self.layout = PhvLayout(document)
        self._check_fields()
        with reading("errors"):
            self.error_codes = error_codes(document)
        self.no_error = self.error_codes["NoError"]
        self._share_intrinsic_slots()
        self.arrays: dict[str, str] = {}
        for kind in ("register", "counter", "meter"):
            for item in document.get(f"{kind}_arrays") or []:
                with reading(f"{kind}_arrays[{item['name']}]"):
                    self.arrays[str(item["name"])] = f"{kind}_{int(item['id'])}"
        self.value_sets: dict[str, str] = {}
        for item in document.get("parse_vsets") or []:
            with reading("parse_vsets"):
                self.value_sets[str(item["name"])] = f"value_set_{int(item['id'])}"
        self.actions: dict[int, JsonObject] = {}
        for item in document["actions"]:
            with reading(f"actions[{item.get('name')}]"):
                self.actions[int(item["id"])] = item
        self.tables: dict[str, TableSpec] = {}
        self.profiles: dict[str, JsonObject] = {}
        self._read_pipelines()
        with reading("field_lists"):
            self.field_lists = self._field_lists(document.get("field_lists") or [])
        self.learn_lists: dict[int, JsonObject] = {}
        with reading("learn_lists"):
            for item in document.get("learn_lists") or []:
                for element in item["elements"]:
                    self.layout.field(element["value"], f"learn_lists[{item['id']}]")
                self.learn_lists[int(item["id"])] = item
        self.action_functions: dict[int, str | None] = {}
        self.selectors: dict[str, str] = {}  # action profile -> name of its hash function
        self.hash_names: dict[str, tuple[str, str]] = {}  # calculation -> algorithm, global
        with reading("document"):
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
        except json.JSONDecodeError as error:
            raise ProgramError(f"line {error.lineno}", f"not JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise ProgramError("document", f"not JSON: {error}") from error
        if not isinstance(document, dict):
            raise ProgramError("document", "not a JSON object")
        with reading("document"):
            program = cls(complete(document), digest)
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

    def _check_fields(self) -> None:
        """The target cannot do without these, as BMv2's cannot."""
        for name in REQUIRED_FIELDS:
            if self.layout.intrinsic(f"standard_metadata.{name}") is None:
                raise ProgramError("headers", f"standard_metadata.{name} is missing")

    def _read_pipelines(self) -> None:
        numbers = set()
        for pipeline in self.document["pipelines"]:
            for item in pipeline["tables"]:
                spec = table_spec(item, self.layout, self.actions)
                if spec.name in self.tables or spec.number in numbers:
                    raise ProgramError(f"tables[{spec.name}]", "two tables have this name or id")
                self.tables[spec.name] = spec
                numbers.add(spec.number)
            for item in pipeline.get("action_profiles") or []:
                with reading(f"pipelines[{pipeline['name']}].action_profiles"):
                    self.profiles[str(item["name"])] = item
                    int(item.get("max_size") or 0)
            self._old_profiles(pipeline["tables"])
        for spec in self.tables.values():
            if spec.profile is not None and spec.profile not in self.profiles:
                raise ProgramError(f"tables[{spec.name}]", f"unknown profile {spec.profile}")
        for item in self.document.get("meter_arrays") or []:
            with reading(f"meter_arrays[{item['name']}]"):
                MeterArray.from_json(item, self.layout)

    def _old_profiles(self, tables: list[JsonObject]) -> None:
        """Documents before action profiles had a section: the table itself describes its own."""
        for item in tables:
            if item.get("type") in ("indirect", "indirect_ws") and "action_profile" not in item:
                profile = {"name": item["act_prof_name"], "max_size": item.get("max_size")}
                if item["type"] == "indirect_ws":
                    profile["selector"] = item["selector"]
                self.profiles.setdefault(str(item["act_prof_name"]), profile)

    def _field_lists(self, items: list[JsonObject]) -> dict[int, FieldList]:
        lists: dict[int, FieldList] = {}
        for item in items:
            where = f"field_lists[{item.get('name', item['id'])}]"
            numbers: set[int] = set()
            bits: dict[int, int] = {}
            for element in item["elements"]:
                if element["type"] == "hexstr":
                    continue  # a constant is not copied between packets
                if element["type"] != "field":
                    raise ProgramError(where, f"unsupported element of type {element['type']}")
                header, field = self.layout.field(element["value"], where)
                for piece in field.pieces:
                    number = header.base + piece.slot
                    if piece.bits == piece.container_bits:
                        numbers.add(number)
                    else:
                        mask = ((1 << piece.bits) - 1) << piece.shift
                        bits[number] = bits.get(number, 0) | mask
            ranges: list[tuple[int, int]] = []
            for number in sorted(numbers):
                if ranges and ranges[-1][1] == number:
                    ranges[-1] = (ranges[-1][0], number + 1)
                else:
                    ranges.append((number, number + 1))
            lists[int(item["id"])] = FieldList(tuple(ranges), tuple(bits.items()))
        return lists

    # Generated module

    def _translate(self) -> tuple[str, dict[str, object]]:
        document, writer = self.document, Writer()
        registers = document.get("register_arrays") or []
        expressions = Expressions(self.layout, self.arrays, registers)
        calculations = Calculations(document, expressions, writer)
        primitives = Primitives(document, expressions, calculations, writer)
        writer.line('"""Generated by bmv2_lab.switch.translate; do not edit."""')
        for item in document.get("calculations") or []:
            with reading(f"calculations[{item.get('name')}]"):
                calculations.named(str(item["name"]), "calculations")
        self.hash_names = calculations.hash_names
        for name, profile in self.profiles.items():
            selector = profile.get("selector")
            if selector is not None:
                where = f"action_profiles[{name}].selector"
                with reading(where):
                    algo = str(selector["algo"])
                    self.selectors[name] = calculations.emit(algo, selector["input"], where)
        with reading("parsers[parser]"):
            parse = ParserTranslator(
                named(document["parsers"], "parser"),
                self.error_codes,
                expressions,
                primitives,
                writer,
                self.value_sets,
            ).emit()
        for number, action in self.actions.items():
            with reading(f"actions[{action['name']}]"):
                function = emit_action(action, expressions, primitives, writer)
                self.action_functions[number] = function
        for name in ("ingress", "egress"):
            with reading(f"pipelines[{name}]"):
                ControlTranslator(
                    named(document["pipelines"], name),
                    self.actions,
                    expressions,
                    primitives,
                    writer,
                    self.selectors,
                    self.tables,
                    inline_actions=self.inline_actions,
                ).emit(f"pipeline_{name}")
        deparser = DeparserTranslator(document, expressions, primitives, calculations, writer)
        with reading("checksums"):
            verify = deparser.emit_verify()
        with reading("deparsers[deparser]"):
            deparser.emit(named(document["deparsers"], "deparser"), "deparse")
        halves = Halves(self.layout, self.no_error, writer)
        halves.emit_ingress(parse, verify)
        halves.emit_egress()
        constants = {**RUNTIME, **writer.constants, "AssertionFailed": AssertionFailed}
        return writer.text(), constants

    def namespace(self, generator: random.Random) -> dict[str, Any]:
        """Fresh globals for one switch: constants and generated functions come on top."""
        return {
            name: value.make(generator) if isinstance(value, PerSwitch) else value
            for name, value in self.constants.items()
        }
