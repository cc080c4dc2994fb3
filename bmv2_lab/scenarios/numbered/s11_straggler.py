# SPDX-License-Identifier: Apache-2.0
"""One host is slow, and everybody waits for it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.disturbances import Straggler
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

HOST = "h5"
STALL_NS = 150_000


def _post_to_wire_ns(evidence: "Evidence", *, of_straggler: bool) -> list[int]:
    """From the start of a send span to its first packet's stamp, on the sender's own clock."""
    return [
        transfer.tx_first_local_ns - transfer.post_local_ns
        for job in evidence.run.lab.jobs
        for step in job.steps
        for rank in step.ranks
        for transfer in rank.transfers
        if (rank.host.name == HOST) == of_straggler
    ]


def fabric_delay_ratio(evidence: "Evidence") -> float:
    """Median residence of its RoCE packets at its own leaf against everybody's: the fabric is not
    at fault."""
    packets = evidence.packets[evidence.packet_of_hop]
    mine = packets["src_ip"] == evidence.fabric.host(HOST).ip
    return float(np.median(evidence.residence_ns[mine]) / np.median(evidence.residence_ns[~mine]))


SCENARIOS = (
    replace(
        SMALL,
        number=11,
        name="straggler-host",
        summary="one host takes 150 us longer before each message: slow spans, and a fabric that "
        "is as fast as ever",
        straggler=Straggler(host=HOST, stall_ns=STALL_NS),
        limits=(
            *SOUND,
            Limit(
                name="post to first packet on the straggler, smallest, ns",
                measure=lambda e: float(min(_post_to_wire_ns(e, of_straggler=True))),
                at_least=STALL_NS,
            ),
            Limit(
                name="post to first packet elsewhere, median, ns",
                measure=lambda e: float(np.median(_post_to_wire_ns(e, of_straggler=False))),
                at_most=1_000.0,
            ),
            Limit(
                name="residence of its packets against all",
                measure=fabric_delay_ratio,
                at_least=0.8,
                at_most=1.25,
            ),
        ),
        estimate_limits=DETERMINED,
    ),
)
