# SPDX-License-Identifier: Apache-2.0
"""Clocks of switches jump while they measure: one by 40 us, another by 1 us."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import NS_PER_MS, SMALL, SOUND
from bmv2_lab.scenarios.disturbances import ClockStep
from bmv2_lab.scenarios.estimate_limits import (
    COVERED,
    HARD,
    NO_FALSE_LINK,
    ORACLE,
    USEFUL,
    flagged,
    not_behind,
    only,
    recovered,
)
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.estimates import Estimates
    from bmv2_lab.evidence import Evidence

BY_40_US = ClockStep(switch="spine3", at_ns=500 * NS_PER_MS, step_ns=40_000)
BY_1_US = ClockStep(switch="leaf2", at_ns=1_500 * NS_PER_MS, step_ns=1_000)
STEPS = (BY_40_US, BY_1_US)
TRUE_FINDINGS = {(0, BY_40_US.switch), (1, BY_1_US.switch)}
"""(window, clock)"""


def jump_ns(evidence: "Evidence", switch: str, at_ns: int) -> float:
    """By how much a switch's ingress stamps moved at an instant, against its senders' clocks."""
    sent_ns, ahead_ns = evidence.stamp_jumps_ns(switch)
    near = np.abs(sent_ns - at_ns) < 500 * NS_PER_MS
    sent_ns, ahead_ns = sent_ns[near], ahead_ns[near]
    after = sent_ns > at_ns
    return float(np.median(ahead_ns[after]) - np.median(ahead_ns[~after]))


def largest_difference_ns(evidence: "Evidence") -> float:
    """Of a jump of their stamps from the true one."""
    return max(abs(jump_ns(evidence, one.switch, one.at_ns) - one.step_ns) for one in STEPS)


def largest_elsewhere_ns(evidence: "Evidence") -> float:
    """Jump of all other switches at either instant, at most."""
    return max(
        abs(jump_ns(evidence, switch.name, step.at_ns))
        for step in STEPS
        for switch in evidence.fabric.switches
        if switch.name != step.switch
    )


def false_findings(estimates: "Estimates") -> float:
    """Clocks that are found to have jumped in a window in which they did not."""
    found = {
        (one.window, one.subject)
        for one in estimates.solution.findings
        if one.kind in ("clock-step", "clock-jump")
    }
    return float(len(found - TRUE_FINDINGS))


def elsewhere(estimates: "Estimates") -> tuple[str, ...]:
    """All but the spine, the leaf and the leaf's hosts."""
    return tuple(one for one in not_behind(BY_1_US.switch)(estimates) if one != BY_40_US.switch)


SCENARIOS = (
    replace(
        SMALL,
        number=15,
        name="clock-step",
        summary="the clock of a spine jumps by 40 us inside a window, that of a leaf by 1 us "
        "inside the next: all their stamps move, their residence times do not",
        duration_ns=3_300 * NS_PER_MS,
        window_starts_ns=tuple(n * NS_PER_MS for n in (300, 1_300, 2_300)),
        events=STEPS,
        limits=(
            *SOUND,
            Limit(
                name="jump of their stamps less the true one, largest, ns",
                measure=largest_difference_ns,
                at_most=400.0,
            ),
            Limit(name="jump elsewhere, largest, ns", measure=largest_elsewhere_ns, at_most=400.0),
        ),
        estimate_limits=(
            HARD,
            COVERED,
            ORACLE,
            NO_FALSE_LINK,
            USEFUL,
            flagged(only(BY_40_US.switch, BY_1_US.switch), "both switches", 2),
            flagged(elsewhere, "all others but the leaf's hosts"),
            Limit(
                name="clocks found to jump that did not",
                measure=lambda e: false_findings(e.estimates),
                at_most=0.0,
            ),
            recovered(BY_1_US.at_ns, windows=1),
        ),
    ),
)
