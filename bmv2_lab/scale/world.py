# SPDX-License-Identifier: Apache-2.0
"""What is true of a large fabric: delays per direction, stamp points, clocks, loads.

The same distributions as `bmv2_lab.draw`, whole arrays at a time. `world_of_drawn` takes over a
fabric that the packet-level lab drew, so that both can be compared on one truth.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.draw import (
    CLIENT_OFFSET_NS_MAX,
    COLLECTOR_OFFSET_NS_SD,
    LINE_CARD_PORTS,
    PROPAGATION_NS_PER_M,
    SWITCH_UPTIME_NS_MAX,
    TAI_EPOCH_NS,
    DrawnFabric,
    Stream,
    stream,
)
from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scale.cabling import generate
from bmv2_lab.scale.clocks import Oscillators, draw_oscillators
from bmv2_lab.scale.settings import ScaleSettings
from bmv2_lab.scale.topology import Topology, topology_of
from bmv2_lab.scenarios import Congestion, Scenario
from bmv2_lab.simulator.background import Load
from bmv2_lab.truth import TrueLink
from controller.fabric import DeviceModel
from controller.fabric_defaults import device_models
from correction.model import ClockKind

LENGTH_TOLERANCE_M = 1.0
"""The cable inventory is right to this."""
NO_LOAD = -1

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One fabric with its truth; arrays by directed link unless said otherwise."""

    topology: Topology
    nuisance: Nuisance
    models: tuple[DeviceModel, DeviceModel]
    """Switch and NIC."""
    speed_gbps: int
    length_m: Float64s
    """[link]: as declared."""
    delay_ns: Int64s
    """True propagation, modules included."""
    egress_ns: Int64s
    """True time from the sender's egress stamp to its first bit, without jitter."""
    ingress_ns: Int64s
    """True time from the frame's reference point to the receiver's stamp."""
    at_frame_end: NDArray[np.bool_]
    """The receiver stamps the frame's last bit."""
    load: Int64s
    """Index into `loads` of the sending port, NO_LOAD without background load."""
    loads: tuple[dict[int, Load], ...]
    """Background loads by queue."""
    bad: NDArray[np.bool_]
    """[link]: drawn as asymmetric."""
    oscillators: Oscillators
    """NICs, switches, then the collector."""
    rate_offset_ppb: Float64s
    """[clock]: as drawn, the collector's last."""

    @property
    def collector(self) -> int:
        """The collector's index among the oscillators."""
        return self.topology.nic_count + self.topology.switch_count

    @property
    def ns_per_byte(self) -> float:
        """Serialisation."""
        return 8.0 / self.speed_gbps

    def true_links(self) -> tuple[TrueLink, ...]:
        """The truth per cable, in the order of the fabric."""
        topology = self.topology
        names = [
            f"{topology.end_name(a, ap)}-{topology.end_name(b, bp)}"
            for a, ap, b, bp in zip(
                topology.link_a.tolist(),
                topology.link_a_port.tolist(),
                topology.link_b.tolist(),
                topology.link_b_port.tolist(),
                strict=True,
            )
        ]
        return tuple(
            TrueLink(name=name, a_to_b_ns=there, b_to_a_ns=back, bad=bad)
            for name, there, back, bad in zip(
                names,
                self.delay_ns[0::2].tolist(),
                self.delay_ns[1::2].tolist(),
                self.bad.tolist(),
                strict=True,
            )
        )


def draw_world(settings: ScaleSettings, seed: int) -> World:
    """Draw a generated fabric's truth."""
    topology = generate(settings)
    nuisance = settings.nuisance
    switch_model, nic_model = device_models(
        speeds_gbps=(settings.speed_gbps,),
        switch_uncertainty_ns=nuisance.switch_stamp_uncertainty_ns,
        nic_uncertainty_ns=nuisance.nic_stamp_uncertainty_ns,
        stamp_unit_ns=nuisance.stamp_unit_ns,
    )
    models = (switch_model, nic_model)
    cables = stream(seed, Stream.CABLES)
    length_m = cables.integers(
        settings.cable_m_min, settings.cable_m_max + 1, topology.link_count
    ).astype(np.float64)
    delay_ns, bad = _draw_delays(settings, topology, length_m, stream(seed, Stream.ASYMMETRY))
    egress_ns, ingress_ns, at_frame_end = _draw_stamp_points(
        topology, models, settings.speed_gbps, nuisance, stream(seed, Stream.STAMP_POINTS)
    )
    load, loads = _draw_loads(topology, settings.congestion, stream(seed, Stream.CONGESTION))
    oscillators, rates = _draw_clocks(settings, topology, stream(seed, Stream.CLOCKS))
    return World(
        topology=topology,
        nuisance=nuisance,
        models=models,
        speed_gbps=settings.speed_gbps,
        length_m=length_m,
        delay_ns=delay_ns,
        egress_ns=egress_ns,
        ingress_ns=ingress_ns,
        at_frame_end=at_frame_end,
        load=load,
        loads=loads,
        bad=bad,
        oscillators=oscillators,
        rate_offset_ppb=rates,
    )


def _draw_delays(
    settings: ScaleSettings, topology: Topology, length_m: Float64s, rng: np.random.Generator
) -> tuple[Int64s, NDArray[np.bool_]]:
    nuisance, count = settings.nuisance, topology.link_count
    tolerance_m = np.minimum(LENGTH_TOLERANCE_M, length_m)
    base_ns = (length_m + rng.uniform(-1.0, 1.0, count) * tolerance_m) * PROPAGATION_NS_PER_M
    base_ns += rng.uniform(0.0, nuisance.module_latency_ns_max, count)
    asymmetry_ns = rng.normal(0.0, nuisance.link_asymmetry_sd_ns, count)
    inner = np.flatnonzero(~topology.access)
    chosen = rng.choice(inner, size=round(len(inner) * settings.bad_link_share), replace=False)
    size_ns = rng.uniform(settings.bad_link_ns_min, settings.bad_link_ns_max, len(chosen))
    asymmetry_ns[chosen] = size_ns * rng.choice((-1.0, 1.0), len(chosen))
    bad = np.zeros(count, np.bool_)
    bad[chosen] = True
    # The longer direction is longer; the shorter one keeps the cable's own delay, so that the
    # certified minimum holds in both.
    there_ns = np.rint(base_ns + np.maximum(0.0, 2 * asymmetry_ns))
    back_ns = np.rint(base_ns + np.maximum(0.0, -2 * asymmetry_ns))
    return np.stack([there_ns, back_ns], axis=1).ravel().astype(np.int64), bad


def _draw_stamp_points(
    topology: Topology,
    models: tuple[DeviceModel, DeviceModel],
    speed_gbps: int,
    nuisance: Nuisance,
    rng: np.random.Generator,
) -> tuple[Int64s, Int64s, NDArray[np.bool_]]:
    """Declared latency, plus the model's residual, plus the line card's; within the declared."""
    share, card_share = nuisance.model_residual_share, nuisance.line_card_residual_share
    residual = rng.uniform(-1.0, 1.0, (2, 2))  # [switch or NIC, ingress or egress]
    at_nic = topology.sender < topology.nic_count
    card = topology.sender * 256 + topology.sender_port // LINE_CARD_PORTS
    _, card_of = np.unique(card, return_inverse=True)
    shift = rng.uniform(-1.0, 1.0, (int(card_of.max()) + 1, 2))[card_of]
    true_ns = np.zeros((2, len(at_nic)), np.int64)
    for kind, model in enumerate(models):
        points = model.stamp_points_at(speed_gbps)
        assert points is not None, "the models are made for this speed"
        mine = at_nic == (model.kind is ClockKind.NIC)
        for way, declared in enumerate((points.ingress, points.egress)):
            limit = declared.uncertainty_ns
            off = limit * (share * residual[kind, way] + card_share * shift[:, way])
            off = np.clip(np.rint(off), -limit, limit).astype(np.int64)
            true_ns[way, mine] = declared.latency_ns + off[mine]
    # by port of the sender so far; an ingress belongs to the port at the far end of the link
    far = np.arange(len(at_nic)) ^ 1
    ends = [model.stamp_points_at(speed_gbps) for model in models]
    frame_end = np.array([bool(p and p.ingress.at_frame_end) for p in ends])
    return true_ns[1], true_ns[0][far], np.where(at_nic[far], frame_end[1], frame_end[0])


def _draw_loads(
    topology: Topology, congestion: Congestion, rng: np.random.Generator
) -> tuple[Int64s, tuple[dict[int, Load], ...]]:
    base = {0: Load(share=congestion.base_share, burst_frames=2.0)}
    heavy = {
        0: Load(share=congestion.best_effort_share, burst_frames=congestion.burst_frames),
        1: Load(share=congestion.roce_share, burst_frames=2.0),
    }
    inner = np.flatnonzero(np.repeat(~topology.access, 2))
    load = np.full(2 * topology.link_count, NO_LOAD)
    load[inner] = 0
    count = round(len(inner) * congestion.congested_ports_share)
    load[rng.choice(inner, size=count, replace=False)] = 1
    return load, (base, heavy)


def _draw_clocks(
    settings: ScaleSettings, topology: Topology, rng: np.random.Generator
) -> tuple[Oscillators, Float64s]:
    nuisance = settings.nuisance
    nics, switches = topology.nic_count, topology.switch_count
    start_ns = np.rint(rng.uniform(-1.0, 1.0, nics) * CLIENT_OFFSET_NS_MAX).astype(np.int64)
    epoch_ns = np.concatenate(
        [
            TAI_EPOCH_NS + start_ns,
            rng.integers(1_000_000_000, SWITCH_UPTIME_NS_MAX, switches),
            [TAI_EPOCH_NS + round(rng.normal(0.0, COLLECTOR_OFFSET_NS_SD))],
        ]
    )
    limit = nuisance.rate_offset_max_ppb * 0.9
    rates = np.clip(rng.normal(0.0, nuisance.rate_offset_sd_ppb, len(epoch_ns)), -limit, limit)
    return draw_oscillators(
        rng,
        epoch_ns=epoch_ns,
        rate_offset_ppb=rates,
        wander_ns_per_s_sqrt_s=nuisance.wander_ns_per_s_sqrt_s,
        duration_ns=settings.end_ns + 1_000_000_000,
    ), rates


def world_of_drawn(drawn: DrawnFabric, scenario: Scenario, *, duration_ns: int, seed: int) -> World:
    """The truth that the packet-level lab drew; only the wander of the clocks is another draw."""
    topology = topology_of(drawn.fabric)
    fabric = drawn.fabric
    models = (
        fabric.model(fabric.switches[0].model),
        fabric.model(fabric.hosts[0].model),
    )
    clocks = [*topology.nic_names, *topology.switch_names, "collector"]
    kinds: list[dict[int, Load]] = []
    load, egress, ingress, frame_end = [], [], [], []
    for link in fabric.links:
        for sender, receiver in ((link.a, link.b), (link.b, link.a)):
            mine = drawn.loads.get(sender)
            if mine is not None and mine not in kinds:
                kinds.append(mine)
            load.append(NO_LOAD if mine is None else kinds.index(mine))
            egress.append(drawn.stamp_points[sender].egress_ns)
            ingress.append(drawn.stamp_points[receiver].ingress_ns)
            model = models[1 if receiver.node in topology.nic_names else 0]
            points = model.stamp_points_at(link.speed_gbps)
            assert points is not None, "the fabric file was checked"
            frame_end.append(points.ingress.at_frame_end)
    rates = np.array([drawn.rate_offset_ppb[name] for name in clocks])
    delays = [(link.a_to_b_ns, link.b_to_a_ns) for link in drawn.links]
    return World(
        topology=topology,
        nuisance=scenario.nuisance,
        models=models,
        speed_gbps=scenario.speed_gbps,
        length_m=np.array([link.length_m for link in fabric.links], np.float64),
        delay_ns=np.array(delays, np.int64).ravel(),
        egress_ns=np.array(egress, np.int64),
        ingress_ns=np.array(ingress, np.int64),
        at_frame_end=np.array(frame_end, np.bool_),
        load=np.array(load, np.int64),
        loads=tuple(kinds),
        bad=np.array([link.bad for link in drawn.links], np.bool_),
        oscillators=draw_oscillators(
            stream(seed, Stream.CLOCKS),
            epoch_ns=np.array([drawn.oscillators[name].epoch_ns for name in clocks], np.int64),
            rate_offset_ppb=rates,
            wander_ns_per_s_sqrt_s=scenario.nuisance.wander_ns_per_s_sqrt_s,
            duration_ns=duration_ns,
        ),
        rate_offset_ppb=rates,
    )
