# SPDX-License-Identifier: Apache-2.0
"""Write a `Fabric` as `fabric.yaml`: the same fabric gives the same text, byte for byte.

One device or cable a line, with comments that say what each section is for, since the generated
file is what an operator starts from. `parse_fabric(dump_fabric(f)) == f`.
"""

from collections.abc import Iterator

from controller.addresses import format_ip, format_mac
from controller.fabric import (
    FABRIC_VERSION,
    DeviceModel,
    Fabric,
    Host,
    Link,
    Qos,
    Switch,
    Watchlist,
    WatchTraffic,
)
from correction.model import StampPoint


def dump_fabric(fabric: Fabric) -> str:
    """The text of the fabric's file."""
    return "\n".join(_lines(fabric)) + "\n"


def _lines(fabric: Fabric) -> Iterator[str]:
    yield "# TempoTrace fabric description: docs/fabric.md"
    yield f"version: {FABRIC_VERSION}"
    yield f"name: {_scalar(fabric.name)}"
    yield ""
    yield "ptp:"
    yield f"  domain: {fabric.ptp.domain}"
    yield f"  grandmaster: {_scalar(fabric.ptp.grandmaster)}  # its clock is the reference"
    yield ""
    yield "collector:  # receives the telemetry reports"
    yield f"  ip: {format_ip(fabric.collector.ip)}"
    yield f'  mac: "{format_mac(fabric.collector.mac)}"'
    yield f"  udp_port: {fabric.collector.udp_port}"
    yield ""
    yield "int:"
    yield f"  domain_id: {fabric.int_domain.domain_id}"
    yield f"  truncate_bytes: {fabric.int_domain.truncate_bytes}  # kept of a reported packet"
    yield ""
    yield "clock_limits:"
    yield f"  rate_offset_max_ppb: {fabric.clock_limits.rate_offset_max_ppb}"
    yield (
        f"  wander_ns_per_s_sqrt_s: {fabric.clock_limits.wander_ns_per_s_sqrt_s!r}"
        "  # random walk of the rate"
    )
    yield ""
    yield "# Propagation delay of any cable, and what modules and FEC add at most: with a cable's"
    yield "# length they bound its delay on both sides."
    yield f"propagation_ns_per_m_min: {fabric.propagation_ns_per_m_min!r}"
    yield f"propagation_ns_per_m_max: {fabric.propagation_ns_per_m_max!r}"
    yield f"link_latency_ns_max: {fabric.link_latency_ns_max!r}"
    yield ""
    yield from _qos_lines(fabric.qos)
    yield ""
    if fabric.watchlists:
        yield "watchlists:  # packets to instrument"
        yield from (_item(_watchlist_fields(watchlist)) for watchlist in fabric.watchlists)
        yield ""
    yield "tenants:"
    yield from (_item([("name", _scalar(tenant.name))]) for tenant in fabric.tenants)
    yield ""
    yield "# Stamp points: where a stamp is taken against the wire; the true constant lies within"
    yield "# latency_ns +- uncertainty_ns."
    yield "models:"
    for model in fabric.models:
        yield from _model_lines(model)
    yield ""
    yield "switches:"
    yield from (_item(_switch_fields(switch)) for switch in fabric.switches)
    yield ""
    yield "hosts:"
    yield from (_item(_host_fields(host)) for host in fabric.hosts)
    yield ""
    yield "# asymmetry_sd_ns: prior deviation of half the one-way difference of a healthy cable."
    yield "links:"
    yield from (_item(_link_fields(link)) for link in fabric.links)


def _qos_lines(qos: Qos) -> Iterator[str]:
    yield "qos:  # a higher queue number is served first"
    yield f"  default_queue: {qos.default_queue}"
    yield "  classes:" + ("" if qos.classes else " []")
    for traffic_class in qos.classes:
        fields = [("name", _scalar(traffic_class.name)), ("dscp", str(traffic_class.dscp))]
        if traffic_class.marked_dscp is not None:
            fields.append(("marked_dscp", str(traffic_class.marked_dscp)))
        fields.append(("queue", str(traffic_class.queue)))
        yield "  " + _item(fields)
    if qos.ecn:
        yield "  ecn:"
        for threshold in qos.ecn:
            yield "  " + _item(
                [
                    ("queue", str(threshold.queue)),
                    ("threshold_packets", str(threshold.threshold_packets)),
                ]
            )


def _model_lines(model: DeviceModel) -> Iterator[str]:
    yield f"  - name: {_scalar(model.name)}"
    yield f"    kind: {model.kind.value}"
    yield f"    dialect: {_scalar(model.dialect)}"
    yield f"    ptp_role: {model.ptp_role.value}"
    yield f"    stamp_unit_ns: {model.stamp_unit_ns}"
    yield f"    stamp_width_bits: {model.stamp_width_bits}"
    yield f"    stamp_jitter_ns: {model.stamp_jitter_ns}"
    yield "    stamp_points:"
    for points in model.stamp_points:
        yield f"      - speed_gbps: {points.speed_gbps}"
        yield f"        ingress: {_stamp_point(points.ingress)}"
        yield f"        egress: {_stamp_point(points.egress)}"


def _stamp_point(point: StampPoint) -> str:
    return _flow(
        [
            ("latency_ns", str(point.latency_ns)),
            ("uncertainty_ns", str(point.uncertainty_ns)),
            ("at_frame_end", "true" if point.at_frame_end else "false"),
        ]
    )


def _watchlist_fields(watchlist: Watchlist) -> list[tuple[str, str]]:
    fields = [("name", _scalar(watchlist.name)), ("traffic", watchlist.traffic.value)]
    if watchlist.traffic is WatchTraffic.ROCE:
        assert watchlist.traffic_class is not None
        fields.append(("class", _scalar(watchlist.traffic_class)))
        if watchlist.tenants:
            fields.append(("tenants", f"[{', '.join(map(_scalar, watchlist.tenants))}]"))
        if watchlist.sample_psn_bits:
            fields.append(("sample_psn_bits", str(watchlist.sample_psn_bits)))
        fields.append(("remaining_hop_count", str(watchlist.remaining_hop_count)))
    else:
        fields.append(("message_types", f"[{', '.join(map(str, watchlist.message_types))}]"))
    fields.append(("instruction_bitmap", f"0x{watchlist.instruction_bitmap:04X}"))
    return fields


def _switch_fields(switch: Switch) -> list[tuple[str, str]]:
    fields = [
        ("name", _scalar(switch.name)),
        ("node_id", str(switch.node_id)),
        ("model", _scalar(switch.model)),
        ("ip", format_ip(switch.ip)),
        ("mac", f'"{format_mac(switch.mac)}"'),
    ]
    if switch.prefixes:
        fields.append(("prefixes", f"[{', '.join(map(str, switch.prefixes))}]"))
    fields += [("report_port", str(switch.report_port)), ("cpu_port", str(switch.cpu_port))]
    if switch.device_id != switch.node_id:
        fields.append(("device_id", str(switch.device_id)))
    if switch.p4runtime is not None:
        fields.append(("p4runtime", f'"{switch.p4runtime}"'))
    return fields


def _host_fields(host: Host) -> list[tuple[str, str]]:
    return [
        ("name", _scalar(host.name)),
        ("model", _scalar(host.model)),
        ("ip", format_ip(host.ip)),
        ("mac", f'"{format_mac(host.mac)}"'),
        ("tenant", _scalar(host.tenant)),
    ]


def _link_fields(link: Link) -> list[tuple[str, str]]:
    fields = [
        ("a", f'"{link.a}"'),
        ("b", f'"{link.b}"'),
        ("speed_gbps", str(link.speed_gbps)),
    ]
    if link.length_m is not None:
        fields += [
            ("length_m", repr(float(link.length_m))),
            ("length_tolerance_m", repr(float(link.length_tolerance_m))),
        ]
    fields.append(("asymmetry_sd_ns", repr(float(link.asymmetry_sd_ns))))
    if link.mtu_bytes is not None:
        fields.append(("mtu_bytes", str(link.mtu_bytes)))
    return fields


def _item(fields: list[tuple[str, str]]) -> str:
    return f"  - {_flow(fields)}"


def _flow(fields: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields) + "}"


_NOT_PLAIN = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Names that YAML (1.1 readers included) would not take as a text."""


def _scalar(name: str) -> str:
    """A name of the schema's pattern; quoted where YAML would read something else."""
    return f'"{name}"' if name.lower() in _NOT_PLAIN else name
