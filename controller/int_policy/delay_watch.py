# SPDX-License-Identifier: Apache-2.0
"""Has transparent clocks hold the link delays that the engine publishes, and no older ones.

A value whose validity ends is withdrawn, whether the engine is slow, gone or of another mind. What
the switches held when is recorded, so that the engine can take it off again.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.desired import LINK_DELAY_TABLE
from controller.entries import ActionCall, Entry, EntryKey, Exact, TableEntry
from controller.fabric import Fabric, transparent_clocks
from controller.int_policy.delay_plan_file import read_delay_plan
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.file_watch import fingerprint
from controller.keeper.keeper import Keeper
from controller.keeper.phases import Phase
from controller.plain_file import require_plain_file
from controller.ptp_entries import residence_offset_scaled
from controller.ptp_log import PtpLogError
from controller.transparent_clock import LinkDelayPlan
from controller.written_delays import WrittenDelays, read_link_delays, write_link_delays

INTERVAL_S = 1.0
"""Between looks at the file and the clock; a value is withdrawn this late at most, and written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayState:
    """What is known of link delays now."""

    in_force: int
    """Ports that should add something."""
    held: int
    """Ports of switches in sync that do."""


class DelayWatch:
    """A companion of a keeper.

    plan: the file that the engine replaces. record: where to write what was in force when; None:
    nowhere. now_collector_ns: the collector's clock.
    """

    def __init__(
        self,
        plan: Path,
        record: Path | None,
        on_event: OnEvent,
        *,
        interval_s: float = INTERVAL_S,
        now_collector_ns: Callable[[], int],
    ) -> None:
        self.state = DelayState(in_force=0, held=0)
        self._path = plan
        self._record = record
        self._on_event = on_event
        self._interval_s = interval_s
        self._now_ns = now_collector_ns
        self._plan = LinkDelayPlan()
        self._problem = ""
        self._record_problem = ""
        self._unwritten = False
        """What the record holds is not in its file yet."""

    async def __call__(self, keeper: Keeper) -> None:
        """Until cancelled."""
        fabric = keeper.fabric
        written = self._begin(fabric)
        seen: object = None
        told: dict[str, dict[int, int]] | None = None
        while True:
            if keeper.fabric is not fabric:
                fabric, seen, told = keeper.fabric, None, None
                written.follow(_node_ids(fabric), _offsets(fabric))
            now = fingerprint((self._path,))
            if now != seen:
                seen = now
                self._load(fabric)
            in_force = self._plan.in_force(self._now_ns())
            if in_force != told:
                keeper.set_link_delays(in_force)
                self._tell(told, in_force)
                told = in_force
            self._note(keeper, written, in_force)
            await asyncio.sleep(self._interval_s)

    def _begin(self, fabric: Fabric) -> WrittenDelays:
        """The record, with what an earlier controller has written into it."""
        written = WrittenDelays(_node_ids(fabric), _offsets(fabric))
        if self._record is not None:
            try:
                require_plain_file(self._record)
                written.resume(read_link_delays(self._record, _node_ids(fabric)))
            except FileNotFoundError:
                pass
            except (OSError, PtpLogError) as error:
                self._refused(f"{error}; {self._set_aside(self._record)}")
        return written

    def _set_aside(self, record: Path) -> str:
        """A record that cannot be read makes room for a new one, or stays and there is none."""
        kept = record.with_name(f"{record.name}.old")
        try:
            record.replace(kept)
        except OSError as error:
            self._record = None
            return f"nothing is recorded, since it cannot become {kept}: {_said(error)}"
        return f"a new record begins, and the old one is {kept}"

    def _load(self, fabric: Fabric) -> None:
        """A file that cannot be read leaves the plan as it is: it ends by itself."""
        clocks = transparent_clocks(fabric)
        problem = ""
        try:
            require_plain_file(self._path)
            self._plan = read_delay_plan(self._path, clocks)
        except FileNotFoundError:
            self._plan = LinkDelayPlan(switches=clocks)
        except OSError as error:
            problem = f"{self._path}: {_said(error)}"
        except PtpLogError as error:
            problem = str(error)
        if problem and problem != self._problem:
            self._refused(problem)
        self._problem = problem

    def _refused(self, message: str) -> None:
        self._on_event(Event(kind=EventKind.LINK_DELAYS_REFUSED, message=message))

    def _tell(
        self, before: Mapping[str, Mapping[int, int]] | None, now: Mapping[str, Mapping[int, int]]
    ) -> None:
        old, new = _by_port(before or {}), _by_port(now)
        changed = sum(old.get(key) != value for key, value in new.items())
        withdrawn = len(old.keys() - new.keys())
        message = f"{len(new)} in force, {changed} changed, {withdrawn} withdrawn"
        self._on_event(Event(kind=EventKind.LINK_DELAYS, message=message))

    def _note(
        self, keeper: Keeper, written: WrittenDelays, in_force: Mapping[str, Mapping[int, int]]
    ) -> None:
        held = {
            name: held_delays(one.held.entries)
            for name, one in keeper.switches.items()
            if one.machine.phase is Phase.IN_SYNC
            and one.held is not None
            and one.held.entries is not None
        }
        if written.record(held, self._now_ns()):
            self._unwritten = True
        if self._unwritten and self._record is not None:
            self._write(self._record, written)
        self.state = DelayState(
            in_force=sum(map(len, in_force.values())), held=sum(map(len, held.values()))
        )

    def _write(self, record: Path, written: WrittenDelays) -> None:
        """A disk that is full or read-only ends nothing: it is tried again at the next look."""
        try:
            write_link_delays(record, written)
        except OSError as error:
            problem = f"{record}: {_said(error)}; it is tried again"
            if problem != self._record_problem:
                self._refused(problem)
            self._record_problem = problem
        else:
            self._unwritten, self._record_problem = False, ""


def _said(error: OSError) -> str:
    return error.strerror or str(error)


def _by_port(delays: Mapping[str, Mapping[int, int]]) -> dict[tuple[str, int], int]:
    return {(name, port): one for name, ports in delays.items() for port, one in ports.items()}


def held_delays(entries: Mapping[EntryKey, Entry]) -> dict[int, int]:
    """What a switch adds by ingress port, in 2^-16 ns."""
    found = {}
    for entry in entries.values():
        if (
            isinstance(entry, TableEntry)
            and entry.table == LINK_DELAY_TABLE
            and isinstance(entry.action, ActionCall)
            and isinstance(port := dict(entry.match).get("ingress_port"), Exact)
        ):
            value = dict(entry.action.params)["delay"]
            found[port.value] = value - (1 << 64) if value >> 63 else value
    return found


def _node_ids(fabric: Fabric) -> dict[str, int]:
    return {switch.name: switch.node_id for switch in fabric.switches}


def _offsets(fabric: Fabric) -> dict[str, int]:
    names = transparent_clocks(fabric)
    return {name: residence_offset_scaled(fabric, fabric.switch(name)) for name in names}
