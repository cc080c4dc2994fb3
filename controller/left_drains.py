# SPDX-License-Identifier: Apache-2.0
"""Which switches others still lead around, although nothing says that they should. Pure.

A pipeline change that is ended half-way leaves its drains. They are drift like any other; that it
is a drain, and of which switch, is seen by comparing with the routes of that drain.
"""

from collections.abc import Mapping
from dataclasses import replace

from controller.draining import drainable, neighbours
from controller.entries import Entry, EntryKey
from controller.fabric import cabling
from controller.findings import ROUTE_NAMES, Findings, Target
from controller.route_entries import held_ports

SUSPECT_COUNT_MAX = 8
"""A change drains one switch at a time; where more are avoided, something else is wrong."""
Actual = Mapping[str, Mapping[EntryKey, Entry]]
"""What each switch holds."""


def left_drains(target: Target, findings: Findings, actual: Actual) -> tuple[str, ...]:
    """Switches around which all neighbours that are astray lead exactly as in a drain.

    target, findings: what should be; switches that could not be read are not in `actual`.
    """
    astray = [name for name, held in actual.items() if target.updates(name, held, ROUTE_NAMES)]
    suspects = {far for name in astray for far in _avoided(target, name, actual[name])}
    if len(suspects) > SUSPECT_COUNT_MAX:
        return ()
    found = []
    for far in sorted(suspects & drainable(target.fabric)):
        drained = replace(findings, drained_switches={*findings.drained_switches, far})
        other = Target.of(target.fabric, drained, target.sizes, before=target)
        around = {*astray} & {*neighbours(target.fabric, [far])}
        if not any(other.updates(name, actual[name], ROUTE_NAMES) for name in around):
            found.append(far)
    return tuple(found)


def _avoided(target: Target, name: str, held: Mapping[EntryKey, Entry]) -> set[str]:
    """Neighbours that buckets of the switch should lead to, and none does."""
    wanted = set(held_ports(target.entries(name).values()).values())
    missing = wanted - set(held_ports(held.values()).values())
    return {
        far.node
        for near, far in cabling(target.fabric).items()
        if near.node == name and near.port in missing
    }
