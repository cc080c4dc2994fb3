# SPDX-License-Identifier: Apache-2.0
"""A large fabric as its operator would declare it: `Fabric` for the file, `FabricModel` to solve.

`fabric_model_of` needs no `Fabric`: at 16,384 GPUs the model alone is what a solver takes. Both are
the same: `fabric_model(fabric_of(world)) == fabric_model_of(world)`. A NIC is a host of its own in
the file (one host has one PHC there): NIC 3 of host 12 is `h12n3`.
"""

from dataclasses import replace
from ipaddress import IPv4Network

import numpy as np

from bmv2_lab.scale.flows import Jobs, tenant_name
from bmv2_lab.scale.world import LENGTH_TOLERANCE_M, World
from controller.addresses import parse_ip, parse_mac
from controller.fabric import (
    PROPAGATION_NS_PER_M_MAX,
    ClockLimits,
    Collector,
    DeviceModel,
    Fabric,
    Host,
    IntDomain,
    Link,
    LinkEnd,
    Ptp,
    StampPoints,
    Switch,
    Tenant,
)
from controller.fabric_defaults import default_qos, default_watchlists
from controller.fabric_generate import CPU_PORT
from correction.model import Clock, ClockKind, FabricModel
from correction.model import Link as ModelLink

REPORT_PORT = 500
PROPAGATION_NS_PER_M_MIN = 4.8


def declared_models(world: World) -> tuple[DeviceModel, DeviceModel]:
    """Switch and NIC; the operator knows the typical size of the noise after the egress stamp."""
    jitter_ns = max(1, round(world.nuisance.egress_jitter_mean_ns))
    switch, nic = world.models
    return replace(switch, stamp_jitter_ns=jitter_ns), replace(nic, stamp_jitter_ns=jitter_ns)


def fabric_of(world: World, jobs: Jobs) -> Fabric:
    """What `fabric.yaml` holds."""
    topology, nuisance = world.topology, world.nuisance
    switch_model, nic_model = declared_models(world)
    tolerance_m = np.minimum(LENGTH_TOLERANCE_M, world.length_m)
    leaves = topology.leaf_row >= 0
    prefix = np.zeros(topology.switch_count, np.int64)
    prefix[topology.nic_leaf] = topology.nic_ip & ~0xFF
    names = [topology.clock_name(clock) for clock in range(world.collector)]
    return Fabric(
        name="scale",
        ptp=Ptp(domain=0, grandmaster=topology.nic_names[0]),
        collectors=(
            Collector(
                ip=parse_ip("10.255.0.1"), mac=parse_mac("02:00:00:ff:00:01"), udp_port=32766
            ),
        ),
        int_domain=IntDomain(domain_id=0, truncate_bytes=96),
        clock_limits=ClockLimits(
            rate_offset_max_ppb=nuisance.rate_offset_max_ppb,
            wander_ns_per_s_sqrt_s=nuisance.wander_ns_per_s_sqrt_s,
        ),
        propagation_ns_per_m_min=PROPAGATION_NS_PER_M_MIN,
        link_latency_ns_max=float(nuisance.module_latency_ns_max),
        qos=default_qos(),
        watchlists=default_watchlists(),
        tenants=tuple(Tenant(name=tenant_name(job)) for job in range(jobs.count)),
        models=(switch_model, nic_model),
        switches=tuple(
            Switch(
                name=name,
                node_id=node_id,
                model=switch_model.name,
                ip=parse_ip("10.254.0.0") + node_id,
                mac=parse_mac("02:00:01:00:00:00") + node_id,
                prefixes=(IPv4Network((network, 24)),) if is_leaf else (),
                tier=tier,
                report_port=REPORT_PORT,
                cpu_port=CPU_PORT,
                device_id=node_id,
            )
            for name, node_id, network, is_leaf, tier in zip(
                topology.switch_names,
                topology.node_id.tolist(),
                prefix.tolist(),
                leaves.tolist(),
                topology.tier.tolist(),
                strict=True,
            )
        ),
        hosts=tuple(
            Host(name=name, model=nic_model.name, ip=ip, mac=mac, tenant=tenant_name(job))
            for name, ip, mac, job in zip(
                topology.nic_names,
                topology.nic_ip.tolist(),
                topology.nic_mac.tolist(),
                jobs.job_of_nic.tolist(),
                strict=True,
            )
        ),
        links=tuple(
            Link(
                a=LinkEnd(node=names[a], port=a_port),
                b=LinkEnd(node=names[b], port=b_port),
                speed_gbps=world.speed_gbps,
                length_m=length_m,
                length_tolerance_m=tolerance,
                asymmetry_sd_ns=nuisance.link_asymmetry_sd_ns,
            )
            for a, a_port, b, b_port, length_m, tolerance in zip(
                topology.link_a.tolist(),
                topology.link_a_port.tolist(),
                topology.link_b.tolist(),
                topology.link_b_port.tolist(),
                world.length_m.tolist(),
                tolerance_m.tolist(),
                strict=True,
            )
        ),
    )


def fabric_model_of(world: World) -> FabricModel:
    """What an estimator may know, without a `Fabric` in between."""
    topology, nuisance = world.topology, world.nuisance
    models = declared_models(world)
    switch_points, nic_points = (_grouped(model, world.speed_gbps) for model in models)
    clocks = tuple(
        Clock(
            name=topology.clock_name(clock),
            kind=ClockKind.NIC if is_nic else ClockKind.SWITCH,
            node_id=node_id,
            ip=ip,
            stamp_unit_ns=models[is_nic].stamp_unit_ns,
            stamp_jitter_ns=models[is_nic].stamp_jitter_ns,
            stamp_bits=models[is_nic].stamp_width_bits,
        )
        for clock, is_nic, node_id, ip in zip(
            range(world.collector),
            [True] * topology.nic_count + [False] * topology.switch_count,
            [0] * topology.nic_count + topology.node_id.tolist(),
            topology.nic_ip.tolist() + [0] * topology.switch_count,
            strict=True,
        )
    )
    tolerance_m = np.minimum(LENGTH_TOLERANCE_M, world.length_m)
    least = np.floor((world.length_m - tolerance_m) * PROPAGATION_NS_PER_M_MIN)
    longest_m = world.length_m + tolerance_m
    most = np.ceil(longest_m * PROPAGATION_NS_PER_M_MAX + float(nuisance.module_latency_ns_max))
    links = []
    for a, a_port, b, b_port, least_ns, most_ns in zip(
        topology.link_a.tolist(),
        topology.link_a_port.tolist(),
        topology.link_b.tolist(),
        topology.link_b_port.tolist(),
        least.astype(np.int64).tolist(),
        most.astype(np.int64).tolist(),
        strict=True,
    ):
        at_a = nic_points if a < topology.nic_count else switch_points
        at_b = nic_points if b < topology.nic_count else switch_points
        links.append(
            ModelLink(
                name=f"{clocks[a].name}:{a_port}-{clocks[b].name}:{b_port}",
                a=a,
                a_port=a_port,
                b=b,
                b_port=b_port,
                rate_bps=world.speed_gbps * 1_000_000_000,
                a_egress=at_a.egress,
                a_ingress=at_a.ingress,
                b_egress=at_b.egress,
                b_ingress=at_b.ingress,
                min_delay_ns=least_ns,
                max_delay_ns=most_ns,
                asymmetry_sd_ns=nuisance.link_asymmetry_sd_ns,
                access=a < topology.nic_count or b < topology.nic_count,
            )
        )
    return FabricModel(
        clocks=clocks,
        links=tuple(links),
        reference=0,
        rate_offset_max_ppb=nuisance.rate_offset_max_ppb,
        wander_ns_per_s_sqrt_s=nuisance.wander_ns_per_s_sqrt_s,
    )


def _grouped(model: DeviceModel, speed_gbps: int) -> StampPoints:
    """As `controller.fabric_model`: ports of a model and speed share their true constants."""
    points = model.stamp_points_at(speed_gbps)
    assert points is not None, "the models are made for this speed"
    name = f"{model.name}/{speed_gbps}G"
    return replace(
        points,
        ingress=replace(points.ingress, group=f"{name}/ingress"),
        egress=replace(points.egress, group=f"{name}/egress"),
    )
