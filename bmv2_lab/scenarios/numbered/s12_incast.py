# SPDX-License-Identifier: Apache-2.0
"""Everybody sends to one host at once."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import NS_PER_MS, QUIET, SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import Traffic

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

THRESHOLD_PACKETS = 24
SPREAD_NS = 30_000


def _target_depths(evidence: "Evidence", *, there: bool) -> np.ndarray:
    target = evidence.events("incast")[0].entity
    (port,) = evidence.ports_to(target)
    at_port = evidence.at(port)
    depths: np.ndarray = evidence.hops["queue_depth"][at_port if there else ~at_port]
    return depths


def marked_share(evidence: "Evidence") -> float:
    """Share of the data frames that arrived marked CE."""
    counters = [endpoint.counters for endpoint in evidence.run.lab.endpoints.values()]
    marks = sum(counter.congestion_marks for counter in counters)
    return marks / sum(counter.data_frames for counter in counters)


def reported_elsewhere(evidence: "Evidence") -> float:
    """Congestion reports of other ports than the target's."""
    target = evidence.events("incast")[0].entity
    (port,) = evidence.ports_to(target)
    node_id = evidence.fabric.switch(port.node).node_id
    here = [
        c
        for c in evidence.collection.congested
        if (c.node_id, c.egress_port) == (node_id, port.port)
    ]
    return float(len(evidence.collection.congested) - len(here))


SCENARIOS = (
    replace(
        SMALL,
        number=12,
        name="incast",
        summary="all hosts send 16 messages each to one host within 30 us: its port's queue grows, "
        "packets are marked CE, and the switch reports the congestion",
        congestion=QUIET,
        tenants=("alpha",),
        traffic=Traffic(incast=True, spread_ns=SPREAD_NS),
        qps_per_peer=16,
        packets_per_message=2,
        ecn_threshold_packets=THRESHOLD_PACKETS,
        queue_report_packets=2 * THRESHOLD_PACKETS,
        ptp_interval_ns=250 * NS_PER_MS,
        limits=(
            *SOUND,
            Limit(
                name="queue depth at the target's port, largest, packets",
                measure=lambda e: float(_target_depths(e, there=True).max()),
                at_least=2.0 * THRESHOLD_PACKETS,
            ),
            Limit(
                name="queue depth at all other ports, 99th percentile, packets",
                measure=lambda e: float(np.percentile(_target_depths(e, there=False), 99)),
                at_most=float(THRESHOLD_PACKETS),
            ),
            Limit(
                name="data frames marked CE, share",
                measure=marked_share,
                at_least=0.1,
                at_most=0.99,
            ),
            Limit(
                name="congestion reports",
                measure=lambda e: float(len(e.collection.congested)),
                at_least=10.0,
            ),
            Limit(
                name="congestion reports of other ports",
                measure=reported_elsewhere,
                at_most=0.0,
            ),
        ),
        estimate_limits=DETERMINED,
    ),
)
