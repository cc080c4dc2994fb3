# SPDX-License-Identifier: Apache-2.0
"""The objects that a document of BMv2 declares, read and checked: headers, tables, arrays."""

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.document import REQUIRED_FIELDS, reading
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.field_lists import read_field_lists
from bmv2_lab.switch.layout import PhvLayout
from bmv2_lab.switch.meters import MeterArray
from bmv2_lab.switch.parser import error_codes
from bmv2_lab.switch.table_specs import table_spec
from bmv2_lab.switch.tables import TableSpec


class ProgramObjects:
    """Everything that has a name in a program."""

    def __init__(self, document: JsonObject) -> None:
        self.document = document
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
            self.field_lists = read_field_lists(document.get("field_lists") or [], self.layout)
        self.learn_lists: dict[int, JsonObject] = {}
        with reading("learn_lists"):
            for item in document.get("learn_lists") or []:
                for element in item["elements"]:
                    self.layout.field(element["value"], f"learn_lists[{item['id']}]")
                self.learn_lists[int(item["id"])] = item

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
