# SPDX-License-Identifier: Apache-2.0
"""A switch that this controller is primary of, and what it holds as far as that is known.

Both the one-time deployment and the controller that stays write through this. What a switch holds
is known after it was read and follows every accepted write; an error makes it unknown again, since
a server carries out the other updates of a request.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from controller.entries import Entry, EntryKey
from controller.fabric import Fabric
from controller.reconcile import Operation, Update, batches
from controller.session import SwitchSession
from controller.switch_error import SwitchError
from controller.write_order import Held, write_rounds

WRITE_SIZE_MAX = 500
"""Updates per write request: some 50 kB, and well below the deadline of an RPC."""
PARALLEL_SWITCH_COUNT_MAX = 32
"""Switches served at the same time."""

_T = TypeVar("_T")


class HeldSwitch:
    """One switch, its session and its entries."""

    def __init__(self, name: str, session: SwitchSession) -> None:
        self.name = name
        self.session = session
        self.entries: dict[EntryKey, Entry] | None = None
        """What it holds, or a part of it that is looked after; None: unknown."""
        self.written_count = 0
        """Updates that it has taken in requests that succeeded as a whole."""
        self._busy = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        """A read or write is under way."""
        return self._busy.locked()

    async def read(self, names: Collection[str] | None = None) -> Mapping[EntryKey, Entry]:
        """Read everything, or the tables and profiles of these names."""
        async with self._busy:
            self.entries = None
            self.entries = await self.session.read_by_key(names)
            return self.entries

    async def write(self, updates: Sequence[Update]) -> None:
        """Carry out updates, phase by phase, in requests of bounded size."""
        async with self._busy:
            for batch in batches(updates, size_max=WRITE_SIZE_MAX):
                try:
                    await self.session.write(batch)
                except BaseException:
                    self.entries = None
                    raise
                self._follow(batch)

    def _follow(self, batch: Sequence[Update]) -> None:
        self.written_count += len(batch)
        if self.entries is None:
            return
        for update in batch:
            if update.operation is Operation.DELETE:
                self.entries.pop(update.entry.key, None)
            else:
                self.entries[update.entry.key] = update.entry

    def known(self) -> Mapping[EntryKey, Entry]:
        """What it holds; SwitchError if that is unknown."""
        if self.entries is None:
            raise SwitchError(switch=self.name, message="what it holds is not known")
        return self.entries


async def write_in_rounds(
    fabric: Fabric,
    switches: Mapping[str, HeldSwitch],
    updates: Mapping[str, Sequence[Update]],
    *,
    round_s_max: float | None = None,
    on_written: Callable[[str], None] = lambda _name: None,
    on_failed: Callable[[SwitchError], None] = lambda _error: None,
) -> list[SwitchError]:
    """Write all updates, in the order of `write_rounds`; the errors of switches that failed.

    A switch that fails drops out. round_s_max: a round waits no longer than this for its switches;
    one that takes longer goes on by itself while the next round begins. None: it waits for all.
    on_written, on_failed: told of each switch as soon as it is through with its last part.
    """
    held = {
        name: Held(entries=tuple(switches[name].known().values()), updates=one)
        for name, one in updates.items()
        if one
    }
    rounds = write_rounds(fabric, held)
    slots = asyncio.Semaphore(PARALLEL_SWITCH_COUNT_MAX)
    failed: dict[str, SwitchError] = {}
    latest: dict[str, asyncio.Task[None]] = {}
    parts = Counter(name for part in rounds for name in part)

    async def write(name: str, earlier: asyncio.Task[None] | None, part: Sequence[Update]) -> None:
        if earlier is not None:
            await earlier
        if name in failed:
            return
        try:
            async with slots:
                await switches[name].write(part)
        except SwitchError as error:
            failed[name] = error
            on_failed(error)
            return
        parts[name] -= 1
        if not parts[name]:
            on_written(name)

    async with asyncio.TaskGroup() as group:
        for part in rounds:
            for name, one in part.items():
                latest[name] = group.create_task(write(name, latest.get(name), one))
            await asyncio.wait([latest[name] for name in part], timeout=round_s_max)
    return list(failed.values())


async def each(work: Sequence[Callable[[], Awaitable[_T]]]) -> list[_T | SwitchError]:
    """What all of it gives, in order, with errors in their places; so many at the same time."""
    slots = asyncio.Semaphore(PARALLEL_SWITCH_COUNT_MAX)

    async def one(part: Callable[[], Awaitable[_T]]) -> _T | SwitchError:
        async with slots:
            try:
                return await part()
            except SwitchError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(part)) for part in work]
    return [task.result() for task in tasks]
