# SPDX-License-Identifier: Apache-2.0
"""What to write to a switch so that it holds the desired entries and nothing else.

Pure. The order makes before it breaks: what is referred to is inserted first and deleted last,
strays go only once nothing needs them. A P4Runtime server may reorder the updates within one
request (P4Runtime 1.3 section 12.2), so updates that depend on each other never share a batch.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from itertools import groupby
from types import MappingProxyType

from controller.entries import DefaultEntry, Entry, EntryKey, Kind, TableEntry


@unique
class Operation(Enum):
    """What an update does."""

    INSERT = "+"
    MODIFY = "~"
    DELETE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One change of a switch."""

    operation: Operation
    entry: Entry
    """The entry after the change; for a deletion, the entry that goes."""
    before: Entry | None = None
    """A modification: the entry that it replaces."""
    early: bool = False
    """A deletion that makes room: it goes before the insertions."""

    @property
    def phase(self) -> int:
        """Updates of one phase do not depend on each other; phases are carried out in order."""
        if self.early:
            return 0
        if self.operation is Operation.DELETE:
            return 2 * len(Kind) - self.entry.kind
        return int(self.entry.kind)

    def __str__(self) -> str:
        text = f"{self.operation.value} {self.entry}"
        if self.before is not None:
            text += f"  (was {str(self.before).removeprefix(self.before.where + ': ')})"
        return text


def reconcile(
    desired: Iterable[Entry] | Mapping[EntryKey, Entry],
    actual: Iterable[Entry] | Mapping[EntryKey, Entry],
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> list[Update]:
    """The updates that turn `actual` into `desired`, in order; empty when they are the same.

    A default entry cannot be inserted or deleted: one that is desired is modified, one that is
    not desired is left alone.

    Either may be given by key, which spares computing the keys.
    sizes: entries that a table has room for. Where old and new ones together would not fit, as
    many strays as must go before the new ones come.
    """
    wanted = desired if isinstance(desired, Mapping) else by_key(desired)
    present = actual if isinstance(actual, Mapping) else by_key(actual)
    updates: list[Update] = []
    for key, entry in wanted.items():
        before = present.get(key)
        if before is None and not isinstance(entry, DefaultEntry):
            updates.append(Update(operation=Operation.INSERT, entry=entry))
        elif before is not entry and before != entry:
            updates.append(Update(operation=Operation.MODIFY, entry=entry, before=before))
    strays = [
        entry
        for key, entry in present.items()
        if key not in wanted and not isinstance(entry, DefaultEntry)
    ]
    excess = _excess(present.values(), updates, sizes) if strays else Counter()
    for entry in strays:
        early = isinstance(entry, TableEntry) and excess[entry.table] > 0
        if isinstance(entry, TableEntry) and early:
            excess[entry.table] -= 1
        updates.append(Update(operation=Operation.DELETE, entry=entry, early=early))
    return sorted(updates, key=lambda update: update.phase)


def _excess(
    present: Iterable[Entry], updates: Iterable[Update], sizes: Mapping[str, int]
) -> Counter[str]:
    """How many entries each table would hold beyond its size before its strays have gone."""
    peak = Counter(entry.table for entry in present if isinstance(entry, TableEntry))
    peak.update(
        update.entry.table
        for update in updates
        if update.operation is Operation.INSERT and isinstance(update.entry, TableEntry)
    )
    return Counter(
        {table: max(0, count - sizes.get(table, count)) for table, count in peak.items()}
    )


def batches(updates: Iterable[Update], *, size_max: int) -> Iterator[list[Update]]:
    """Consecutive updates of one phase, at most `size_max` together."""
    for _, phase in groupby(updates, key=lambda update: update.phase):
        waiting = list(phase)
        for start in range(0, len(waiting), size_max):
            yield waiting[start : start + size_max]


def by_key(entries: Iterable[Entry]) -> dict[EntryKey, Entry]:
    """The entries by their keys, which must differ."""
    keyed: dict[EntryKey, Entry] = {}
    for entry in entries:
        assert entry.key not in keyed, f"two entries for {entry.where}"
        keyed[entry.key] = entry
    return keyed
