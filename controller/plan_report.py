# SPDX-License-Identifier: Apache-2.0
"""A plan as people read it: by switch and table, in the operator's words.

Pure. `+` is inserted, `~` changed, `-` deleted; what stays as it is does not appear.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from controller.deploy_result import FabricDifference, SwitchDifference
from controller.ecmp import MEMBER_IDS_PER_GROUP, PORT_MEMBER_ID_MAX
from controller.entries import Kind, Member
from controller.entry_text import EntryText, FabricNames
from controller.fabric import Fabric
from controller.reconcile import Operation, Update

LINES_PER_TABLE_MAX = 4
"""Entries of one table that are shown unless all are asked for."""
NAMES_SHOWN_MAX = 12
"""Names of switches of which the same is to be said."""

_OPERATIONS = (Operation.DELETE, Operation.MODIFY, Operation.INSERT)
"""What surprises comes first."""


def format_plan(difference: FabricDifference, fabric: Fabric, *, verbose: bool = False) -> str:
    """What `apply` would do. verbose: every entry."""
    lines: list[str] = []
    alike: dict[tuple[str, ...], list[str]] = {}
    words = FabricNames(fabric)
    for switch in difference.switches:
        if not switch.in_sync:
            block = tuple(_switch_lines(switch, words, verbose=verbose))
            alike.setdefault(block, []).append(switch.name)
    for (first, *others), names in alike.items():
        lines += [f"{_names(names)}: {first}", *others]
    lines += [f"error: {error}" for error in difference.errors]
    counts = Counter(u.operation for switch in difference.switches for u in switch.updates)
    changed = sum(not switch.in_sync for switch in difference.switches)
    lines.append(
        f"{counts[Operation.INSERT]} to insert, {counts[Operation.MODIFY]} to modify, "
        f"{counts[Operation.DELETE]} to delete on {changed} of {len(difference.switches)} switches"
    )
    return "\n".join(lines)


def _names(names: list[str]) -> str:
    """Switches of which the same is to be said."""
    if len(names) == 1:
        return names[0]
    more = ", ..." if len(names) > NAMES_SHOWN_MAX else ""
    return f"{', '.join(names[:NAMES_SHOWN_MAX])}{more} ({len(names)} switches, each)"


def _switch_lines(switch: SwitchDifference, words: FabricNames, *, verbose: bool) -> Iterator[str]:
    yield _counts(switch.updates) or "nothing to write"
    if switch.pipeline_differs and switch.pipeline_runs:
        yield (
            "  ! push the pipeline in place of another one, which empties the switch: needs "
            "--allow-pipeline-change; if that fails, pipeline and entries are put back, but not "
            "meters, digests, value sets, registers and counters"
        )
    elif switch.pipeline_differs:
        yield "  ! push the pipeline"
    tables: dict[str, list[Update]] = {}
    for update in switch.updates:
        tables.setdefault(_table(update), []).append(update)
    if switch.pipeline_differs and not verbose:  # everything there is, entry by entry
        listed = ", ".join(f"{name} {len(updates)}" for name, updates in tables.items())
        yield f"  {listed or 'no entries'}"
        return
    text = EntryText(words, switch.name)
    for name, updates in tables.items():
        yield f"  {name}: {_counts(updates)}"
        lines = _entry_lines(updates, text) if verbose else _short_lines(updates, text)
        yield from (f"    {line}" for line in lines)


def _counts(updates: Iterable[Update]) -> str:
    counts = Counter(update.operation for update in updates)
    words = {Operation.INSERT: "insert", Operation.MODIFY: "modify", Operation.DELETE: "delete"}
    return ", ".join(f"{counts[one]} to {word}" for one, word in words.items() if counts[one])


def _table(update: Update) -> str:
    """The table or profile, or the kind of what is in none."""
    kind, name, _ = update.entry.key
    return name or {Kind.MULTICAST: "multicast groups", Kind.CLONE_SESSION: "clone sessions"}.get(
        kind, kind.name.lower()
    )


def _short_lines(updates: list[Update], text: EntryText) -> Iterator[str]:
    """Buckets of ECMP groups in numbers, and the first few of the other entries."""
    buckets = [update for update in updates if _is_bucket(update)]
    others = [update for update in updates if not _is_bucket(update)]
    lines = [*_bucket_lines(buckets, text), *_entry_lines(others, text)]
    yield from lines[:LINES_PER_TABLE_MAX]
    if len(lines) > LINES_PER_TABLE_MAX:
        yield f"... and {len(lines) - LINES_PER_TABLE_MAX} more (--verbose)"


def _is_bucket(update: Update) -> bool:
    """A member of an ECMP group, of which there are many alike."""
    entry = update.entry
    return isinstance(entry, Member) and entry.member_id > PORT_MEMBER_ID_MAX


def _bucket_lines(updates: list[Update], text: EntryText) -> Iterator[str]:
    """How many buckets of which group lead where, or to where from where."""
    alike: Counter[tuple[Operation, int, str]] = Counter()
    for update in updates:
        entry = update.entry
        assert isinstance(entry, Member)
        way = text.next_hop(entry.action)
        if isinstance(update.before, Member):
            way = f"{way}, was {text.next_hop(update.before.action)}"
        alike[update.operation, entry.member_id // MEMBER_IDS_PER_GROUP, way] += 1
    order = {operation: index for index, operation in enumerate(_OPERATIONS)}
    for (operation, group, way), count in sorted(
        alike.items(), key=lambda one: (order[one[0][0]], one[0][1], one[0][2])
    ):
        buckets = "bucket" if count == 1 else "buckets"
        yield f"{operation.value} {count} {buckets} of group {group}: {way}"


def _entry_lines(updates: list[Update], text: EntryText) -> Iterator[str]:
    for operation in _OPERATIONS:
        for update in updates:
            if update.operation is not operation:
                continue
            line = f"{operation.value} {text.what(update.entry)}: {text.does(update.entry)}"
            if update.before is not None:
                line += f", was {text.does(update.before)}"
            yield line
