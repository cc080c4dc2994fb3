# SPDX-License-Identifier: Apache-2.0
"""A link fails and comes back; the controller routes around it in between."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import DECODED, INTACT, NS_PER_MS, SMALL, TRANSFERRED, TRUE_STAMPS
from bmv2_lab.scenarios.disturbances import LinkFlap
from bmv2_lab.scenarios.estimate_limits import DETERMINED, recovered
from bmv2_lab.scenarios.limits import Limit
from controller.fabric import LinkEnd

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

END = LinkEnd(node="leaf1", port=2)
FLAP = LinkFlap(
    end=str(END), down_ns=600 * NS_PER_MS, up_ns=1_250 * NS_PER_MS, detect_ns=60 * NS_PER_MS
)
SPINE = 102
MARGIN_NS = NS_PER_MS


def hops_over_it(evidence: "Evidence", from_ns: int, to_ns: int) -> float:
    """RoCE and PTP packets that left by the failed port, by true time of the hop."""
    times = evidence.hop_ingress_true_ns[evidence.at(END)]
    return float(np.count_nonzero((times >= from_ns) & (times < to_ns)))


def frames_lost(evidence: "Evidence") -> float:
    """Frames that were sent into the broken cable, both ways."""
    ends = [(link.a, link.b) for link in evidence.fabric.links if END in (link.a, link.b)]
    return float(sum(evidence.lab.wires[end].lost for end in ends[0]))


def moved_elsewhere(evidence: "Evidence") -> float:
    """Share of the flows on other spines that the failure moved."""
    before = evidence.spines_of_flows(0, FLAP.down_ns)
    during = evidence.spines_of_flows(FLAP.down_ns + FLAP.detect_ns + MARGIN_NS, FLAP.up_ns)
    both = [flow for flow in before.keys() & during.keys() if before[flow] != {SPINE}]
    return float(np.mean([before[flow] != during[flow] for flow in both]))


def returned_share(evidence: "Evidence") -> float:
    """Share of the flows that are where they were before once the link is back."""
    before = evidence.spines_of_flows(0, FLAP.down_ns)
    after = evidence.spines_of_flows(FLAP.up_ns + FLAP.detect_ns + MARGIN_NS)
    both = before.keys() & after.keys()
    return float(np.mean([before[flow] == after[flow] for flow in both]))


SCENARIOS = (
    replace(
        SMALL,
        number=14,
        name="link-flap",
        summary="an uplink carries nothing for 650 ms; 60 ms after it fails its flows take the "
        "other spines, and 60 ms after it is back they return; NICs send again what was lost",
        events=(FLAP,),
        steps_per_window=2,
        qps_per_peer=4,
        retransmit_ns=20 * NS_PER_MS,
        limits=(
            DECODED,
            INTACT,
            TRANSFERRED,
            TRUE_STAMPS,
            Limit(name="frames lost in the cable", measure=frames_lost, at_least=1.0),
            Limit(
                name="packets sent over it before",
                measure=lambda e: hops_over_it(e, 0, FLAP.down_ns),
                at_least=1.0,
            ),
            Limit(
                name="packets sent over it after the new routes",
                measure=lambda e: hops_over_it(
                    e, FLAP.down_ns + FLAP.detect_ns + MARGIN_NS, FLAP.up_ns + FLAP.detect_ns
                ),
                at_most=0.0,
            ),
            Limit(
                name="packets sent over it once it is back",
                measure=lambda e: hops_over_it(
                    e, FLAP.up_ns + FLAP.detect_ns, e.run.scenario.duration_ns
                ),
                at_least=1.0,
            ),
            Limit(name="flows of other spines moved, share", measure=moved_elsewhere, at_most=0.0),
            Limit(name="flows back on their path, share", measure=returned_share, at_least=1.0),
        ),
        estimate_limits=(*DETERMINED, recovered(FLAP.down_ns, windows=0)),
    ),
)
