# SPDX-License-Identifier: Apache-2.0
"""A solve's data as edges of the mesh, and what else could be measured in that fabric.

Edges are relative to the published clocks: all zero is the solve's own answer. Candidates follow
from the model: links that nothing crossed, fibres in loops, second cables of hosts, receivers,
cross-stamps of machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from correction.measure import Measured
from correction.mesh.edges import Edges
from correction.model import ClockKind, FabricModel
from correction.network import clock_offsets
from correction.planning import Candidate, Kind, fibre_swaps
from correction.priors import priors
from correction.selection import Selection
from correction.timebase import Bools, Float64s, Int64s
from correction.verdicts import averaged_edges

PROBE_NOISE_NS = 1.0
"""Of a window's measurement with tens of packets each way."""
RECEIVER_SD_NS = 10.0
RECEIVER_HARD_NS = 100.0
"""What timing receivers claim."""
CROSS_STAMP_LIMIT_NS = 40.0
"""Two NICs by way of their counter, 20 ns each (PCIe PTM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFabric:
    """Inputs of `planning.plan`."""

    edges: Edges
    links: Int64s
    """[edge]: its link in the model."""
    counts: Bools
    """[clock]: NICs and switches that show stamps, but the reference."""
    candidates: tuple[Candidate, ...]


def planned_fabric(
    measured: Measured, selection: Selection, machines: Mapping[int, str]
) -> PlannedFabric:
    """`machines`: by clock, the machine of a NIC, for cross-stamps that are not taken yet."""
    model = measured.model
    edges, links = averaged_edges(measured, selection)
    shared = measured.unknowns.design[links][:, measured.unknowns.link_count :]
    offset = shared @ selection.averaged.q_ns[measured.unknowns.link_count :]
    forward, backward = _limits(measured, selection, edges)
    edges = replace(
        edges,
        y_ns=edges.y_ns + offset,
        shared=shared,
        shared_sd_ns=measured.unknowns.prior_sd_ns[measured.unknowns.link_count :],
        forward_limit_ns=forward,
        backward_limit_ns=backward,
    )
    kinds = (ClockKind.NIC, ClockKind.SWITCH)
    counts = np.array([clock.kind in kinds for clock in model.clocks], np.bool_)
    counts[model.reference] = False
    seen = np.zeros(len(model.clocks), np.bool_)
    seen[np.unique(measured.ends[measured.prepared.link])] = True
    counts &= seen
    own_sd = priors(model).own_sd_ns
    cable_sd = np.array([link.asymmetry_sd_ns for link in model.links])
    names = tuple(model.links[e].name if model.links[e].cable else "" for e in links.tolist())
    ports_sd = np.sqrt(np.maximum(own_sd**2 - cable_sd**2, 0.0))[links]
    candidates = [
        *_probes(model, set(links.tolist()), own_sd, seen),
        *_cross_stamps(model, machines),
        *fibre_swaps(edges, model.reference, names, ports_sd),
        *_second_attachments(model, own_sd),
        *_receivers(model),
    ]
    return PlannedFabric(edges=edges, links=links, counts=counts, candidates=tuple(candidates))


def _limits(measured: Measured, selection: Selection, edges: Edges) -> tuple[Float64s, Float64s]:
    """The narrowest of all windows, relative to the published clocks."""
    count = len(measured.model.clocks)
    least: dict[tuple[int, int], float] = {}
    for constraints, one in zip(measured.constraints, measured.eliminated.windows, strict=True):
        theta = np.full(count, np.nan)
        theta[measured.model.reference] = 0.0
        theta[one.clocks], _ = clock_offsets(one, selection.averaged)
        room = constraints.limit_ns - (theta[constraints.v] - theta[constraints.u])
        rows = zip(constraints.u.tolist(), constraints.v.tolist(), room.tolist(), strict=True)
        for u, v, room_ns in rows:
            if np.isfinite(room_ns):
                least[u, v] = min(room_ns, least.get((u, v), np.inf))
    pairs = list(zip(edges.u.tolist(), edges.v.tolist(), strict=True))
    forward = np.array([least.get(pair, np.inf) for pair in pairs], np.float64)
    backward = np.array([least.get(pair[::-1], np.inf) for pair in pairs], np.float64)
    return forward, backward


def _probes(
    model: FabricModel, measured: set[int], own_sd_ns: Float64s, seen: Bools
) -> list[Candidate]:
    """Links without a measurement in both directions between switches that do report."""
    return [
        Candidate(
            kind=Kind.PROBE,
            subject=link.name,
            u=link.a,
            v=link.b,
            noise_sd_ns=PROBE_NOISE_NS,
            sd_ns=float(own_sd_ns[number]),
            hard_ns=_room_ns(model, number),
        )
        for number, link in enumerate(model.links)
        if link.cable and not link.access and number not in measured
        if seen[link.a] and seen[link.b]
    ]


def _room_ns(model: FabricModel, number: int) -> float:
    """What causality will leave on either side: delay beyond the least one, points, quantum."""
    link = model.links[number]
    points = (link.a_egress, link.b_ingress, link.b_egress, link.a_ingress)
    slack = sum(point.uncertainty_ns for point in points) / 2.0
    quantum = max(model.clocks[link.a].stamp_unit_ns, model.clocks[link.b].stamp_unit_ns)
    if not link.max_delay_ns:
        return np.inf
    return float(link.max_delay_ns - link.min_delay_ns + slack + quantum)


def _cross_stamps(model: FabricModel, machines: Mapping[int, str]) -> list[Candidate]:
    """Each NIC with the next one of its machine, where the machine has no counter yet."""
    counters = {clock.name for clock in model.clocks if clock.kind is ClockKind.COUNTER}
    of_machine: dict[str, list[int]] = {}
    for clock, machine in sorted(machines.items()):
        if not any(name.startswith(f"{machine}/") for name in counters):
            of_machine.setdefault(machine, []).append(clock)
    return [
        Candidate(
            kind=Kind.CROSS_STAMPS,
            subject=f"{model.clocks[a].name} and {model.clocks[b].name} in {machine}",
            u=a,
            v=b,
            noise_sd_ns=PROBE_NOISE_NS,
            sd_ns=CROSS_STAMP_LIMIT_NS / np.sqrt(6.0),
            hard_ns=CROSS_STAMP_LIMIT_NS,
            firm=True,
        )
        for machine, clocks in of_machine.items()
        for a, b in pairwise(clocks)
    ]


def _second_attachments(model: FabricModel, own_sd_ns: Float64s) -> list[Candidate]:
    """Each host with the next switch that has hosts, over a cable like its first one."""
    access = [(n, link) for n, link in enumerate(model.links) if link.access and link.cable]
    nic = [link.a if model.clocks[link.a].kind is ClockKind.NIC else link.b for _, link in access]
    home = [link.b if end == link.a else link.a for (_, link), end in zip(access, nic, strict=True)]
    leaves = sorted(set(home))
    if len(leaves) < 2:
        return []
    found = []
    for (number, _), host, leaf in zip(access, nic, home, strict=True):
        if nic.count(host) > 1 or host == model.reference:
            continue
        other = leaves[(leaves.index(leaf) + 1) % len(leaves)]
        found.append(
            Candidate(
                kind=Kind.SECOND_ATTACHMENT,
                subject=f"{model.clocks[host].name} to {model.clocks[other].name}",
                u=other,
                v=host,
                noise_sd_ns=PROBE_NOISE_NS,
                sd_ns=float(own_sd_ns[number]),
                hard_ns=_room_ns(model, number),
            )
        )
    return found


def _receivers(model: FabricModel) -> list[Candidate]:
    known = {one.clock for one in model.references} | {model.reference}
    return [
        Candidate(
            kind=Kind.REFERENCE_CLOCK,
            subject=clock.name,
            u=model.reference,
            v=number,
            noise_sd_ns=PROBE_NOISE_NS,
            sd_ns=RECEIVER_SD_NS,
            hard_ns=RECEIVER_HARD_NS,
            firm=True,
        )
        for number, clock in enumerate(model.clocks)
        if clock.kind is ClockKind.NIC and number not in known
    ]


def names_of(model: FabricModel, clocks: Sequence[int]) -> list[str]:
    """Names of clocks, in order."""
    return [model.clocks[clock].name for clock in clocks]
