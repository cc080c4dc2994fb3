# SPDX-License-Identifier: Apache-2.0
"""The yardstick of scoring: the same least squares, told which links are bad.

Only scoring code calls this; it takes what is true as an argument and is the best that a linear
estimate can do with the same measurements.
"""

import numpy as np

from correction.engine import assemble
from correction.links import JoinCounters
from correction.measure import Measured
from correction.mixture import Rivals
from correction.network import posterior
from correction.selection import Selection
from correction.solution import FabricSolution, SolveOptions
from correction.timebase import Bools, Float64s
from correction.verdicts import FabricVerdict

DROPPED_SD_NS = 1e6
"""Prior sd of a link that is left out: it still follows its clocks, but moves none."""
DROPPED_TO_HEALTHY = 1e4
"""And at least so many times a healthy link's."""


def oracle(
    measured: Measured,
    bad: Bools,
    *,
    asymmetry_sd_ns: Float64s | None = None,
    options: SolveOptions | None = None,
) -> FabricSolution:
    """Weighted least squares without the links where `bad` ([link]) is true.

    `asymmetry_sd_ns` ([link]) gives the true sd of the healthy links' a_uv; the declared prior
    serves if it is not given. Both may be of the declared links alone: further ties of the model
    are as declared. Nothing is flagged.
    """
    count = len(measured.model.links)
    sd = measured.unknowns.prior_sd_ns.copy()
    if asymmetry_sd_ns is not None:
        told = len(asymmetry_sd_ns)
        sd[:told] = np.hypot(np.maximum(asymmetry_sd_ns, 1e-3), measured.one_way_sd_ns[:told])
    bad = np.concatenate([bad, np.zeros(count - len(bad), np.bool_)])
    sd[:count][bad] = np.maximum(DROPPED_SD_NS, DROPPED_TO_HEALTHY * sd[:count][bad])
    estimate = posterior(measured.eliminated, sd)
    selection = Selection(
        bad=np.concatenate([bad, np.zeros(len(sd) - count, np.bool_)]),
        bad_probability=np.concatenate([bad, np.zeros(len(sd) - count)]).astype(np.float64),
        best=estimate,
        averaged=estimate,
        rivals=Rivals.none(),
        chi2=0.0,
        degrees=0,
        repeat_chi2=0.0,
        repeat_degrees=0,
    )
    nobody = np.zeros(len(measured.model.clocks), np.bool_)
    return assemble(
        measured,
        selection,
        FabricVerdict(ambiguous=nobody, cuts=(), certificate={}),
        counters=JoinCounters(),
        options=options or SolveOptions(),
    )
