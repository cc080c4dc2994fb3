# SPDX-License-Identifier: Apache-2.0
"""Read `fabric.yaml` into a `Fabric`, or say in one line what is wrong and what was expected.

Three passes: YAML with the line of every key, the JSON Schema, then what a schema cannot say
(`fabric_check.py`). The first problem in the order of the file is raised.
"""

from pathlib import Path

from controller.addresses import parse_mac
from controller.fabric import (
    LINK_LATENCY_NS_MAX,
    PROPAGATION_NS_PER_M_MAX,
    ClockLimits,
    DeviceModel,
    EcnThreshold,
    Fabric,
    FabricError,
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
from controller.fabric_check import check_fabric
from controller.fabric_file_telemetry import (
    BadValue,
    Node,
    read_collectors,
    read_ecmp,
    read_ip,
    read_ipv6,
    read_ipv6_prefix,
    read_prefix,
    read_probes,
    read_punt,
    read_reports,
    read_watchlist,
)
from controller.fabric_schema import FileProblem, schema_problems
from controller.fabric_telemetry import EthernetPtp
from controller.targets import BMV2
from controller.telemetry.dialect import STANDARD
from controller.yaml_positions import (
    KeyPath,
    YamlProblem,
    format_key,
    parse_yaml,
)
from correction.model import UNCALIBRATED_NS, ClockKind, StampPoint


def load_fabric(path: str | Path) -> Fabric:
    """The fabric that the file describes; FabricError names file, line, key and expectation."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FabricError(
            path=str(path), line=1, key="(file)", message=f"{error.reason}; expected UTF-8 text"
        ) from error
    except OSError as error:
        raise FabricError(
            path=str(path),
            line=1,
            key="(file)",
            message=f"{error.strerror or error}; expected a fabric description",
        ) from error
    return parse_fabric(text, path=str(path))


def parse_fabric(text: str, *, path: str = "fabric.yaml") -> Fabric:
    """The fabric that the text describes; `path` is what errors call the file."""
    try:
        document = parse_yaml(text)
    except YamlProblem as problem:
        raise FabricError(
            path=path, line=problem.line, key=problem.key, message=problem.message
        ) from problem
    problems = sorted(schema_problems(document))
    if not problems:
        assert isinstance(document.value, dict)
        try:
            fabric = _fabric(document.value)
        except BadValue as bad:
            problems = [FileProblem(document.line_of(bad.path), bad.path, bad.message)]
        else:
            problems = sorted(
                FileProblem(document.line_of(path), path, found.message)
                for found in check_fabric(fabric)
                for path in (_in_file(found.path, document.value),)
            )
            if not problems:
                return fabric
    first = problems[0]
    raise FabricError(path=path, line=first.line, key=format_key(first.path), message=first.message)


def _in_file(path: KeyPath, document: Node) -> KeyPath:
    """A list of one collector is the same to the checks as one collector."""
    if path[:1] == ("collector",) and "collectors" in document:
        return ("collectors", 0, *path[1:])
    return path


def _fabric(node: Node) -> Fabric:
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
            domain_id=node["int"]["domain_id"], truncate_bytes=node["int"]["truncate_bytes"]
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
        watchlists=tuple(
            read_watchlist(item, index) for index, item in enumerate(node.get("watchlists", []))
        ),
        tenants=tuple(Tenant(name=item["name"]) for item in node["tenants"]),
        models=tuple(_model(item) for item in node["models"]),
        switches=tuple(_switch(item, index) for index, item in enumerate(node["switches"])),
        hosts=tuple(
            Host(
                name=item["name"],
                model=item["model"],
                ip=read_ip(item["ip"], ("hosts", index, "ip")),
                mac=parse_mac(item["mac"]),
                tenant=item["tenant"],
                ipv6=(
                    read_ipv6(item["ipv6"], ("hosts", index, "ipv6")) if "ipv6" in item else None
                ),
                machine=item.get("machine"),
            )
            for index, item in enumerate(node["hosts"])
        ),
        links=tuple(_link(item) for item in node["links"]),
        ecmp=read_ecmp(node.get("ecmp", {})),
        reports=read_reports(node.get("reports", {})),
        punt=read_punt(node.get("punt")),
        probes=read_probes(node.get("probes")),
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
        stamp_unit_ns=node["stamp_unit_ns"],
        stamp_width_bits=node["stamp_width_bits"],
        egress_stamp_width_bits=node.get("egress_stamp_width_bits"),
        stamp_origin=StampOrigin(node.get("stamp_origin", StampOrigin.ARBITRARY.value)),
        stamp_jitter_ns=node["stamp_jitter_ns"],
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


def _switch(node: Node, index: int) -> Switch:
    path: KeyPath = ("switches", index)
    return Switch(
        name=node["name"],
        node_id=node["node_id"],
        model=node["model"],
        ip=read_ip(node["ip"], (*path, "ip")),
        mac=parse_mac(node["mac"]),
        prefixes=tuple(
            read_prefix(text, (*path, "prefixes", position))
            for position, text in enumerate(node.get("prefixes", []))
        ),
        ipv6_prefixes=tuple(
            read_ipv6_prefix(text, (*path, "ipv6_prefixes", position))
            for position, text in enumerate(node.get("ipv6_prefixes", []))
        ),
        tier=node.get("tier"),
        interfaces=tuple((item["port"], item["interface"]) for item in node.get("interfaces", [])),
        report_port=node.get("report_port"),
        cpu_port=node["cpu_port"],
        device_id=node.get("device_id") or node["node_id"],
        p4runtime=node.get("p4runtime"),
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
