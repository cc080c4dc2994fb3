# SPDX-License-Identifier: Apache-2.0
"""Some cables are longer in one direction than in the other."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import DETERMINED, EVERY_BAD_LINK
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

BAD_NS = 60


def smallest_excess_ns(evidence: "Evidence") -> float:
    """By how much the bad links' |a_uv| differ from the mean of the healthy ones, at least."""
    measured = evidence.measured_a_ns
    bad = {link.name for link in evidence.truth.links if link.bad}
    healthy = np.mean([a for name, a in measured.items() if name not in bad])
    return min(float(abs(measured[name] - healthy)) for name in bad)


SCENARIOS = (
    replace(
        SMALL,
        number=2,
        name="asymmetric-cables",
        summary="two of 16 links are asymmetric by 60 to 500 ns: PTP is off by their sum, and the "
        "other paths tell which they are",
        bad_link_share=0.125,
        bad_link_ns_min=BAD_NS,
        limits=(
            *SOUND,
            Limit(
                name="bad links in the truth",
                measure=lambda e: float(sum(link.bad for link in e.truth.links)),
                at_least=2.0,
                at_most=2.0,
            ),
            Limit(
                name="bad less mean healthy a_uv, smallest, ns",
                measure=smallest_excess_ns,
                at_least=BAD_NS - 15.0,
            ),
        ),
        estimate_limits=(*DETERMINED, EVERY_BAD_LINK),
    ),
)
