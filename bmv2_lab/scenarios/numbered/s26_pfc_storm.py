# SPDX-License-Identifier: Apache-2.0
"""A NIC that stops taking RoCE pauses its switch port, and the pause spreads."""

from dataclasses import replace
from typing import TYPE_CHECKING

from bmv2_lab.scenarios.common import NS_PER_MS, QUIET, SMALL, SOUND
from bmv2_lab.scenarios.disturbances import PfcStorm
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import LosslessRoce, Traffic
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

STEP_NS = SMALL.window_starts_ns[0] + 20 * NS_PER_MS
STORM = PfcStorm(host="h3", from_ns=STEP_NS + NS_PER_MS, until_ns=STEP_NS + 3 * NS_PER_MS)


def xoffs(evidence: "Evidence", *, spread: bool) -> float:
    """XOFFs, of the storm's own port or of all others."""
    own = evidence.ports_to(STORM.host)
    return float(sum(on and (end in own) != spread for _, end, on in evidence.result.pauses))


def left_paused(evidence: "Evidence") -> float:
    """Ports that end the run paused."""
    last = {end: paused for _, end, paused in evidence.result.pauses}
    return float(sum(last.values()))


def longest_at_its_port_ns(evidence: "Evidence", traffic: int) -> float:
    """Largest residence of one kind of traffic at the storm's port."""
    (port,) = evidence.ports_to(STORM.host)
    return float(evidence.residence_ns[evidence.at(port, traffic=traffic)].max())


def longest_elsewhere_ns(evidence: "Evidence", from_ns: float, to_ns: float) -> float:
    """Largest residence of RoCE at the fabric's other ports in a span of true time."""
    (port,) = evidence.ports_to(STORM.host)
    times = evidence.hop_ingress_true_ns
    chosen = evidence.at(traffic=TRAFFIC_ROCE) & ~evidence.at(port)
    chosen &= (times >= from_ns) & (times < to_ns)
    return float(evidence.residence_ns[chosen].max())


def smallest_rate_share(evidence: "Evidence") -> float:
    """Smallest rate of a queue pair under DCQCN, of the line rate."""
    endpoints = evidence.run.lab.endpoints.values()
    return min(rate.rate_share_min for one in endpoints for rate in one.rates.values())


def marked_share(evidence: "Evidence") -> float:
    """Share of the data frames that arrived marked CE."""
    counters = [endpoint.counters for endpoint in evidence.run.lab.endpoints.values()]
    marks = sum(counter.congestion_marks for counter in counters)
    return marks / sum(counter.data_frames for counter in counters)


def notifications(evidence: "Evidence") -> float:
    """CNPs that arrived."""
    endpoints = evidence.run.lab.endpoints.values()
    return float(sum(one.counters.congestion_notifications for one in endpoints))


SCENARIOS = (
    replace(
        SMALL,
        number=26,
        name="pfc-storm",
        summary="a NIC keeps its port paused for 2 ms: its leaf runs full and pauses the spines, "
        "whose queues hold up flows to others; CE, CNPs and DCQCN follow, nothing is lost, PTP "
        "passes",
        congestion=QUIET,
        window_starts_ns=SMALL.window_starts_ns[:1],
        duration_ns=1_400 * NS_PER_MS,
        lossless=LosslessRoce(xoff_bytes=24_000, xon_bytes=12_000),
        traffic=Traffic(spread_ns=3 * NS_PER_MS),
        qps_per_peer=6,
        packets_per_message=16,
        ecn_threshold_packets=4,
        events=(STORM,),
        limits=(
            *SOUND,
            Limit(
                name="XOFFs at its port",
                measure=lambda e: xoffs(e, spread=False),
                at_least=1.0,
            ),
            Limit(name="XOFFs elsewhere", measure=lambda e: xoffs(e, spread=True), at_least=3.0),
            Limit(name="ports paused in the end", measure=left_paused, at_most=0.0),
            Limit(
                name="RoCE's residence at its port, longest, ns",
                measure=lambda e: longest_at_its_port_ns(e, TRAFFIC_ROCE),
                at_least=1.2e6,
            ),
            Limit(
                name="PTP's residence at its port, longest, ns",
                measure=lambda e: longest_at_its_port_ns(e, TRAFFIC_PTP),
                at_most=2e3,
            ),
            Limit(
                name="RoCE's residence elsewhere in the storm, longest, ns",
                measure=lambda e: longest_elsewhere_ns(e, STORM.from_ns, STORM.until_ns),
                at_least=2e5,
            ),
            Limit(
                name="RoCE's residence elsewhere before it, longest, ns",
                measure=lambda e: longest_elsewhere_ns(e, 0.0, STORM.from_ns - 2e4),
                at_most=5e4,
            ),
            Limit(
                name="data frames marked CE, share",
                measure=marked_share,
                at_least=0.02,
                at_most=0.9,
            ),
            Limit(name="congestion notifications", measure=notifications, at_least=3.0),
            Limit(
                name="smallest rate of a queue pair, share of the line rate",
                measure=smallest_rate_share,
                at_most=0.6,
            ),
        ),
        estimate_limits=DETERMINED,
    ),
)
