# SPDX-License-Identifier: Apache-2.0
"""Bounds of each cable's own asymmetry, a_uv: half its one-way difference.

What stamps show is the cable and the constants of the stamp points at its ends, of which only the
declared part is known. So the hard bound of the cable alone is what causality leaves of the whole,
and half of the four stamp points' uncertainties; the conditional one is that of the solve, and what
a port may deviate from its group.
"""

from dataclasses import dataclass

import numpy as np

from correction.delay_sum import ROUNDING_SD_NS, DelaySum, evaluate
from correction.link_delays import LinkDelays, link_delays
from correction.priors import points, priors
from correction.solution import FabricSolution, SolveOptions
from correction.timebase import Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBounds:
    """Half-widths around `LinkEstimates.a_ns`, by link; infinite where nothing bounds it."""

    conditional_ns: Float64s
    """Under the prior; the hard one where the data do not determine the link."""
    hard_ns: Float64s


def link_bounds(solution: FabricSolution, options: SolveOptions | None = None) -> LinkBounds:
    """Of all links that were measured both ways."""
    options = options or SolveOptions()
    model, links = solution.model, solution.links
    delays = link_delays(solution, options)
    own_sd_ns = priors(model).own_sd_ns
    cable_sd_ns = np.array([link.asymmetry_sd_ns for link in model.links])
    port_variance = np.maximum(own_sd_ns**2 - cable_sd_ns**2, 0.0)
    variance = port_variance + delays.fit_sd_ns**2 + ROUNDING_SD_NS**2
    hard = np.array([_hard_ns(delays, number) for number in range(len(model.links))])
    conditional = np.hypot(links.likely_ns, options.sigmas * np.sqrt(variance)) + delays.widen_ns
    doubtful = np.array([bool(reason) for reason in delays.doubt], np.bool_)
    return LinkBounds(
        conditional_ns=np.minimum(np.where(doubtful, np.inf, conditional), hard), hard_ns=hard
    )


def _hard_ns(delays: LinkDelays, number: int) -> float:
    """What lies outside is impossible, whatever the prior."""
    link = delays.model.links[number]
    one = DelaySum(
        half={}, difference={number: 1.0}, fixed_ns=0.0, clocks=(link.a, link.b), flux=1.0
    )
    found = evaluate(one, delays)
    if not found.known:
        return np.inf
    stamps_ns = 0.5 * sum(point.uncertainty_ns for point in points(link))
    a_ns = float(delays.cable_a_ns[number])
    return max(found.hard_high_ns - a_ns, a_ns - found.hard_low_ns) + stamps_ns
