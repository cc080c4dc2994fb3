# SPDX-License-Identifier: Apache-2.0
"""Decides which component made a transfer slow, or that it cannot be told.

A component is named only if its excess, less its uncertainty, exceeds every other component's
excess plus uncertainty, and explains most of the transfer's excess.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

SHARE_MIN = 0.5
"""The named component explains at least this part of the excess."""
LEAD_RATIO_MIN = 2.0
"""And exceeds the second largest excess by this factor."""
SPREADS = 3.0
"""Scatter of a component's own values that counts as uncertainty of its excess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Index of the named component, or None with the reason."""

    component: int | None
    share: float | None
    reason: str


def decide(
    excess_ns: FloatArray,
    excess_bound_ns: FloatArray,
    spread_ns: FloatArray,
    *,
    labels: list[str],
) -> Decision:
    """The verdict over one slow transfer's components; NaN marks an unknown excess."""
    if len(excess_ns) == 0:
        return _none("the transfer has no components: its NIC events are missing")
    unknown = np.isnan(excess_ns) | np.isinf(excess_bound_ns)
    if unknown.any():
        first = labels[int(np.flatnonzero(unknown)[0])]
        return _none(f"the excess of {first} is not known: a clock or a baseline is missing")
    total_ns = float(excess_ns.sum())
    leader = int(np.argmax(excess_ns))
    share = min(1.0, float(excess_ns[leader]) / total_ns) if total_ns > 0 else 0.0
    uncertainty_ns = excess_bound_ns + SPREADS * spread_ns
    low_ns = excess_ns[leader] - uncertainty_ns[leader]
    others = np.delete(np.arange(len(excess_ns)), leader)
    if low_ns <= 0:
        return _none(
            f"the largest excess, {labels[leader]} with {excess_ns[leader]:.0f} ns, is within its"
            f" uncertainty of {uncertainty_ns[leader]:.0f} ns",
            share,
        )
    if len(others):
        rival = int(others[np.argmax((excess_ns + uncertainty_ns)[others])])
        if low_ns <= excess_ns[rival] + uncertainty_ns[rival]:
            return _none(_close(labels, excess_ns, uncertainty_ns, leader, rival), share)
        second_ns = float(excess_ns[others].max())
        if excess_ns[leader] < LEAD_RATIO_MIN * second_ns:
            return _none(
                f"{labels[leader]} explains {share:.0%} only and another component"
                f" takes {second_ns:.0f} ns more than usual",
                share,
            )
    if share < SHARE_MIN:
        return _none(f"{labels[leader]} explains {share:.0%} of the excess only", share)
    return Decision(
        component=leader,
        share=share,
        reason=f"{labels[leader]} took {excess_ns[leader]:.0f} ns more than usual"
        f" (± {uncertainty_ns[leader]:.0f} ns), {share:.0%} of the excess",
    )


def _close(
    labels: list[str],
    excess_ns: FloatArray,
    uncertainty_ns: FloatArray,
    leader: int,
    rival: int,
) -> str:
    return (
        f"{labels[leader]} ({excess_ns[leader]:.0f} ± {uncertainty_ns[leader]:.0f} ns) is not"
        f" clearly ahead of {labels[rival]}"
        f" ({excess_ns[rival]:.0f} ± {uncertainty_ns[rival]:.0f} ns)"
    )


def _none(reason: str, share: float | None = None) -> Decision:
    return Decision(component=None, share=share, reason=reason)
