# SPDX-License-Identifier: Apache-2.0
"""Limits on what the engine answers: those that every scenario has, and those that most have.

Whatever happens to a fabric, a finite hard bound holds. Where the prior of the conditional bound
holds, it covers, nobody is flagged, and the error is about that of the oracle.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.estimates import Estimates
    from bmv2_lab.evidence import Evidence

COVERED_SHARE = 0.999
ORACLE_RATIO = 1.5

Clocks = Callable[["Estimates"], tuple[str, ...]]
"""Which clocks a limit is about."""


def nodes(estimates: "Estimates") -> tuple[str, ...]:
    """All hosts but the reference, and all switches that report."""
    return estimates.nodes


def hosts(estimates: "Estimates") -> tuple[str, ...]:
    """All hosts but the reference."""
    return estimates.hosts


def all_but(*left_out: str) -> Clocks:
    """All nodes but these."""
    return lambda estimates: tuple(name for name in estimates.nodes if name not in left_out)


def covered(clocks: Clocks = nodes, of: str = "") -> Limit:
    """Confident answers are right, in windows and in the holdover around them."""

    def measure(evidence: "Evidence") -> float:
        return evidence.estimates.covered_share(clocks(evidence.estimates))

    return Limit(
        name=f"confident answers{of} within their conditional bound, share",
        measure=measure,
        at_least=COVERED_SHARE,
    )


def unflagged(clocks: Clocks = nodes, of: str = " hosts and switches") -> Limit:
    """These are determined in every window."""

    def measure(evidence: "Evidence") -> float:
        return evidence.estimates.flagged(clocks(evidence.estimates))

    return Limit(name=f"flagged{of}", measure=measure, at_most=0.0)


def flagged(clocks: Clocks, count: int, of: str) -> Limit:
    """So many of these are not determined, or not answered for, in some window."""

    def measure(evidence: "Evidence") -> float:
        return evidence.estimates.flagged(clocks(evidence.estimates))

    return Limit(name=f"flagged{of}", measure=measure, at_least=float(count), at_most=float(count))


def recovered(event_ns: int, windows: int, clocks: Clocks = nodes, of: str = "all") -> Limit:
    """So many windows after an event at most, its own not counted, conditional bounds hold."""

    def measure(evidence: "Evidence") -> float:
        estimates = evidence.estimates
        return estimates.windows_to_recover(event_ns, clocks(estimates))

    return Limit(
        name=f"windows from the event's own until conditional bounds of {of} hold for good",
        measure=measure,
        at_most=float(windows),
    )


def median_conditional(at_most_ns: float, clocks: Clocks = hosts, of: str = "hosts") -> Limit:
    """Their conditional bound is worth something."""

    def measure(evidence: "Evidence") -> float:
        return evidence.estimates.median_conditional_ns(clocks(evidence.estimates))

    return Limit(name=f"conditional bound of {of}, median, ns", measure=measure, at_most=at_most_ns)


HARD = Limit(
    name="answers outside their hard bound",
    measure=lambda e: e.estimates.outside_hard(),
    at_most=0.0,
)
"""In every scenario, at every instant, of every clock."""
COVERED = covered()
ORACLE = Limit(
    name="rms error of hosts over the oracle's",
    measure=lambda e: e.estimates.rms_over_oracle(),
    at_most=ORACLE_RATIO,
)
UNFLAGGED = unflagged()
NO_FALSE_LINK = Limit(
    name="links falsely called asymmetric",
    measure=lambda e: e.estimates.false_links(),
    at_most=0.0,
)
EVERY_BAD_LINK = Limit(
    name="asymmetric links not found",
    measure=lambda e: e.estimates.missed_links(),
    at_most=0.0,
)

DETERMINED = (HARD, COVERED, ORACLE, UNFLAGGED, NO_FALSE_LINK, median_conditional(40.0))
"""Where the prior holds and all that it needs is measured."""
