# SPDX-License-Identifier: Apache-2.0
"""The measuring sections of `fabric.yaml` as values: collectors, watchlists, reports, probes, punt.

Takes mappings that have passed the schema; used by `fabric_build.py` only.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, ip_network
from typing import Any

from controller.addresses import parse_ip, parse_mac
from controller.fabric_telemetry import (
    DEFAULT_PUNT,
    Collector,
    DropReport,
    Ecmp,
    HostOrPrefix,
    LinkEnd,
    Probes,
    PuntRule,
    QueueReport,
    ReportFilter,
    Reports,
    Syndrome,
    Watchlist,
    WatchMode,
    WatchTraffic,
)

Node = dict[str, Any]
"""A mapping that has passed the schema."""


def read_collectors(node: Node) -> tuple[Collector, ...]:
    """Those of `collectors`, or the one of `collector`."""
    if "collector" in node:
        return (_collector(node["collector"], 0),)
    return tuple(_collector(item, index) for index, item in enumerate(node["collectors"]))


def _collector(node: Node, index: int) -> Collector:
    attached = node.get("attached")
    return Collector(
        ip=parse_ip(node["ip"]),
        mac=parse_mac(node["mac"]),
        udp_port=node["udp_port"],
        attached=None if attached is None else LinkEnd.parse(attached),
        destination_id=node.get("destination_id", index),
    )


def read_watchlist(node: Node) -> Watchlist:
    """One watchlist."""
    return Watchlist(
        name=node["name"],
        traffic=WatchTraffic(node["traffic"]),
        mode=WatchMode(node.get("mode", "md")),
        instruction_bitmap=node.get("instruction_bitmap", 0),
        traffic_class=node.get("class"),
        remaining_hop_count=node.get("remaining_hop_count"),
        change_only=node.get("change_only", False),
        tenants=tuple(node.get("tenants", [])),
        sources=_peers(node.get("sources", [])),
        destinations=_peers(node.get("destinations", [])),
        opcodes=tuple(node.get("opcodes", [])),
        dest_qps=tuple(node.get("dest_qps", [])),
        syndromes=tuple(Syndrome(text) for text in node.get("syndromes", [])),
        sample_psn_bits=node.get("sample_psn_bits", 0),
        message_types=tuple(node.get("message_types", [])),
        sample_sequence_bits=node.get("sample_sequence_bits", 0),
    )


def _peers(texts: Iterable[str]) -> tuple[HostOrPrefix, ...]:
    return tuple(ip_network(text) if "/" in text else text for text in texts)


def read_ecmp(node: Node) -> Ecmp:
    """`ecmp`, with its defaults."""
    usual = Ecmp()
    return Ecmp(
        buckets=node.get("buckets", usual.buckets),
        seed=node.get("seed", usual.seed),
        hash_flow_label=node.get("hash_flow_label", usual.hash_flow_label),
    )


def read_reports(node: Node) -> Reports:
    """`reports`, with its defaults."""
    usual = ReportFilter()
    chosen = node.get("filter", {})
    return Reports(
        dscp=node.get("dscp", 0),
        filter=ReportFilter(
            mx=chosen.get("mx", usual.mx),
            drops=chosen.get("drops", usual.drops),
            latency_quantum_ns=chosen.get("latency_quantum_ns", usual.latency_quantum_ns),
            interval_ns=chosen.get("interval_ns", usual.interval_ns),
        ),
        queues=tuple(
            QueueReport(
                queue=item["queue"],
                depth_packets=item.get("depth_packets"),
                latency_ns=item.get("latency_ns"),
                quota=item["quota"],
                ports=tuple(LinkEnd.parse(text) for text in item.get("ports", [])),
            )
            for item in node.get("queues", [])
        ),
        drops=tuple(
            DropReport(
                reasons=tuple(item.get("reasons", [])),
                source=_prefix(item.get("source")),
                destination=_prefix(item.get("destination")),
            )
            for item in node.get("drops", [])
        ),
    )


def _prefix(text: str | None) -> IPv4Network | None:
    return None if text is None else IPv4Network(text)


def read_probes(node: Node | None) -> Probes | None:
    """`probes`, where there are any."""
    if node is None:
        return None
    usual = Probes(budget_pps=node["budget_pps"])
    return Probes(
        budget_pps=usual.budget_pps,
        dscp=node.get("dscp", usual.dscp),
        payload_bytes=node.get("payload_bytes", usual.payload_bytes),
        report_metadata_bits=node.get("report_metadata_bits", usual.report_metadata_bits),
    )


def read_punt(items: list[Node] | None) -> tuple[PuntRule, ...]:
    """`punt`; without the key the rules that every router needs."""
    if items is None:
        return DEFAULT_PUNT
    return tuple(
        PuntRule(
            name=item["name"],
            ether_type=item.get("ether_type"),
            protocol=item.get("protocol"),
            l4_dst_port=item.get("l4_dst_port"),
            icmp_types=tuple(item.get("icmp_types", [])),
            destination=ip_network(item["destination"]) if "destination" in item else None,
        )
        for item in items
    )
