# SPDX-License-Identifier: Apache-2.0
"""Everything in a switch that lasts longer than a packet."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.meters import MeterArray
from bmv2_lab.switch.profiles import Profile
from bmv2_lab.switch.tables import (
    INDIRECT,
    NO_ACTION,
    Cell,
    Entry,
    Match,
    MatchKind,
    Table,
    TableSpec,
    exact_match,
    lpm_match,
    range_match,
    ternary_match,
)
from bmv2_lab.switch.translate import SwitchProgram
from bmv2_lab.switch.value_sets import ValueSet

ActionFunction = Callable[[list[Any], Cell], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSession:
    """Where clones of a session go: (port, instance) rows."""

    session_id: int
    replicas: tuple[tuple[int, int], ...]
    control: Any = None


class SwitchState:
    """Tables, profiles, arrays, clone sessions and multicast groups of one switch.

    Only the P4Runtime server and tests change it, apart from what the data plane itself counts and
    writes.
    """

    def __init__(self, program: SwitchProgram, *, seed: int) -> None:
        self.program = program
        self.random = random.Random(seed)
        self.registers: dict[str, list[int]] = {}
        self.counter_packets: dict[str, list[int]] = {}
        self.counter_bytes: dict[str, list[int]] = {}
        self.meters: dict[str, MeterArray] = {}
        self.value_sets: dict[str, ValueSet] = {name: ValueSet() for name in program.value_sets}
        self.clone_sessions: dict[int, CloneSession] = {}
        self.multicast_groups: dict[int, tuple[tuple[int, int], ...]] = {}
        self.multicast_control: dict[int, Any] = {}
        self.log: list[str] = []
        self.tables: dict[str, Table] = {}
        self.profiles: dict[str, Profile] = {
            name: Profile(name, int(item.get("max_size") or 1024), "selector" in item)
            for name, item in program.profiles.items()
        }
        self._functions: dict[int, ActionFunction | None] = {}
        self.arrays: dict[str, Any] = self._make_arrays()

    def _make_arrays(self) -> dict[str, Any]:
        """Python globals of the generated code that hold arrays."""
        document, names = self.program.document, self.program.arrays
        found: dict[str, Any] = {}
        for item in document.get("register_arrays", []):
            name = str(item["name"])
            self.registers[name] = found[names[name]] = [0] * int(item["size"])
        for item in document.get("counter_arrays", []):
            if item.get("is_direct"):
                continue
            name, size = str(item["name"]), int(item["size"])
            self.counter_packets[name] = found[f"{names[name]}_packets"] = [0] * size
            self.counter_bytes[name] = found[f"{names[name]}_bytes"] = [0] * size
        for item in document.get("meter_arrays", []):
            name = str(item["name"])
            self.meters[name] = found[names[name]] = MeterArray.from_json(item, self.program.layout)
        for name, python in self.program.value_sets.items():
            found[python] = self.value_sets[name]
        return found

    def bind(self, functions: dict[int, ActionFunction | None]) -> None:
        """Make the tables, now that the action functions of this switch exist."""
        self._functions = functions
        for name, spec in self.program.tables.items():
            default: Cell = [None, NO_ACTION, False, 0, 0]
            if spec.default is not None:
                number, arguments = spec.default
                default = self.cell(number, list(arguments), hit=False)
            table = Table(spec, default)
            table.initial_default = list(table.default)
            self.tables[name] = table
            for entry in spec.entries:
                cell = self.cell(entry.action_id, list(entry.arguments))
                table.insert(
                    Entry(match=entry.match, priority=entry.priority, cell=cell, const=True)
                )

    def cell(self, action_id: int, arguments: list[int], *, hit: bool = True) -> Cell:
        """The data-plane side of an entry that runs an action."""
        action = self.program.actions[action_id]
        if len(arguments) != len(action["runtime_data"]):
            raise StateError(
                errors.INVALID_ARGUMENT,
                f"action {action['name']} takes {len(action['runtime_data'])} arguments",
            )
        return [self._functions[action_id], action_id, hit, 0, 0, *arguments]

    @staticmethod
    def indirect_cell(cells: list[Cell]) -> Cell:
        """The data-plane side of an entry that leads to the member cells of a group or member."""
        return [None, INDIRECT, True, 0, 0, cells]

    # Help for tests and for the server

    def table(self, name: str) -> Table:
        """The table of that name; NOT_FOUND otherwise."""
        try:
            return self.tables[name]
        except KeyError:
            raise StateError(errors.NOT_FOUND, f"no table {name}") from None

    def action_id(self, spec: TableSpec, action: str) -> int:
        """The JSON id of an action as one table knows it (names are not unique)."""
        for name, number in zip(spec.action_names, spec.action_ids, strict=True):
            if name == action:
                return number
        raise StateError(errors.INVALID_ARGUMENT, f"{spec.name} has no action {action}")

    def add_entry(
        self,
        table: str,
        match: tuple[Match, ...],
        action: str,
        arguments: tuple[int, ...] = (),
        *,
        priority: int = 0,
    ) -> Entry:
        """Insert an entry by names, without P4Runtime."""
        found = self.table(table)
        cell = self.cell(self.action_id(found.spec, action), list(arguments))
        entry = Entry(match=match, priority=priority, cell=cell)
        found.insert(entry)
        return entry

    def set_default(self, table: str, action: str, arguments: tuple[int, ...] = ()) -> None:
        """Replace the default action by names, without P4Runtime."""
        found = self.table(table)
        number = self.action_id(found.spec, action)
        found.set_default(self.cell(number, list(arguments), hit=False))

    def add_route(
        self, table: str, match: tuple[Match, ...], actions: list[tuple[str, tuple[int, ...]]]
    ) -> Entry:
        """Insert an entry that spreads over actions of equal weight, without P4Runtime."""
        found = self.table(table)
        cells = [
            self.cell(self.action_id(found.spec, action), list(arguments))
            for action, arguments in actions
        ]
        entry = Entry(match=match, priority=0, cell=self.indirect_cell(cells))
        found.insert(entry)
        return entry


__all__ = [
    "CloneSession",
    "MatchKind",
    "SwitchState",
    "exact_match",
    "lpm_match",
    "range_match",
    "ternary_match",
]
