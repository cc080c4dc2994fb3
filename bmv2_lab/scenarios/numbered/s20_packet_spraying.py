# SPDX-License-Identifier: Apache-2.0
"""Each packet of a message takes a path of its own."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

PACKETS = 8


def spines_per_message(evidence: "Evidence") -> float:
    """Mean number of spines that the packets of a queue pair took."""
    found = evidence.spines_of_flows()
    data = [spines for flow, spines in found.items() if flow.is_data]
    return float(np.mean([len(spines) for spines in data]))


def smallest_share(evidence: "Evidence") -> float:
    """Of a spine, in packets."""
    _, counts = np.unique(evidence.spine_of(), return_counts=True)
    return float(counts.min() / counts.sum()) if len(counts) == 4 else 0.0


def overtaken_share(evidence: "Evidence") -> float:
    """Share of the messages whose last packet was not the last to arrive."""
    done = [
        transfer
        for job in evidence.run.lab.jobs
        for step in job.steps
        for rank in step.ranks
        for transfer in rank.transfers
    ]
    return float(np.mean([transfer.overtaken for transfer in done]))


SCENARIOS = (
    replace(
        SMALL,
        number=20,
        name="packet-spraying",
        summary="NICs give each packet another UDP source port, so that one message goes over all "
        "spines and its packets overtake each other",
        spraying=True,
        packets_per_message=PACKETS,
        qps_per_peer=4,
        limits=(
            *SOUND,
            Limit(name="spines of one queue pair, mean", measure=spines_per_message, at_least=3.2),
            Limit(
                name="packets over the least used spine, share",
                measure=smallest_share,
                at_least=0.18,
            ),
            Limit(
                name="messages with packets overtaken, share",
                measure=overtaken_share,
                at_least=0.02,
            ),
        ),
        estimate_limits=DETERMINED,
    ),
)
