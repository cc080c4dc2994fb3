# SPDX-License-Identifier: Apache-2.0
"""Other cablings than leaf and spine, made of the leaf-spine fabric of the same scenario.

Switches keep the generator's ports, node ids and addresses where they have the same role. Link
order is uplinks first, leaf by leaf, then access links.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bmv2_lab.scenarios import Scenario
from bmv2_lab.scenarios.parameters import Topology
from controller.addresses import parse_ip, parse_mac
from controller.fabric import Fabric, Host, Link, LinkEnd, Switch
from controller.fabric_generate import HOST_PORT_BASE

POD_SWITCHES = 2
"""Leaves, and spines, of a pod."""
CORE_NODE_ID_BASE = 201
CORE_UPLINK_PORT_BASE = 11
"""First port of a pod's spine that leads to a core."""
LEAF_PAIR = 2
Ends = tuple[str, str]


def cabled(fabric: Fabric, scenario: Scenario) -> Fabric:
    """The scenario's cabling in place of leaf and spine."""
    match scenario.topology:
        case Topology.LEAF_SPINE:
            return fabric
        case Topology.THREE_TIER:
            return _three_tier(fabric, scenario)
        case Topology.DUAL_HOMED:
            return _dual_homed(fabric)
        case Topology.RAILS:
            return _rails(fabric, scenario)


def _three_tier(fabric: Fabric, scenario: Scenario) -> Fabric:
    """Pods of two leaves and two spines; spine n of each pod is cabled to its plane's two cores."""
    pods = scenario.leaves // POD_SWITCHES
    assert pods * POD_SWITCHES == scenario.leaves == scenario.spines, "whole pods"
    cores = tuple(
        _core(fabric.switch("spine1"), number) for number in range(1, POD_SWITCHES**2 + 1)
    )
    ends: list[Ends] = []
    for leaf in range(1, scenario.leaves + 1):
        pod, place = divmod(leaf - 1, POD_SWITCHES)
        for plane in range(1, POD_SWITCHES + 1):
            spine = pod * POD_SWITCHES + plane
            ends.append((f"leaf{leaf}:{plane}", f"spine{spine}:{place + 1}"))
    for spine in range(1, scenario.spines + 1):
        pod, plane = divmod(spine - 1, POD_SWITCHES)
        for member in range(POD_SWITCHES):
            core = plane * POD_SWITCHES + member + 1
            ends.append((f"spine{spine}:{CORE_UPLINK_PORT_BASE + member}", f"core{core}:{pod + 1}"))
    return replace(
        fabric,
        switches=(*fabric.switches, *cores),
        links=(*_links(fabric, ends), *_access(fabric)),
    )


def _core(like: Switch, number: int) -> Switch:
    node_id = CORE_NODE_ID_BASE + number - 1
    high, low = divmod(node_id, 256)
    return replace(
        like,
        name=f"core{number}",
        node_id=node_id,
        device_id=node_id,
        ip=parse_ip(f"10.254.{high}.{low}"),
        mac=parse_mac(f"02:00:01:00:{high:02x}:{low:02x}"),
    )


def _dual_homed(fabric: Fabric) -> Fabric:
    """Every NIC is cabled to both leaves of its pair; routes lead to hosts, not to ranges."""
    ends: list[Ends] = []
    for link in _access(fabric):
        leaf, port = int(link.a.node.removeprefix("leaf")), link.a.port
        first = (leaf - 1) // LEAF_PAIR * LEAF_PAIR + 1
        place = 0 if leaf == first else sum(1 for one in _access(fabric) if one.a.node == "leaf1")
        for number in range(LEAF_PAIR):
            ends.append((f"leaf{first + number}:{port + place}", f"{link.b.node}:{number + 1}"))
    uplinks = fabric.links[: len(fabric.links) - len(_access(fabric))]
    return replace(
        fabric,
        switches=tuple(replace(switch, prefixes=()) for switch in fabric.switches),
        links=(*uplinks, *_links(fabric, ends)),
    )


def _rails(fabric: Fabric, scenario: Scenario) -> Fabric:
    """NIC n of every machine is on leaf n; it is called `m<machine>n<n>`."""
    names: dict[str, tuple[str, str]] = {}
    for host in fabric.hosts:
        number = int(host.name.removeprefix("h")) - 1
        rail, machine = divmod(number, scenario.hosts_per_leaf)
        names[host.name] = (f"m{machine + 1}n{rail + 1}", f"m{machine + 1}")

    def renamed(host: Host) -> Host:
        name, machine = names[host.name]
        return replace(host, name=name, machine=machine)

    def end(one: LinkEnd) -> LinkEnd:
        return replace(one, node=names[one.node][0]) if one.node in names else one

    return replace(
        fabric,
        ptp=replace(fabric.ptp, grandmaster=names[fabric.ptp.grandmaster][0]),
        hosts=tuple(sorted(map(renamed, fabric.hosts), key=lambda host: (host.machine, host.ip))),
        links=tuple(replace(link, a=end(link.a), b=end(link.b)) for link in fabric.links),
    )


def _access(fabric: Fabric) -> tuple[Link, ...]:
    """Access links of the generated fabric."""
    return tuple(link for link in fabric.links if link.a.port >= HOST_PORT_BASE)


def _links(fabric: Fabric, ends: Sequence[Ends]) -> Iterator[Link]:
    like = fabric.links[0]
    for a, b in ends:
        yield replace(like, a=LinkEnd.parse(a), b=LinkEnd.parse(b))
