# SPDX-License-Identifier: Apache-2.0
"""What an operator should look at in a window: clocks that moved, links that changed, data that
contradict."""

from dataclasses import dataclass

import numpy as np

from correction import publish
from correction.stream.answer import REASONS
from correction.stream.follow import FollowedWindow
from correction.table import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFinding:
    """Something an operator should look at."""

    kind: str
    subject: str
    detail: str


def findings_of(window: FollowedWindow) -> list[WindowFinding]:
    """Clocks that moved, links that changed, and data that contradict."""
    tracked, model = window.tracked, window.model
    if tracked is None:
        return []
    found = []
    names = [clock.name for clock in model.clocks]
    kinds = {
        publish.STEPPED: "clock-step",
        publish.JUMPED: "clock-jump",
        publish.STUCK: "clock-stuck",
        publish.CONTRADICTED: "impossible-cycle",
    }
    for clock in np.flatnonzero(tracked.status == Status.INCONSISTENT).tolist():
        reason = REASONS[int(tracked.reason[clock])]
        if reason in kinds:
            found.append(WindowFinding(kind=kinds[reason], subject=names[clock], detail=reason))
    moved = tracked.update.stepped | tracked.update.rate_jumped
    for clock in np.flatnonzero(moved & (tracked.status <= Status.AMBIGUOUS)).tolist():
        step = float(tracked.update.step_ns[clock])
        turned = bool(tracked.update.rate_jumped[clock])
        detail = "changed its rate" if turned else f"{step:.0f} ns since it was last measured"
        found.append(WindowFinding(kind="clock-step", subject=names[clock], detail=detail))
    for link in tracked.changed_links.tolist():
        detail = "its asymmetry changed: what was known of it is forgotten"
        found.append(
            WindowFinding(kind="link-changed", subject=model.links[link].name, detail=detail)
        )
    for link in tracked.long_round_trips.tolist():
        found.append(
            WindowFinding(
                kind="long-round-trip",
                subject=model.links[link].name,
                detail="more than the declared cable takes both ways",
            )
        )
    if tracked.solution.cycle is not None:
        cycle = tracked.solution.cycle
        found.append(
            WindowFinding(
                kind="impossible-cycle",
                subject=" -> ".join(names[clock] for clock in cycle.clocks),
                detail=f"stamps contradict causality by {cycle.excess_ns:.0f} ns; window rejected",
            )
        )
    return found
