# SPDX-License-Identifier: Apache-2.0
"""Flows move to other paths in the middle of the run, all at once."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import NS_PER_MS, SMALL, SOUND
from bmv2_lab.scenarios.disturbances import Rehash
from bmv2_lab.scenarios.estimate_limits import DETERMINED, recovered
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

AT_NS = 1_150 * NS_PER_MS


def moved_share(evidence: "Evidence") -> float:
    """Share of the flows seen before and after that went over another spine."""
    before, after = (evidence.spines_of_flows(0, AT_NS), evidence.spines_of_flows(AT_NS))
    both = before.keys() & after.keys()
    return float(np.mean([before[flow] != after[flow] for flow in both]))


def paths_per_flow(evidence: "Evidence") -> float:
    """Most spines of one flow on either side of the change."""
    sides = (evidence.spines_of_flows(0, AT_NS), evidence.spines_of_flows(AT_NS))
    return float(max(len(spines) for side in sides for spines in side.values()))


def smallest_share(evidence: "Evidence") -> float:
    """Of a spine after the change, in flows."""
    flows = [spine for spines in evidence.spines_of_flows(AT_NS).values() for spine in spines]
    _, counts = np.unique(flows, return_counts=True)
    return float(counts.min() / counts.sum()) if len(counts) == 4 else 0.0


SCENARIOS = (
    replace(
        SMALL,
        number=13,
        name="ecmp-rehash",
        summary="the ECMP seed changes in mid-run: three flows in four take another spine, so "
        "their delays jump and no clock has moved",
        events=(Rehash(at_ns=AT_NS, seed=7),),
        limits=(
            *SOUND,
            Limit(name="flows that moved, share", measure=moved_share, at_least=0.55, at_most=0.92),
            Limit(name="spines of one flow at a time", measure=paths_per_flow, at_most=1.0),
            Limit(
                name="flows over the least used spine, share",
                measure=smallest_share,
                at_least=0.1,
            ),
        ),
        estimate_limits=(*DETERMINED, recovered(AT_NS, windows=0)),
    ),
)
