# SPDX-License-Identifier: Apache-2.0
"""The measuring sections of `fabric.yaml` as values: collectors, watchlists, reports, probes, punt.

Takes mappings that have passed the schema; used by `fabric_file.py` only.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from controller.addresses import parse_ip, parse_ipv6, parse_mac
from controller.fabric_schema import shown
from controller.fabric_telemetry import (
    DEFAULT_PUNT,
    Collector,
    DropReport,
    Ecmp,
    HostOrPrefix,
    IpNetwork,
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
from controller.yaml_positions import KeyPath

Node = dict[str, Any]
"""A mapping that has passed the schema."""

NO_DEVICE = (0, 127)
"""First octets of addresses that are this host's own, or nobody's (RFC 6890)."""
IPV4_MULTICAST = 0xE
"""First four bits of multicast; above it are reserved addresses and broadcast."""
IPV6_MULTICAST = 0xFF
IPV6_LOOPBACK = 1


class BadValue(Exception):
    """A text that the schema's pattern lets through, but that is no such value."""

    def __init__(self, path: KeyPath, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message


def read_ip(text: str, path: KeyPath) -> int:
    """An IPv4 address of a device: not one of a group, of everybody or of nobody."""
    try:
        ip = parse_ip(text)
    except ValueError as error:
        raise BadValue(
            path, f"{shown(text)} is not valid; expected an IPv4 address such as 10.0.1.2"
        ) from error
    if ip >> 24 in NO_DEVICE or ip >> 28 >= IPV4_MULTICAST:
        raise BadValue(
            path, f"{shown(text)} is no device's; expected a unicast address such as 10.0.1.2"
        )
    return ip


def read_ipv6(text: str, path: KeyPath) -> int:
    """An IPv6 address of a device."""
    try:
        ip = parse_ipv6(text)
    except ValueError as error:
        raise BadValue(
            path, f"{shown(text)} is not valid; expected an IPv6 address such as fd00:0:1::2"
        ) from error
    if ip <= IPV6_LOOPBACK or ip >> 120 == IPV6_MULTICAST:
        raise BadValue(
            path, f"{shown(text)} is no device's; expected a unicast address such as fd00:0:1::2"
        )
    return ip


def read_prefix(text: str, path: KeyPath) -> IPv4Network:
    """An IPv4 prefix."""
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise BadValue(
            path,
            f"{shown(text)} is not valid; expected an IPv4 prefix without host bits "
            "such as 10.0.1.0/24",
        ) from error


def read_ipv6_prefix(text: str, path: KeyPath) -> IPv6Network:
    """An IPv6 prefix."""
    try:
        return IPv6Network(text)
    except ValueError as error:
        raise BadValue(
            path,
            f"{shown(text)} is not valid; expected an IPv6 prefix without host bits "
            "such as fd00:0:1::/64",
        ) from error


def _network(text: str, path: KeyPath) -> IpNetwork:
    try:
        return ip_network(text)
    except ValueError as error:
        raise BadValue(
            path,
            f"{shown(text)} is not valid; expected a prefix without host bits "
            "such as 10.0.1.0/24 or fd00:0:1::/64",
        ) from error


def read_collectors(node: Node) -> tuple[Collector, ...]:
    """Those of `collectors`, or the one of `collector`."""
    if "collector" in node:
        return (_collector(node["collector"], ("collector",), 0),)
    return tuple(
        _collector(item, ("collectors", index), index)
        for index, item in enumerate(node["collectors"])
    )


def _collector(node: Node, path: KeyPath, index: int) -> Collector:
    attached = node.get("attached")
    return Collector(
        ip=read_ip(node["ip"], (*path, "ip")),
        mac=parse_mac(node["mac"]),
        udp_port=node["udp_port"],
        attached=None if attached is None else LinkEnd.parse(attached),
        destination_id=node.get("destination_id", index),
    )


def read_watchlist(node: Node, index: int) -> Watchlist:
    """One watchlist."""
    path: KeyPath = ("watchlists", index)
    return Watchlist(
        name=node["name"],
        traffic=WatchTraffic(node["traffic"]),
        mode=WatchMode(node.get("mode", "md")),
        instruction_bitmap=node.get("instruction_bitmap", 0),
        traffic_class=node.get("class"),
        remaining_hop_count=node.get("remaining_hop_count"),
        change_only=node.get("change_only", False),
        tenants=tuple(node.get("tenants", [])),
        sources=_peers(node.get("sources", []), (*path, "sources")),
        destinations=_peers(node.get("destinations", []), (*path, "destinations")),
        opcodes=tuple(node.get("opcodes", [])),
        dest_qps=tuple(node.get("dest_qps", [])),
        syndromes=tuple(Syndrome(text) for text in node.get("syndromes", [])),
        sample_psn_bits=node.get("sample_psn_bits", 0),
        message_types=tuple(node.get("message_types", [])),
        sample_sequence_bits=node.get("sample_sequence_bits", 0),
    )


def _peers(texts: Iterable[str], path: KeyPath) -> tuple[HostOrPrefix, ...]:
    return tuple(
        _network(text, (*path, position)) if "/" in text else text
        for position, text in enumerate(texts)
    )


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
                source=_optional_prefix(item, ("reports", "drops", index, "source")),
                destination=_optional_prefix(item, ("reports", "drops", index, "destination")),
            )
            for index, item in enumerate(node.get("drops", []))
        ),
    )


def _optional_prefix(node: Node, path: KeyPath) -> IPv4Network | None:
    text = node.get(str(path[-1]))
    return None if text is None else read_prefix(text, path)


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
            destination=(
                _network(item["destination"], ("punt", index, "destination"))
                if "destination" in item
                else None
            ),
        )
        for index, item in enumerate(items)
    )
