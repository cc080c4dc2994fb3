# SPDX-License-Identifier: Apache-2.0
"""Match-action tables at run time.

The generated code asks `memo.get(key)` first and calls `lookup(key)` only for a key it has not seen
since the last write, so that exact, LPM, ternary and range tables cost the same per packet. What
both return is the *cell* of an entry, a plain list:

    [function or None, action index, hit, packets, bytes, argument...]

For a table with an action profile the cell of an entry has action index INDIRECT and, in place of
the arguments, the list of member cells to choose from.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError

Cell = list[Any]
Key = tuple[int, ...]

NO_ACTION = -2  # action index of the miss cell of a table without default action
INDIRECT = -1
PACKETS, BYTES, ARGUMENTS = 3, 4, 5

# Distinct keys remembered per table before the memo starts anew: some 20 MiB at most.
MEMO_LIMIT = 1 << 16


@unique
class MatchKind(Enum):
    """How one key field matches; the numbers mean nothing."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"  # optional fields too: their mask is none or all
    RANGE = "range"
    VALID = "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyField:
    """One field of a table key."""

    name: str
    kind: MatchKind
    bits: int
    mask: int | None = None  # of the JSON: the bits of the field that the table looks at


@dataclass(frozen=True, slots=True)
class Match:
    """What one entry wants of one field: exact and ternary `value/mask`, range `low..high`."""

    value: int
    mask: int = 0  # ternary, LPM
    prefix_bits: int = 0  # LPM
    high: int = 0  # range


def lpm_match(value: int, prefix_bits: int, bits: int) -> Match:
    """A prefix of a field of `bits` bits."""
    mask = (1 << bits) - (1 << (bits - prefix_bits))
    return Match(value & mask, mask, prefix_bits)


def exact_match(value: int) -> Match:
    """An exact value."""
    return Match(value)


def ternary_match(value: int, mask: int) -> Match:
    """Value and mask; bits outside of the mask do not matter."""
    return Match(value & mask, mask)


def range_match(low: int, high: int) -> Match:
    """An inclusive range."""
    return Match(low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstEntry:
    """One constant entry of the JSON."""

    match: tuple[Match, ...]
    priority: int
    action_id: int
    arguments: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Entry:
    """One entry as the control plane wrote it; `cell` is its data-plane side.

    `priority`: higher wins (P4Runtime), 0 in tables without priorities.
    """

    match: tuple[Match, ...]
    priority: int
    cell: Cell
    order: int = 0
    const: bool = False
    control: Any = None  # what the P4Runtime server needs to read the entry back


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The fixed part of a table, from the JSON."""

    name: str
    number: int
    kind: MatchKind
    key: tuple[KeyField, ...]
    max_size: int
    action_names: tuple[str, ...]
    action_ids: tuple[int, ...]
    with_counters: bool
    support_timeout: bool
    profile: str | None
    const_entries: bool
    default_const: bool
    direct_meter: str | None = None
    default: tuple[int, tuple[int, ...]] | None = None  # action id, arguments
    entries: tuple[ConstEntry, ...] = ()


def _no_lookup(_: object) -> Cell:
    raise AssertionError("table was not bound")


@dataclass(slots=True)
class Table:
    """The entries of one table of one switch, and the lookup over them."""

    spec: TableSpec
    default: Cell
    entries: dict[tuple[tuple[Match, ...], int], Entry] = field(default_factory=dict)
    memo: dict[Any, Cell] = field(default_factory=dict)
    masks: list[int] = field(default_factory=list)
    initial_default: Cell | None = None
    default_control: Any = None
    hits: dict[int, int] = field(default_factory=dict)  # id(cell) -> clock, with idle timeouts
    # The cell that every key leads to at present, if no entry looks at the key; else None.
    single: list[Cell | None] = field(default_factory=lambda: [None])
    _order: int = 0
    _exact: dict[Key, Cell] = field(default_factory=dict)
    _prefixes: list[tuple[int, dict[Key, Cell]]] = field(default_factory=list)
    _ranked: list[Entry] = field(default_factory=list)
    _lpm_index: int = 0
    _find: Callable[[Key], Cell] = _no_lookup
    _stale: bool = False

    def __post_init__(self) -> None:
        self.masks = [0] * len(self.spec.key)
        kinds = [item.kind for item in self.spec.key]
        if self.spec.kind is MatchKind.LPM:
            self._lpm_index = kinds.index(MatchKind.LPM)
        self._find = {
            MatchKind.EXACT: self._find_exact,
            MatchKind.VALID: self._find_exact,
            MatchKind.LPM: self._find_lpm,
            MatchKind.TERNARY: self._find_ranked,
            MatchKind.RANGE: self._find_ranked,
        }[self.spec.kind]
        self._rebuild()

    @property
    def ranked(self) -> bool:
        """True if entries carry a priority."""
        return self.spec.kind in (MatchKind.TERNARY, MatchKind.RANGE)

    # Data plane

    def lookup(self, key: int | Key) -> Cell:
        """The cell for a key that the memo does not hold; a bare int for a one-field key."""
        if self._stale:
            self._rebuild()
        cell = self._find(key if isinstance(key, tuple) else (key,))
        if not (any(self.masks) if self.ranked else self.entries):
            self.single[0] = cell
        if len(self.memo) >= MEMO_LIMIT:
            self.memo.clear()
        self.memo[key] = cell
        return cell

    def _find_exact(self, key: Key) -> Cell:
        return self._exact.get(key, self.default)

    def _find_lpm(self, key: Key) -> Cell:
        index = self._lpm_index
        value = key[index]
        for mask, cells in self._prefixes:
            cell = cells.get((*key[:index], value & mask, *key[index + 1 :]))
            if cell is not None:
                return cell
        return self.default

    def _find_ranked(self, key: Key) -> Cell:
        for entry in self._ranked:
            for value, item, match in zip(key, self.spec.key, entry.match, strict=True):
                wanted = match.value if item.mask is None else match.value & item.mask
                if item.kind is MatchKind.RANGE:
                    if not wanted <= value <= match.high:
                        break
                elif item.kind is MatchKind.EXACT or item.kind is MatchKind.VALID:
                    if value != wanted:
                        break
                elif value & match.mask != wanted:
                    break
            else:
                return entry.cell
        return self.default

    # Control plane

    def check_insert(self, match: tuple[Match, ...], priority: int) -> None:
        """ALREADY_EXISTS or RESOURCE_EXHAUSTED when an entry cannot be added."""
        if (match, priority) in self.entries:
            raise StateError(errors.ALREADY_EXISTS, f"{self.spec.name}: entry exists already")
        if len(self.entries) >= self.spec.max_size:
            raise StateError(
                errors.RESOURCE_EXHAUSTED,
                f"{self.spec.name} holds its {self.spec.max_size} entries already",
            )

    def insert(self, entry: Entry) -> None:
        """Add an entry; ALREADY_EXISTS or RESOURCE_EXHAUSTED when that cannot be."""
        self.check_insert(entry.match, entry.priority)
        self._order += 1
        entry.order = self._order
        self.entries[(entry.match, entry.priority)] = entry
        if self.ranked:
            self._widen_masks(entry)
        self._touch()

    def find(self, match: tuple[Match, ...], priority: int) -> Entry:
        """The entry with that key; NOT_FOUND otherwise."""
        entry = self.entries.get((match, priority))
        if entry is None:
            raise StateError(errors.NOT_FOUND, f"{self.spec.name}: no such entry")
        return entry

    def delete(self, match: tuple[Match, ...], priority: int) -> Entry:
        """Remove an entry and return it."""
        entry = self.find(match, priority)
        if entry.const:
            raise StateError(errors.PERMISSION_DENIED, f"{self.spec.name}: entry is constant")
        del self.entries[(match, priority)]
        self._touch()
        return entry

    def set_default(self, cell: Cell) -> None:
        """Replace the default entry, keeping its counters."""
        self.default[0:3] = cell[0:3]
        self.default[ARGUMENTS:] = cell[ARGUMENTS:]

    def clear(self) -> None:
        """Forget all entries that are not constant."""
        self.entries = {key: entry for key, entry in self.entries.items() if entry.const}
        self._touch()

    def _touch(self) -> None:
        """Forget what was looked up; the search structures follow at the next lookup."""
        self.memo.clear()
        self.single[0] = None
        self._stale = True

    def _rebuild(self) -> None:
        """Recompute the search structures; the memo is emptied, never replaced."""
        self.memo.clear()
        self.single[0] = None
        self._stale = False
        match self.spec.kind:
            case MatchKind.EXACT | MatchKind.VALID:
                self._exact = {self._values(entry): entry.cell for entry in self.entries.values()}
            case MatchKind.LPM:
                by_length: dict[int, dict[Key, Cell]] = {}
                for entry in self.entries.values():
                    length = entry.match[self._lpm_index].prefix_bits
                    by_length.setdefault(length, {})[self._values(entry)] = entry.cell
                bits = self.spec.key[self._lpm_index].bits
                self._prefixes = [
                    ((1 << bits) - (1 << (bits - length)), by_length[length])
                    for length in sorted(by_length, reverse=True)
                ]
            case MatchKind.TERNARY | MatchKind.RANGE:
                self._ranked = sorted(self.entries.values(), key=lambda e: (-e.priority, e.order))
                self._set_masks()

    def _values(self, entry: Entry) -> Key:
        """What the key of a packet must be, as far as the table looks at it."""
        return tuple(
            match.value if item.mask is None else match.value & item.mask
            for item, match in zip(self.spec.key, entry.match, strict=True)
        )

    def _set_masks(self) -> None:
        """Bits of each field that any entry looks at; the generated code masks its key with them.

        So a field that no entry cares about does not make keys distinct.
        """
        self.masks[:] = [0] * len(self.masks)
        for entry in self._ranked:
            self._widen_masks(entry)

    def _widen_masks(self, entry: Entry) -> None:
        for index, (item, match) in enumerate(zip(self.spec.key, entry.match, strict=True)):
            everything = (1 << item.bits) - 1
            if item.kind in (MatchKind.TERNARY, MatchKind.LPM):
                self.masks[index] |= match.mask
            elif item.kind is not MatchKind.RANGE or (match.value, match.high) != (0, everything):
                self.masks[index] = everything
