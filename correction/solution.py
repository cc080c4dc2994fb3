# SPDX-License-Identifier: Apache-2.0
"""What a solve returns: per window and clock an offset with two bounds, per link an asymmetry."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.equations import ClassFinding
from correction.identifiability import Cut
from correction.links import JoinCounters
from correction.measure import Measured
from correction.model import FabricModel
from correction.table import CONDITIONAL_SIGMAS, CorrectionTable
from correction.timebase import Bools, Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveOptions:
    """How to solve; the defaults are the product's."""

    sigmas: float = CONDITIONAL_SIGMAS
    """k of the conditional bound: larger is safer and wider."""
    asymmetric_ns: float = 20.0
    """A link is reported asymmetric from this |a_uv| on."""
    holdover_ns: int = 2_000_000_000
    """How far beyond its window a correction may be used, with growing bounds."""
    correction_version: int = 1
    """Written into every row; a later solve of the same time counts up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSolution:
    """All clocks at one instant; arrays are indexed by clock."""

    window: int
    start_collector_ns: int
    end_collector_ns: int
    reference_ns: int | None
    """The instant, on the reference clock; None where the reference has no data."""
    anchor_local_ns: Int64s
    """The same instant on each clock, to about 1 us; NO_TSTAMP_NS where not reached."""
    offset_ns: Int64s
    """clock - reference at the anchor, rounded; 0 and meaningless unless status is OK or
    AMBIGUOUS."""
    rate_ppb: Float64s
    rate_sd_ppb: Float64s
    sd_ns: Float64s
    """Standard deviation under the prior."""
    bound_hard_ns: Float64s
    """Half-width around offset_ns; infinite where nothing constrains the clock."""
    bound_conditional_ns: Float64s
    status: NDArray[np.uint8]
    """A `Status` each."""
    reason: tuple[str, ...]
    """Why a clock is not OK, or OK with a wide conditional bound; empty for the others."""
    held: bool
    """The reference showed nothing: its time is what a clock predicts of it (`reference_holdover`),
    so that the rates against it are older than the window."""
    read_local_ns: Int64s
    """[clock, 2, 2]: first and last reading in this window, and the same of the stamps that lie
    across a jump; NO_TSTAMP_NS where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEstimates:
    """Arrays indexed by link; a_uv is half the one-way difference, positive if a -> b is slower."""

    a_ns: Float64s
    sd_ns: Float64s
    """Under the prior."""
    likely_ns: Float64s
    """Half-width around a_ns as probable as `SolveOptions.sigmas` of a normal error, over all
    explanations."""
    observable: Bools
    """The link lies in a loop, so that its asymmetry shows at all."""
    rejected: Bools
    """Left out of the clocks' estimate as bad."""
    bad_probability: Float64s
    asymmetric: Bools
    """Rejected, observable, and |a_ns| at least the reporting threshold and surely not 0."""
    half_round_trip_ns: Float64s
    """Mean one-way delay of both directions, latencies removed; NaN without data."""
    shared_ns: Float64s
    """What stamp-point constants that a group shares add to half the difference between the two
    directions' stamps, beyond a_ns and the declared latencies."""
    covariance_ns2: Float64s
    """[link, link]: of a_ns + shared_ns, under the prior."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something an operator should look at."""

    kind: str
    """clock-step, clock-jump, clock-stuck, impossible-cycle, long-round-trip."""
    window: int
    """-1: all windows."""
    subject: str
    """Names of the link or clocks."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSolution:
    """The whole answer."""

    model: FabricModel
    windows: tuple[WindowSolution, ...]
    links: LinkEstimates
    table: CorrectionTable
    flagged: Bools
    """[clock]: offset not determined under the prior, or not at all, in some window."""
    cuts: tuple[Cut, ...]
    """Why clocks are ambiguous."""
    certificate: dict[str, Any]
    """Proof of what is determined and what is not, for `correction.certificate_check`."""
    chi2: float
    """Loop residual test over kept links."""
    degrees: int
    p_value: float
    """Probability of a larger chi2 if the prior holds. A pass is not a proof of symmetry: a
    gradient a_uv = g_v - g_u leaves every loop at zero."""
    repeat_p_value: float
    """The same for the windows against each other: low when an asymmetry is not constant."""
    counters: JoinCounters
    findings: tuple[Finding, ...]
    class_findings: tuple[ClassFinding, ...]
    prior: str
    """Words for the prior of the conditional bound."""
    measured: Measured
    """What it was computed from (the scoring oracle starts there)."""
