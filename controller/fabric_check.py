# SPDX-License-Identifier: Apache-2.0
"""What a fabric must satisfy beyond the types of its values: references, uniqueness, cabling.

Pure. Each problem carries the path of the key to blame (as in the file), so that the reader of a
file can name its line, and a generator's fabric can be checked without a file.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain

import networkx as nx

from controller.addresses import format_ip, format_ipv6, format_mac
from controller.fabric import Fabric, Host, LinkEnd, Switch
from controller.fabric_check_prefixes import check_prefixes
from controller.fabric_check_qos import check_classes, check_switch_settings
from controller.fabric_check_telemetry import check_measuring, collector_addresses
from controller.fabric_problem import (
    ELSEWHERE,
    HOST_NAMES,
    LINK_ENDS,
    SWITCH_NAMES,
    TENANT_NAMES,
    FabricProblem,
    SwitchIndex,
    all_known,
    device_port,
    known,
    repeats,
    switch_port,
)
from controller.fabric_repair import Doubt
from controller.telemetry.dialect import DIALECTS
from controller.yaml_positions import KeyPath
from correction.model import ClockKind


def check_fabric(fabric: Fabric, doubt: Doubt | None = None) -> list[FabricProblem]:
    """All problems of the fabric; empty for a usable one.

    doubt: values that are not what was meant, whose consequences are not told.
    """
    unknown = doubt or Doubt(())
    switches = SwitchIndex(fabric)
    # What follows from names, cabling and tenants as a whole is not told where these are wrong.
    stages: tuple[Callable[[], Iterator[FabricProblem]], ...] = (
        lambda: chain(_unique_values(fabric), check_classes(fabric), _models(fabric)),
        lambda: chain(
            _references(fabric),
            check_measuring(fabric, switches),
            check_switch_settings(fabric, switches),
            _switch_details(fabric, switches),
            _links(fabric, switches),
            _propagation(fabric),
        ),
        lambda: chain(
            _unused_tenants(fabric),
            _uncabled(fabric),
            _reachability(fabric),
            check_prefixes(fabric),
        ),
    )
    problems: list[FabricProblem] = []
    for stage in stages:
        found = [problem for problem in stage() if not any(map(unknown.about, problem.depends_on))]
        found = _unexplained(found, unknown)
        for problem in found:
            unknown.add(problem.path)
        problems += found
    return problems


def _unexplained(problems: Iterable[FabricProblem], unknown: Doubt) -> list[FabricProblem]:
    """Without missing names that may be those of as many things whose names are in doubt."""
    told = list(problems)
    missing: dict[tuple[KeyPath, ...], set[str]] = {}
    for problem in told:
        if problem.missing is not None:
            name, named_in = problem.missing
            missing.setdefault(named_in, set()).add(name)
    explained = {
        named_in for named_in, names in missing.items() if len(names) <= unknown.count(named_in)
    }
    return [
        problem
        for problem in told
        if problem.missing is None or problem.missing[1] not in explained
    ]


def _propagation(fabric: Fabric) -> Iterator[FabricProblem]:
    low, high = fabric.propagation_ns_per_m_min, fabric.propagation_ns_per_m_max
    if high < low:
        yield FabricProblem(
            ("propagation_ns_per_m_max",),
            f"{high} is less than propagation_ns_per_m_min; expected at least {low}",
            (("propagation_ns_per_m_min",),),
        )


def _unique_values(fabric: Fabric) -> Iterator[FabricProblem]:
    names: list[tuple[KeyPath, Hashable]] = []
    ips: list[tuple[KeyPath, Hashable]] = []
    macs: list[tuple[KeyPath, Hashable]] = []
    for index, switch in enumerate(fabric.switches):
        names.append((("switches", index, "name"), switch.name))
        ips.append((("switches", index, "ip"), format_ip(switch.ip)))
        macs.append((("switches", index, "mac"), format_mac(switch.mac)))
    for index, host in enumerate(fabric.hosts):
        names.append((("hosts", index, "name"), host.name))
        ips.append((("hosts", index, "ip"), format_ip(host.ip)))
        macs.append((("hosts", index, "mac"), format_mac(host.mac)))
    collector_ips, collector_macs = collector_addresses(fabric)
    yield from repeats(names, "the name")
    yield from repeats([*collector_ips, *ips], "the address")
    yield from repeats([*collector_macs, *macs], "the address")
    yield from repeats(
        [
            (("hosts", index, "ipv6"), format_ipv6(host.ipv6))
            for index, host in enumerate(fabric.hosts)
            if host.ipv6 is not None
        ],
        "the address",
    )
    yield from repeats(
        [(("punt", i, "name"), rule.name) for i, rule in enumerate(fabric.punt)], "the name"
    )
    yield from repeats(
        [(("switches", i, "node_id"), s.node_id) for i, s in enumerate(fabric.switches)],
        "the node id",
    )
    yield from repeats(
        [
            (("switches", i, "p4runtime"), f"{s.p4runtime} device {s.device_id}")
            for i, s in enumerate(fabric.switches)
            if s.p4runtime is not None
        ],
        "the P4Runtime server",
        ("device_id", "node_id"),
    )
    yield from repeats(
        [(("models", i, "name"), m.name) for i, m in enumerate(fabric.models)], "the name"
    )
    yield from repeats(
        [(("ptp", "references", i, "clock"), r.clock) for i, r in enumerate(fabric.ptp.references)],
        "the clock",
    )
    yield from repeats(
        [(("tenants", i, "name"), t.name) for i, t in enumerate(fabric.tenants)], "the name"
    )
    yield from repeats(
        [(("watchlists", i, "name"), w.name) for i, w in enumerate(fabric.watchlists)], "the name"
    )


def _references(fabric: Fabric) -> Iterator[FabricProblem]:
    host_names = {host.name: None for host in fabric.hosts}
    clocks: list[tuple[KeyPath, str]] = [
        (("ptp", "grandmaster"), fabric.ptp.grandmaster),
        *(
            (("ptp", "references", index, "clock"), one.clock)
            for index, one in enumerate(fabric.ptp.references)
        ),
    ]
    yield from all_known(clocks, host_names, "host", (HOST_NAMES,))
    of_kind = {
        kind: [model.name for model in fabric.models if model.kind is kind] for kind in ClockKind
    }
    named_in: tuple[KeyPath, ...] = (("models", "*", "name"), ("models", "*", "kind"))
    yield from all_known(
        [(("switches", i, "model"), switch.model) for i, switch in enumerate(fabric.switches)],
        of_kind[ClockKind.SWITCH],
        "switch model",
        named_in,
    )
    yield from all_known(
        [(("hosts", index, "model"), host.model) for index, host in enumerate(fabric.hosts)],
        of_kind[ClockKind.NIC],
        "nic model",
        named_in,
    )
    yield from all_known(
        [(("hosts", index, "tenant"), host.tenant) for index, host in enumerate(fabric.hosts)],
        {tenant.name: None for tenant in fabric.tenants},
        "tenant",
        (TENANT_NAMES,),
    )


def _unused_tenants(fabric: Fabric) -> Iterator[FabricProblem]:
    used = {host.tenant for host in fabric.hosts}
    for index, tenant in enumerate(fabric.tenants):
        if tenant.name not in used:
            yield FabricProblem(
                ("tenants", index, "name"),
                f"no host belongs to tenant {tenant.name!r}; expected at least one",
                (("hosts", "*", "tenant"),),
            )


def _switch_details(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    for index, switch in enumerate(fabric.switches):
        yield from _own_ports(switch, ("switches", index), switches)
        yield from repeats(
            [
                (("switches", index, "interfaces", position, "port"), port)
                for position, (port, _) in enumerate(switch.interfaces)
            ],
            "the port",
        )


def _own_ports(switch: Switch, path: KeyPath, switches: SwitchIndex) -> Iterator[FabricProblem]:
    """Problems of the ports that are no cables': the program has some of them compiled in."""
    target = switches.target(switch.name)
    needs = switches.needs(switch.name, "cpu_port")
    if target.cpu_ports and switch.cpu_port not in target.cpu_ports:
        choices = " or ".join(map(str, target.cpu_ports))
        yield FabricProblem(
            (*path, "cpu_port"),
            f"{switch.cpu_port} is not the CPU port of target {target.name}; expected {choices}",
            needs,
        )
    if switch.report_port is None:
        return
    reserved = {**target.reserved_ports, switch.cpu_port: "cpu_port"}
    if switch.report_port in reserved:
        yield FabricProblem(
            (*path, "report_port"),
            f"{switch.report_port} is the {reserved[switch.report_port]}; expected another one",
            needs,
        )
    else:
        end = LinkEnd(node=switch.name, port=switch.report_port)
        yield from device_port((*path, "report_port"), end, switches)


def _models(fabric: Fabric) -> Iterator[FabricProblem]:
    for index, model in enumerate(fabric.models):
        yield from known(("models", index, "dialect"), model.dialect, DIALECTS, "dialect", ())
        if (model.egress_stamp_width_bits or 0) > model.stamp_width_bits:
            yield FabricProblem(
                ("models", index, "egress_stamp_width_bits"),
                f"wider than stamp_width_bits; expected {model.stamp_width_bits} bits at most",
            )
        yield from repeats(
            [
                (("models", index, "stamp_points", i, "speed_gbps"), point.speed_gbps)
                for i, point in enumerate(model.stamp_points)
            ],
            "the speed",
        )


def _links(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    model_of: dict[str, tuple[str, KeyPath]] = {}
    for section, index, node in _nodes(fabric):
        model_of.setdefault(node.name, (node.model, (section, index, "model")))
    models = {model.name: model for model in fabric.models}
    host_names = {host.name for host in fabric.hosts}
    names = (SWITCH_NAMES, HOST_NAMES)
    ends_named = [
        (("links", index, key), end.node)
        for index, link in enumerate(fabric.links)
        for key, end in (("a", link.a), ("b", link.b))
    ]
    yield from all_known(
        ends_named, model_of, "node", names, expected="a switch or host of this file"
    )
    used: dict[LinkEnd, KeyPath] = {}
    cabled: dict[tuple[str, str], KeyPath] = {}
    for index, link in enumerate(fabric.links):
        ends: tuple[KeyPath, ...] = (("links", index, "a"), ("links", index, "b"))
        for path, end, far in ((ends[0], link.a, link.b), (ends[1], link.b, link.a)):
            if end.node not in model_of:
                continue
            if end in used:
                yield FabricProblem(
                    path,
                    f"port {end} is used by {ELSEWHERE} already; expected a free port",
                    (used[end],),
                    used[end],
                )
            used.setdefault(end, path)
            between = (end.node, far.node)
            if end.node in host_names and between in cabled:
                yield FabricProblem(
                    path,
                    f"host {end.node} has a second link to {far.node}; "
                    "expected one per host and switch",
                    (*ends, cabled[between][:2], HOST_NAMES),
                )
            cabled.setdefault(between, path)
            if end.node in switches:
                yield from switch_port(path, end, switches)
            model_name, model_path = model_of[end.node]
            model = models.get(model_name)
            if path == ends[1] and model_of.get(link.a.node, ("", ()))[0] == model_name:
                continue  # told of the other end
            if model is not None and model.stamp_points_at(link.speed_gbps) is None:
                speeds = ", ".join(str(point.speed_gbps) for point in model.stamp_points)
                yield FabricProblem(
                    ("links", index, "speed_gbps"),
                    f"model {model.name} of {end.node} declares no stamp point at "
                    f"{link.speed_gbps} Gb/s; expected one of {speeds}",
                    (path, model_path, ("models", "*", "name"), ("models", "*", "stamp_points")),
                )
        if link.a.node == link.b.node or {link.a.node, link.b.node} <= host_names:
            yield FabricProblem(
                ("links", index, "b"),
                f"the link joins {link.a.node} and {link.b.node}; "
                "expected two switches, or a switch and a host",
                (*ends, *names),
            )
        if link.drained and {link.a.node, link.b.node} & host_names:
            yield FabricProblem(
                ("links", index, "drained"),
                "the only link of a host has no other way round; expected one between switches",
                (*ends, HOST_NAMES),
            )
        if link.length_m is not None and link.length_tolerance_m > link.length_m:
            yield FabricProblem(
                ("links", index, "length_tolerance_m"),
                f"{link.length_tolerance_m} m is more than the length; "
                f"expected at most {link.length_m}",
                (("links", index, "length_m"),),
            )


def _uncabled(fabric: Fabric) -> Iterator[FabricProblem]:
    cabled = {end.node for link in fabric.links for end in (link.a, link.b)}
    for index, host in enumerate(fabric.hosts):
        if host.name not in cabled:
            yield FabricProblem(
                ("hosts", index, "name"),
                f"host {host.name} has no link; expected one in links",
                LINK_ENDS,
            )


def _reachability(fabric: Fabric) -> Iterator[FabricProblem]:
    """One problem per part of the fabric that is not joined to the grandmaster's."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(switch.name for switch in fabric.switches)
    graph.add_edges_from((link.a.node, link.b.node) for link in fabric.links)
    if fabric.ptp.grandmaster not in graph:
        return
    reached = nx.node_connected_component(graph, fabric.ptp.grandmaster)
    for section, index, node in _nodes(fabric):
        if node.name in reached or node.name not in graph:
            continue
        part = nx.node_connected_component(graph, node.name)
        reached = reached | part
        others = f" (and {len(part) - 1} more nodes behind it)" if len(part) > 1 else ""
        yield FabricProblem(
            (section, index, "name"),
            f"no path leads from {node.name}{others} to the grandmaster "
            f"{fabric.ptp.grandmaster}; expected links that join all nodes",
            (*LINK_ENDS, SWITCH_NAMES, HOST_NAMES, ("ptp", "grandmaster")),
        )


def _nodes(fabric: Fabric) -> Iterator[tuple[str, int, Host | Switch]]:
    """All nodes with their places in the file."""
    yield from (("switches", index, switch) for index, switch in enumerate(fabric.switches))
    yield from (("hosts", index, host) for index, host in enumerate(fabric.hosts))
