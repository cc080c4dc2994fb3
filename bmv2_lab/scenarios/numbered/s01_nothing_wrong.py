# SPDX-License-Identifier: Apache-2.0
"""A healthy fabric: what everything else is compared with."""

from dataclasses import replace
from typing import TYPE_CHECKING

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence


def largest_a_ns(evidence: "Evidence") -> float:
    """Largest |a_uv| that the stamps show."""
    return max(abs(a) for a in evidence.measured_a_ns.values())


SCENARIOS = (
    replace(
        SMALL,
        number=1,
        name="nothing-wrong",
        summary="a healthy fabric under light load: no alarm may come of it",
        limits=(
            *SOUND,
            Limit(name="true events", measure=lambda e: float(len(e.truth.events)), at_most=0.0),
            Limit(name="largest measured a_uv, ns", measure=largest_a_ns, at_most=25.0),
            Limit(
                name="congestion marks",
                measure=lambda e: float(
                    sum(x.counters.congestion_marks for x in e.run.lab.endpoints.values())
                ),
                at_most=0.0,
            ),
        ),
        estimate_limits=DETERMINED,
    ),
)
