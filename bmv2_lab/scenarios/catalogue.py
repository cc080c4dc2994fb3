# SPDX-License-Identifier: Apache-2.0
"""The scenarios by name; the first is the demo's, those with a number come last."""

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scenarios import numbered
from bmv2_lab.scenarios.parameters import ClosedLoop, Congestion, Scenario

NS_PER_S = 1_000_000_000

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
    Scenario(
        name="tiny-2x2",
        summary="2 leaves x 2 spines, 4 hosts, 7 s: small enough for the real-time backends on a "
        "machine with two cores; slow senders and receivers, but no bad link, since two spines "
        "cannot tell which one it is",
        leaves=2,
        spines=2,
        duration_ns=7 * NS_PER_S,
        window_starts_ns=(3 * NS_PER_S, 5 * NS_PER_S),
        bad_link_share=0.0,
        ptp_interval_ns=125_000_000,
        qps_per_peer=4,
        faults_hop=0,
        faults_link=0,
        faults_sender=2,
        faults_receiver=2,
    ),
    Scenario(
        name="large-16x8",
        summary="16 leaves x 8 spines, 32 hosts, a fifth of the fabric links asymmetric, ports "
        "loaded to 60 % on average: what is claimed of accuracy and of naming links",
        leaves=16,
        spines=8,
        bad_link_share=0.2,
        congestion=Congestion(base_share=0.54),
        duration_ns=38 * NS_PER_S,
        window_starts_ns=tuple(second * NS_PER_S for second in range(16, 37, 4)),
    ),
    Scenario(
        name="transparent-clock-4x4",
        summary="4 leaves x 4 spines, 8 hosts, cables of 3 to 100 m: transparent clocks that the "
        "engine feeds with link delays every 10 s, for 10 minutes; probes on quiet links",
        leaves=4,
        duration_ns=670 * NS_PER_S,
        window_starts_ns=tuple(second * NS_PER_S for second in range(8, 665, 10)),
        bad_link_share=0.07,
        ptp_interval_ns=125_000_000,
        qps_per_peer=1,
        steps_per_window=1,
        faults_hop=0,
        faults_link=0,
        faults_sender=0,
        faults_receiver=0,
        closed_loop=ClosedLoop(
            residence_from_ns=20 * NS_PER_S,
            delays_from_ns=40 * NS_PER_S,
            settle_ns=15 * NS_PER_S,
        ),
        probe_budget_pps=400,
    ),
)


def _numbered() -> tuple[Scenario, ...]:
    """Those of the files in `numbered`, in order of their numbers."""
    found: list[Scenario] = []
    for module in iter_modules(numbered.__path__):
        found += import_module(f"{numbered.__name__}.{module.name}").SCENARIOS
    return tuple(sorted(found, key=lambda scenario: scenario.number or 0))


NUMBERED = _numbered()
"""The catalogue of docs/scenarios.md: each with limits."""

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (*_ALL, *NUMBERED)}


def scenario_by_name(name: str) -> Scenario:
    """The scenario called `name`; KeyError names what there is instead."""
    try:
        return SCENARIOS[name]
    except KeyError:
        known = ", ".join(SCENARIOS)
        raise KeyError(f"no scenario called {name!r}; there are: {known}") from None
