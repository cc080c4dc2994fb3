# SPDX-License-Identifier: Apache-2.0
"""Only leaves run the P4 program: what happens in between is not stamped."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import DECODED, INTACT, NOTHING_LOST, SMALL, TRANSFERRED
from bmv2_lab.scenarios.estimate_limits import COVERED, HARD, ORACLE, UNFLAGGED, conditional_bound
from bmv2_lab.scenarios.limits import Limit
from controller.fabric import LinkEnd
from correction.records import TRAFFIC_ROCE

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence


def reporting_spines(evidence: "Evidence") -> float:
    """Hops of spines in telemetry."""
    spines = [s.node_id for s in evidence.fabric.switches if s.name.startswith("spine")]
    return float(np.count_nonzero(np.isin(evidence.hops["node_id"], spines)))


def two_hop_share(evidence: "Evidence") -> float:
    """Share of the RoCE packets that have the hops of both leaves and no other."""
    roce = evidence.packets["traffic"] == TRAFFIC_ROCE
    return float(np.mean(evidence.packets["hop_count"][roce] == 2))


def transit_beyond_cables_ns(evidence: "Evidence") -> list[float]:
    """From the first leaf's egress to the second's ingress on true clocks, less both cables."""
    names = {switch.node_id: switch.name for switch in evidence.fabric.switches}
    cables = dict(
        zip((link.a for link in evidence.fabric.links), evidence.truth.links, strict=True)
    )
    found = []
    packets = evidence.packets
    for packet in packets[(packets["traffic"] == TRAFFIC_ROCE) & (packets["hop_count"] == 2)]:
        first = int(packet["first_hop"])
        out, into = evidence.hops[first], evidence.hops[first + 1]
        sender, receiver = names[int(out["node_id"])], names[int(into["node_id"])]
        up = cables[LinkEnd(node=sender, port=int(out["egress_port"]))].a_to_b_ns
        down = cables[LinkEnd(node=receiver, port=int(into["ingress_port"]))].b_to_a_ns
        sent = evidence.hop_ingress_true_ns[first] + evidence.residence_ns[first]
        found.append(float(evidence.hop_ingress_true_ns[first + 1] - sent) - up - down)
    return found


SCENARIOS = (
    replace(
        SMALL,
        number=25,
        name="only-leaves",
        summary="the spines are ordinary routers: INT passes them untouched, stacks have two hops, "
        "and no link between switches can be measured",
        plain_spines=True,
        limits=(
            DECODED,
            NOTHING_LOST,
            INTACT,
            TRANSFERRED,
            Limit(name="hops of spines", measure=reporting_spines, at_most=0.0),
            Limit(name="RoCE packets of two hops, share", measure=two_hop_share, at_least=1.0),
            Limit(
                name="leaf to leaf less cables, smallest, ns",
                measure=lambda e: min(transit_beyond_cables_ns(e)),
                at_least=500.0,
            ),
            Limit(
                name="leaf to leaf less cables, median, ns",
                measure=lambda e: float(np.median(transit_beyond_cables_ns(e))),
                at_most=5_000.0,
            ),
        ),
        estimate_limits=(
            HARD,
            COVERED,
            ORACLE,
            UNFLAGGED,
            conditional_bound("hosts", at_most=200.0),
        ),
    ),
)
