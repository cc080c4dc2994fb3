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
BOUND_NS = 45.0
"""Conditional bound of hosts on a small fabric of which nothing is missing, median."""

Clocks = Callable[["Estimates"], tuple[str, ...]]
"""Which clocks a limit is about."""


def nodes(estimates: "Estimates") -> tuple[str, ...]:
    """All hosts but the reference, and all switches that report."""
    return estimates.nodes


def hosts(estimates: "Estimates") -> tuple[str, ...]:
    """All hosts but the reference."""
    return estimates.hosts


def decidable(estimates: "Estimates") -> tuple[str, ...]:
    """The nodes that the prior determines."""
    return tuple(name for name in estimates.nodes if name not in estimates.undecidable)


def only(*names: str) -> Clocks:
    """These nodes."""
    return lambda _: names


def all_but(*left_out: str) -> Clocks:
    """All nodes but these."""
    return lambda estimates: tuple(name for name in estimates.nodes if name not in left_out)


def behind(*leaves: str) -> Clocks:
    """These leaves and their hosts."""
    return lambda estimates: tuple(name for leaf in leaves for name in estimates.behind(leaf))


def not_behind(*leaves: str) -> Clocks:
    """All nodes but these leaves and their hosts."""
    return lambda estimates: all_but(*behind(*leaves)(estimates))(estimates)


def covered(clocks: Clocks = nodes, of: str = "") -> Limit:
    """Confident answers are right, in windows and in the holdover around them."""

    def measure(evidence: "Evidence") -> float:
        return evidence.estimates.covered_share(clocks(evidence.estimates))

    return Limit(
        name=f"confident answers{of} within their conditional bound, share",
        measure=measure,
        at_least=COVERED_SHARE,
    )


def flagged(clocks: Clocks, of: str, count: int = 0) -> Limit:
    """So many of these are not determined, or not answered for, in some window."""

    def measure(evidence: "Evidence") -> float:
        return evidence.estimates.flagged(clocks(evidence.estimates))

    return Limit(
        name=f"flagged: {of}", measure=measure, at_least=float(count), at_most=float(count)
    )


def recovered(event_ns: int, *, windows: int, clocks: Clocks = nodes, of: str = "all") -> Limit:
    """After at most so many windows, the first being the event's own, conditional bounds hold."""

    def measure(evidence: "Evidence") -> float:
        estimates = evidence.estimates
        return estimates.windows_to_recover(event_ns, clocks(estimates))

    return Limit(
        name=f"windows after the event until bounds of {of} hold for good",
        measure=measure,
        at_most=float(windows),
    )


def conditional_bound(
    of: str,
    clocks: Clocks = hosts,
    *,
    window: int | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Limit:
    """Median of their conditional bounds, in all windows or in one (negative: from the last)."""

    def measure(evidence: "Evidence") -> float:
        return evidence.estimates.median_conditional_ns(clocks(evidence.estimates), window)

    return Limit(
        name=f"conditional bound of {of}, median, ns",
        measure=measure,
        at_least=at_least,
        at_most=at_most,
    )


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
UNFLAGGED = flagged(decidable, "hosts and switches that the prior determines")
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
USEFUL = conditional_bound("hosts", at_most=BOUND_NS)


def determined(bound_ns: float = BOUND_NS) -> tuple[Limit, ...]:
    """Where the prior holds and all that it needs is measured; `bound_ns`: median of the hosts'."""
    useful = conditional_bound("hosts", at_most=bound_ns)
    return (HARD, COVERED, ORACLE, UNFLAGGED, NO_FALSE_LINK, useful)


DETERMINED = determined()
