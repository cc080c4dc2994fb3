# SPDX-License-Identifier: Apache-2.0
"""Everything measured before any link is judged: envelopes, common instants, link equations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.bounds import Constraints
from correction.change_points import find_change_points
from correction.contradictions import Contradictions, find_contradictions
from correction.envelope import Fit, model_envelopes
from correction.equations import ClassFinding, Equations, link_equations
from correction.hard import sample_constraints
from correction.identifiability import loop_links
from correction.instants import Instants, coarse_lines, common_instants
from correction.links import JoinCounters, Reject
from correction.model import FabricModel, link_ends
from correction.network import Constants, Eliminated, constants, eliminate
from correction.one_way import with_firm_links, with_one_way
from correction.prepare import Prepared, prepare
from correction.records import LinkSamples
from correction.round_trips import LongRoundTrip, long_round_trips
from correction.steps import Misfits, find_misfits
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Inputs of the judgement; a scoring oracle starts from the same."""

    model: FabricModel
    windows: Int64s
    prepared: Prepared
    fit: Fit
    instants: Instants
    equations: Equations
    one_way_sd_ns: Float64s
    """[link]: of the constant error of a link that was only ever measured in one direction."""
    unknowns: Constants
    eliminated: Eliminated
    constraints: tuple[Constraints, ...]
    """Per window; of the clocks that are left."""
    contradictions: tuple[Contradictions, ...]
    """Per window."""
    long_round_trips: tuple[LongRoundTrip, ...]
    in_loop: Bools
    """[link]: its asymmetry shows in some loop."""
    misfits: Misfits
    held: Bools
    """[window]: the reference's time is only predicted."""
    class_findings: tuple[ClassFinding, ...]

    @property
    def ends(self) -> NDArray[np.int64]:
        """[link, 2]: clocks a and b."""
        return link_ends(self.model)

    @property
    def window_s(self) -> Float64s:
        """Length of each window."""
        length: Float64s = (self.windows[:, 1] - self.windows[:, 0]) / NS_PER_S
        return length


def measure(
    samples: LinkSamples,
    model: FabricModel,
    windows: Int64s,
    counters: JoinCounters,
    held: Bools | None = None,
) -> Measured:
    """From samples to one equation per link and window, and the causality constraints.

    `held`: windows in which the reference's time is only predicted.
    """
    windows = np.asarray(windows, np.int64).reshape(-1, 2)
    window_s = (windows[:, 1] - windows[:, 0]) / NS_PER_S
    prepared = prepare(samples, model, windows, counters)
    fit = model_envelopes(prepared, model)
    counters.reject(Reject.BELOW_ENVELOPE, np.count_nonzero(fit.below))
    changes = find_change_points(prepared, fit, model, window_s)
    misfits = find_misfits(fit, prepared.disturbed, changes, model, window_s)
    lines = coarse_lines(fit, model, len(windows))
    instants = common_instants(lines, prepared, model, windows, ~misfits.link)
    constraints = sample_constraints(prepared, fit, instants, model, window_s, ~misfits.link)
    contradictions = tuple(find_contradictions(one, model.reference) for one in constraints)
    if any(one.blamed.any() for one in contradictions):
        # the tree of instants may have gone through a clock that is withheld now
        misfits = misfits.without(np.array([one.blamed for one in contradictions]), model)
        instants = common_instants(lines, prepared, model, windows, ~misfits.link)
        constraints = sample_constraints(prepared, fit, instants, model, window_s, ~misfits.link)
    usable = ~misfits.link
    equations, class_findings = link_equations(fit, instants, model, usable)
    equations, one_way_sd_ns = with_one_way(equations, fit, instants, model, usable)
    model = with_firm_links(model, one_way_sd_ns > 0.0)
    unknowns = constants(model, one_way_sd_ns)
    in_loop = _in_loop(equations, model)
    return Measured(
        model=model,
        windows=windows,
        prepared=prepared,
        fit=fit,
        instants=instants,
        equations=equations,
        one_way_sd_ns=one_way_sd_ns,
        unknowns=unknowns,
        eliminated=eliminate(equations, instants, model, unknowns),
        constraints=tuple(constraints),
        contradictions=contradictions,
        long_round_trips=long_round_trips(equations, model, in_loop),
        in_loop=in_loop,
        misfits=misfits,
        held=np.zeros(len(windows), np.bool_) if held is None else held,
        class_findings=class_findings,
    )


def _in_loop(equations: Equations, model: FabricModel) -> Bools:
    """[link]: it lies in a loop of some window; links of different windows make none."""
    result = np.zeros(len(model.links), np.bool_)
    for known in np.unique(equations.known, axis=0):
        result |= loop_links(link_ends(model), known, len(model.clocks))
    return result
