# SPDX-License-Identifier: Apache-2.0
"""The `fabric.yaml` of a scenario: what its operator would declare, never what is true."""

from dataclasses import replace
from ipaddress import IPv4Network

import numpy as np

from bmv2_lab.scenarios import Scenario
from bmv2_lab.topologies import generated
from controller.fabric import PROTOCOL_UDP, DeviceModel, Fabric, PtpRole, TrafficClass
from controller.fabric_check import check_fabric
from controller.fabric_defaults import device_models
from controller.fabric_telemetry import DEFAULT_REPORTS, EthernetPtp, Probes, PuntRule, QueueReport
from controller.routing import attached_hosts
from controller.targets import BMV2, NO_PROGRAM
from correction.model import ClockKind

SWITCH_ADDRESSES = IPv4Network("10.254.0.0/16")
"""Of the generator's plan: what is sent to one is for its CPU."""
ROUTER_MODEL = "plain-router"
LENGTH_TOLERANCE_M = 1.0
QUEUE_REPORT_QUOTA = 1_000
"""Congestion reports per episode: all of them."""


def scenario_fabric(scenario: Scenario, cables: np.random.Generator) -> Fabric:
    """The fabric that a scenario builds, with cable lengths drawn from `cables`."""
    nuisance = scenario.nuisance
    fabric = generated(
        scenario,
        name=scenario.name,
        speed_gbps=scenario.speed_gbps,
        asymmetry_sd_ns=nuisance.link_asymmetry_sd_ns,
        models=tuple(_declare(model, scenario) for model in _models(scenario)),
        rate_offset_max_ppb=nuisance.rate_offset_max_ppb,
        wander_ns_per_s_sqrt_s=nuisance.wander_ns_per_s_sqrt_s,
        link_latency_ns_max=float(nuisance.module_latency_ns_max),
        tenants=scenario.tenants,
    )
    if scenario.plain_spines:
        fabric = _with_plain_spines(fabric)
    lengths_m = cables.integers(
        scenario.cable_m_min, scenario.cable_m_max + 1, len(fabric.links)
    ).tolist()
    fabric = replace(
        fabric,
        links=tuple(
            replace(
                link,
                length_m=float(length_m),
                length_tolerance_m=min(LENGTH_TOLERANCE_M, float(length_m)),
            )
            for link, length_m in zip(fabric.links, lengths_m, strict=True)
        ),
    )
    fabric = replace(
        fabric,
        qos=replace(
            fabric.qos,
            ecn=tuple(
                replace(one, threshold_packets=scenario.ecn_threshold_packets)
                for one in fabric.qos.ecn
            ),
        ),
    )
    if scenario.boundary_clocks:
        to_switches = PuntRule(
            name="to-switches", protocol=PROTOCOL_UDP, destination=SWITCH_ADDRESSES
        )
        fabric = replace(fabric, punt=(*fabric.punt, to_switches))
    if scenario.ptp_over_ethernet:
        fabric = replace(fabric, ptp=replace(fabric.ptp, ethernet=EthernetPtp.TREE))
    if scenario.queue_report_packets:
        congested = QueueReport(
            queue=1, depth_packets=scenario.queue_report_packets, quota=QUEUE_REPORT_QUOTA
        )
        fabric = replace(fabric, reports=replace(fabric.reports, queues=(congested,)))
    if scenario.probe_budget_pps:
        fabric = replace(fabric, probes=Probes(budget_pps=scenario.probe_budget_pps))
    problems = check_fabric(fabric)
    assert not problems, problems[0].text()
    return fabric


def leaf_names(fabric: Fabric) -> tuple[str, ...]:
    """The switches with hosts, in the order of the file."""
    return tuple(name for name, local in attached_hosts(fabric).items() if local)


def inner_links(fabric: Fabric) -> list[int]:
    """Indices of the links between switches, in the order of the file."""
    hosts = {host.name for host in fabric.hosts}
    return [
        index
        for index, link in enumerate(fabric.links)
        if link.a.node not in hosts and link.b.node not in hosts
    ]


def _with_plain_spines(fabric: Fabric) -> Fabric:
    """Spines of a model that does not run the program."""
    leaves = leaf_names(fabric)
    plain = replace(fabric.models[0], name=ROUTER_MODEL, target=NO_PROGRAM.name)
    return replace(
        fabric,
        models=(*fabric.models, plain),
        switches=tuple(
            switch if switch.name in leaves else replace(switch, model=plain.name)
            for switch in fabric.switches
        ),
    )


def as_routers(fabric: Fabric) -> Fabric | None:
    """What makes switches without the program of embedded ones in their place: routes and queues,
    nothing of measuring; None where all run it.

    In it the roles are exchanged: a deployment reaches the routers and leaves the others alone.
    """
    if all(model.target != NO_PROGRAM.name for model in fabric.models):
        return None
    marked = tuple(
        TrafficClass(name=f"{one.name}-marked", dscp=one.marked_dscp, queue=one.queue)
        for one in fabric.qos.classes
        if one.marked_dscp is not None
    )
    return replace(
        fabric,
        watchlists=(),
        reports=DEFAULT_REPORTS,
        probes=None,
        qos=replace(
            fabric.qos,
            classes=(*(replace(one, marked_dscp=None) for one in fabric.qos.classes), *marked),
        ),
        models=tuple(
            replace(
                model,
                target=BMV2.name if model.target == NO_PROGRAM.name else NO_PROGRAM.name,
            )
            for model in fabric.models
        ),
    )


def _models(scenario: Scenario) -> tuple[DeviceModel, ...]:
    nuisance = scenario.nuisance
    return device_models(
        speeds_gbps=(scenario.speed_gbps,),
        switch_uncertainty_ns=nuisance.switch_stamp_uncertainty_ns,
        nic_uncertainty_ns=nuisance.nic_stamp_uncertainty_ns,
        stamp_unit_ns=nuisance.stamp_unit_ns,
    )


def _declare(model: DeviceModel, scenario: Scenario) -> DeviceModel:
    """The operator knows the typical size of the noise after the egress stamp, and the role."""
    jitter_ns = max(1, round(scenario.nuisance.egress_jitter_mean_ns))
    corrects = model.kind is ClockKind.SWITCH and (
        scenario.closed_loop is not None or scenario.wrong_correction is not None
    )
    role = PtpRole.TRANSPARENT_CLOCK if corrects else model.ptp_role
    if scenario.boundary_clocks and model.kind is ClockKind.SWITCH:
        role = PtpRole.BOUNDARY_CLOCK
    return replace(model, stamp_jitter_ns=jitter_ns, ptp_role=role)
