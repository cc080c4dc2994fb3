# SPDX-License-Identifier: Apache-2.0
"""When a link that somebody complains about is down, and when it is up again. Pure.

Down at once: traffic is being lost. Up only after nobody has complained for a while, and a link
that goes up and down all the time stays down until it has been quiet: each failure costs a penalty
that decays by half-lives (RFC 2439 clause 4.4.2, with the defaults of interface dampening).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

HOLD_NS = 1_000_000_000
"""Nobody has complained for so long before the link is up again."""
PENALTY = 1_000.0
"""Of each failure."""
SUPPRESS = 2_000.0
"""Beyond this penalty the link is kept down: at the third failure within seconds."""
REUSE = 1_000.0
"""Below this it may come up again."""
HALF_LIFE_NS = 5_000_000_000
KEPT_DOWN_NS_MAX = 20_000_000_000
"""The penalty is bounded so that a link is up again at most this long after its last failure."""
PENALTY_MAX = REUSE * 2 ** (KEPT_DOWN_NS_MAX / HALF_LIFE_NS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """A link is down now, or up again."""

    link: str
    up: bool
    reason: str


@dataclass(slots=True)
class _Link:
    complaints: dict[str, str] = field(default_factory=dict)
    """Reasons by source."""
    is_down: bool = False
    clear_ns: int = 0
    """When the last complaint ended."""
    penalty: float = 0.0
    penalty_ns: int = 0
    """The instant that `penalty` is of."""
    is_suppressed: bool = False


class LinkDamping:
    """The state of links that somebody has complained about; time is a clock that never steps."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}

    @property
    def kept_down(self) -> tuple[str, ...]:
        """Links that nobody complains about any more, but that went down too often."""
        return tuple(
            name
            for name, link in sorted(self._links.items())
            if link.is_suppressed and link.is_down and not link.complaints
        )

    def complain(self, link: str, source: str, reason: str, now_ns: int) -> LinkChange | None:
        """The source says that the link is down, and why; the change, if it is one."""
        one = self._links.setdefault(link, _Link())
        one.complaints[source] = reason
        if one.is_down:
            return None
        one.is_down = True
        one.penalty = min(_decayed(one, now_ns) + PENALTY, PENALTY_MAX)
        one.penalty_ns = now_ns
        one.is_suppressed = one.is_suppressed or one.penalty > SUPPRESS
        return LinkChange(link=link, up=False, reason=reason)

    def withdraw(self, link: str, source: str, now_ns: int) -> None:
        """The source does not say so any more."""
        one = self._links.get(link)
        if one is not None and one.complaints.pop(source, None) is not None:
            one.clear_ns = now_ns

    def follow(self, links: Collection[str]) -> None:
        """These are the links now; others are forgotten."""
        self._links = {name: one for name, one in self._links.items() if name in links}

    def due(self, now_ns: int) -> list[LinkChange]:
        """Links that are up again."""
        changes = []
        for name, one in sorted(self._links.items()):
            if not one.is_down or one.complaints or now_ns < _up_ns(one):
                continue
            one.is_down = one.is_suppressed = False
            one.penalty, one.penalty_ns = _decayed(one, now_ns), now_ns
            changes.append(LinkChange(link=name, up=True, reason=""))
        return changes

    @property
    def wake_ns(self) -> int | None:
        """When `due` has something next, if nobody complains; None: nothing is waited for."""
        waiting = [one for one in self._links.values() if one.is_down and not one.complaints]
        return min(map(_up_ns, waiting), default=None)


def _decayed(one: _Link, now_ns: int) -> float:
    return float(one.penalty * 0.5 ** ((now_ns - one.penalty_ns) / HALF_LIFE_NS))


def _up_ns(one: _Link) -> int:
    """When the link may be up again, if nobody complains."""
    if not one.is_suppressed:
        return one.clear_ns + HOLD_NS
    half_lives = max(0.0, math.log2(one.penalty / REUSE))
    return max(one.clear_ns + HOLD_NS, one.penalty_ns + math.ceil(half_lives * HALF_LIFE_NS))
