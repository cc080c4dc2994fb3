# SPDX-License-Identifier: Apache-2.0
"""Which links and switches make two directions unlike: shares that add up to the asymmetry.

Where both directions cross the same cable, its share is its own asymmetry. Between two switches
that both directions pass, on different ways, a link's share is half of what it takes beyond the
mean of all links there, against the sign of the way back: a long cable on one side counts as one
cause, not as two large numbers that cancel. Switches are treated alike, with median residences.
Latencies are those between stamp and wire that are declared (`model.StampPoint`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import NamedTuple

from correction.delay_sum import DelaySum, DirectedLink, evaluate, sum_of_links
from correction.link_delays import LinkDelays
from correction.path_delays import LinkPart, PathDelay

ROUNDING_ERROR_NS = 1e-6
"""Of float sums."""


@unique
class CauseKind(StrEnum):
    """What a share is of."""

    LINK = "link"
    HOP = "hop"
    """Residence in a switch: in correctionFields where switches are transparent clocks."""
    MORE_LINKS = "more-links"
    """One direction crosses more links than the other."""
    MORE_HOPS = "more-hops"
    STAMP_POINTS = "stamp-points"
    """Declared latencies of the stamp points on cables that both directions cross. One share of
    all: those of the two NICs are large and cancel."""


@unique
class Travel(StrEnum):
    """Which direction goes there."""

    BOTH = "both"
    FORWARD = "forward"
    REVERSE = "reverse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Part of half the one-way difference; positive if it makes forward the slower one."""

    kind: CauseKind
    subject: str
    """Name of the link or switch; of more links or hops, of where the directions part."""
    travel: Travel
    contribution_ns: float
    route_ns: float
    """Of it: what another cable (or queue) than the other direction's costs."""
    asymmetry_ns: float
    """Of it: the link's own one-way difference."""
    sd_ns: float
    """Under the prior; 0 for residences, which are measured."""


class _Stretch(NamedTuple):
    """Between two clocks that both directions pass."""

    start: int
    end: int
    forward: Sequence[LinkPart]
    reverse: Sequence[LinkPart]
    """In the order of the forward direction."""


def link_shares(forward: PathDelay, reverse: PathDelay, delays: LinkDelays) -> tuple[Share, ...]:
    """Shares of the links, which add up to the asymmetry; the largest first."""
    shares: list[Share] = []
    declared_ns = 0.0
    for stretch in _stretches(forward, reverse, delays):
        both = _one_cable(stretch, forward, reverse, delays)
        if both is None:
            shares += _of_stretch(stretch, forward, reverse, delays)
        else:
            shares.append(_link(stretch.forward[0].link, Travel.BOTH, both, -both.fixed_ns, delays))
            declared_ns += both.fixed_ns
    if abs(declared_ns) > ROUNDING_ERROR_NS:
        shares.append(
            _route(CauseKind.STAMP_POINTS, "declared latencies", Travel.BOTH, declared_ns)
        )
    return _sorted(shares)


def hop_shares(forward: PathDelay, reverse: PathDelay, delays: LinkDelays) -> tuple[Share, ...]:
    """Shares of the switches in half the difference of median residences; empty if not known."""
    if not (forward.residences and reverse.residences):
        return ()
    there = _residence_of_clocks(forward, delays)
    back = _residence_of_clocks(reverse, delays)
    shares = [
        _route(
            CauseKind.HOP,
            delays.model.clocks[clock].name,
            Travel.BOTH,
            (there[clock] - back[clock]) / 2,
        )
        for clock in there
        if clock in back
    ]
    only = {c: ns for c, ns in there.items() if c not in back}
    only_back = {c: ns for c, ns in back.items() if c not in there}
    count = len(only) + len(only_back)
    if count:
        mean = (sum(only.values()) + sum(only_back.values())) / count
        shares += [
            _route(CauseKind.HOP, delays.model.clocks[c].name, Travel.FORWARD, (ns - mean) / 2)
            for c, ns in only.items()
        ]
        shares += [
            _route(CauseKind.HOP, delays.model.clocks[c].name, Travel.REVERSE, (mean - ns) / 2)
            for c, ns in only_back.items()
        ]
        more = len(only) - len(only_back)
        if more:
            shares.append(_more(CauseKind.MORE_HOPS, "path", more, mean))
    return _sorted(shares)


def _one_cable(
    stretch: _Stretch, forward: PathDelay, reverse: PathDelay, delays: LinkDelays
) -> DelaySum | None:
    """Half the difference of both directions over the one cable of a stretch, if it is one."""
    there, back = stretch.forward, stretch.reverse
    if not len(there) == len(back) == 1 or there[0].link != back[0].link:
        return None
    both = _terms(there[0], forward.frame_bytes, delays)
    return both.plus(_terms(back[0], reverse.frame_bytes, delays), -1.0).times(0.5)


def _of_stretch(
    stretch: _Stretch, forward: PathDelay, reverse: PathDelay, delays: LinkDelays
) -> list[Share]:
    there, back = stretch.forward, stretch.reverse
    terms = [_terms(one, forward.frame_bytes, delays) for one in there]
    terms_back = [_terms(one, reverse.frame_bytes, delays) for one in back]
    base = [_base_ns(one, delays) for one in (*terms, *terms_back)]
    mean = sum(base) / len(base)
    shares = [
        _link(one.link, Travel.FORWARD, sum_.times(0.5), -mean / 2, delays)
        for one, sum_ in zip(there, terms, strict=True)
    ]
    shares += [
        _link(one.link, Travel.REVERSE, sum_.times(-0.5), mean / 2, delays)
        for one, sum_ in zip(back, terms_back, strict=True)
    ]
    more = len(there) - len(back)
    if more:
        clocks = delays.model.clocks
        where = f"{clocks[stretch.start].name} to {clocks[stretch.end].name}"
        shares.append(_more(CauseKind.MORE_LINKS, where, more, mean))
    return shares


def _terms(part: LinkPart, frame_bytes: float, delays: LinkDelays) -> DelaySum:
    link = DirectedLink(part.link, part.reverse)
    return sum_of_links((link,), delays.model, frame_bytes=frame_bytes)


def _base_ns(terms: DelaySum, delays: LinkDelays) -> float:
    """Round-trip and declared part of a sum."""
    half = sum(weight * float(delays.half_ns[link]) for link, weight in terms.half.items())
    return half + terms.fixed_ns


def _link(link: int, travel: Travel, terms: DelaySum, moved_ns: float, delays: LinkDelays) -> Share:
    route = _base_ns(terms, delays) + moved_ns
    own = sum(w * float(delays.difference_ns[e]) for e, w in terms.difference.items())
    return Share(
        kind=CauseKind.LINK,
        subject=delays.model.links[link].name,
        travel=travel,
        contribution_ns=route + own,
        route_ns=route,
        asymmetry_ns=own,
        sd_ns=evaluate(terms, delays).sd_ns,
    )


def _route(kind: CauseKind, subject: str, travel: Travel, share_ns: float) -> Share:
    """A share that is declared or measured, and no link's own asymmetry."""
    return Share(
        kind=kind,
        subject=subject,
        travel=travel,
        contribution_ns=share_ns,
        route_ns=share_ns,
        asymmetry_ns=0.0,
        sd_ns=0.0,
    )


def _more(kind: CauseKind, subject: str, more: int, mean_ns: float) -> Share:
    travel = Travel.FORWARD if more > 0 else Travel.REVERSE
    return _route(kind, subject, travel, more * mean_ns / 2)


def _residence_of_clocks(path: PathDelay, delays: LinkDelays) -> dict[int, float]:
    """Median residence by clock; the switches are where consecutive links meet."""
    clocks = _clocks(path.links, delays)[1:-1]
    return {clock: one.median_ns for clock, one in zip(clocks, path.residences, strict=True)}


def _clocks(parts: Sequence[LinkPart], delays: LinkDelays) -> list[int]:
    """Clocks in order of travel."""
    result: list[int] = []
    for part in parts:
        link = delays.model.links[part.link]
        start, end = (link.b, link.a) if part.reverse else (link.a, link.b)
        result += [end] if result else [start, end]
    return result


def _stretches(forward: PathDelay, reverse: PathDelay, delays: LinkDelays) -> list[_Stretch]:
    there = _clocks(forward.links, delays)
    back = _clocks(reverse.links, delays)[::-1]
    back_links = reverse.links[::-1]
    stretches = []
    at, at_back = 0, 0
    for place in range(1, len(there)):
        try:
            place_back = back.index(there[place], at_back + 1)
        except ValueError:
            continue
        stretches.append(
            _Stretch(
                there[at],
                there[place],
                forward.links[at:place],
                back_links[at_back:place_back],
            )
        )
        at, at_back = place, place_back
    return stretches


def _sorted(shares: list[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda one: (-abs(one.contribution_ns), one.subject)))
