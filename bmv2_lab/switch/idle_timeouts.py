# SPDX-License-Identifier: Apache-2.0
"""Idle timeouts of table entries: who was not hit for its time to live (P4Runtime 9.1.8).

The data plane writes the clock into `Table.hits` at each hit, in tables that have the feature.
After a notification the time to live starts anew, so that an entry that stays idle is named once
per time to live. BMv2 looks once a second and names it at every other look.
"""

from collections.abc import Callable
from typing import NamedTuple

from bmv2_lab.switch.tables import Entry, Table
from bmv2_lab.switch.timers import Timer, Timers

# The shortest time to live that is kept.
TIMEOUT_NS_MIN = 10_000_000

Notify = Callable[[list[tuple[Table, Entry]]], None]


class _Ageing(NamedTuple):
    table: Table
    entry: Entry
    ttl_ns: int


class IdleTimeouts:
    """The ages of the entries of one pipeline. `notify` gets all that are due at one instant."""

    def __init__(self, timers: Timers, notify: Notify) -> None:
        self._timers = timers
        self._notify = notify
        self._running: dict[int, Timer] = {}
        self._due: list[tuple[Table, Entry]] = []
        timers.after_run.append(self._flush)

    def start(self, table: Table, entry: Entry, ttl_ns: int) -> None:
        """An entry was inserted or modified: its age is zero. `ttl_ns` 0: it never ends."""
        self._cancel(entry)
        now_ns = self._timers.clock_ns()
        table.hits[id(entry.cell)] = now_ns
        if ttl_ns:
            ageing = _Ageing(table, entry, max(ttl_ns, TIMEOUT_NS_MIN))
            self._arm(ageing, now_ns + ageing.ttl_ns)

    def stop(self, table: Table, entry: Entry) -> None:
        """An entry was deleted."""
        self._cancel(entry)
        table.hits.pop(id(entry.cell), None)

    def since_last_hit_ns(self, table: Table, entry: Entry) -> int:
        """Time since the last hit, or since insertion or modification."""
        now_ns = self._timers.clock_ns()
        return max(now_ns - table.hits.get(id(entry.cell), now_ns), 0)

    def close(self) -> None:
        """Stop all timers."""
        for timer in self._running.values():
            timer.cancel()
        self._running.clear()
        self._due.clear()
        if self._flush in self._timers.after_run:
            self._timers.after_run.remove(self._flush)

    def _cancel(self, entry: Entry) -> None:
        timer = self._running.pop(id(entry.cell), None)
        if timer is not None:
            timer.cancel()

    def _arm(self, ageing: _Ageing, when_ns: int) -> None:
        self._running[id(ageing.entry.cell)] = self._timers.at(when_ns, lambda: self._check(ageing))

    def _check(self, ageing: _Ageing) -> None:
        table, entry, ttl_ns = ageing
        now_ns = self._timers.clock_ns()
        end_ns = table.hits.get(id(entry.cell), now_ns) + ttl_ns
        if end_ns <= now_ns:
            self._due.append((table, entry))
            end_ns = now_ns + ttl_ns
        self._arm(ageing, end_ns)

    def _flush(self) -> None:
        if self._due:
            due, self._due = self._due, []
            self._notify(due)
