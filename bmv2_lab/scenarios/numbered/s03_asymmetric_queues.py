# SPDX-License-Identifier: Apache-2.0
"""PTP waits in queues on the way there and not on the way back."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import QUIET, SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

LEAF = "leaf1"


def excess_ns(evidence: "Evidence") -> float:
    """PTP's mean residence at the loaded ports less that at all others."""
    loaded = evidence.at(node=LEAF) & (evidence.hops["egress_port"] <= 4)
    there = evidence.ptp_residence_ns(loaded)
    elsewhere = evidence.ptp_residence_ns(~loaded)
    return float(there.mean() - elsewhere.mean())


def offset_error_ns(evidence: "Evidence") -> float:
    """Half of t2 - t1 less t4 - t3 on true clocks, mean over all exchanges with remote clients.

    The cables are healthy: what is left is the queues.
    """
    stamps = {name: node.true_of_stamp for name, node in evidence.run.lab.host_nodes.items()}
    grandmaster = evidence.fabric.ptp.grandmaster
    errors = []
    for client, row in evidence.result.exchanges:
        if any(end.node == LEAF for end in evidence.ports_to(client)):
            continue
        there = stamps[client][int(row["t2_local_ns"])]
        there -= stamps[grandmaster][int(row["t1_reference_ns"])]
        back = stamps[grandmaster][int(row["t4_reference_ns"])]
        back -= stamps[client][int(row["t3_local_ns"])]
        errors.append((there - back) / 2)
    return float(np.mean(errors))


SCENARIOS = (
    replace(
        SMALL,
        number=3,
        name="asymmetric-queues",
        summary="all uplinks of the grandmaster's leaf are loaded to 70 % in bursts, and PTP is "
        "best effort: Syncs wait, Delay_Reqs do not",
        congestion=replace(
            QUIET, only_at=(LEAF,), congested_ports_share=1.0, roce_share=0.0, burst_frames=32.0
        ),
        limits=(
            *SOUND,
            Limit(name="PTP residence there less elsewhere, ns", measure=excess_ns, at_least=2e3),
            Limit(name="error of PTP's offset, mean, ns", measure=offset_error_ns, at_least=1e3),
        ),
        estimate_limits=DETERMINED,
    ),
)
