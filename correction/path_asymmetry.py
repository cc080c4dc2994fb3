# SPDX-License-Identifier: Apache-2.0
"""Asymmetry of a pair of paths: half the one-way difference, its bounds, and what causes it.

    A = ((d_ms - c1) - (d_sm - c2)) / 2

Positive when the forward direction (reference -> client for PTP) is the slower one (clocks.md 1.1).
With residences taken out by correctionFields or telemetry only the links are left in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from correction.asymmetry_causes import Share, hop_shares, link_shares
from correction.delay_sum import DelayEstimate, DelaySum, evaluate
from correction.link_delays import LinkDelays
from correction.path_delays import PathDelay


@dataclass(frozen=True, slots=True, kw_only=True)
class PathAsymmetry:
    """Both directions between two NICs."""

    forward: PathDelay
    reverse: PathDelay
    asymmetry: DelayEstimate
    """Of the links: what is left after residences were taken out."""
    residence_asymmetry_ns: float | None
    """Half the difference of median residences: what a client without transparent clocks sees on
    top. None where they are not known."""
    shares: tuple[Share, ...]
    """Of the links; they add up to `asymmetry`."""
    hop_shares: tuple[Share, ...]
    """Of the switches; they add up to `residence_asymmetry_ns`."""
    cause: Share | None
    """The link that contributes most; None if the asymmetry may be nothing at all."""
    terms: DelaySum

    @property
    def whole_ns(self) -> float | None:
        """With residences: what plain PTP sees."""
        if self.residence_asymmetry_ns is None or not self.asymmetry.known:
            return None
        return self.asymmetry.value_ns + self.residence_asymmetry_ns

    @property
    def same_links(self) -> bool:
        """Both directions cross the same cables, so that only these' own asymmetries count."""
        return {one.link for one in self.forward.links} == {one.link for one in self.reverse.links}


def path_asymmetry(forward: PathDelay, reverse: PathDelay, delays: LinkDelays) -> PathAsymmetry:
    """ValueError if the paths do not join the same two NICs, one each way."""
    if forward.clocks != reverse.clocks[::-1]:
        raise ValueError("the way back does not lead from the receiver to the sender")
    terms = forward.terms.plus(reverse.terms, -1.0).times(0.5)
    asymmetry = evaluate(terms, delays)
    residence_ns = None
    if forward.residence_ns is not None and reverse.residence_ns is not None:
        residence_ns = (forward.residence_ns - reverse.residence_ns) / 2
    shares = link_shares(forward, reverse, delays) if asymmetry.known else ()
    return PathAsymmetry(
        forward=forward,
        reverse=reverse,
        asymmetry=asymmetry,
        residence_asymmetry_ns=residence_ns,
        shares=shares,
        hop_shares=hop_shares(forward, reverse, delays),
        cause=_cause(asymmetry, shares),
        terms=terms,
    )


def _cause(asymmetry: DelayEstimate, shares: Iterable[Share]) -> Share | None:
    """The largest share of the asymmetry's sign, if zero lies outside the conditional bound."""
    if not abs(asymmetry.value_ns) > asymmetry.bound_conditional_ns:
        return None
    sign = asymmetry.value_ns
    return next((one for one in shares if one.contribution_ns * sign > 0.0), None)


def change_of(before: DelaySum, after: DelaySum, delays: LinkDelays) -> DelayEstimate:
    """after - before. Clocks cancel where both lie between the same ones, so that the change is
    known to measurement noise even without a prior."""
    return evaluate(after.plus(before, -1.0), delays)
