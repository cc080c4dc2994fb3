# SPDX-License-Identifier: Apache-2.0
"""What an estimator may know of a fabric, from declared values only.

Clocks come hosts first, then switches, and links in the order of the file, so that an index means
the same in every run over one file.
"""

import math
from dataclasses import replace

from controller.fabric import Fabric, Link, PtpRole, StampPoints
from correction.model import BoundaryClock, Clock, ClockKind, FabricModel, Reference
from correction.model import Link as ModelLink

_BPS_PER_GBPS = 1_000_000_000


def fabric_model(fabric: Fabric) -> FabricModel:
    """The clocks, links, stamp points and priors that `fabric.yaml` declares."""
    models = {model.name: model for model in fabric.models}
    clocks = tuple(
        Clock(
            name=host.name,
            kind=ClockKind.NIC,
            node_id=0,
            ip=host.ip,
            stamp_unit_ns=models[host.model].stamp_unit_ns,
            stamp_jitter_ns=models[host.model].stamp_jitter_ns,
            stamp_bits=models[host.model].stamp_width_bits,
        )
        for host in fabric.hosts
    ) + tuple(
        Clock(
            name=switch.name,
            kind=ClockKind.SWITCH,
            node_id=switch.node_id,
            ip=0,
            stamp_unit_ns=models[switch.model].stamp_unit_ns,
            stamp_jitter_ns=models[switch.model].stamp_jitter_ns,
            stamp_bits=models[switch.model].stamp_width_bits,
            transparent=fabric.model_of(switch).ptp_role is PtpRole.TRANSPARENT_CLOCK,
        )
        for switch in fabric.switches
    )
    index_of = {clock.name: index for index, clock in enumerate(clocks)}
    stamp_points = {
        (node.name, points.speed_gbps): _grouped(node.model, points)
        for node in fabric.nodes
        for points in models[node.model].stamp_points
    }
    links = []
    for link in fabric.links:
        a, b = index_of[link.a.node], index_of[link.b.node]
        points_a = stamp_points[link.a.node, link.speed_gbps]
        points_b = stamp_points[link.b.node, link.speed_gbps]
        links.append(
            ModelLink(
                name=link.name,
                a=a,
                a_port=link.a.port,
                b=b,
                b_port=link.b.port,
                rate_bps=link.speed_gbps * _BPS_PER_GBPS,
                a_egress=points_a.egress,
                a_ingress=points_a.ingress,
                b_egress=points_b.egress,
                b_ingress=points_b.ingress,
                min_delay_ns=min_delay_ns(link, fabric.propagation_ns_per_m_min),
                max_delay_ns=max_delay_ns(
                    link, fabric.propagation_ns_per_m_max, fabric.link_latency_ns_max
                ),
                asymmetry_sd_ns=link.asymmetry_sd_ns,
                asymmetry_ns=link.asymmetry_ns,
                access=ClockKind.NIC in (clocks[a].kind, clocks[b].kind),
            )
        )
    return FabricModel(
        clocks=clocks,
        links=tuple(links),
        reference=index_of[fabric.ptp.grandmaster],
        rate_offset_max_ppb=fabric.clock_limits.rate_offset_max_ppb,
        wander_ns_per_s_sqrt_s=fabric.clock_limits.wander_ns_per_s_sqrt_s,
        references=tuple(
            Reference(
                clock=index_of[one.clock],
                sd_ns=one.sd_ns,
                hard_ns=math.inf if one.hard_ns is None else one.hard_ns,
            )
            for one in fabric.ptp.references
        ),
        boundary_clocks=tuple(
            BoundaryClock(switch=index_of[switch.name], ip=switch.ip)
            for switch in fabric.switches
            if fabric.model_of(switch).ptp_role is PtpRole.BOUNDARY_CLOCK
        ),
    )


def _grouped(model: str, points: StampPoints) -> StampPoints:
    """Ports of one device model and speed share their true constants: one group per direction."""
    name = f"{model}/{points.speed_gbps}G"
    return replace(
        points,
        ingress=replace(points.ingress, group=f"{name}/ingress"),
        egress=replace(points.egress, group=f"{name}/egress"),
    )


def min_delay_ns(link: Link, propagation_ns_per_m_min: float) -> int:
    """Certified minimum one-way propagation, rounded down; 0 where the length is not known."""
    if link.length_m is None:
        return 0
    return math.floor((link.length_m - link.length_tolerance_m) * propagation_ns_per_m_min)


def max_delay_ns(link: Link, propagation_ns_per_m_max: float, latency_ns_max: float) -> int:
    """Largest one-way delay expected of a cable, rounded up; 0 where the length is not known."""
    if link.length_m is None:
        return 0
    longest_m = link.length_m + link.length_tolerance_m
    return math.ceil(longest_m * propagation_ns_per_m_max + latency_ns_max)
