# SPDX-License-Identifier: Apache-2.0
"""Generated fabrics: the starting point of an operator's file, and the lab's networks.

No randomness: what differs from cable to cable comes in as an argument. Leaf and spine here,
other cablings in `fabric_topologies.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TypeAlias, TypedDict, Unpack

from controller.addresses import parse_ip, parse_mac
from controller.fabric import (
    LINK_LATENCY_NS_MAX,
    ClockLimits,
    Collector,
    DeviceModel,
    Fabric,
    Host,
    IntDomain,
    Link,
    LinkEnd,
    Ptp,
    Switch,
    Tenant,
)
from controller.fabric_check import check_fabric
from controller.fabric_defaults import default_qos, default_watchlists, device_models
from controller.targets import CABLE_PORT_MAX
from controller.yaml_positions import format_key

HOST_PORT_BASE = 11
"""First host-facing port of a leaf, where its uplinks leave room below it."""
SPINE_NODE_ID_BASE = 101
REPORT_PORT = 60
CPU_PORT = 510

_LEAF_COUNT_MAX = 250 * 256
"""Leaf l has the addresses 10.<l / 256>.<l mod 256>.0/24; 10.254 and 10.255 are taken."""
_HOSTS_PER_LEAF_MAX = 254
_SWITCH_COUNT_MAX = 65_000
"""Switch n is 10.254.<n / 256>.<n mod 256>."""
_PORTS_BELOW_REPORTS = (REPORT_PORT, 500, CABLE_PORT_MAX)
"""The report port is the first of these that is above all ports with cables."""


class Declared(TypedDict, total=False):
    """What a generated fabric declares besides its switches, hosts and cables."""

    name: str
    speed_gbps: int
    lengths_m: Sequence[float] | None
    """Of every cable, in the order of the fabric's links; None: unknown."""
    length_tolerance_m: float
    asymmetry_sd_ns: float
    tenants: Sequence[str]
    """Host k of a leaf belongs to tenant (k - 1) mod their number."""
    models: Sequence[DeviceModel] | None
    """A switch and a NIC model, in this order."""
    rate_offset_max_ppb: int
    wander_ns_per_s_sqrt_s: float
    link_latency_ns_max: float


@dataclass(frozen=True, slots=True)
class PlannedSwitch:
    """A switch of a generated fabric."""

    name: str
    node_id: int
    leaf: int | None = None
    """Its number, from 1, if it has hosts."""


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """A NIC of a generated fabric: number `place` (from 1) on its leaf."""

    name: str
    leaf: int
    place: int
    machine: str | None = None


Ends: TypeAlias = tuple[str, int, str, int]
"""Both ends of a cable: node, port, node, port."""


def leaf_spine(
    *, leaves: int = 8, spines: int = 4, hosts_per_leaf: int = 2, **declared: Unpack[Declared]
) -> Fabric:
    """A two-tier Clos fabric in which every leaf has one uplink to every spine.

    Leaf l is node l with uplinks on ports 1 to `spines` and hosts from port 11 on; spine s is node
    100 + s with leaf l on port l. Host k of leaf l is 10.0.l.k. Uplinks come first, leaf by leaf,
    then access links, host by host.
    """
    check_sizes(leaves=leaves, spines=spines, hosts_per_leaf=hosts_per_leaf)
    uplinks: list[Ends] = [
        (f"leaf{leaf}", spine, f"spine{spine}", leaf)
        for leaf in range(1, leaves + 1)
        for spine in range(1, spines + 1)
    ]
    hosts = leaf_hosts(leaves, hosts_per_leaf)
    return assemble(
        switches=[*leaf_switches(leaves), *spine_switches(leaves, spines)],
        hosts=hosts,
        links=[*uplinks, *access_links(hosts, uplinks_per_leaf=spines)],
        declared=declared,
    )


def leaf_switches(leaves: int) -> list[PlannedSwitch]:
    """Leaf l is node l."""
    return [PlannedSwitch(f"leaf{leaf}", leaf, leaf) for leaf in range(1, leaves + 1)]


def spine_switches(leaves: int, spines: int) -> list[PlannedSwitch]:
    """Spine s is node 100 + s, or comes after more leaves than that."""
    base = max(SPINE_NODE_ID_BASE, leaves + 1)
    return [PlannedSwitch(f"spine{spine}", base + spine - 1) for spine in range(1, spines + 1)]


def leaf_hosts(leaves: int, hosts_per_leaf: int) -> list[PlannedHost]:
    """Hosts h1, h2, ... leaf by leaf."""
    return [
        PlannedHost(f"h{(leaf - 1) * hosts_per_leaf + place}", leaf, place)
        for leaf in range(1, leaves + 1)
        for place in range(1, hosts_per_leaf + 1)
    ]


def access_links(hosts: Sequence[PlannedHost], *, uplinks_per_leaf: int) -> list[Ends]:
    """The cable of every host, on the ports of its leaf from 11 on or above the uplinks."""
    base = max(HOST_PORT_BASE, uplinks_per_leaf + 1)
    return [(f"leaf{host.leaf}", base + host.place - 1, host.name, 1) for host in hosts]


def assemble(
    *,
    switches: Sequence[PlannedSwitch],
    hosts: Sequence[PlannedHost],
    links: Sequence[Ends],
    declared: Declared,
) -> Fabric:
    """The fabric of these parts; ValueError where it is none. The first host is grandmaster."""
    speed_gbps = declared.get("speed_gbps", 100)
    tenants = declared.get("tenants", ("alpha", "beta"))
    switch_model, nic_model = declared.get("models") or device_models(speeds_gbps=(speed_gbps,))
    lengths_m = declared.get("lengths_m")
    if lengths_m is not None and len(lengths_m) != len(links):
        raise ValueError(f"{len(lengths_m)} lengths for {len(links)} links")
    places = max(host.place for host in hosts)
    if not 1 <= len(tenants) <= places:
        raise ValueError(f"tenants is {len(tenants)}; expected 1 to {places}")
    port_max = max(port for _, near, _, far in links for port in (near, far))
    report_port = next((port for port in _PORTS_BELOW_REPORTS if port_max < port), None)
    if report_port is None:
        raise ValueError(
            f"a switch would have {port_max} ports; expected at most {CABLE_PORT_MAX - 1}"
        )
    fabric = Fabric(
        name=declared.get("name", "demo"),
        ptp=Ptp(domain=0, grandmaster=hosts[0].name),
        collectors=(
            Collector(
                ip=parse_ip("10.255.0.1"), mac=parse_mac("02:00:00:ff:00:01"), udp_port=32766
            ),
        ),
        int_domain=IntDomain(domain_id=0, truncate_bytes=96),
        clock_limits=ClockLimits(
            rate_offset_max_ppb=declared.get("rate_offset_max_ppb", 100_000),
            wander_ns_per_s_sqrt_s=declared.get("wander_ns_per_s_sqrt_s", 10.0),
        ),
        propagation_ns_per_m_min=4.8,
        link_latency_ns_max=declared.get("link_latency_ns_max", LINK_LATENCY_NS_MAX),
        qos=default_qos(),
        watchlists=default_watchlists(),
        tenants=tuple(Tenant(name=tenant) for tenant in tenants),
        models=(switch_model, nic_model),
        switches=tuple(_switch(one, switch_model.name, report_port) for one in switches),
        hosts=tuple(
            Host(
                name=host.name,
                model=nic_model.name,
                ip=parse_ip("10.0.0.0") + (host.leaf << 8) + host.place,
                mac=parse_mac("02:00:00:00:00:00") + (host.leaf << 8) + host.place,
                tenant=tenants[(host.place - 1) % len(tenants)],
                machine=host.machine,
            )
            for host in hosts
        ),
        links=tuple(
            _link(ends, None if lengths_m is None else float(lengths_m[index]), declared)
            for index, ends in enumerate(links)
        ),
    )
    problems = check_fabric(fabric)
    if problems:
        raise ValueError(f"{format_key(problems[0].path)}: {problems[0].text()}")
    return fabric


def check_sizes(*, hosts_per_leaf: int, leaves: int, **others: int) -> None:
    """ValueError for a number of nodes that the address plan has no room for."""
    for what, count, count_max in (
        *((what, count, _SWITCH_COUNT_MAX) for what, count in others.items()),
        ("leaves", leaves, _LEAF_COUNT_MAX),
        ("hosts_per_leaf", hosts_per_leaf, _HOSTS_PER_LEAF_MAX),
    ):
        if not 1 <= count <= count_max:
            raise ValueError(f"{what} is {count}; expected 1 to {count_max}")


def _switch(planned: PlannedSwitch, model: str, report_port: int) -> Switch:
    prefixes: tuple[IPv4Network, ...] = ()
    if planned.leaf is not None:
        prefixes = (IPv4Network((parse_ip("10.0.0.0") + (planned.leaf << 8), 24)),)
    return Switch(
        name=planned.name,
        node_id=planned.node_id,
        model=model,
        ip=parse_ip("10.254.0.0") + planned.node_id,
        mac=parse_mac("02:00:01:00:00:00") + planned.node_id,
        prefixes=prefixes,
        report_port=report_port,
        cpu_port=CPU_PORT,
        device_id=planned.node_id,
    )


def _link(ends: Ends, length_m: float | None, declared: Declared) -> Link:
    near, near_port, far, far_port = ends
    tolerance_m = declared.get("length_tolerance_m", 1.0)
    return Link(
        a=LinkEnd(node=near, port=near_port),
        b=LinkEnd(node=far, port=far_port),
        speed_gbps=declared.get("speed_gbps", 100),
        length_m=length_m,
        length_tolerance_m=0.0 if length_m is None else min(tolerance_m, length_m),
        asymmetry_sd_ns=declared.get("asymmetry_sd_ns", 5.0),
    )
