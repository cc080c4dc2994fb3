# SPDX-License-Identifier: Apache-2.0
"""How a clock stands to its parent: pieces of straight lines with both bounds.

Hard: with the declared steering and six standard deviations of the declared wander. Conditional:
with the steering that the readings themselves show, doubled, and the conditional bound's standard
deviations of wander. Where within its window a reading lies is not averaged over: a slower way
through the PCIe tree is the same in all of them.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from correction.derived.disputed import (
    RELATION_DTYPE,
    disputed_readings,
    told,
    without,
)
from correction.derived.feasible import (
    NEIGHBOURS,
    NEIGHBOURS_STEERED,
    Slack,
    feasible_ns,
    nearest_readings,
)
from correction.derived.readings import (
    Behaviour,
    ClockPairs,
    PairReject,
    sound_readings,
    tai_utc_seconds,
)
from correction.derived.stretches import Windows, find_stretches
from correction.table import CONDITIONAL_SIGMAS, HARD_SIGMAS, UNBOUNDED_NS, Status
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

PIECE_NS = 1_000_000_000
"""Length of a piece where nobody steers."""
PIECE_STEERED_NS = 100_000_000
"""Where somebody does, a gap between two readings is a piece, or several of at least this."""
PARTS_STEERED_MAX = 4
"""Of such a gap: bounds are widest in its middle."""
HOLDOVER_NS = 60_000_000_000
"""How far from the nearest reading a line may be used, with bounds that grow."""
HOLDOVER_FIRST_NS = 1_000_000_000
"""The first piece of a holdover; each following one is twice as long."""
INSTANTS = 9
"""Per piece, both ends included, at which the windows are looked at."""
ROUNDING_NS = 2
"""Whole nanoseconds of both clocks."""
SEEN_STEERING = 2.0
"""Readings show no change of rate that came and went between two of them."""
STEERING_REACH = 33
"""Changes of rate around a reading of which the largest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A clock against its parent, over all readings."""

    clock: str
    parent: str
    rows: NDArray[np.void]
    """Array of `RELATION_DTYPE`, by validity, not overlapping."""
    reasons: tuple[str, ...]
    """The first is empty."""
    tai_utc_s: tuple[int, ...]
    """Whole seconds that the clock is behind its parent, where that is a difference of TAI and
    UTC."""


def relate(pairs: ClockPairs, rejected: Counter[PairReject]) -> Relation:
    """Estimate one clock against its parent; damaged readings are counted in `rejected`."""
    readings = sound_readings(pairs, rejected)
    reasons = ["", f"readings of {pairs.clock} contradict each other"]
    if not len(readings):
        return Relation(
            clock=pairs.clock,
            parent=pairs.parent,
            rows=np.zeros(0, RELATION_DTYPE),
            reasons=tuple(reasons),
            tai_utc_s=(),
        )
    base = _Base(
        parent_ns=int(readings["parent_local_ns"][0]),
        offset_ns=int(readings["clock_local_ns"][0]) - int(readings["parent_local_ns"][0]),
    )
    windows = base.windows(readings)
    stretches, breaks = find_stretches(windows, pairs.behaviour, rejected)
    parts = []
    for number, stretch in enumerate(stretches):
        part = _Stretch(
            windows=windows.of(stretch),
            behaviour=pairs.behaviour,
            first=number == 0,
            last=number == len(stretches) - 1,
        )
        parts.append(_pieces(part, base))
    disputed = []
    for one in breaks:
        reasons.append(told(pairs, one))
        disputed.append(disputed_readings(readings, one, pairs.behaviour, len(reasons) - 1))
    rows = without(np.concatenate(parts), disputed)
    return Relation(
        clock=pairs.clock,
        parent=pairs.parent,
        rows=rows,
        reasons=tuple(reasons),
        # a counter of time since some start may be behind by as much
        tai_utc_s=(pairs.tai_utc_s or tai_utc_seconds(readings))
        if pairs.behaviour.settable
        else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What is subtracted, in integers, before anything becomes a float."""

    parent_ns: int
    offset_ns: int

    def windows(self, readings: NDArray[np.void]) -> Windows:
        offset = readings["clock_local_ns"] - readings["parent_local_ns"] - self.offset_ns
        half = (readings["uncertainty_ns"] + 1).astype(np.float64)
        middle = offset.astype(np.float64)
        return Windows(
            times_ns=(readings["parent_local_ns"] - self.parent_ns).astype(np.float64),
            low_ns=middle - half,
            high_ns=middle + half,
        )

    def clock_of_ns(self, at_ns: Float64s, offset_ns: Float64s) -> Int64s:
        """What the clock reads at a time of its parent since the first reading."""
        whole = np.rint(at_ns).astype(np.int64) + np.rint(offset_ns).astype(np.int64)
        reading: Int64s = self.parent_ns + self.offset_ns + whole
        return reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    windows: Windows
    behaviour: Behaviour
    first: bool
    last: bool

    def cuts_ns(self) -> Float64s:
        """Where pieces end and begin."""
        times = self.windows.times_ns
        least = PIECE_STEERED_NS if self.behaviour.steering_ppb else PIECE_NS
        cuts = [float(times[0])]
        for before, after in pairwise(times.tolist()):
            if after - cuts[-1] < least and after < times[-1]:
                continue
            if after - before > 2 * HOLDOVER_NS:
                cuts += (before + _holdover_ns()).tolist()
                cuts += (after - _holdover_ns()[::-1]).tolist()
            elif after - cuts[-1] >= 2 * least:
                parts = int((after - cuts[-1]) // least)
                if self.behaviour.steering_ppb:
                    parts = min(parts, PARTS_STEERED_MAX)
                cuts += np.linspace(cuts[-1], after, parts + 1)[1:-1].tolist()
            cuts.append(after)
        if self.first:
            cuts = [*(times[0] - _holdover_ns()[::-1]).tolist(), *cuts]
        if self.last:
            cuts += (times[-1] + _holdover_ns()).tolist()
        return np.unique(np.array(cuts))

    def slacks(self, at_ns: Float64s) -> tuple[Slack, Slack]:
        """Hard and conditional, the latter by instant."""
        declared = self.behaviour
        hard = Slack(
            steering_ppb=declared.steering_ppb,
            wander_ns_per_s_sqrt_s=declared.wander_ns_per_s_sqrt_s,
            sigmas=HARD_SIGMAS,
            rate_ppb_max=declared.rate_ppb_max,
        )
        steering = np.minimum(self._seen_steering_ppb(at_ns), declared.steering_ppb)
        return hard, replace(hard, steering_ppb=steering, sigmas=CONDITIONAL_SIGMAS)

    def _seen_steering_ppb(self, at_ns: Float64s) -> Float64s:
        """Twice the largest change of rate between readings near each instant, their noise
        included."""
        times = self.windows.times_ns
        kept = np.flatnonzero(np.diff(times // PIECE_STEERED_NS, prepend=-np.inf) > 0)
        if len(kept) < 3 or self.behaviour.steering_ppb == 0.0:
            return np.full(len(at_ns), self.behaviour.steering_ppb)
        middle = (self.windows.low_ns + self.windows.high_ns)[kept] / 2
        rates = np.diff(middle) / np.diff(times[kept]) * NS_PER_S
        changes = np.abs(np.diff(rates))
        largest = maximum_filter1d(changes, STEERING_REACH, mode="nearest")
        place = np.searchsorted(times[kept][1:-1], at_ns)
        seen: Float64s = SEEN_STEERING * largest[np.clip(place, 0, len(largest) - 1)]
        return seen


def _holdover_ns() -> Float64s:
    """Ends of the pieces of a holdover, from its reading on."""
    ends = HOLDOVER_FIRST_NS * (2.0 ** np.arange(1, 64) - 1.0)
    return np.append(ends[ends < HOLDOVER_NS], float(HOLDOVER_NS))


def _pieces(stretch: _Stretch, base: _Base) -> NDArray[np.void]:
    """The pieces of one stretch."""
    cuts = stretch.cuts_ns()
    windows = stretch.windows
    near = _near(cuts, windows.times_ns)
    starts, ends = cuts[:-1][near], cuts[1:][near]
    if not len(starts):
        return np.zeros(0, RELATION_DTYPE)
    share = np.linspace(0.0, 1.0, INSTANTS)
    at = starts[:, None] + (ends - starts)[:, None] * share
    at[:, -1] = ends
    flat = at.ravel()
    steered = stretch.behaviour.steering_ppb > 0
    width = NEIGHBOURS_STEERED if steered else NEIGHBOURS
    around = nearest_readings(flat, windows.times_ns, width)
    hard_slack, seen_slack = stretch.slacks(flat)
    limits = [
        feasible_ns(
            flat,
            around,
            times_ns=windows.times_ns,
            low_ns=windows.low_ns,
            high_ns=windows.high_ns,
            slack=slack,
        )
        for slack in (hard_slack, seen_slack)
    ]
    (low, high), (seen_low, seen_high) = (
        (lower.reshape(at.shape), upper.reshape(at.shape)) for lower, upper in limits
    )
    agrees = np.all(seen_low <= seen_high, axis=1, keepdims=True)
    seen_low, seen_high = np.where(agrees, seen_low, low), np.where(agrees, seen_high, high)
    middle = (seen_low + seen_high) / 2
    half_step = (ends - starts) / (INSTANTS - 1) / 2
    centre = (starts + ends) / 2
    from_centre = at - centre[:, None]
    slope = (middle * from_centre).sum(axis=1) / (from_centre**2).sum(axis=1)
    level = middle.mean(axis=1)
    line = level[:, None] + slope[:, None] * from_centre
    steering = np.asarray(seen_slack.steering_ppb).reshape(at.shape).max(axis=1)
    hard = _worst(line, low, high) + hard_slack.away_ns(half_step)
    seen = _worst(line, seen_low, seen_high)
    seen += replace(seen_slack, steering_ppb=steering).away_ns(half_step)
    # a reading near an end may belong a bound further on
    grown = 1.0 + 2e-9 * stretch.behaviour.steering_ppb
    rows = np.zeros(len(starts), RELATION_DTYPE)
    whole = np.rint(centre)
    at_anchor = level + slope * (whole - centre)
    rows["valid_from_local_ns"] = base.clock_of_ns(starts, middle[:, 0])
    rows["valid_to_local_ns"] = base.clock_of_ns(ends, middle[:, -1])
    rows["anchor_local_ns"] = base.clock_of_ns(whole, at_anchor)
    rows["anchor_parent_local_ns"] = base.parent_ns + whole.astype(np.int64)
    rows["rate_ppb"] = slope / (1.0 + slope) * 1e9
    rows["bound_hard_ns"] = np.ceil(hard * grown).astype(np.int64) + ROUNDING_NS
    seen_ns = np.ceil(seen * grown).astype(np.int64) + ROUNDING_NS
    rows["bound_conditional_ns"] = np.minimum(seen_ns, rows["bound_hard_ns"])
    impossible = (low > high).any(axis=1)
    rows["status"] = np.where(impossible, Status.INCONSISTENT, Status.OK)
    rows["reason"] = impossible
    for bound in ("bound_hard_ns", "bound_conditional_ns"):
        rows[bound][impossible] = UNBOUNDED_NS
    return rows


def _near(cuts: Float64s, times_ns: Float64s) -> Bools:
    """Which pieces between cuts lie within the holdover of a reading."""
    middle = (cuts[:-1] + cuts[1:]) / 2
    after = np.searchsorted(times_ns, middle)
    before = np.clip(after - 1, 0, len(times_ns) - 1)
    after = np.clip(after, 0, len(times_ns) - 1)
    distance = np.minimum(np.abs(middle - times_ns[before]), np.abs(times_ns[after] - middle))
    near: Bools = distance <= HOLDOVER_NS
    return near


def _worst(line: Float64s, low: Float64s, high: Float64s) -> Float64s:
    worst: Float64s = np.maximum(high - line, line - low).max(axis=1)
    return worst
