# SPDX-License-Identifier: Apache-2.0
"""A `Fabric` of a mapping that has passed the schema; used by `fabric_file.py` only."""

from ipaddress import IPv4Network, IPv6Network

from controller.addresses import parse_ip, parse_ipv6, parse_mac
from controller.fabric import (
    LINK_LATENCY_NS_MAX,
    PROPAGATION_NS_PER_M_MAX,
    ClockLimits,
    DeviceModel,
    EcnThreshold,
    Fabric,
    Host,
    IntDomain,
    Link,
    LinkEnd,
    Ptp,
    PtpRole,
    Qos,
    ReferenceClock,
    StampOrigin,
    StampPoints,
    Switch,
    Tenant,
    TrafficClass,
)
from controller.fabric_build_telemetry import (
    Node,
    read_collectors,
    read_ecmp,
    read_probes,
    read_punt,
    read_reports,
    read_watchlist,
)
from controller.fabric_controller import read_controller
from controller.fabric_qos import EcnProfile, QosMaps
from controller.fabric_telemetry import EthernetPtp
from controller.targets import BMV2, DeviceConfigFormat
from controller.telemetry.dialect import STANDARD
from correction.model import UNCALIBRATED_NS, ClockKind, StampPoint


def build_fabric(node: Node) -> Fabric:
    """The fabric."""
    return Fabric(
        name=node["name"],
        ptp=Ptp(
            domain=node["ptp"]["domain"],
            grandmaster=node["ptp"]["grandmaster"],
            ethernet=EthernetPtp(node["ptp"].get("ethernet", "drop")),
            references=tuple(
                ReferenceClock(
                    clock=item["clock"],
                    sd_ns=float(item["sd_ns"]),
                    hard_ns=_number(item, "hard_ns"),
                )
                for item in node["ptp"].get("references", [])
            ),
        ),
        collectors=read_collectors(node),
        int_domain=IntDomain(
            domain_id=node["int"]["domain_id"],
            truncate_bytes=node["int"]["truncate_bytes"],
            udp_port=node["int"].get("udp_port"),
        ),
        clock_limits=ClockLimits(
            rate_offset_max_ppb=node["clock_limits"]["rate_offset_max_ppb"],
            wander_ns_per_s_sqrt_s=float(node["clock_limits"]["wander_ns_per_s_sqrt_s"]),
        ),
        propagation_ns_per_m_min=float(node["propagation_ns_per_m_min"]),
        propagation_ns_per_m_max=float(
            node.get(
                "propagation_ns_per_m_max",
                max(PROPAGATION_NS_PER_M_MAX, node["propagation_ns_per_m_min"]),
            )
        ),
        link_latency_ns_max=float(node.get("link_latency_ns_max", LINK_LATENCY_NS_MAX)),
        qos=_qos(node["qos"]),
        watchlists=tuple(read_watchlist(item) for item in node.get("watchlists", [])),
        tenants=tuple(Tenant(name=item["name"]) for item in node["tenants"]),
        models=tuple(_model(item) for item in node["models"]),
        switches=tuple(_switch(item) for item in node["switches"]),
        hosts=tuple(
            Host(
                name=item["name"],
                model=item["model"],
                ip=parse_ip(item["ip"]),
                mac=parse_mac(item["mac"]),
                tenant=item["tenant"],
                ipv6=parse_ipv6(item["ipv6"]) if "ipv6" in item else None,
                machine=item.get("machine"),
            )
            for item in node["hosts"]
        ),
        links=tuple(_link(item) for item in node["links"]),
        ecmp=read_ecmp(node.get("ecmp", {})),
        reports=read_reports(node.get("reports", {})),
        punt=read_punt(node.get("punt")),
        probes=read_probes(node.get("probes")),
        controller=read_controller(node.get("controller")),
    )


def _qos(node: Node) -> Qos:
    return Qos(
        default_queue=node["default_queue"],
        classes=tuple(
            TrafficClass(
                name=item["name"],
                dscp=item["dscp"],
                marked_dscp=item.get("marked_dscp"),
                queue=item["queue"],
                packet_bytes_max=item.get("packet_bytes_max"),
            )
            for item in node["classes"]
        ),
        ecn=tuple(
            EcnThreshold(queue=item["queue"], threshold_packets=item["threshold_packets"])
            for item in node.get("ecn", [])
        ),
    )


def _model(node: Node) -> DeviceModel:
    return DeviceModel(
        name=node["name"],
        kind=ClockKind(node["kind"]),
        dialect=node.get("dialect", STANDARD.name),
        ptp_role=PtpRole(node.get("ptp_role", "none")),
        target=node.get("target", BMV2.name),
        device_config=DeviceConfigFormat(
            node.get("device_config", DeviceConfigFormat.STRATUM.value)
        ),
        gnmi_port=node.get("gnmi_port"),
        stamp_unit_ns=node["stamp_unit_ns"],
        stamp_width_bits=node["stamp_width_bits"],
        egress_stamp_width_bits=node.get("egress_stamp_width_bits"),
        stamp_origin=StampOrigin(node.get("stamp_origin", StampOrigin.ARBITRARY.value)),
        stamp_jitter_ns=node["stamp_jitter_ns"],
        mtu_bytes=node.get("mtu_bytes"),
        qos_maps=_qos_maps(node.get("qos_maps")),
        stamp_points=tuple(
            StampPoints(
                speed_gbps=item["speed_gbps"],
                ingress=_stamp_point(item["ingress"]),
                egress=_stamp_point(item["egress"]),
            )
            for item in node["stamp_points"]
        ),
    )


def _stamp_point(node: Node) -> StampPoint:
    return StampPoint(
        latency_ns=node["latency_ns"],
        uncertainty_ns=node.get("uncertainty_ns", UNCALIBRATED_NS),
        at_frame_end=node.get("at_frame_end", False),
        calibrated="uncertainty_ns" in node,
    )


def _number(node: Node, key: str) -> float | None:
    return float(node[key]) if key in node else None


def _switch(node: Node) -> Switch:
    return Switch(
        name=node["name"],
        node_id=node["node_id"],
        model=node["model"],
        ip=parse_ip(node["ip"]),
        mac=parse_mac(node["mac"]),
        prefixes=tuple(map(IPv4Network, node.get("prefixes", []))),
        ipv6_prefixes=tuple(map(IPv6Network, node.get("ipv6_prefixes", []))),
        tier=node.get("tier"),
        interfaces=tuple((item["port"], item["interface"]) for item in node.get("interfaces", [])),
        report_port=node.get("report_port"),
        cpu_port=node["cpu_port"],
        device_id=node.get("device_id") or node["node_id"],
        p4runtime=node.get("p4runtime"),
        gnmi=node.get("gnmi"),
        ptp_role=PtpRole(node["ptp_role"]) if "ptp_role" in node else None,
        stamp_origin=StampOrigin(node["stamp_origin"]) if "stamp_origin" in node else None,
        mtu_bytes=node.get("mtu_bytes"),
        port_mtus=tuple((item["port"], item["mtu_bytes"]) for item in node.get("port_mtus", [])),
        qos_maps=_qos_maps(node.get("qos_maps")),
    )


def _qos_maps(node: Node | None) -> QosMaps | None:
    if node is None:
        return None
    return QosMaps(
        queues=tuple((tuple(row["dscps"]), row["queue"]) for row in node.get("queues", [])),
        default_queue=node.get("default_queue", 0),
        priorities=tuple(
            (tuple(row["dscps"]), row["priority"]) for row in node.get("priorities", [])
        ),
        default_priority=node.get("default_priority", 0),
        pfc_priorities=tuple(node.get("pfc_priorities", [])),
        ecn=tuple(
            EcnProfile(
                queue=row.get("queue"),
                dscps=tuple(row.get("dscps", [])),
                min_bytes=row["min_bytes"],
                max_bytes=row["max_bytes"],
                max_percent=row.get("max_percent", 100),
            )
            for row in node.get("ecn", [])
        ),
    )


def _link(node: Node) -> Link:
    length_m = node.get("length_m")
    return Link(
        a=LinkEnd.parse(node["a"]),
        b=LinkEnd.parse(node["b"]),
        speed_gbps=node["speed_gbps"],
        length_m=None if length_m is None else float(length_m),
        length_tolerance_m=float(node.get("length_tolerance_m", 0.0)),
        asymmetry_sd_ns=float(node["asymmetry_sd_ns"]),
        asymmetry_ns=float(node.get("asymmetry_ns", 0.0)),
        mtu_bytes=node.get("mtu_bytes"),
        weight=node.get("weight"),
        vlan=node.get("vlan"),
        drained=node.get("drained", False),
    )
