# SPDX-License-Identifier: Apache-2.0
"""With two spines a loop says that something is asymmetric, never which link."""

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import determined
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

BAD_NS = 100


def _loops_ns(evidence: "Evidence", *, of_bad_leaf: bool) -> list[float]:
    """|Sum of a_uv| around the loops of two leaves and both spines, with or without the bad link's
    leaf."""
    (bad,) = (link.name.split(":")[0] for link in evidence.truth.links if link.bad)
    ends = {link.name: (link.a.node, link.b.node) for link in evidence.fabric.links}
    a_ns = {ends[name]: a for name, a in evidence.measured_a_ns.items()}
    leaves = sorted({leaf for leaf, _ in a_ns})
    return [
        abs(a_ns[u, "spine1"] - a_ns[v, "spine1"] + a_ns[v, "spine2"] - a_ns[u, "spine2"])
        for u, v in combinations(leaves, 2)
        if (bad in (u, v)) == of_bad_leaf
    ]


SCENARIOS = (
    replace(
        SMALL,
        number=7,
        name="two-spines",
        summary="one of the eight links of a fabric with two spines is asymmetric by 100 to "
        "500 ns: both uplinks of its leaf explain it alike, so its hosts cannot be corrected",
        spines=2,
        bad_link_share=0.125,
        bad_link_ns_min=BAD_NS,
        limits=(
            *SOUND,
            Limit(
                name="sum of a_uv around loops of its leaf, smallest, ns",
                measure=lambda e: min(_loops_ns(e, of_bad_leaf=True)),
                at_least=BAD_NS - 50.0,
            ),
            Limit(
                name="sum of a_uv around other loops, largest, ns",
                measure=lambda e: max(_loops_ns(e, of_bad_leaf=False)),
                at_most=50.0,
            ),
        ),
        estimate_limits=(
            # two uplinks that differ by 15 ns leave it open whether one is bad
            *determined(bound_ns=200.0),
            Limit(
                name="nodes of its leaf that are not flagged",
                measure=lambda e: float(
                    len(e.estimates.undecidable)
                    - e.estimates.flagged(tuple(e.estimates.undecidable))
                ),
                at_most=0.0,
            ),
        ),
    ),
)
