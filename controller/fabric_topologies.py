# SPDX-License-Identifier: Apache-2.0
"""Generated fabrics of other cablings than leaf and spine (`fabric_generate.py`).

Links come in the order uplinks of the leaves, uplinks of the spines, access links.
"""

from typing import Unpack

from controller.fabric import Fabric
from controller.fabric_generate import (
    Declared,
    Ends,
    PlannedHost,
    PlannedSwitch,
    access_links,
    assemble,
    check_sizes,
    leaf_hosts,
    leaf_switches,
    spine_switches,
)

CORE_NODE_ID_BASE = 201
CORE_UPLINK_PORT_BASE = 11
"""First port of a spine that leads to a core, where its leaves leave room below it."""


def three_tier(
    *,
    pods: int = 2,
    leaves_per_pod: int = 2,
    spines_per_pod: int = 2,
    cores_per_plane: int = 2,
    hosts_per_leaf: int = 2,
    **declared: Unpack[Declared],
) -> Fabric:
    """Pods of leaves and spines, joined by cores in planes.

    Every leaf has an uplink to every spine of its pod. Spine n of every pod is in plane n, and has
    an uplink to every core of that plane. Leaves and spines are numbered pod by pod, cores plane by
    plane; leaf 1 of pod 2 is leaf `leaves_per_pod` + 1.
    """
    check_sizes(
        pods=pods,
        leaves=pods * leaves_per_pod,
        leaves_per_pod=leaves_per_pod,
        spines_per_pod=spines_per_pod,
        cores_per_plane=cores_per_plane,
        hosts_per_leaf=hosts_per_leaf,
    )
    leaves, spines = pods * leaves_per_pod, pods * spines_per_pod
    links: list[Ends] = []
    for leaf in range(leaves):
        pod, place = divmod(leaf, leaves_per_pod)
        for plane in range(spines_per_pod):
            spine = pod * spines_per_pod + plane
            links.append((f"leaf{leaf + 1}", plane + 1, f"spine{spine + 1}", place + 1))
    uplink_base = max(CORE_UPLINK_PORT_BASE, leaves_per_pod + 1)
    for spine in range(spines):
        pod, plane = divmod(spine, spines_per_pod)
        for member in range(cores_per_plane):
            core = plane * cores_per_plane + member
            links.append((f"spine{spine + 1}", uplink_base + member, f"core{core + 1}", pod + 1))
    below = spine_switches(leaves, spines)
    core_base = max(CORE_NODE_ID_BASE, below[-1].node_id + 1)
    cores = [
        PlannedSwitch(f"core{core + 1}", core_base + core)
        for core in range(spines_per_pod * cores_per_plane)
    ]
    hosts = leaf_hosts(leaves, hosts_per_leaf)
    return assemble(
        switches=[*leaf_switches(leaves), *below, *cores],
        hosts=hosts,
        links=[*links, *access_links(hosts, uplinks_per_leaf=spines_per_pod)],
        declared=declared,
    )


def rails(
    *,
    units: int = 1,
    machines_per_unit: int = 2,
    nics_per_machine: int = 8,
    spines: int = 4,
    **declared: Unpack[Declared],
) -> Fabric:
    """A rail-optimised fabric: NIC n of every machine of a unit is on that unit's leaf n.

    Every leaf has an uplink to every spine. NIC n of machine m is called `m<m>n<n>`; machines and
    leaves are numbered unit by unit.
    """
    leaves = units * nics_per_machine
    check_sizes(
        units=units,
        leaves=leaves,
        nics_per_machine=nics_per_machine,
        spines=spines,
        hosts_per_leaf=machines_per_unit,
    )
    uplinks: list[Ends] = [
        (f"leaf{leaf}", spine, f"spine{spine}", leaf)
        for leaf in range(1, leaves + 1)
        for spine in range(1, spines + 1)
    ]
    by_leaf = [
        _nic(unit, place, nic, machines_per_unit, nics_per_machine)
        for unit in range(units)
        for nic in range(1, nics_per_machine + 1)
        for place in range(1, machines_per_unit + 1)
    ]
    by_machine = [
        _nic(unit, place, nic, machines_per_unit, nics_per_machine)
        for unit in range(units)
        for place in range(1, machines_per_unit + 1)
        for nic in range(1, nics_per_machine + 1)
    ]
    return assemble(
        switches=[*leaf_switches(leaves), *spine_switches(leaves, spines)],
        hosts=by_machine,
        links=[*uplinks, *access_links(by_leaf, uplinks_per_leaf=spines)],
        declared=declared,
    )


def _nic(unit: int, place: int, nic: int, machines: int, nics: int) -> PlannedHost:
    machine = f"m{unit * machines + place}"
    return PlannedHost(f"{machine}n{nic}", unit * nics + nic, place, machine)
