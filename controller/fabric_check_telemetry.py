# SPDX-License-Identifier: Apache-2.0
"""What the measuring sections must satisfy beyond their types; used by `fabric_check.py` only."""

from collections.abc import Collection, Hashable, Iterator

from controller.addresses import format_ip, format_mac
from controller.fabric import Fabric, PtpRole
from controller.fabric_check_matches import check_ethernet_ptp, check_prefix_of_ipv4, check_punt
from controller.fabric_problem import (
    ELSEWHERE,
    HOST_NAMES,
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
from controller.fabric_telemetry import HostOrPrefix, LinkEnd, Watchlist, WatchMode, WatchTraffic
from controller.ptp_entries import STAMP_UNIT_NS_MAX
from controller.report_entries import LATENCY_MAX
from controller.watchlist import roce_entry_count_max
from controller.yaml_positions import KeyPath
from correction.model import ClockKind

NODE_ID_BIT = 0x8000
"""INT instruction bit 0."""
REPORTED_BITS = 0x7E00
"""What switches put into postcards (docs/p4.md); the node id is in every report's header."""

WATCHLIST_ENTRY_COUNT_MAX = 1_024
"""Entries that one watchlist may take in a switch: a quarter of the table."""
INT_STACK_WORDS_MAX = 252
"""What an INT-MD stack can hold (INT v2.1 section 5.2)."""


CLASSES: KeyPath = ("qos", "classes")


def check_measuring(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    """Problems of collectors, watchlists, reports, probes and transparent clocks."""
    yield from _collectors(fabric, switches)
    yield from _watchlists(fabric)
    yield from _reports(fabric, switches)
    yield from _probes(fabric)
    yield from check_punt(fabric)
    yield from _transparent_clocks(fabric)
    yield from check_ethernet_ptp(fabric, switches)


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


def _collectors(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    cabled: dict[LinkEnd, KeyPath] = {}
    for index, link in enumerate(fabric.links):
        cabled |= {link.a: ("links", index, "a"), link.b: ("links", index, "b")}
    paths = collector_paths(fabric)
    out_of_band = [path for path, c in zip(paths, fabric.collectors, strict=True) if not c.attached]
    for index, switch in enumerate(fabric.switches):
        if switch.report_port is None and out_of_band:
            yield FabricProblem(
                ("switches", index, "report_port"),
                f"missing key, and {ELSEWHERE} is not attached to a switch; "
                "expected the port that leads there",
                (out_of_band[0],),
                out_of_band[0],
            )
    for path, collector in zip(paths, fabric.collectors, strict=True):
        end = collector.attached
        if end is None:
            continue
        where: KeyPath = (*path, "attached")
        if end.node not in switches:
            yield from all_known(
                [(where, end.node)], (), "switch", (SWITCH_NAMES,), expected="a switch of this file"
            )
            continue
        if end in cabled:
            yield FabricProblem(
                where,
                f"port {end} is used by {ELSEWHERE} already; expected a free port",
                (cabled[end],),
                cabled[end],
            )
        cabled[end] = where
        yield from switch_port(where, end, switches)
    yield from repeats(
        [
            ((*path, "destination_id"), collector.destination_id)
            for path, collector in zip(paths, fabric.collectors, strict=True)
        ],
        "the destination id",
    )


def _watchlists(fabric: Fabric) -> Iterator[FabricProblem]:
    for index, watchlist in enumerate(fabric.watchlists):
        path: KeyPath = ("watchlists", index)
        if watchlist.traffic is WatchTraffic.ROCE:
            yield from _roce(fabric, watchlist, path)
        for position, tenant in enumerate(watchlist.tenants):
            yield from known(
                (*path, "tenants", position),
                tenant,
                [t.name for t in fabric.tenants],
                "tenant",
                (TENANT_NAMES,),
            )


def _roce(fabric: Fabric, watchlist: Watchlist, path: KeyPath) -> Iterator[FabricProblem]:
    mode = watchlist.mode
    writes = mode in (WatchMode.MD, WatchMode.MX)
    yield from known(
        (*path, "class"),
        watchlist.traffic_class or "",
        [c.name for c in fabric.qos.classes if c.marked_dscp is not None or not writes],
        "traffic class with a marked_dscp named" if writes else "traffic class",
        (("qos", "classes", "*", "name"), ("qos", "classes", "*", "marked_dscp")),
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
            (CLASSES,),
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
    host_names = {host.name: None for host in fabric.hosts}
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
    peers: tuple[HostOrPrefix, ...], path: KeyPath, host_names: Collection[str]
) -> Iterator[FabricProblem]:
    for position, peer in enumerate(peers):
        if isinstance(peer, str):
            yield from known((*path, position), peer, host_names, "host", (HOST_NAMES,))


def _reports(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    marked = {c.marked_dscp for c in fabric.qos.classes if c.marked_dscp is not None}
    if fabric.reports.dscp in marked:
        yield _marked(("reports", "dscp"), fabric.reports.dscp)
    names = [switch.name for switch in fabric.switches]
    units_ns = [m.stamp_unit_ns for m in fabric.models if m.kind is ClockKind.SWITCH]
    keys: list[tuple[KeyPath, Hashable]] = []
    for index, queue in enumerate(fabric.reports.queues):
        path: KeyPath = ("reports", "queues", index)
        if queue.latency_ns is not None and any(
            -(-queue.latency_ns // unit_ns) >= LATENCY_MAX for unit_ns in units_ns
        ):
            yield FabricProblem(
                (*path, "latency_ns"),
                f"{queue.latency_ns} is too much; expected below 2^32 units",
                (("models", "*", "stamp_unit_ns"), ("models", "*", "kind")),
            )
        for position, end in enumerate(queue.ports):
            where: KeyPath = (*path, "ports", position)
            yield from known(where, end.node, names, "switch", (SWITCH_NAMES,))
            if end.node in switches:
                yield from device_port(where, end, switches)
            keys.append(((*path, "ports", position), f"{queue.queue} of {end}"))
        if not queue.ports:
            keys.append(((*path, "queue"), f"{queue.queue}"))
    yield from repeats(keys, "queue", ("queue", "ports"))
    drops: list[tuple[KeyPath, Hashable]] = []
    for index, drop in enumerate(fabric.reports.drops):
        yield from check_prefix_of_ipv4(drop.source, ("reports", "drops", index, "source"))
        yield from check_prefix_of_ipv4(
            drop.destination, ("reports", "drops", index, "destination")
        )
        for reason in drop.reasons or ("any reason",):
            flow = f"{reason} from {drop.source or 'anywhere'} to {drop.destination or 'anywhere'}"
            drops.append((("reports", "drops", index), flow))
    yield from repeats(drops, "the drop")


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
    return FabricProblem(path, f"{dscp} marks packets with INT; expected another DSCP", (CLASSES,))


def _transparent_clocks(fabric: Fabric) -> Iterator[FabricProblem]:
    coarse = {m.name: m for m in fabric.models if m.stamp_unit_ns > STAMP_UNIT_NS_MAX}
    for index, switch in enumerate(fabric.switches):
        if switch.ptp_role is PtpRole.TRANSPARENT_CLOCK and switch.model in coarse:
            unit_ns = coarse[switch.model].stamp_unit_ns
            yield FabricProblem(
                ("switches", index, "ptp_role"),
                f"stamps of {unit_ns} ns are too coarse for a transparent clock; "
                f"expected a model with at most {STAMP_UNIT_NS_MAX}",
                (
                    ("switches", index, "model"),
                    *(("models", "*", "name"), ("models", "*", "stamp_unit_ns")),
                ),
            )
    for index, model in enumerate(fabric.models):
        if model.ptp_role is PtpRole.TRANSPARENT_CLOCK and model.stamp_unit_ns > STAMP_UNIT_NS_MAX:
            yield FabricProblem(
                ("models", index, "stamp_unit_ns"),
                f"{model.stamp_unit_ns} is too coarse for a transparent clock; "
                f"expected at most {STAMP_UNIT_NS_MAX}",
            )
