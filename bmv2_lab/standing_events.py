# SPDX-License-Identifier: Apache-2.0
"""The truth of what a scenario does to its fabric from the start, beyond chance."""

from collections.abc import Iterator

from bmv2_lab.fabric_of import leaf_names
from bmv2_lab.scenarios import Scenario
from bmv2_lab.truth import TrueEvent
from controller.fabric import Fabric


def standing_events(scenario: Scenario, fabric: Fabric) -> Iterator[TrueEvent]:
    """Everything that holds for the whole run."""
    for bias in scenario.stamp_biases:
        ports = ",".join(map(str, bias.ports))
        yield TrueEvent(
            kind="stamp_bias",
            entity=f"{bias.node}:{ports}" if ports else bias.node,
            value=bias.ingress_ns,
            unit="ns",
        )
    if scenario.tier_gradient_ns:
        for rank, leaf in enumerate(leaf_names(fabric)):
            yield TrueEvent(
                kind="tier_gradient",
                entity=leaf,
                value=rank * scenario.tier_gradient_ns,
                unit="ns",
            )
    if scenario.straggler is not None:
        yield TrueEvent(
            kind="straggler",
            entity=scenario.straggler.host,
            value=scenario.straggler.stall_ns,
            unit="ns",
        )
    if scenario.wrong_correction is not None:
        yield TrueEvent(
            kind="wrong_correction",
            entity=scenario.wrong_correction.switch,
            value=scenario.wrong_correction.error_ns,
            unit="ns",
        )
    if scenario.host_clocks is not None and scenario.host_clocks.step_host:
        yield TrueEvent(
            kind="system_clock_step",
            entity=scenario.host_clocks.step_host,
            from_true_ns=scenario.host_clocks.step_at_ns,
            value=scenario.host_clocks.step_ns,
            unit="ns",
        )
    if scenario.spraying:
        yield TrueEvent(kind="spraying", entity="")
    if scenario.report_loss_share:
        yield TrueEvent(
            kind="report_loss", entity="", value=scenario.report_loss_share, unit="share"
        )
    if scenario.traffic.incast:
        for tenant in scenario.tenants:
            target = next(host for host in fabric.hosts if host.tenant == tenant)
            yield TrueEvent(kind="incast", entity=target.name)
    for switch in scenario.congestion.only_at:
        yield TrueEvent(
            kind="congestion",
            entity=switch,
            value=scenario.congestion.best_effort_share,
            unit="share",
        )
