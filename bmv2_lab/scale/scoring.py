# SPDX-License-Identifier: Apache-2.0
"""Scores a large run's corrections against its truth, clock by clock as arrays.

The figures are those of `bmv2_lab.scoring` (errors of the published table at true window centres;
coverage counts each unflagged client once, an infinite bound as uncovered), without its oracle.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.world import World
from bmv2_lab.scoring import BAD_LINK_NS
from bmv2_lab.truth import Truth
from correction.records import NO_TSTAMP_NS
from correction.solution import FabricSolution
from correction.table import UNBOUNDED_NS, CorrectionTable

Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleScore:
    """Clock errors of the clients, ns, and the asymmetric links between switches."""

    ptp_raw_error_ns_rms: float
    corrected_error_ns_rms: float
    corrected_error_ns_max: float
    bound_hard_coverage: float
    bound_hard_median_ns: float
    bound_conditional_coverage: float
    bound_conditional_median_ns: float
    clients: int
    clients_flagged: int
    asymmetric_true: int
    asymmetric_found: int
    false_alarms: int


def score(
    truth: Truth, world: World, solution: FabricSolution, table: CorrectionTable
) -> ScaleScore:
    """Score what the engine published for a run."""
    clients = np.arange(1, world.topology.nic_count)
    local_ns = np.array(
        [[window.clocks[clock].local_ns for clock in clients] for window in truth.windows], np.int64
    )
    true_ns = np.array(
        [[window.clocks[clock].offset_ns for clock in clients] for window in truth.windows],
        np.float64,
    )
    kept = ~solution.flagged[clients]
    error_ns, hard_ns, conditional_ns = np.full((3, *local_ns.shape), np.inf)
    for column in np.flatnonzero(kept).tolist():
        found = table.convert(local_ns[:, column], int(clients[column]))
        told = found.reference_ns != NO_TSTAMP_NS
        estimated_ns = (local_ns[told, column] - found.reference_ns[told]).astype(np.float64)
        error_ns[told, column] = estimated_ns - true_ns[told, column]
        for bound_ns, published in (
            (hard_ns, found.bound_hard_ns),
            (conditional_ns, found.bound_conditional_ns),
        ):
            bound_ns[:, column] = np.where(published == UNBOUNDED_NS, np.inf, published)
    error_ns, hard_ns, conditional_ns = (a[:, kept] for a in (error_ns, hard_ns, conditional_ns))
    inner = ~world.topology.access
    asymmetry_ns = (world.delay_ns[0::2] - world.delay_ns[1::2]) / 2
    bad = inner & (np.abs(asymmetry_ns) >= BAD_LINK_NS)
    named = inner & solution.links.asymmetric
    return ScaleScore(
        ptp_raw_error_ns_rms=_rms(true_ns),
        corrected_error_ns_rms=_rms(error_ns),
        corrected_error_ns_max=float(np.abs(error_ns).max(initial=0.0)),
        bound_hard_coverage=_coverage(error_ns, hard_ns),
        bound_hard_median_ns=_median(hard_ns),
        bound_conditional_coverage=_coverage(error_ns, conditional_ns),
        bound_conditional_median_ns=_median(conditional_ns),
        clients=len(clients),
        clients_flagged=int(np.count_nonzero(~kept)),
        asymmetric_true=int(np.count_nonzero(bad)),
        asymmetric_found=int(np.count_nonzero(bad & named)),
        false_alarms=int(np.count_nonzero(named & ~bad)),
    )


def _rms(values: Float64s) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else float("nan")


def _median(values: Float64s) -> float:
    return float(np.median(values)) if values.size else float("nan")


def _coverage(error_ns: Float64s, bound_ns: Float64s) -> float:
    """Share of clients inside their bound in every window."""
    inside = (np.abs(error_ns) <= bound_ns) & np.isfinite(bound_ns)
    return float(inside.all(axis=0).mean()) if inside.size else float("nan")
