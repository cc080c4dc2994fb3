# SPDX-License-Identifier: Apache-2.0
"""A switch's clock jumps while it measures."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import NS_PER_MS, SMALL, SOUND
from bmv2_lab.scenarios.disturbances import ClockStep
from bmv2_lab.scenarios.estimate_limits import COVERED, HARD, NO_FALSE_LINK, ORACLE
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

STEP = ClockStep(switch="spine3", at_ns=500 * NS_PER_MS, step_ns=40_000)


def jump_ns(evidence: "Evidence", switch: str) -> float:
    """By how much a switch's ingress stamps moved at that instant, against its senders' clocks."""
    sent_ns, ahead_ns = evidence.stamp_jumps_ns(switch)
    after = sent_ns > STEP.at_ns
    return float(np.median(ahead_ns[after]) - np.median(ahead_ns[~after]))


def largest_elsewhere_ns(evidence: "Evidence") -> float:
    """The same of all other switches, at most."""
    others = [s.name for s in evidence.fabric.switches if s.name != STEP.switch]
    return max(abs(jump_ns(evidence, name)) for name in others)


SCENARIOS = (
    replace(
        SMALL,
        number=15,
        name="clock-step",
        summary="the clock of a spine jumps by 40 us inside a window: all its stamps move, its "
        "residence times do not",
        events=(STEP,),
        limits=(
            *SOUND,
            Limit(
                name="jump of its stamps less the true one, ns",
                measure=lambda e: abs(jump_ns(e, STEP.switch) - e.events("clock_step")[0].value),
                at_most=400.0,
            ),
            Limit(name="jump elsewhere, largest, ns", measure=largest_elsewhere_ns, at_most=400.0),
        ),
        estimate_limits=(HARD, COVERED, ORACLE, NO_FALSE_LINK),
    ),
)
