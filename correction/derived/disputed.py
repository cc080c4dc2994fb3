# SPDX-License-Identifier: Apache-2.0
"""Readings of a clock that stand for no instant, or for two: shown while it was set, or shown again
after it was set back. No line is used there; a row says why instead."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from correction.derived.readings import Behaviour, ClockPairs
from correction.derived.stretches import Break
from correction.table import UNBOUNDED_NS, Status
from correction.timebase import NS_PER_S

RELATION_DTYPE = np.dtype(
    [
        ("valid_from_local_ns", np.int64),  # on the clock
        ("valid_to_local_ns", np.int64),  # exclusive
        ("anchor_local_ns", np.int64),
        ("anchor_parent_local_ns", np.int64),  # offset = anchor_local - anchor_parent_local
        ("rate_ppb", np.float64),  # change of the offset per time of the clock
        ("bound_hard_ns", np.int64),  # the largest within the validity
        ("bound_conditional_ns", np.int64),
        ("status", np.uint8),
        ("reason", np.int32),  # index into `Relation.reasons`
    ]
)


def told(pairs: ClockPairs, one: Break) -> str:
    """A break in words."""
    seconds = one.step_ns / NS_PER_S
    if pairs.behaviour.settable:
        return f"{pairs.clock} was set by {seconds:+.9f} s between two readings"
    if one.step_ns < 0:
        return f"{pairs.clock} stood still for {-seconds:.9f} s between two readings"
    return f"{pairs.clock} gained {seconds:.9f} s on {pairs.parent} between two readings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disputed:
    """Readings of the clock that it may have shown twice, or while it was being set."""

    low_local_ns: int
    high_local_ns: int
    reason: int


def disputed_readings(
    readings: NDArray[np.void], one: Break, behaviour: Behaviour, reason: int
) -> Disputed:
    before = int(readings["clock_local_ns"][one.before])
    after = int(readings["clock_local_ns"][one.after])
    if not behaviour.settable:
        return Disputed(low_local_ns=before + 1, high_local_ns=after, reason=reason)
    elapsed = int(readings["parent_local_ns"][one.after]) - int(
        readings["parent_local_ns"][one.before]
    )
    elapsed += round(elapsed * behaviour.rate_ppb_max * 1e-9) + 1
    # until it was set it ran on, and from then on it ran up to the second reading
    return Disputed(
        low_local_ns=min(before, after - elapsed) + 1,
        high_local_ns=max(before + elapsed, after),
        reason=reason,
    )


def without(rows: NDArray[np.void], disputed: list[Disputed]) -> NDArray[np.void]:
    """The rows outside the disputed readings, and a row for each run of these."""
    runs: list[Disputed] = []
    for one in sorted(disputed, key=lambda run: run.low_local_ns):
        if runs and one.low_local_ns <= runs[-1].high_local_ns:
            high = max(runs[-1].high_local_ns, one.high_local_ns)
            runs[-1] = replace(runs[-1], high_local_ns=high)
        else:
            runs.append(one)
    for run in runs:
        rows = np.concatenate(
            [
                _clipped(rows, "valid_to_local_ns", run.low_local_ns, low=False),
                _clipped(rows, "valid_from_local_ns", run.high_local_ns, low=True),
            ]
        )
        rows = rows[rows["valid_from_local_ns"] < rows["valid_to_local_ns"]]
    added = np.zeros(len(runs), RELATION_DTYPE)
    for row, run in enumerate(runs):
        if run.high_local_ns <= run.low_local_ns:
            continue
        added[row]["valid_from_local_ns"] = run.low_local_ns
        added[row]["valid_to_local_ns"] = run.high_local_ns
        added[row]["anchor_local_ns"] = added[row]["anchor_parent_local_ns"] = run.low_local_ns
        added[row]["bound_hard_ns"] = added[row]["bound_conditional_ns"] = UNBOUNDED_NS
        added[row]["status"] = Status.INCONSISTENT
        added[row]["reason"] = run.reason
    rows = np.concatenate([rows, added])
    rows = rows[np.argsort(rows["valid_from_local_ns"], kind="stable")]
    # neighbouring lines may order their common end the other way round
    rows["valid_from_local_ns"][1:] = np.maximum(
        rows["valid_from_local_ns"][1:], np.maximum.accumulate(rows["valid_to_local_ns"])[:-1]
    )
    return rows[rows["valid_from_local_ns"] < rows["valid_to_local_ns"]]


def _clipped(rows: NDArray[np.void], name: str, at_ns: int, *, low: bool) -> NDArray[np.void]:
    result = rows.copy()
    result[name] = np.maximum(result[name], at_ns) if low else np.minimum(result[name], at_ns)
    return result
