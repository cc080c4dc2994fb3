# SPDX-License-Identifier: Apache-2.0
"""In which order the switches of a fabric are written, so that no packet meets a half-written way.

Pure. A change of routes is one of several switches, which cannot be written in the same instant: a
switch that already sends over a link that is back, while the switch behind it still goes the long
way round, sends packets in a circle. So for every prefix the switches change from near to far: one
is written only after all switches that its new next hops lead over. The packet then meets old
routes first and new ones from some switch on, and both ways end at the destination.

Routes are read from the entries themselves, so the order holds whatever the reason of the change:
links drained or taken back, failures, other weights, drift.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from controller.entries import (
    ActionCall,
    Entry,
    EntryKey,
    Group,
    GroupRef,
    Lpm,
    Member,
    MemberRef,
    TableEntry,
)
from controller.fabric import Fabric, LinkEnd, cabling
from controller.reconcile import Operation, Update

Prefix: TypeAlias = tuple[str, int, int]
"""Table of the route, first address, length."""
Round: TypeAlias = dict[str, list[Update]]
"""Updates of each switch that may be carried out while the others carry out theirs."""

ADDRESS_BITS = {"ipv4_lpm": 32, "ipv6_lpm": 128}
"""Tables of routes, and how long their addresses are."""
CHANGE_COUNT_MAX = 100_000
"""Routes that change at once, all switches together; beyond that the order is not computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a switch holds, and what will be written to it."""

    entries: Collection[Entry]
    updates: Sequence[Update]


def write_rounds(fabric: Fabric, switches: Mapping[str, Held]) -> list[Round]:
    """The updates of all switches, in rounds: each round is over before the next one begins.

    Within a round the switches are independent, and the updates of one switch keep their order.
    What concerns no route is written in the first round, and what nobody needs any more goes with
    the last update of its switch.
    """
    plans = {name: _plan(held) for name, held in switches.items()}
    steps = [(name, step) for name, plan in plans.items() for step in plan.steps]
    if sum(len(step.prefixes) for _, step in steps) > CHANGE_COUNT_MAX or not any(
        plan.before for plan in plans.values()
    ):
        layers = [list(range(len(steps)))]
    else:
        layers = _layers(_dependencies(fabric, plans, steps))
    rounds: list[Round] = [{} for _ in range(max(1, len(layers)))]
    last = dict.fromkeys(switches, 0)
    for name, plan in plans.items():
        rounds[0][name] = list(plan.first)
    for number, layer in enumerate(layers):
        for index in layer:
            name, step = steps[index]
            rounds[number].setdefault(name, []).extend(step.updates)
            last[name] = number
    for name, plan in plans.items():
        rounds[last[name]].setdefault(name, []).extend(plan.last)
    return [
        ordered
        for part in rounds
        if (
            ordered := {
                name: sorted(updates, key=lambda update: update.phase)
                for name, updates in part.items()
                if updates
            }
        )
    ]


@dataclass(slots=True, kw_only=True)
class _Step:
    """Updates of one switch that change the routes of some prefixes together."""

    updates: list[Update]
    prefixes: list[Prefix]
    after: list["_Step"] = field(default_factory=list)
    """Steps of the same switch that must have been carried out."""


@dataclass(slots=True, kw_only=True)
class _Plan:
    """The updates of one switch, and where its routes lead before and after them."""

    first: list[Update]
    steps: list[_Step]
    last: list[Update]
    before: dict[Prefix, frozenset[int]]
    ports: dict[Prefix, frozenset[int]]


_Ref: TypeAlias = ActionCall | MemberRef | GroupRef


def _plan(held: Held) -> _Plan:
    old = {entry.key: entry for entry in held.entries}
    new = _applied(old, held.updates)
    old_routes, new_routes = _routes(old.values()), _routes(new.values())
    users: dict[_Ref, list[Prefix]] = {}
    for prefix, ref in old_routes.items():
        if new_routes.get(prefix) == ref:
            users.setdefault(ref, []).append(prefix)
    groups_of = _groups_of(old.values()), _groups_of(new.values())
    plan = _Plan(
        first=[],
        steps=[],
        last=[],
        before=_ports(old.values(), old_routes),
        ports=_ports(new.values(), new_routes),
    )
    in_place: dict[_Ref, _Step] = {}
    moves: list[tuple[Prefix, _Step]] = []
    for update in held.updates:
        entry = update.entry
        if isinstance(entry, TableEntry) and entry.table in ADDRESS_BITS:
            prefix = _prefix(entry)
            moves.append((prefix, _Step(updates=[update], prefixes=[prefix])))
        elif update.operation is Operation.DELETE and not update.early:
            plan.last.append(update)
        elif update.operation is Operation.MODIFY and isinstance(entry, Member | Group):
            ref = _container(entry, groups_of)
            step = in_place.setdefault(ref, _Step(updates=[], prefixes=users.get(ref, [])))
            step.updates.append(update)
        else:
            plan.first.append(update)
    for prefix, step in moves:
        left, joined = old_routes.get(prefix), new_routes.get(prefix)
        if left in in_place:
            in_place[left].after.append(step)
        if joined in in_place:
            step.after.append(in_place[joined])
    plan.steps = [*in_place.values(), *(step for _, step in moves)]
    return plan


def _applied(entries: Mapping[EntryKey, Entry], updates: Iterable[Update]) -> dict[EntryKey, Entry]:
    result = dict(entries)
    for update in updates:
        if update.operation is Operation.DELETE:
            result.pop(update.entry.key, None)
        else:
            result[update.entry.key] = update.entry
    return result


def _prefix(entry: TableEntry) -> Prefix:
    for _, value in entry.match:
        if isinstance(value, Lpm):
            return (entry.table, value.value, value.prefix_len)
    return (entry.table, 0, 0)


def _routes(entries: Iterable[Entry]) -> dict[Prefix, _Ref]:
    return {
        _prefix(entry): entry.action
        for entry in entries
        if isinstance(entry, TableEntry) and entry.table in ADDRESS_BITS
    }


def _groups_of(entries: Iterable[Entry]) -> dict[int, int]:
    """Group by member."""
    return {
        member_id: entry.group_id
        for entry in entries
        if isinstance(entry, Group)
        for member_id, _ in entry.members
    }


def _container(entry: Member | Group, groups_of: tuple[dict[int, int], dict[int, int]]) -> _Ref:
    """What routes refer to when they use the member: its group, or the member itself."""
    if isinstance(entry, Group):
        return GroupRef(entry.group_id)
    for groups in groups_of:
        if entry.member_id in groups:
            return GroupRef(groups[entry.member_id])
    return MemberRef(entry.member_id)


def _ports(
    entries: Collection[Entry], routes: Mapping[Prefix, _Ref]
) -> dict[Prefix, frozenset[int]]:
    """The ports that each route leads to."""
    members = {
        entry.member_id: dict(entry.action.params).get("port", 0)
        for entry in entries
        if isinstance(entry, Member)
    }
    groups = {
        entry.group_id: frozenset(members.get(member_id, 0) for member_id, _ in entry.members)
        for entry in entries
        if isinstance(entry, Group)
    }

    def of(ref: _Ref) -> frozenset[int]:
        match ref:
            case MemberRef(member_id):
                return frozenset({members.get(member_id, 0)})
            case GroupRef(group_id):
                return groups.get(group_id, frozenset())
            case _:
                return frozenset()

    return {prefix: of(ref) for prefix, ref in routes.items()}


def _dependencies(
    fabric: Fabric, plans: Mapping[str, _Plan], steps: Sequence[tuple[str, _Step]]
) -> list[set[int]]:
    """For each step the steps that must have been carried out before it."""
    number = {id(step): index for index, (_, step) in enumerate(steps)}
    changed: dict[str, dict[Prefix, int]] = {name: {} for name in plans}
    for index, (name, step) in enumerate(steps):
        for prefix in step.prefixes:
            changed[name][prefix] = index
    peers = cabling(fabric)
    known: dict[tuple[str, Prefix], frozenset[int]] = {}

    def beyond(name: str, prefix: Prefix, on_the_way: frozenset[str]) -> frozenset[int]:
        """The first steps on the ways that the switch's new routes for the prefix lead."""
        if (name, prefix) in known:
            return known[name, prefix]
        found: set[int] = set()
        for port in plans[name].ports.get(prefix, ()):
            far = peers.get(LinkEnd(node=name, port=port))
            if far is None or far.node not in plans or far.node in on_the_way:
                continue
            found.update(at(far.node, prefix, on_the_way | {name}))
        known[name, prefix] = frozenset(found)
        return known[name, prefix]

    def at(name: str, prefix: Prefix, on_the_way: frozenset[str]) -> Iterator[int]:
        held = _covering(prefix, plans[name].ports)
        if held != prefix:
            yield from (index for one, index in changed[name].items() if _covers(prefix, one))
        if held is None:
            return
        if held in changed[name]:
            yield changed[name][held]
        else:
            yield from beyond(name, held, on_the_way)

    return [
        {
            *(number[id(before)] for before in step.after),
            *(
                other
                for prefix in step.prefixes
                for other in beyond(name, prefix, frozenset({name}))
            ),
        }
        - {index}
        for index, (name, step) in enumerate(steps)
    ]


def _covering(prefix: Prefix, routes: Mapping[Prefix, object]) -> Prefix | None:
    """The longest route that holds the whole prefix."""
    table, address, length = prefix
    for shorter in range(length, -1, -1):
        gone = ADDRESS_BITS[table] - shorter
        one = (table, address >> gone << gone, shorter)
        if one in routes:
            return one
    return None


def _covers(outer: Prefix, inner: Prefix) -> bool:
    gone = ADDRESS_BITS[outer[0]] - outer[2]
    return inner[0] == outer[0] and inner[2] > outer[2] and inner[1] >> gone == outer[1] >> gone


def _layers(dependencies: Sequence[set[int]]) -> list[list[int]]:
    """Steps in layers: each depends on earlier layers only.

    Steps that wait for each other in a circle (a group that many prefixes share may, if several
    links change at once) lose the waits among them.
    """
    waits = [set(before) for before in dependencies]
    while True:
        sorter = TopologicalSorter(dict(enumerate(waits)))
        try:
            sorter.prepare()
        except CycleError as error:
            circle = set(error.args[1])
            for index in circle:
                waits[index] -= circle
            continue
        layers = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready())
            layers.append(ready)
            sorter.done(*ready)
        return layers
