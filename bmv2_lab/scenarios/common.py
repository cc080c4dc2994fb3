# SPDX-License-Identifier: Apache-2.0
"""What the numbered scenarios share: a small fabric, and limits that hold wherever nothing else is
said: every report arrives and is decoded, and every stamp is where the truth says."""

from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import Congestion, Scenario

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

QUIET = Congestion(base_share=0.0, congested_ports_share=0.0)
"""No background load."""

SMALL = Scenario(
    name="",
    summary="",
    leaves=4,
    spines=4,
    bad_link_share=0.0,
    congestion=Congestion(congested_ports_share=0.0),
    duration_ns=2_300 * NS_PER_MS,
    window_starts_ns=(300 * NS_PER_MS, 1_300 * NS_PER_MS),
    ptp_interval_ns=125 * NS_PER_MS,
    qps_per_peer=8,
    steps_per_window=1,
    faults_hop=0,
    faults_link=0,
    faults_sender=0,
    faults_receiver=0,
)
"""4 leaves, 4 spines, 8 hosts, light load, healthy links, two windows of a second."""


def refused_share(evidence: "Evidence") -> float:
    """Share of the received reports that were not decoded."""
    counters = evidence.collection.counters
    return 1.0 - counters.decoded / counters.received


def incomplete_share(evidence: "Evidence") -> float:
    """Share of the packets whose path has a gap."""
    counters = evidence.collection.counters
    return counters.incomplete / max(1, counters.incomplete + counters.complete)


def icrc_errors(evidence: "Evidence") -> float:
    """RoCE frames that a switch altered where it must not."""
    return float(sum(e.counters.icrc_errors for e in evidence.run.lab.endpoints.values()))


def asymmetry_error_ns(evidence: "Evidence") -> float:
    """Largest difference of a link's measured a_uv from the true one, stamp points included."""
    errors = [abs(a - evidence.true_a_ns(name)) for name, a in evidence.measured_a_ns.items()]
    return max(errors, default=float("nan"))


def links_measured_share(evidence: "Evidence") -> float:
    """Share of the links between switches with samples in both directions."""
    hosts = {host.name for host in evidence.fabric.hosts}
    inner = [x for x in evidence.fabric.links if not {x.a.node, x.b.node} & hosts]
    return len(evidence.measured_a_ns) / len(inner)


def transfers_done_share(evidence: "Evidence") -> float:
    """Share of the messages that were sent, received and acknowledged."""
    done = [
        transfer.done and transfer.received_local_ns != 0
        for job in evidence.run.lab.jobs
        for step in job.steps
        for rank in step.ranks
        for transfer in rank.transfers
    ]
    return float(np.mean(done))


DECODED = Limit(name="reports refused, share", measure=refused_share, at_most=0.0)
NOTHING_LOST = Limit(
    name="reports lost", measure=lambda e: float(e.collection.counters.lost), at_most=0.0
)
WHOLE = Limit(name="paths with gaps, share", measure=incomplete_share, at_most=0.0)
INTACT = Limit(name="RoCE frames altered", measure=icrc_errors, at_most=0.0)
MEASURED = Limit(name="links measured both ways, share", measure=links_measured_share, at_least=1.0)
TRUE_STAMPS = Limit(
    name="measured less true a_uv, largest, ns", measure=asymmetry_error_ns, at_most=4.0
)
TRANSFERRED = Limit(name="messages delivered, share", measure=transfers_done_share, at_least=1.0)

SOUND = (DECODED, NOTHING_LOST, WHOLE, INTACT, TRANSFERRED, MEASURED, TRUE_STAMPS)
"""Of a run in which nothing is lost and all clocks run free."""
