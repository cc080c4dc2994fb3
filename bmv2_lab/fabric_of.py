# SPDX-License-Identifier: Apache-2.0
"""The `fabric.yaml` of a scenario: what its operator would declare, never what is true."""

from dataclasses import replace

import numpy as np

from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scenarios import Scenario
from controller.fabric import DeviceModel, Fabric
from controller.fabric_generate import device_models, leaf_spine, leaf_spine_link_count


def scenario_fabric(scenario: Scenario, cables: np.random.Generator) -> Fabric:
    """The fabric that a scenario builds, with cable lengths drawn from `cables`."""
    count = leaf_spine_link_count(
        leaves=scenario.leaves, spines=scenario.spines, hosts_per_leaf=scenario.hosts_per_leaf
    )
    lengths_m = cables.integers(scenario.cable_m_min, scenario.cable_m_max + 1, count)
    nuisance = scenario.nuisance
    return leaf_spine(
        leaves=scenario.leaves,
        spines=scenario.spines,
        hosts_per_leaf=scenario.hosts_per_leaf,
        name=scenario.name,
        speed_gbps=scenario.speed_gbps,
        lengths_m=[float(length) for length in lengths_m],
        asymmetry_sd_ns=nuisance.link_asymmetry_sd_ns,
        models=tuple(_declare(model, nuisance) for model in _models(scenario)),
        rate_offset_max_ppb=nuisance.rate_offset_max_ppb,
        wander_ns_per_s_sqrt_s=nuisance.wander_ns_per_s_sqrt_s,
        link_latency_ns_max=float(nuisance.module_latency_ns_max),
    )


def inner_links(fabric: Fabric) -> list[int]:
    """Indices of the links between switches, in the order of the file."""
    hosts = {host.name for host in fabric.hosts}
    return [
        index
        for index, link in enumerate(fabric.links)
        if link.a.node not in hosts and link.b.node not in hosts
    ]


def _models(scenario: Scenario) -> tuple[DeviceModel, ...]:
    nuisance = scenario.nuisance
    return device_models(
        speeds_gbps=(scenario.speed_gbps,),
        switch_uncertainty_ns=nuisance.switch_stamp_uncertainty_ns,
        nic_uncertainty_ns=nuisance.nic_stamp_uncertainty_ns,
        stamp_unit_ns=nuisance.stamp_unit_ns,
    )


def _declare(model: DeviceModel, nuisance: Nuisance) -> DeviceModel:
    """The operator knows the typical size of the noise after the egress stamp."""
    return replace(model, stamp_jitter_ns=max(1, round(nuisance.egress_jitter_mean_ns)))
