# SPDX-License-Identifier: Apache-2.0
"""The product of a solve: corrections as rows with validity, method and two bounds.

reference = local - (offset + rate * (local - anchor)). Bounds are given at the anchor and grow
with distance from it by the rate's uncertainty and the clock's wander; outside every row's
validity the answer is "unknown", never zero. Integers in, integers out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique
from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.records import NO_TSTAMP_NS
from correction.timebase import NS_PER_S, Float64s, Int64s

UNBOUNDED_NS = 2**63 - 1
"""A bound that is infinite or not known."""
CONDITIONAL_SIGMAS = 3.29
"""k of the conditional bound: 99.9 % of a normal error (docs/decisions/0003)."""
HARD_SIGMAS = 6.0
"""The hard bound takes declared wander and measured rates at six standard deviations."""


@unique
class Status(IntEnum):
    """What a correction is worth (clocks.md 2.11)."""

    OK = 0
    AMBIGUOUS = 1
    STALE = 2
    INCONSISTENT = 3
    FLOATING = 4


@unique
class Method(StrEnum):
    """Which assumption carries the estimate."""

    REFERENCE = "reference"
    SPARSE_ROBUST = "sparse-robust"
    HOLDOVER = "holdover"
    """The clock was not reached; an older row still stands, with grown bounds."""
    NONE = "none"


CORRECTION_DTYPE = np.dtype(
    [
        ("correction_version", np.int32),
        ("clock", np.int32),  # index in the fabric model
        ("window", np.int32),
        ("valid_from_local_ns", np.int64),
        ("valid_to_local_ns", np.int64),  # exclusive
        ("anchor_local_ns", np.int64),
        ("offset_ns", np.int64),  # local - reference at the anchor
        ("rate_ppb", np.float64),  # change of the offset per local time
        ("rate_sd_ppb", np.float64),
        ("wander_ns_per_s_sqrt_s", np.float64),  # of this clock against the reference
        ("bound_hard_ns", np.int64),  # at the anchor; UNBOUNDED_NS if infinite
        ("bound_conditional_ns", np.int64),
        ("bound_hard_worst_ns", np.int64),  # the largest within the validity interval
        ("bound_conditional_worst_ns", np.int64),
        ("sigmas", np.float64),  # k of the conditional bound
        ("status", np.uint8),  # a Status
    ]
)

_CONVERTED = (
    "valid_to_local_ns",
    "anchor_local_ns",
    "offset_ns",
    "rate_ppb",
    "rate_sd_ppb",
    "wander_ns_per_s_sqrt_s",
    "bound_hard_ns",
    "bound_conditional_ns",
    "sigmas",
    "status",
)
"""Columns that a conversion takes."""

Corrections = NDArray[np.void]
"""Array of `CORRECTION_DTYPE`, sorted by clock and start of validity, not overlapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Reference instants of local stamps, with the bounds that hold there."""

    reference_ns: Int64s
    """NO_TSTAMP_NS where no row is valid."""
    bound_hard_ns: Int64s
    bound_conditional_ns: Int64s
    status: NDArray[np.uint8]
    """A Status each; STALE where no row is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionTable:
    """All rows of one solve."""

    rows: Corrections
    clock_names: tuple[str, ...]
    prior: str
    """The prior under which `bound_conditional_ns` holds."""

    def rows_of(self, clock: int) -> Corrections:
        """The rows of one clock, in order of time."""
        low, high = np.searchsorted(self.rows["clock"], [clock, clock + 1])
        return self.rows[low:high]

    def method_of(self, clock: int, reference: int) -> Method:
        """The method behind a clock's rows."""
        return Method.REFERENCE if clock == reference else Method.SPARSE_ROBUST

    def convert(self, stamps_local_ns: Int64s, clock: int) -> Converted:
        """Reference time and bounds of many stamps of one clock."""
        stamps = np.asarray(stamps_local_ns, np.int64)
        rows = self.rows_of(clock)
        unknown = Converted(
            reference_ns=np.full(len(stamps), NO_TSTAMP_NS),
            bound_hard_ns=np.full(len(stamps), UNBOUNDED_NS),
            bound_conditional_ns=np.full(len(stamps), UNBOUNDED_NS),
            status=np.full(len(stamps), Status.STALE, np.uint8),
        )
        if not len(rows):
            return unknown
        at = np.searchsorted(rows["valid_from_local_ns"], stamps, side="right") - 1
        at_row = np.maximum(at, 0)
        row = {name: np.ascontiguousarray(rows[name])[at_row] for name in _CONVERTED}
        valid = (at >= 0) & (stamps < row["valid_to_local_ns"]) & (stamps != NO_TSTAMP_NS)
        distance_ns = np.where(valid, stamps - row["anchor_local_ns"], 0)
        change = np.rint(row["rate_ppb"] * (distance_ns / NS_PER_S)).astype(np.int64)
        hard, conditional = bounds_at(row, distance_ns)
        return Converted(
            reference_ns=np.where(valid, stamps - row["offset_ns"] - change, unknown.reference_ns),
            bound_hard_ns=np.where(valid, hard, UNBOUNDED_NS),
            bound_conditional_ns=np.where(valid, conditional, UNBOUNDED_NS),
            status=np.where(valid, row["status"], np.uint8(Status.STALE)).astype(np.uint8),
        )


def bounds_at(
    row: Corrections | Mapping[str, NDArray[Any]], distance_ns: Int64s
) -> tuple[Int64s, Int64s]:
    """Both bounds at a distance from the anchor, rounded up; UNBOUNDED_NS stays so."""
    distance_s = np.abs(distance_ns) / NS_PER_S
    rate = row["rate_sd_ppb"] * distance_s
    wander = row["wander_ns_per_s_sqrt_s"] * distance_s**1.5 / np.sqrt(3.0)
    hard = _grown(row["bound_hard_ns"], row["bound_hard_ns"] + HARD_SIGMAS * (rate + wander))
    k = row["sigmas"]
    conditional = _grown(
        row["bound_conditional_ns"],
        np.sqrt(row["bound_conditional_ns"] ** 2.0 + (k * rate) ** 2 + (k * wander) ** 2),
    )
    return hard, np.minimum(conditional, hard)


def _grown(bound_ns: Int64s, grown_ns: Float64s) -> Int64s:
    finite = (bound_ns != UNBOUNDED_NS) & (grown_ns < 2.0**62)
    result: Int64s = np.where(
        finite, np.ceil(np.where(finite, grown_ns, 0.0)).astype(np.int64), UNBOUNDED_NS
    )
    return result


def with_worst_bounds(rows: Corrections) -> Corrections:
    """Fill in the largest bounds inside each row's validity."""
    result = rows.copy()
    reach = np.maximum(
        np.abs(rows["valid_from_local_ns"] - rows["anchor_local_ns"]),
        np.abs(rows["valid_to_local_ns"] - rows["anchor_local_ns"]),
    )
    hard, conditional = bounds_at(rows, reach)
    result["bound_hard_worst_ns"], result["bound_conditional_worst_ns"] = hard, conditional
    return result
