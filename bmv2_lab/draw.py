# SPDX-License-Identifier: Apache-2.0
"""Draw one fabric and its hidden truth from a scenario and a seed.

Each purpose has a random stream of its own, so that changing one part of a scenario does not
reshuffle the others.
"""

from dataclasses import dataclass, replace
from enum import IntEnum, unique

import numpy as np

from bmv2_lab.fabric_of import inner_links, leaf_names, scenario_fabric
from bmv2_lab.scenarios import Scenario
from bmv2_lab.scenarios.parameters import HostClocks
from bmv2_lab.simulator.background import Load
from bmv2_lab.simulator.clocks import Oscillator
from bmv2_lab.truth import TrueLink
from controller.fabric import Fabric, LinkEnd
from tracing_core.clock_domains import GLOBALTIMER, ClockKind, clock_name

TAI_EPOCH_NS = 1_790_000_000_000_000_000
"""True time 0 on the TAI scale that PTP distributes: a fixed instant in 2026."""
SWITCH_UPTIME_NS_MAX = 200_000_000_000_000
"""Switch clocks start at an arbitrary uptime below 56 h."""
CLIENT_OFFSET_NS_MAX = 500_000
"""A client's PHC is this far off at most when the run starts."""
COLLECTOR_OFFSET_NS_SD = 300_000.0
"""The collector's own clock is only NTP-synchronised."""
PROPAGATION_NS_PER_M = 5.0
"""True propagation in fibre and copper; the declared minimum is a little lower."""
LINE_CARD_PORTS = 4
"""Adjacent ports that share a line card's stamp bias."""


@unique
class Stream(IntEnum):
    """Random streams by purpose."""

    CABLES = 1
    ASYMMETRY = 2
    STAMP_POINTS = 3
    CLOCKS = 4
    CONGESTION = 5
    BACKGROUND = 6
    JITTER = 7
    PTP = 8
    TRAFFIC = 9
    FAULTS = 10
    REPORTS = 11
    SPAN_IDS = 12
    REPORT_LOSS = 13
    EVENTS = 14
    PTM = 15
    HOST_CLOCKS = 16


def stream(seed: int, purpose: Stream, index: int = 0) -> np.random.Generator:
    """The generator of one purpose (and of one port, host or the like within it)."""
    return np.random.default_rng(np.random.SeedSequence([seed, int(purpose), index]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueStampPoint:
    """True latencies of one port: first bit or frame end to stamp, and stamp to first bit."""

    ingress_ns: int
    egress_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFabric:
    """A fabric as declared, and what is true of it."""

    fabric: Fabric
    links: tuple[TrueLink, ...]
    """In the order of `fabric.links`."""
    stamp_points: dict[LinkEnd, TrueStampPoint]
    oscillators: dict[str, Oscillator]
    """By clock: hosts, switches, `collector`, the counters of machines with several NICs, and where
    the scenario has them hosts' system clocks and GPUs."""
    rate_offset_ppb: dict[str, float]
    loads: dict[LinkEnd, dict[int, Load]]
    """Background load by egress port and queue."""


def draw_fabric(scenario: Scenario, seed: int) -> DrawnFabric:
    """Draw everything that is fixed before the run starts."""
    cables = stream(seed, Stream.CABLES)
    fabric = scenario_fabric(scenario, cables)
    oscillators, rates = _draw_clocks(scenario, fabric, seed)
    if scenario.host_clocks is not None:
        tai_ns = oscillators[fabric.ptp.grandmaster].epoch_ns
        oscillators |= _draw_host_clocks(scenario, scenario.host_clocks, fabric, seed, tai_ns)
    return DrawnFabric(
        fabric=fabric,
        links=_draw_links(scenario, fabric, stream(seed, Stream.ASYMMETRY)),
        stamp_points=_draw_stamp_points(scenario, fabric, stream(seed, Stream.STAMP_POINTS)),
        oscillators=oscillators,
        rate_offset_ppb=rates,
        loads=_draw_loads(scenario, fabric, stream(seed, Stream.CONGESTION)),
    )


def _draw_links(
    scenario: Scenario, fabric: Fabric, rng: np.random.Generator
) -> tuple[TrueLink, ...]:
    nuisance = scenario.nuisance
    inner = inner_links(fabric)
    leaf_rank = {name: rank for rank, name in enumerate(leaf_names(fabric))}
    bad_count = round(len(inner) * scenario.bad_link_share)
    bad = set(rng.choice(inner, size=bad_count, replace=False).tolist()) if bad_count else set()
    if scenario.bad_access_links:
        access = np.setdiff1d(np.arange(len(fabric.links)), inner)
        bad |= set(rng.choice(access, size=scenario.bad_access_links, replace=False).tolist())
    links: list[TrueLink] = []
    for index, link in enumerate(fabric.links):
        assert link.length_m is not None, "the generator declares every length"
        shift_m = rng.uniform(-1.0, 1.0) * link.length_tolerance_m
        base_ns = (link.length_m + shift_m) * PROPAGATION_NS_PER_M
        base_ns += rng.uniform(0.0, nuisance.module_latency_ns_max)
        asymmetry_ns = rng.normal(0.0, nuisance.link_asymmetry_sd_ns)
        if index in bad:
            size_ns = rng.uniform(scenario.bad_link_ns_min, scenario.bad_link_ns_max)
            asymmetry_ns = size_ns * rng.choice((-1.0, 1.0))
        if link.a.node in leaf_rank and link.b.node not in leaf_rank and index in inner:
            asymmetry_ns += scenario.tier_gradient_ns * leaf_rank[link.a.node]
        # The longer direction is longer; the shorter one keeps the cable's own delay, so that
        # the certified minimum holds in both.
        links.append(
            TrueLink(
                name=link.name,
                a_to_b_ns=round(base_ns + max(0.0, 2 * asymmetry_ns)),
                b_to_a_ns=round(base_ns + max(0.0, -2 * asymmetry_ns)),
                bad=index in bad,
            )
        )
    return tuple(links)


def _draw_stamp_points(
    scenario: Scenario, fabric: Fabric, rng: np.random.Generator
) -> dict[LinkEnd, TrueStampPoint]:
    """Declared latency, plus the model's residual, plus the line card's; within the declared."""
    nuisance = scenario.nuisance
    by_model: dict[tuple[str, int], tuple[float, float]] = {}
    for model in fabric.models:
        for points in model.stamp_points:
            by_model[model.name, points.speed_gbps] = (
                rng.uniform(-1.0, 1.0) * points.ingress.uncertainty_ns,
                rng.uniform(-1.0, 1.0) * points.egress.uncertainty_ns,
            )
    models = {s.name: s.model for s in fabric.switches} | {h.name: h.model for h in fabric.hosts}
    by_card: dict[tuple[str, int], tuple[float, float]] = {}
    result: dict[LinkEnd, TrueStampPoint] = {}
    for link in fabric.links:
        for end in (link.a, link.b):
            model = fabric.model(models[end.node])
            declared = model.stamp_points_at(link.speed_gbps)
            assert declared is not None, "the fabric file was checked"
            card = (end.node, end.port // LINE_CARD_PORTS)
            if card not in by_card:
                by_card[card] = (rng.uniform(-1.0, 1.0), rng.uniform(-1.0, 1.0))
            residual = by_model[model.name, link.speed_gbps]
            shift = by_card[card]
            share, card_share = nuisance.model_residual_share, nuisance.line_card_residual_share
            result[end] = TrueStampPoint(
                ingress_ns=declared.ingress.latency_ns
                + _within(
                    share * residual[0] + card_share * shift[0] * declared.ingress.uncertainty_ns,
                    declared.ingress.uncertainty_ns,
                ),
                egress_ns=declared.egress.latency_ns
                + _within(
                    share * residual[1] + card_share * shift[1] * declared.egress.uncertainty_ns,
                    declared.egress.uncertainty_ns,
                ),
            )
    for bias in scenario.stamp_biases:
        for end, point in result.items():
            if end.node == bias.node and (not bias.ports or end.port in bias.ports):
                result[end] = replace(point, ingress_ns=point.ingress_ns + bias.ingress_ns)
    return result


def _within(value: float, limit: int) -> int:
    return max(-limit, min(limit, round(value)))


def _draw_clocks(
    scenario: Scenario, fabric: Fabric, seed: int
) -> tuple[dict[str, Oscillator], dict[str, float]]:
    nuisance = scenario.nuisance
    rng = stream(seed, Stream.CLOCKS)
    epochs: dict[str, int] = {}
    for host in fabric.hosts:
        start_ns = round(rng.uniform(-1.0, 1.0) * CLIENT_OFFSET_NS_MAX)
        epochs[host.name] = TAI_EPOCH_NS + start_ns
    for switch in fabric.switches:
        epochs[switch.name] = int(rng.integers(1_000_000_000, SWITCH_UPTIME_NS_MAX))
    epochs["collector"] = TAI_EPOCH_NS + round(rng.normal(0.0, COLLECTOR_OFFSET_NS_SD))
    for machine in dict.fromkeys(host.machine for host in fabric.hosts if host.machine):
        epochs[machine] = int(rng.integers(1_000_000_000, SWITCH_UPTIME_NS_MAX))
    limit = nuisance.rate_offset_max_ppb * 0.9
    oscillators: dict[str, Oscillator] = {}
    rates: dict[str, float] = {}
    for index, (name, epoch_ns) in enumerate(epochs.items()):
        rate_ppb = float(np.clip(rng.normal(0.0, nuisance.rate_offset_sd_ppb), -limit, limit))
        rates[name] = rate_ppb
        oscillators[name] = Oscillator(
            stream(seed, Stream.CLOCKS, 1 + index),
            epoch_ns=epoch_ns,
            rate_offset_ppb=rate_ppb,
            wander_ns_per_s_sqrt_s=nuisance.wander_ns_per_s_sqrt_s,
            duration_ns=scenario.duration_ns + 1_000_000_000,
        )
    return oscillators, rates


def gpu_timer_name(host: str) -> str:
    """Name of the timer of a host's GPU."""
    return f"{clock_name(host, ClockKind.GPU, 0)}/{GLOBALTIMER}"


def _draw_host_clocks(
    scenario: Scenario, settings: HostClocks, fabric: Fabric, seed: int, tai_ns: int
) -> dict[str, Oscillator]:
    """A system clock in UTC and a GPU's timer since some start, per host."""
    nuisance = scenario.nuisance
    limit = nuisance.rate_offset_max_ppb * 0.9
    made = {}
    for number, host in enumerate(fabric.hosts):
        rng = stream(seed, Stream.HOST_CLOCKS, 10_000 + number)
        off_ns = round(rng.uniform(-1.0, 1.0) * settings.ntp_bias_ns_max)
        utc_ns = tai_ns - settings.tai_utc_s * 1_000_000_000 + off_ns
        up_ns = int(rng.integers(1_000_000_000, SWITCH_UPTIME_NS_MAX))
        for name, epoch_ns in (
            (clock_name(host.name, ClockKind.SYSTEM), utc_ns),
            (gpu_timer_name(host.name), up_ns),
        ):
            rate_ppb = float(np.clip(rng.normal(0.0, nuisance.rate_offset_sd_ppb), -limit, limit))
            made[name] = Oscillator(
                rng,
                epoch_ns=epoch_ns,
                rate_offset_ppb=rate_ppb,
                wander_ns_per_s_sqrt_s=nuisance.wander_ns_per_s_sqrt_s,
                duration_ns=scenario.duration_ns + 1_000_000_000,
            )
    return made


def _draw_loads(
    scenario: Scenario, fabric: Fabric, rng: np.random.Generator
) -> dict[LinkEnd, dict[int, Load]]:
    congestion = scenario.congestion
    inner = [fabric.links[index] for index in inner_links(fabric)]
    ends = [end for link in inner for end in (link.a, link.b)]
    some = [end for end in ends if not congestion.only_at or end.node in congestion.only_at]
    count = round(len(some) * congestion.congested_ports_share)
    chosen = rng.choice(len(some), size=count, replace=False).tolist() if count else []
    congested = {some[i] for i in chosen}
    base = {0: Load(share=congestion.base_share, burst_frames=2.0)} if congestion.base_share else {}
    heavy = {
        0: Load(share=congestion.best_effort_share, burst_frames=congestion.burst_frames),
        1: Load(share=congestion.roce_share, burst_frames=2.0),
    }
    return {end: heavy if end in congested else base for end in ends}
