# SPDX-License-Identifier: Apache-2.0
"""Reports get lost on their way to the collector: 1, 10 and 50 %."""

from dataclasses import replace
from typing import TYPE_CHECKING

from bmv2_lab.scenarios.common import DECODED, INTACT, SMALL, TRANSFERRED, TRUE_STAMPS
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import Scenario

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

SIGMAS = 5.0


def counted_lost_share(evidence: "Evidence") -> float:
    """Share of the reports that the sequence numbers say are missing."""
    counters = evidence.collection.counters
    return counters.lost / (counters.lost + counters.decoded)


def unaccounted_share(evidence: "Evidence") -> float:
    """Reports truly lost less those counted as lost; the ends of sequences cannot be counted."""
    missing = evidence.result.reports_lost - evidence.collection.counters.lost
    return missing / evidence.result.reports_sent


def _scenario(number: int, percent: int) -> Scenario:
    share = percent / 100
    reports_about = 1_500
    noise = SIGMAS * (share * (1 - share) / reports_about) ** 0.5
    return replace(
        SMALL,
        number=number,
        name=f"report-loss-{percent}",
        summary=f"{percent} % of the telemetry reports get lost: counted exactly, and what is left "
        "is still right",
        report_loss_share=share,
        limits=(
            DECODED,
            INTACT,
            TRANSFERRED,
            TRUE_STAMPS,
            Limit(
                name="reports lost by sequence numbers, share",
                measure=counted_lost_share,
                at_least=max(share - noise, 0.001),
                at_most=share + noise,
            ),
            Limit(
                name="truly lost less counted, share of those sent",
                measure=unaccounted_share,
                at_least=0.0,
                at_most=0.02,
            ),
        ),
        estimate_limits=DETERMINED,
    )


SCENARIOS = tuple(_scenario(8 + index, percent) for index, percent in enumerate((1, 10, 50)))
