# SPDX-License-Identifier: Apache-2.0
"""Asymmetry that grows from leaf to leaf: every loop closes, and every host is off."""

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import (
    BOUND_NS,
    HARD,
    NO_FALSE_LINK,
    UNFLAGGED,
    behind,
    conditional_bound,
    covered,
    not_behind,
)
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

GRADIENT_NS = 40.0
"""On leaf2 it lies within what lengths and modules are declared to differ by, and only hard bounds
hold; the round trips of leaf3 and leaf4 are longer than declared, which widens their bounds."""


def _by_leaf_and_spine(evidence: "Evidence") -> dict[tuple[str, str], float]:
    links = {link.name: (link.a.node, link.b.node) for link in evidence.fabric.links}
    return {links[name]: a_ns for name, a_ns in evidence.measured_a_ns.items()}


def slope_ns(evidence: "Evidence") -> float:
    """Measured a_uv per leaf: the slope over the leaves' numbers."""
    found = [(int(leaf[4:]), a_ns) for (leaf, _), a_ns in _by_leaf_and_spine(evidence).items()]
    return float(np.polyfit([leaf for leaf, _ in found], [a_ns for _, a_ns in found], 1)[0])


def loop_ns(evidence: "Evidence") -> float:
    """Median of |sum of a_uv| around the loops of two leaves and two spines."""
    a_ns = _by_leaf_and_spine(evidence)
    leaves = sorted({leaf for leaf, _ in a_ns})
    spines = sorted({spine for _, spine in a_ns})
    sums = [
        a_ns[u, s] - a_ns[v, s] + a_ns[v, t] - a_ns[u, t]
        for u, v in combinations(leaves, 2)
        for s, t in combinations(spines, 2)
    ]
    return float(np.median(np.abs(sums)))


SCENARIOS = (
    replace(
        SMALL,
        number=6,
        name="tier-gradient",
        summary="a_uv of all uplinks grows by 40 ns from leaf to leaf: no loop inside the fabric "
        "shows it, so it may only widen bounds",
        tier_gradient_ns=GRADIENT_NS,
        limits=(
            *SOUND,
            Limit(
                name="slope of a_uv, ns a leaf",
                measure=slope_ns,
                at_least=GRADIENT_NS - 6,
                at_most=GRADIENT_NS + 6,
            ),
            Limit(name="sum of a_uv around a loop, median, ns", measure=loop_ns, at_most=25.0),
        ),
        estimate_limits=(
            HARD,
            covered(not_behind("leaf2"), " but those of leaf2"),
            UNFLAGGED,
            NO_FALSE_LINK,
            conditional_bound("leaf3 and leaf4", behind("leaf3", "leaf4"), at_least=80.0),
            conditional_bound("leaf1", behind("leaf1"), at_most=BOUND_NS),
        ),
    ),
)
