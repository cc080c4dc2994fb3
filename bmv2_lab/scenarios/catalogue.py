# SPDX-License-Identifier: Apache-2.0
"""The scenarios by name; the first is the demo's."""

from dataclasses import replace

from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scenarios.parameters import Congestion, Scenario

_ALL = (
    Scenario(
        name="allreduce-8x4",
        summary="8 leaves x 4 spines, 16 hosts, two tenants' ring all-reduce; 10 % of the fabric "
        "links asymmetric, congestion on some, PTP in the best-effort queue",
    ),
    Scenario(
        name="allreduce-8x4-tripled",
        summary="the same with every nuisance parameter, and what is declared of it, tripled",
        nuisance=Nuisance().scaled(3),
    ),
    Scenario(
        name="ptp-priority-8x4",
        summary="the same with PTP in the highest-priority queue",
        ptp_dscp=46,
    ),
    Scenario(
        name="quiet-8x4",
        summary="no bad link and no congested port: what small asymmetries alone do",
        bad_link_share=0.0,
        congestion=Congestion(congested_ports_share=0.0),
    ),
    Scenario(
        name="microsecond-8x4",
        summary="the default with switch stamps in microseconds, as BMv2 takes them: errors of "
        "100s of ns, and bounds that say so",
        nuisance=replace(Nuisance(), stamp_unit_ns=1_000),
    ),
    Scenario(
        name="small-4x4",
        summary="4 leaves x 4 spines, 8 hosts, 22 s of virtual time, two windows: for tests",
        leaves=4,
        duration_ns=22_000_000_000,
        window_starts_ns=(16_000_000_000, 20_000_000_000),
        bad_link_share=0.07,
        faults_hop=2,
        faults_link=1,
        faults_sender=1,
        faults_receiver=1,
    ),
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _ALL}


def scenario_by_name(name: str) -> Scenario:
    """The scenario called `name`; KeyError names what there is instead."""
    try:
        return SCENARIOS[name]
    except KeyError:
        known = ", ".join(SCENARIOS)
        raise KeyError(f"no scenario called {name!r}; there are: {known}") from None
