# SPDX-License-Identifier: Apache-2.0
"""What cables must satisfy: ports, ends, speeds, and that they join everything.

Used by `fabric_check.py` only.
"""

from collections.abc import Iterator
from typing import NamedTuple

import networkx as nx

from controller.fabric import Fabric, Host, LinkEnd, Switch
from controller.fabric_problem import (
    ELSEWHERE,
    HOST_NAMES,
    LINK_ENDS,
    SWITCH_NAMES,
    FabricProblem,
    SwitchIndex,
    all_known,
    switch_port,
)
from controller.yaml_positions import KeyPath


class _LinkEndOf(NamedTuple):
    """An end of a link at a speed that its node's model does not declare."""

    path: KeyPath
    node: str
    needs: tuple[KeyPath, ...]


def check_links(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    model_of: dict[str, tuple[str, KeyPath]] = {}
    for section, index, node in _nodes(fabric):
        model_of.setdefault(node.name, (node.model, (section, index, "model")))
    speeds = {
        (model.name, points.speed_gbps) for model in fabric.models for points in model.stamp_points
    }
    without_points: dict[tuple[str, int], list[_LinkEndOf]] = {}
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
            if (model_name, link.speed_gbps) not in speeds:
                needs = (path, model_path, ("models", "*", "name"), ("models", "*", "stamp_points"))
                where: KeyPath = ("links", index, "speed_gbps")
                without = without_points.setdefault((model_name, link.speed_gbps), [])
                without.append(_LinkEndOf(where, end.node, needs))
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
    yield from _without_points(fabric, without_points)


def _without_points(
    fabric: Fabric, found: dict[tuple[str, int], list[_LinkEndOf]]
) -> Iterator[FabricProblem]:
    """One problem per model and speed, at the first link that has it."""
    models = {model.name: model for model in fabric.models}
    for (name, speed_gbps), ends in found.items():
        if name not in models:
            continue  # a problem of its own
        speeds = ", ".join(str(points.speed_gbps) for points in models[name].stamp_points)
        links = len({end.path for end in ends}) - 1
        more = f", and of {links} more link{'s' if links > 1 else ''}" if links else ""
        yield FabricProblem(
            ends[0].path,
            f"model {name} of {ends[0].node} declares no stamp point at {speed_gbps} Gb/s, the "
            f"speed of this link{more}; expected one of {speeds}",
            ends[0].needs,
        )


def check_cabled(fabric: Fabric) -> Iterator[FabricProblem]:
    cabled = {end.node for link in fabric.links for end in (link.a, link.b)}
    for index, host in enumerate(fabric.hosts):
        if host.name not in cabled:
            yield FabricProblem(
                ("hosts", index, "name"),
                f"host {host.name} has no link; expected one in links",
                LINK_ENDS,
            )


def check_reachable(fabric: Fabric) -> Iterator[FabricProblem]:
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
