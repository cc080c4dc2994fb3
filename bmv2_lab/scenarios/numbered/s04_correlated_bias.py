# SPDX-License-Identifier: Apache-2.0
"""Many links share one bias: all of a spine, or one line card of it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.disturbances import StampBias
from bmv2_lab.scenarios.estimate_limits import (
    COVERED,
    DETERMINED,
    HARD,
    ORACLE,
    UNFLAGGED,
    USEFUL,
    conditional_bound,
    only,
)
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

BIAS_NS = 160
SPINE = StampBias(node="spine2", ingress_ns=BIAS_NS)
LINE_CARD = StampBias(node="spine2", ports=(1, 2, 3), ingress_ns=BIAS_NS)


def _shifts_ns(evidence: "Evidence", *, biased: bool) -> list[float]:
    """Measured a_uv towards the spine, less what the cables have, of links (not) in the group."""
    bias = evidence.run.scenario.stamp_biases[0]
    cables = {link.name: link.asymmetry_ns for link in evidence.truth.links}
    found = []
    for link in evidence.fabric.links:
        a_ns = evidence.measured_a_ns.get(link.name)
        mine = link.b.node == bias.node and (not bias.ports or link.b.port in bias.ports)
        if a_ns is not None and mine == biased:
            found.append(a_ns - cables[link.name])
    return found


LIMITS = (
    *SOUND,
    Limit(
        name="events in the truth",
        measure=lambda e: float(len(e.events("stamp_bias"))),
        at_least=1.0,
    ),
    Limit(
        name="shift of the group's a_uv, smallest, ns",
        measure=lambda e: min(_shifts_ns(e, biased=True)),
        at_least=BIAS_NS / 2 - 10,
    ),
    Limit(
        name="shift of the group's a_uv, largest, ns",
        measure=lambda e: max(_shifts_ns(e, biased=True)),
        at_most=BIAS_NS / 2 + 10,
    ),
    Limit(
        name="shift of all other links, largest, ns",
        measure=lambda e: max(map(abs, _shifts_ns(e, biased=False))),
        at_most=10.0,
    ),
)

WIDE = conditional_bound("the spine", only(SPINE.node), at_least=BIAS_NS / 2)
"""All its links are longer than declared, so that its own bound says what they may hide."""
ODD_ONE_OUT = Limit(
    name="links called asymmetric other than the spine's last",
    measure=lambda e: float(len(e.estimates.reported_bad - {"leaf4:2-spine2:4"})),
    at_most=0.0,
)

SCENARIOS = (
    replace(
        SMALL,
        number=4,
        name="correlated-bias-spine",
        summary="every port of one spine stamps 160 ns late on the way in: all its links look "
        "asymmetric by 80 ns together, as if its clock were off; paths are not",
        stamp_biases=(SPINE,),
        limits=LIMITS,
        estimate_limits=(*DETERMINED, WIDE),
    ),
    replace(
        SMALL,
        number=5,
        name="correlated-bias-line-card",
        summary="one line card of a spine, three ports of four, stamps 160 ns late on the way in: "
        "three links out of line at once, the fourth is the odd one out",
        stamp_biases=(LINE_CARD,),
        limits=LIMITS,
        estimate_limits=(HARD, COVERED, ORACLE, UNFLAGGED, USEFUL, WIDE, ODD_ONE_OUT),
    ),
)
