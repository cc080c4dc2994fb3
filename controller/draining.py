# SPDX-License-Identifier: Apache-2.0
"""Which links to take out of use so that nothing passes through a switch any more.

Pure. What ends at the switch itself cannot be led elsewhere, but hosts with a second cable are then
reached over that one.
"""

from collections.abc import Collection

from controller.fabric import Fabric, programmed_switches
from controller.paths import shortest_paths
from controller.routing import attached_hosts


def drained_links(fabric: Fabric, switch_names: Collection[str]) -> frozenset[str]:
    """Names of the links between these switches and other ones."""
    switches = {switch.name for switch in fabric.switches}
    unknown = set(switch_names) - switches
    if unknown:
        raise ValueError(f"there is no switch {min(unknown)}")
    return frozenset(
        link.name
        for link in fabric.links
        if {link.a.node, link.b.node} <= switches and {link.a.node, link.b.node} & {*switch_names}
    )


def drainable(fabric: Fabric) -> frozenset[str]:
    """Switches that something can be led around: they are on a way between others, or lead to a
    host that another switch leads to as well."""
    names = {switch.mac: switch.name for switch in fabric.switches}
    attached = attached_hosts(fabric)
    ends = {one.attached.node for one in fabric.collectors if one.attached is not None}
    ends |= {
        switch.name
        for switch in fabric.switches
        if switch.prefixes or switch.ipv6_prefixes or attached[switch.name]
    }
    found: set[str] = set()
    for by_target in shortest_paths(fabric, fabric.links).values():
        for target in ends & by_target.keys():
            found.update(names[hop.mac] for hop in by_target[target] if names[hop.mac] != target)
    cables: dict[str, set[str]] = {}
    for name, local in attached.items():
        for one in local:
            cables.setdefault(one.host.name, set()).add(name)
    for switches in cables.values():
        if len(switches) > 1:
            found |= switches
    return frozenset(found)


def neighbours(fabric: Fabric, switch_names: Collection[str]) -> tuple[str, ...]:
    """The switches that are cabled to these, in the order of the file."""
    ends = [(link.a.node, link.b.node) for link in fabric.links]
    far = {b for a, b in ends if a in switch_names} | {a for a, b in ends if b in switch_names}
    return tuple(
        switch.name
        for switch in programmed_switches(fabric)
        if switch.name in far and switch.name not in switch_names
    )


def cut_off_hosts(fabric: Fabric, switch_name: str) -> tuple[str, ...]:
    """Hosts that only this switch leads to: they are out of reach while it is not there."""
    attached = attached_hosts(fabric)
    elsewhere = {
        one.host.name for name, local in attached.items() if name != switch_name for one in local
    }
    mine = (one.host.name for one in attached[switch_name])
    return tuple(dict.fromkeys(name for name in mine if name not in elsewhere))
