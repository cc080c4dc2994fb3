# SPDX-License-Identifier: Apache-2.0
"""Write a `Fabric` as `fabric.yaml`: the same fabric gives the same text, byte for byte.

One device or cable a line, with comments that say what each section is for, since the generated
file is what an operator starts from. `parse_fabric(dump_fabric(f)) == f`.
"""

from collections.abc import Iterator

from controller.addresses import format_ip, format_ipv6, format_mac
from controller.fabric import (
    FABRIC_VERSION,
    DeviceModel,
    Fabric,
    Host,
    Link,
    Qos,
    StampOrigin,
    Switch,
)
from controller.fabric_controller import controller_lines
from controller.fabric_dump_qos import qos_map_fields
from controller.fabric_dump_telemetry import (
    collector_lines,
    ecmp_lines,
    probe_lines,
    punt_lines,
    report_lines,
    watchlist_fields,
)
from controller.fabric_telemetry import EthernetPtp
from controller.targets import DeviceConfigFormat
from controller.yaml_text import Fields, flow, flow_list, item, scalar, truth
from correction.model import ClockKind, StampPoint


def dump_fabric(fabric: Fabric) -> str:
    """The text of the fabric's file."""
    return "\n".join(_lines(fabric)) + "\n"


def _lines(fabric: Fabric) -> Iterator[str]:
    yield "# TempoTrace fabric description: docs/fabric.md"
    yield f"version: {FABRIC_VERSION}"
    yield f"name: {scalar(fabric.name)}"
    yield ""
    yield "ptp:"
    yield f"  domain: {fabric.ptp.domain}"
    yield f"  grandmaster: {scalar(fabric.ptp.grandmaster)}  # its clock is the reference"
    if fabric.ptp.ethernet is not EthernetPtp.DROP:
        yield f"  ethernet: {fabric.ptp.ethernet.value}"
    if fabric.ptp.references:
        yield "  references:"
    for one in fabric.ptp.references:
        fields = [("clock", scalar(one.clock)), ("sd_ns", repr(one.sd_ns))]
        if one.hard_ns is not None:
            fields.append(("hard_ns", repr(one.hard_ns)))
        yield f"    - {flow(fields)}"
    yield ""
    yield from controller_lines(fabric.controller)
    yield from collector_lines(fabric.collectors)
    yield ""
    yield "int:"
    yield f"  domain_id: {fabric.int_domain.domain_id}"
    yield f"  truncate_bytes: {fabric.int_domain.truncate_bytes}  # kept of a reported packet"
    if fabric.int_domain.udp_port is not None:
        yield f"  udp_port: {fabric.int_domain.udp_port}  # marks INT of other devices"
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
        yield from (item(watchlist_fields(watchlist)) for watchlist in fabric.watchlists)
        yield ""
    yield from ecmp_lines(fabric.ecmp)
    yield from report_lines(fabric.reports)
    yield from probe_lines(fabric.probes)
    yield from punt_lines(fabric.punt)
    yield "tenants:"
    yield from (item([("name", scalar(tenant.name))]) for tenant in fabric.tenants)
    yield ""
    yield "# Stamp points: where a stamp is taken against the wire; the true constant lies within"
    yield "# latency_ns +- uncertainty_ns."
    yield "models:"
    for model in fabric.models:
        yield from _model_lines(model)
    yield ""
    yield "switches:"
    yield from (item(_switch_fields(switch)) for switch in fabric.switches)
    yield ""
    yield "hosts:"
    yield from (item(_host_fields(host)) for host in fabric.hosts)
    yield ""
    yield "# asymmetry_sd_ns: prior deviation of half the one-way difference of a healthy cable."
    yield "links:"
    yield from (item(_link_fields(link)) for link in fabric.links)


def _qos_lines(qos: Qos) -> Iterator[str]:
    yield "qos:  # a higher queue number is served first"
    yield f"  default_queue: {qos.default_queue}"
    yield "  classes:" + ("" if qos.classes else " []")
    for traffic_class in qos.classes:
        fields = [("name", scalar(traffic_class.name)), ("dscp", str(traffic_class.dscp))]
        if traffic_class.marked_dscp is not None:
            fields.append(("marked_dscp", str(traffic_class.marked_dscp)))
        fields.append(("queue", str(traffic_class.queue)))
        if traffic_class.packet_bytes_max is not None:
            fields.append(("packet_bytes_max", str(traffic_class.packet_bytes_max)))
        yield "  " + item(fields)
    if qos.ecn:
        yield "  ecn:"
        for threshold in qos.ecn:
            yield "  " + item(
                [
                    ("queue", str(threshold.queue)),
                    ("threshold_packets", str(threshold.threshold_packets)),
                ]
            )


def _model_lines(model: DeviceModel) -> Iterator[str]:
    yield f"  - name: {scalar(model.name)}"
    yield f"    kind: {model.kind.value}"
    yield f"    dialect: {scalar(model.dialect)}"
    if model.kind is ClockKind.SWITCH:
        yield f"    target: {model.target}"
    if model.device_config is not DeviceConfigFormat.STRATUM:
        yield f"    device_config: {model.device_config.value}"
    if model.gnmi_port is not None:
        yield f"    gnmi_port: {model.gnmi_port}"
    yield f"    ptp_role: {model.ptp_role.value}"
    yield f"    stamp_unit_ns: {model.stamp_unit_ns}"
    yield f"    stamp_width_bits: {model.stamp_width_bits}"
    if model.egress_stamp_width_bits is not None:
        yield f"    egress_stamp_width_bits: {model.egress_stamp_width_bits}"
    if model.stamp_origin is not StampOrigin.ARBITRARY:
        yield f"    stamp_origin: {model.stamp_origin.value}"
    yield f"    stamp_jitter_ns: {model.stamp_jitter_ns}"
    if model.mtu_bytes is not None:
        yield f"    mtu_bytes: {model.mtu_bytes}"
    if model.qos_maps is not None:
        yield "    qos_maps:"
        yield from (f"      {key}: {value}" for key, value in qos_map_fields(model.qos_maps))
    yield "    stamp_points:"
    for points in model.stamp_points:
        yield f"      - speed_gbps: {points.speed_gbps}"
        yield f"        ingress: {_stamp_point(points.ingress)}"
        yield f"        egress: {_stamp_point(points.egress)}"


def _stamp_point(point: StampPoint) -> str:
    uncertainty = [("uncertainty_ns", str(point.uncertainty_ns))] if point.calibrated else []
    return flow(
        [
            ("latency_ns", str(point.latency_ns)),
            *uncertainty,
            ("at_frame_end", truth(point.at_frame_end)),
        ]
    )


def _switch_fields(switch: Switch) -> Fields:
    fields = [
        ("name", scalar(switch.name)),
        ("node_id", str(switch.node_id)),
        ("model", scalar(switch.model)),
        ("ip", format_ip(switch.ip)),
        ("mac", f'"{format_mac(switch.mac)}"'),
    ]
    if switch.prefixes:
        fields.append(("prefixes", f"[{', '.join(map(str, switch.prefixes))}]"))
    if switch.ipv6_prefixes:
        fields.append(("ipv6_prefixes", flow_list(f'"{p}"' for p in switch.ipv6_prefixes)))
    if switch.tier is not None:
        fields.append(("tier", str(switch.tier)))
    if switch.report_port is not None:
        fields.append(("report_port", str(switch.report_port)))
    fields.append(("cpu_port", str(switch.cpu_port)))
    if switch.device_id != switch.node_id:
        fields.append(("device_id", str(switch.device_id)))
    if switch.p4runtime is not None:
        fields.append(("p4runtime", f'"{switch.p4runtime}"'))
    if switch.gnmi is not None:
        fields.append(("gnmi", f'"{switch.gnmi}"'))
    if switch.interfaces:
        interfaces = (
            flow([("port", str(port)), ("interface", str(interface))])
            for port, interface in switch.interfaces
        )
        fields.append(("interfaces", flow_list(interfaces)))
    if switch.ptp_role is not None:
        fields.append(("ptp_role", switch.ptp_role.value))
    if switch.stamp_origin is not None:
        fields.append(("stamp_origin", switch.stamp_origin.value))
    if switch.mtu_bytes is not None:
        fields.append(("mtu_bytes", str(switch.mtu_bytes)))
    if switch.port_mtus:
        mtus = (
            flow([("port", str(port)), ("mtu_bytes", str(mtu))]) for port, mtu in switch.port_mtus
        )
        fields.append(("port_mtus", flow_list(mtus)))
    if switch.qos_maps is not None:
        fields.append(("qos_maps", flow(qos_map_fields(switch.qos_maps))))
    return fields


def _host_fields(host: Host) -> Fields:
    fields = [
        ("name", scalar(host.name)),
        ("model", scalar(host.model)),
        ("ip", format_ip(host.ip)),
    ]
    if host.ipv6 is not None:
        fields.append(("ipv6", f'"{format_ipv6(host.ipv6)}"'))
    fields += [("mac", f'"{format_mac(host.mac)}"'), ("tenant", scalar(host.tenant))]
    if host.machine is not None:
        fields.append(("machine", scalar(host.machine)))
    return fields


def _link_fields(link: Link) -> Fields:
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
    if link.asymmetry_ns:
        fields.append(("asymmetry_ns", repr(link.asymmetry_ns)))
    if link.mtu_bytes is not None:
        fields.append(("mtu_bytes", str(link.mtu_bytes)))
    if link.weight is not None:
        fields.append(("weight", str(link.weight)))
    if link.vlan is not None:
        fields.append(("vlan", str(link.vlan)))
    if link.drained:
        fields.append(("drained", "true"))
    return fields
