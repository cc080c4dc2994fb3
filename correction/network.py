# SPDX-License-Identifier: Apache-2.0
"""The fabric solve: clocks of all windows and constants of all links at once, as weighted least
squares on the graph Laplacian.

    y[w, e] = theta[w, b] - theta[w, a] + a[e] + (stamp constants) + noise[w, e]

A cable's asymmetry a[e] and a stamp-point constant are the same in every window, the clocks are
not. Clocks are eliminated window by window; what remains is a small dense system over the
constants, each with a prior precision. A healthy cable has precision 1/sd^2, a bad one almost
none, so calling a link bad changes one diagonal entry (`selection`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from correction.equations import Equations
from correction.identifiability import reached
from correction.instants import Instants
from correction.model import FabricModel, link_ends
from correction.priors import priors
from correction.timebase import Bools, Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The window-independent unknowns q = (a of each link, shared stamp constants)."""

    design: Float64s
    """[link, unknown]: how each enters y; identity for the links' own part."""
    prior_sd_ns: Float64s
    """[unknown]: sd under the healthy prior."""
    link_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Eliminated:
    """The system after the clocks are eliminated: (S + prior) q = h, and the way back."""

    information: Float64s
    right_side: Float64s
    energy: float
    """Sum of squares of y after projection: y'Py."""
    degrees: int
    """Independent loop equations (chi-square degrees of freedom before constants)."""
    windows: tuple["WindowSystem", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSystem:
    """theta = base - lift q for the clocks of one window's reference component."""

    clocks: NDArray[np.int64]
    """Clock index of each row, without the reference."""
    base_ns: Float64s
    lift: Float64s
    covariance: Float64s
    """Of theta for known q, ns^2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """Estimate of the constants."""

    q_ns: Float64s
    covariance: Float64s


def constants(model: FabricModel, beside_ns: Float64s | None = None) -> Constants:
    """Unknown constants and their priors, from what the fabric declares; `beside_ns` ([link]) is
    the sd of a further constant error of each link's equations."""
    declared = priors(model)
    own_ns = declared.own_sd_ns if beside_ns is None else np.hypot(declared.own_sd_ns, beside_ns)
    return Constants(
        design=np.hstack([np.eye(len(model.links)), declared.shared]),
        prior_sd_ns=np.concatenate([own_ns, declared.shared_sd_ns]),
        link_count=len(model.links),
    )


def eliminate(
    equations: Equations, instants: Instants, model: FabricModel, unknowns: Constants
) -> Eliminated:
    """Project the clocks out of every window's equations."""
    size = unknowns.design.shape[1]
    information, right_side = np.zeros((size, size)), np.zeros(size)
    energy, degrees = 0.0, 0
    systems = []
    ends = link_ends(model)
    for w in range(equations.known.shape[0]):
        used = np.flatnonzero(_joined(equations.known[w], instants, model, w))
        system, projected = _eliminate_window(
            ends[used], equations.y_ns[w, used], equations.sd_ns[w, used],
            unknowns.design[used], model.reference,
        )  # fmt: skip
        systems.append(system)
        information += projected.information
        right_side += projected.right_side
        energy += projected.energy
        degrees += projected.degrees
    return Eliminated(
        information=information,
        right_side=right_side,
        energy=energy,
        degrees=degrees,
        windows=tuple(systems),
    )


def _joined(known: Bools, instants: Instants, model: FabricModel, window: int) -> Bools:
    """The known links that known links join to the reference.

    Instants go further: one direction of a link carries them, but is no equation.
    """
    ends = link_ends(model)
    nothing = np.zeros(len(model.clocks), np.bool_)
    usable = known & (instants.component[window, ends[:, 0]] == 0)
    found = reached(ends, usable, model.reference, len(model.clocks), blocked=nothing)
    joined: Bools = usable & found[ends[:, 0]]
    return joined


@dataclass(frozen=True, slots=True, kw_only=True)
class _Projected:
    information: Float64s
    right_side: Float64s
    energy: float
    degrees: int


def _eliminate_window(
    ends: NDArray[np.int64], y: Float64s, sd: Float64s, design: Float64s, reference: int
) -> tuple[WindowSystem, _Projected]:
    clocks = np.setdiff1d(np.unique(ends), [reference])
    incidence = np.zeros((len(ends), len(clocks)))
    for end, sign in ((0, -1.0), (1, 1.0)):
        rows = np.flatnonzero(ends[:, end] != reference)
        incidence[rows, np.searchsorted(clocks, ends[rows, end])] += sign
    weight = 1.0 / sd**2
    laplacian = incidence.T @ (weight[:, None] * incidence)
    covariance = _inverse(laplacian)
    gain = covariance @ (incidence.T * weight)
    residual_of = np.eye(len(ends)) - incidence @ gain
    projector = weight[:, None] * residual_of  # symmetric: W - W B (B'WB)^-1 B'W
    system = WindowSystem(
        clocks=clocks, base_ns=gain @ y, lift=gain @ design, covariance=covariance
    )
    projected = _Projected(
        information=design.T @ projector @ design,
        right_side=design.T @ (projector @ y),
        energy=float(y @ projector @ y),
        degrees=len(ends) - len(clocks),
    )
    return system, projected


def posterior(eliminated: Eliminated, prior_sd_ns: Float64s) -> Posterior:
    """Constants given their prior sds."""
    precision = eliminated.information + np.diag(prior_sd_ns**-2.0)
    covariance = _inverse(precision)
    covariance = 0.5 * (covariance + covariance.T)
    return Posterior(q_ns=covariance @ eliminated.right_side, covariance=covariance)


def posterior_mean(eliminated: Eliminated, prior_sd_ns: Float64s) -> Float64s:
    """The same without its covariance: one Cholesky solve."""
    precision = eliminated.information + np.diag(prior_sd_ns**-2.0)
    try:
        q: Float64s = cho_solve(cho_factor(precision, lower=True), eliminated.right_side)
    except np.linalg.LinAlgError:  # weights so far apart that rounding leaves it indefinite
        q = _inverse(precision) @ eliminated.right_side
    return q


def _inverse(matrix: Float64s) -> Float64s:
    """Of a symmetric positive matrix; the pseudo-inverse where rounding makes it singular."""
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        inverse = np.linalg.pinv(matrix, hermitian=True)
    return np.asarray(inverse, np.float64)


def clock_offsets(system: WindowSystem, constants_: Posterior) -> tuple[Float64s, Float64s]:
    """theta of a window's clocks (relative to the coarse readings) and their full covariance."""
    offset = system.base_ns - system.lift @ constants_.q_ns
    covariance = system.covariance + system.lift @ constants_.covariance @ system.lift.T
    return offset, covariance


def clock_log_rates(
    equations: Equations, instants: Instants, model: FabricModel, window: int, wander_sd: float
) -> tuple[Float64s, Float64s]:
    """ln(rate of each clock / rate of the reference) and its sd; NaN where not reached.

    Slopes carry no asymmetry. `wander_sd` is what a clock's mean rate over the window may differ
    from its rate at the centre.
    """
    ends = link_ends(model)
    sd = np.hypot(equations.log_rate_sd[window], wander_sd)
    known = equations.known[window] & np.isfinite(sd)
    used = np.flatnonzero(_joined(known, instants, model, window))
    rate, rate_sd = np.full(len(model.clocks), np.nan), np.full(len(model.clocks), np.nan)
    rate[model.reference], rate_sd[model.reference] = 0.0, 0.0
    clocks = np.setdiff1d(np.unique(ends[used]), [model.reference])
    if not len(clocks):
        return rate, rate_sd
    incidence = np.zeros((len(used), len(clocks)))
    for end, sign in ((0, -1.0), (1, 1.0)):
        rows = np.flatnonzero(ends[used, end] != model.reference)
        incidence[rows, np.searchsorted(clocks, ends[used[rows], end])] += sign
    weight = sd[used] ** -2.0 / np.min(sd[used]) ** -2.0
    laplacian = incidence.T @ (weight[:, None] * incidence)
    covariance = np.linalg.pinv(laplacian, hermitian=True)
    rate[clocks] = covariance @ (incidence.T @ (weight * equations.log_rate[window, used]))
    rate_sd[clocks] = np.sqrt(np.diag(covariance)) * np.min(sd[used])
    return rate, rate_sd
