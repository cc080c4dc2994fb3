# SPDX-License-Identifier: Apache-2.0
"""Whether switches treat packets alike whether they carry INT or not.

A marked packet has another DSCP and, in mode md, grows at every hop. A switch that puts the marked
DSCP into another queue, PFC priority or ECN profile, or whose MTU the packet outgrows, makes what
is measured differ from what is there, and may drop what would not have been dropped. Pure; asked
before anything is written, by whatever writes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import networkx as nx

from controller.fabric import Fabric, Link, Switch, TrafficClass
from controller.fabric_problem import FabricProblem
from controller.fabric_qos import QosMaps
from controller.fabric_telemetry import Watchlist, WatchMode, WatchTraffic
from controller.link_mtu import LinkMtu, MtuTable
from controller.paths import switch_graph
from controller.routing import attached_hosts
from controller.yaml_positions import KeyPath, format_key

NAMES_SHOWN_MAX = 4
"""Switches and classes that one line names."""
INT_HEADER_BYTES = 16
"""Shim and INT header (INT v2.1 section 5.3)."""
WORD_BYTES = 4


class UnequalTreatmentError(ValueError):
    """A fabric that treats marked and unmarked packets differently; `str()` is a line for each
    difference."""

    def __init__(self, problems: Iterable[FabricProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(f"{format_key(one.path)}: {one.text()}" for one in self.problems)


def require_equal_treatment(fabric: Fabric) -> None:
    """UnequalTreatmentError for a fabric that `unequal_treatment` finds something in.

    Whatever writes to switches calls this itself: shells check when they read the file, so that
    they can name lines, but nobody gets past it.
    """
    problems = tuple(unequal_treatment(fabric))
    if problems:
        raise UnequalTreatmentError(problems)


def unequal_treatment(fabric: Fabric) -> Iterator[FabricProblem]:
    """A problem for every map or MTU that makes a difference between marked and unmarked packets.

    They name switches and classes. What is not declared is not known, and no problem.
    """
    return chain(_maps(fabric), _mtus(fabric))


def _maps(fabric: Fabric) -> Iterator[FabricProblem]:
    by_model: dict[str, list[Switch]] = {}
    for index, switch in enumerate(fabric.switches):
        if switch.qos_maps is not None:
            path: KeyPath = ("switches", index, "qos_maps")
            yield from _map_problems(fabric, switch.qos_maps, path, [switch])
        else:
            by_model.setdefault(switch.model, []).append(switch)
    for index, model in enumerate(fabric.models):
        if model.qos_maps is not None and model.name in by_model:
            path = ("models", index, "qos_maps")
            yield from _map_problems(fabric, model.qos_maps, path, by_model[model.name])


def _map_problems(
    fabric: Fabric, maps: QosMaps, path: KeyPath, switches: Sequence[Switch]
) -> Iterator[FabricProblem]:
    """At most one problem per kind of map."""
    kinds = (
        ("queues", "queue", "a marked DSCP in the queue of its class", _queue),
        ("priorities", "PFC priority", "a marked DSCP with the PFC priority of its class", _pfc),
        ("ecn", "ECN", "a marked DSCP with the ECN thresholds of its class", _ecn),
    )
    for key, what, expected, treatment in kinds:
        unequal = []
        for one in fabric.qos.classes:
            if one.marked_dscp is None:
                continue
            plain, marked = treatment(maps, one.dscp), treatment(maps, one.marked_dscp)
            if plain != marked:
                unequal.append(
                    f"{one.name} (DSCP {one.dscp}: {plain}, marked DSCP {one.marked_dscp}: "
                    f"{marked})"
                )
        if unequal:
            where: KeyPath = (*path, key) if getattr(maps, key) else path
            yield FabricProblem(
                where,
                f"{_names(switch.name for switch in switches)} would give marked packets another "
                f"{what}: class {_names(unequal)}; expected {expected}",
            )


def _queue(maps: QosMaps, dscp: int) -> str:
    return f"queue {maps.queue_of(dscp)}"


def _pfc(maps: QosMaps, dscp: int) -> str:
    priority = maps.priority_of(dscp)
    return f"{priority}, {'paused' if priority in maps.pfc_priorities else 'not paused'}"


def _ecn(maps: QosMaps, dscp: int) -> str:
    profile = maps.ecn_of(dscp)
    if profile is None:
        return "none"
    min_bytes, max_bytes, max_percent = profile
    return f"{min_bytes} to {max_bytes} bytes, {max_percent} %"


def _mtus(fabric: Fabric) -> Iterator[FabricProblem]:
    """Links between switches that a packet fits unmarked, but not with all that INT adds."""
    hosts = {host.name for host in fabric.hosts}
    mtus = MtuTable(fabric)
    grown = _Growth(fabric, mtus, hosts)
    classes = {one.name: one for one in fabric.qos.classes}
    told: dict[tuple[KeyPath, str, int], list[tuple[LinkMtu, Link]]] = {}
    for index, link in enumerate(fabric.links):
        if {link.a.node, link.b.node} & hosts:
            continue
        limit = mtus.of_link(link, index)
        if limit is None:
            continue
        for watchlist in fabric.watchlists:
            traffic_class = classes.get(watchlist.traffic_class or "")
            if traffic_class is None:
                continue
            packet_bytes = grown.packet_bytes(traffic_class)
            if packet_bytes is None or packet_bytes > limit.mtu_bytes:
                continue  # not known, or dropped whether it is marked or not
            if packet_bytes + grown.added_bytes(watchlist) > limit.mtu_bytes:
                origin = limit.path if limit.path[0] != "links" else ("links",)
                told.setdefault((origin, watchlist.name, limit.mtu_bytes), []).append((limit, link))
    watchlists = {one.name: one for one in fabric.watchlists}
    for (_, name, mtu_bytes), found in told.items():
        watchlist = watchlists[name]
        traffic_class = classes[watchlist.traffic_class or ""]
        packet_bytes = grown.packet_bytes(traffic_class)
        assert packet_bytes is not None
        needed = packet_bytes + grown.added_bytes(watchlist)
        ends = _names(str(end) for _, link in found for end in (link.a, link.b))
        yield FabricProblem(
            found[0][0].path,
            f"packets of class {traffic_class.name} ({packet_bytes} bytes) fit the MTU of "
            f"{mtu_bytes} bytes of {ends}, but not with what watchlist {name} adds "
            f"({grown.explained(watchlist)}); expected an MTU of at least {needed} bytes, "
            "fewer hops or instructions, or a smaller packet_bytes_max of the class",
        )


class _Growth:
    """How large packets are, and how much of INT they can carry."""

    def __init__(self, fabric: Fabric, mtus: MtuTable, hosts: set[str]) -> None:
        self._fabric = fabric
        self._host_mtu_bytes: int | None = None
        self._hop_count_max: int | None = None
        limits = [
            limit.mtu_bytes
            for index, link in enumerate(fabric.links)
            if {link.a.node, link.b.node} & hosts
            for limit in (mtus.of_link(link, index),)
            if limit is not None
        ]
        if limits:
            self._host_mtu_bytes = max(limits)

    def packet_bytes(self, traffic_class: TrafficClass) -> int | None:
        """The largest IP packet of a class: as declared, else what a host's link lets pass."""
        return traffic_class.packet_bytes_max or self._host_mtu_bytes

    def added_bytes(self, watchlist: Watchlist) -> int:
        """What INT adds at most to a packet on a link between switches."""
        if watchlist.traffic is not WatchTraffic.ROCE:
            return 0
        match watchlist.mode:
            case WatchMode.MD:
                hops = self.hop_count(watchlist)
                return INT_HEADER_BYTES + hops * hop_words(watchlist) * WORD_BYTES
            case WatchMode.MX:
                return INT_HEADER_BYTES
            case _:
                return 0

    def hop_count(self, watchlist: Watchlist) -> int:
        """Entries that a packet can carry: the sink takes them out before its own."""
        if self._hop_count_max is None:
            self._hop_count_max = longest_path_switch_count(self._fabric) - 1
        return min(watchlist.remaining_hop_count or 0, self._hop_count_max)

    def explained(self, watchlist: Watchlist) -> str:
        """The growth as a sum."""
        if watchlist.mode is WatchMode.MD:
            return (
                f"{INT_HEADER_BYTES} bytes + {self.hop_count(watchlist)} hops of "
                f"{hop_words(watchlist)} words"
            )
        return f"{INT_HEADER_BYTES} bytes"


def hop_words(watchlist: Watchlist) -> int:
    """Words of a hop's entry: two for each stamp and for level 2 interfaces, one for the others."""
    bitmap = watchlist.instruction_bitmap
    return bitmap.bit_count() + (bitmap & 0x0E00).bit_count()


def longest_path_switch_count(fabric: Fabric) -> int:
    """Switches on the longest of the shortest paths between hosts."""
    graph = switch_graph(fabric, fabric.links)
    edge = [name for name, local in attached_hosts(fabric).items() if local]
    # Switches with the same neighbours are as far from all others, and two links from each other.
    alike: dict[frozenset[str], list[str]] = {}
    for name in edge:
        alike.setdefault(frozenset(graph[name]), []).append(name)
    longest = 0
    for neighbours, names in alike.items():
        distances: Mapping[str, int] = nx.single_source_shortest_path_length(graph, names[0])
        longest = max(longest, *(distances.get(other, 0) for other in edge))
        if len(names) > 1 and neighbours:
            longest = max(longest, 2)
    return longest + 1


def _names(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    more = f" and {len(every) - NAMES_SHOWN_MAX} more" if len(every) > NAMES_SHOWN_MAX else ""
    return ", ".join(every[:NAMES_SHOWN_MAX]) + more
