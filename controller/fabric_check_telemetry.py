# SPDX-License-Identifier: Apache-2.0
"""What the measuring sections must satisfy beyond their types; used by `fabric_check.py` only."""

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from controller.addresses import format_ip, format_mac
from controller.fabric import Fabric, PtpRole, Switch
from controller.fabric_telemetry import (
    IP_ETHER_TYPES,
    PROTOCOL_ICMPV6,
    PROTOCOLS_WITH_PORTS,
    EthernetPtp,
    HostOrPrefix,
    IpNetwork,
    LinkEnd,
    Watchlist,
    WatchMode,
    WatchTraffic,
)
from controller.ptp_entries import STAMP_UNIT_NS_MAX
from controller.report_entries import LATENCY_MAX
from controller.targets import BMV2, TARGETS, Target
from controller.watchlist import roce_entry_count_max
from controller.yaml_positions import KeyPath, format_key
from correction.model import ClockKind

NODE_ID_BIT = 0x8000
"""INT instruction bit 0."""
REPORTED_BITS = 0x7E00
"""What switches put into postcards (docs/p4.md); the node id is in every report's header."""

WATCHLIST_ENTRY_COUNT_MAX = 1_024
"""Entries that one watchlist may take in a switch: a quarter of the table."""
INT_STACK_WORDS_MAX = 252
"""What an INT-MD stack can hold (INT v2.1 section 5.2)."""


class FabricProblem(NamedTuple):
    """A rule that the fabric breaks; the message says what was expected."""

    path: KeyPath
    message: str


def known(path: KeyPath, name: str, names: Iterable[str], what: str) -> Iterator[FabricProblem]:
    """A problem if the name is none of the names."""
    choices = list(names)
    if name not in choices:
        listed = ", ".join(choices[:8]) + (", ..." if len(choices) > 8 else "")
        yield FabricProblem(path, f"there is no {what} {name!r}; expected one of {listed or '-'}")


def repeats(values: Iterable[tuple[KeyPath, Hashable]], what: str) -> Iterator[FabricProblem]:
    """A problem for every value that stands before already."""
    first_path: dict[Hashable, KeyPath] = {}
    for path, value in values:
        if value in first_path:
            yield FabricProblem(
                path,
                f"{what} {value} is used by {format_key(first_path[value])} already; "
                "expected one that is unique",
            )
        else:
            first_path[value] = path


def check_measuring(fabric: Fabric) -> Iterator[FabricProblem]:
    """Problems of collectors, watchlists, reports, probes and transparent clocks."""
    yield from _collectors(fabric)
    yield from _watchlists(fabric)
    yield from _reports(fabric)
    yield from _probes(fabric)
    yield from _punt(fabric)
    yield from _transparent_clocks(fabric)
    yield from _ethernet_ptp(fabric)


def collector_paths(fabric: Fabric) -> list[KeyPath]:
    """Where each collector stands in the file."""
    if len(fabric.collectors) == 1:
        return [("collector",)]
    return [("collectors", index) for index in range(len(fabric.collectors))]


def collector_addresses(
    fabric: Fabric,
) -> tuple[list[tuple[KeyPath, Hashable]], list[tuple[KeyPath, Hashable]]]:
    """IP and MAC addresses of the collectors, with their paths."""
    pairs = list(zip(collector_paths(fabric), fabric.collectors, strict=True))
    return (
        [((*path, "ip"), format_ip(collector.ip)) for path, collector in pairs],
        [((*path, "mac"), format_mac(collector.mac)) for path, collector in pairs],
    )


def _collectors(fabric: Fabric) -> Iterator[FabricProblem]:
    switches = {switch.name: switch for switch in fabric.switches}
    cabled: dict[LinkEnd, KeyPath] = {}
    for index, link in enumerate(fabric.links):
        cabled |= {link.a: ("links", index, "a"), link.b: ("links", index, "b")}
    paths = collector_paths(fabric)
    out_of_band = [path for path, c in zip(paths, fabric.collectors, strict=True) if not c.attached]
    for index, switch in enumerate(fabric.switches):
        if switch.report_port is None and out_of_band:
            yield FabricProblem(
                ("switches", index, "report_port"),
                f"missing key, and {format_key(out_of_band[0])} is not attached to a switch; "
                "expected the port that leads there",
            )
    for path, collector in zip(paths, fabric.collectors, strict=True):
        end = collector.attached
        if end is None:
            continue
        where: KeyPath = (*path, "attached")
        if end.node not in switches:
            yield FabricProblem(
                where, f"there is no switch {end.node!r}; expected a switch of this file"
            )
            continue
        if end in cabled:
            yield FabricProblem(
                where,
                f"port {end} is used by {format_key(cabled[end])} already; expected a free port",
            )
        cabled[end] = where
        yield from switch_port(where, end, switches[end.node], target_of(fabric, end.node))
    yield from repeats(
        [
            ((*path, "destination_id"), collector.destination_id)
            for path, collector in zip(paths, fabric.collectors, strict=True)
        ],
        "the destination id",
    )


def target_of(fabric: Fabric, switch_name: str) -> Target:
    """The target of a switch; BMv2 where its model is not declared (a problem of its own)."""
    models = {model.name: TARGETS[model.target] for model in fabric.models}
    switch = next(switch for switch in fabric.switches if switch.name == switch_name)
    return models.get(switch.model, BMV2)


def switch_port(
    path: KeyPath, end: LinkEnd, switch: Switch, target: Target
) -> Iterator[FabricProblem]:
    """A problem if the port is none that a cable can be in."""
    taken = {**target.reserved_ports, switch.cpu_port: "cpu_port"}
    if switch.report_port is not None:
        taken[switch.report_port] = "report_port"
    if end.port in taken:
        yield FabricProblem(
            path, f"port {end} is the {taken[end.port]} of {end.node}; expected a free port"
        )
    else:
        yield from device_port(path, end, target)


def device_port(path: KeyPath, end: LinkEnd, target: Target) -> Iterator[FabricProblem]:
    """A problem if the switch has no such port."""
    if end.port > target.cable_port_max:
        yield FabricProblem(
            path, f"port {end} does not exist; expected a port from 1 to {target.cable_port_max}"
        )


def _watchlists(fabric: Fabric) -> Iterator[FabricProblem]:
    for index, watchlist in enumerate(fabric.watchlists):
        path: KeyPath = ("watchlists", index)
        if watchlist.traffic is WatchTraffic.ROCE:
            yield from _roce(fabric, watchlist, path)
        for position, tenant in enumerate(watchlist.tenants):
            yield from known(
                (*path, "tenants", position), tenant, [t.name for t in fabric.tenants], "tenant"
            )


def _roce(fabric: Fabric, watchlist: Watchlist, path: KeyPath) -> Iterator[FabricProblem]:
    mode = watchlist.mode
    writes = mode in (WatchMode.MD, WatchMode.MX)
    yield from known(
        (*path, "class"),
        watchlist.traffic_class or "",
        [c.name for c in fabric.qos.classes if c.marked_dscp is not None or not writes],
        "traffic class with a marked_dscp named" if writes else "traffic class",
    )
    for key, given, wanted, what in (
        ("instruction_bitmap", watchlist.instruction_bitmap > 0, mode is not WatchMode.EXEMPT, ""),
        (
            "remaining_hop_count",
            watchlist.remaining_hop_count is not None,
            mode is WatchMode.MD,
            "a number of hops",
        ),
    ):
        if wanted and not given:
            yield FabricProblem(
                (*path, key),
                f"missing key; expected {what or 'an INT instruction bitmap'} in mode {mode.value}",
            )
        elif given and not wanted:
            yield FabricProblem(
                (*path, key), f"it has no meaning in mode {mode.value}; expected no such key"
            )
    yield from _watched_bits(watchlist, path)
    watched = next((c for c in fabric.qos.classes if c.name == watchlist.traffic_class), None)
    if watched is not None and watched.dscp % 2:
        yield FabricProblem(
            (*path, "class"),
            f"class {watched.name!r} has the odd DSCP {watched.dscp}, which marks INT; expected a "
            "class with an even one",
        )
    if watchlist.change_only and mode is not WatchMode.XD:
        yield FabricProblem(
            (*path, "change_only"),
            f"it has no meaning in mode {mode.value}; expected mode xd "
            "(of mode mx: reports.filter.mx)",
        )
    if watchlist.change_only and watchlist.sample_psn_bits:
        yield FabricProblem(
            (*path, "change_only"),
            "hops that report different packets cannot be paired; "
            "expected either change_only or sample_psn_bits",
        )
    if mode is WatchMode.XD and watchlist.instruction_bitmap & 0x8000:
        yield FabricProblem(
            (*path, "instruction_bitmap"),
            f"0x{watchlist.instruction_bitmap:04X} has bit 0, which every report holds anyway; "
            "expected RepMdBits of bits 1 to 8 in mode xd",
        )
    yield from _stack(watchlist, path)
    if watchlist.tenants and watchlist.sources:
        yield FabricProblem(
            (*path, "sources"), "given together with tenants; expected one of the two"
        )
    host_names = [host.name for host in fabric.hosts]
    yield from _peers(watchlist.sources, (*path, "sources"), host_names)
    yield from _peers(watchlist.destinations, (*path, "destinations"), host_names)
    count = roce_entry_count_max(fabric, watchlist)
    if count > WATCHLIST_ENTRY_COUNT_MAX:
        yield FabricProblem(
            path,
            f"its values make {count} combinations; "
            f"expected at most {WATCHLIST_ENTRY_COUNT_MAX}, or several prefixes as one",
        )


def _stack(watchlist: Watchlist, path: KeyPath) -> Iterator[FabricProblem]:
    if watchlist.mode is not WatchMode.MD or watchlist.remaining_hop_count is None:
        return
    bitmap = watchlist.instruction_bitmap
    hop_words = bitmap.bit_count() + (bitmap & 0x0E00).bit_count()
    if hop_words and watchlist.remaining_hop_count * hop_words > INT_STACK_WORDS_MAX:
        yield FabricProblem(
            (*path, "remaining_hop_count"),
            f"{watchlist.remaining_hop_count} hops of {hop_words} words exceed an INT stack; "
            f"expected at most {INT_STACK_WORDS_MAX // hop_words}",
        )


def _peers(
    peers: tuple[HostOrPrefix, ...], path: KeyPath, host_names: list[str]
) -> Iterator[FabricProblem]:
    for position, peer in enumerate(peers):
        if isinstance(peer, str):
            yield from known((*path, position), peer, host_names, "host")


def _reports(fabric: Fabric) -> Iterator[FabricProblem]:
    marked = {c.marked_dscp for c in fabric.qos.classes if c.marked_dscp is not None}
    if fabric.reports.dscp in marked:
        yield _marked(("reports", "dscp"), fabric.reports.dscp)
    switches = [switch.name for switch in fabric.switches]
    units_ns = [m.stamp_unit_ns for m in fabric.models if m.kind is ClockKind.SWITCH]
    keys: list[tuple[KeyPath, Hashable]] = []
    for index, queue in enumerate(fabric.reports.queues):
        path: KeyPath = ("reports", "queues", index)
        if queue.latency_ns is not None and any(
            -(-queue.latency_ns // unit_ns) >= LATENCY_MAX for unit_ns in units_ns
        ):
            yield FabricProblem(
                (*path, "latency_ns"), f"{queue.latency_ns} is too much; expected below 2^32 units"
            )
        for position, end in enumerate(queue.ports):
            where: KeyPath = (*path, "ports", position)
            yield from known(where, end.node, switches, "switch")
            if end.node in switches:
                yield from device_port(where, end, target_of(fabric, end.node))
            keys.append(((*path, "ports", position), f"{queue.queue} of {end}"))
        if not queue.ports:
            keys.append(((*path, "queue"), f"{queue.queue}"))
    yield from repeats(keys, "queue")
    drops: list[tuple[KeyPath, Hashable]] = []
    for index, drop in enumerate(fabric.reports.drops):
        yield from _zero_address(drop.source, ("reports", "drops", index, "source"))
        yield from _zero_address(drop.destination, ("reports", "drops", index, "destination"))
        for reason in drop.reasons or ("any reason",):
            flow = f"{reason} from {drop.source or 'anywhere'} to {drop.destination or 'anywhere'}"
            drops.append((("reports", "drops", index), flow))
    yield from repeats(drops, "the drop")


def _zero_address(prefix: IpNetwork | None, path: KeyPath) -> Iterator[FabricProblem]:
    """The switch has no other sign of a packet without an IPv4 header than the address 0.0.0.0."""
    if prefix is not None and int(prefix.network_address) == 0:
        yield FabricProblem(
            path,
            f"{prefix} holds 0.0.0.0, which stands for packets that are not IPv4; "
            "expected a prefix without it, or no such key for all packets",
        )


def _punt(fabric: Fabric) -> Iterator[FabricProblem]:
    """A rule that contradicts itself would never match, or only what it does not mean."""
    for index, rule in enumerate(fabric.punt):
        path: KeyPath = ("punt", index)
        if rule.ether_type is not None and rule.ether_type not in IP_ETHER_TYPES and rule.of_ip:
            yield FabricProblem(
                (*path, "ether_type"),
                f"{rule.ether_type:#06x} is not IP, of which the rule names more; "
                "expected 0x0800 (IPv4) or 0x86dd (IPv6)",
            )
            continue
        if rule.l4_dst_port is not None and rule.protocol not in (None, *PROTOCOLS_WITH_PORTS):
            yield FabricProblem(
                (*path, "l4_dst_port"),
                f"no ports are read of protocol {rule.protocol}; expected 6 (TCP) or 17 (UDP)",
            )
        if rule.icmp_types and rule.protocol not in (None, PROTOCOL_ICMPV6):
            yield FabricProblem(
                (*path, "icmp_types"),
                f"types are read of ICMPv6 only, not of protocol {rule.protocol}; "
                f"expected protocol {PROTOCOL_ICMPV6}",
            )
        elif rule.icmp_types and rule.l4_dst_port is not None:
            yield FabricProblem(
                (*path, "icmp_types"), "given together with l4_dst_port; expected one of the two"
            )
        elif not rule.ip_versions and rule.of_ip:
            what = "icmp_types are those of ICMPv6" if rule.icmp_types else "its keys contradict"
            yield FabricProblem(
                (*path, "destination" if rule.destination is not None else "icmp_types"),
                f"{what}; expected ether_type, destination and icmp_types of one IP version",
            )


def _watched_bits(watchlist: Watchlist, path: KeyPath) -> Iterator[FabricProblem]:
    """Every mode must leave something that a switch can report, and MD who it was."""
    bits, mode = watchlist.instruction_bitmap, watchlist.mode
    if mode is WatchMode.MD and bits and not bits & NODE_ID_BIT:
        yield FabricProblem(
            (*path, "instruction_bitmap"),
            f"{bits:#06x} does not ask for the node id; expected bit 0 (0x8000) in mode md",
        )
    elif mode in (WatchMode.MX, WatchMode.XD) and bits and not bits & REPORTED_BITS:
        yield FabricProblem(
            (*path, "instruction_bitmap"),
            f"{bits:#06x} asks for nothing that a postcard holds; expected any of 0x7e00",
        )


def _probes(fabric: Fabric) -> Iterator[FabricProblem]:
    marked = {c.marked_dscp for c in fabric.qos.classes if c.marked_dscp is not None}
    if fabric.probes is not None and (fabric.probes.dscp in marked or fabric.probes.dscp % 2):
        yield _marked(("probes", "dscp"), fabric.probes.dscp)


def _marked(path: KeyPath, dscp: int) -> FabricProblem:
    return FabricProblem(path, f"{dscp} marks packets with INT; expected another DSCP")


def _transparent_clocks(fabric: Fabric) -> Iterator[FabricProblem]:
    for index, model in enumerate(fabric.models):
        if model.ptp_role is PtpRole.TRANSPARENT_CLOCK and model.stamp_unit_ns > STAMP_UNIT_NS_MAX:
            yield FabricProblem(
                ("models", index, "stamp_unit_ns"),
                f"{model.stamp_unit_ns} is too coarse for a transparent clock; "
                f"expected at most {STAMP_UNIT_NS_MAX}",
            )


def _ethernet_ptp(fabric: Fabric) -> Iterator[FabricProblem]:
    """Not every target can tag what it floods."""
    if fabric.ptp.ethernet is not EthernetPtp.TREE:
        return
    names = {switch.name for switch in fabric.switches}
    for index, link in enumerate(fabric.links):
        for end in (link.a, link.b):
            if link.vlan is None or end.node not in names:
                continue
            target = target_of(fabric, end.node)
            if not target.tags_ethernet_ptp:
                yield FabricProblem(
                    ("links", index, "vlan"),
                    f"PTP over Ethernet leaves {end.node}, a {target.name}, with the tag that it "
                    "came with; expected no vlan, or ptp.ethernet: drop",
                )
                break
