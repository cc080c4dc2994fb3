# SPDX-License-Identifier: Apache-2.0
"""Pods of leaves and spines, joined by cores: paths of five hops."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import EVERY_BAD_LINK, determined
from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import Topology

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

HOPS = 5


def between_pods_share(evidence: "Evidence") -> float:
    """Share of the packets with five hops."""
    return float(np.mean(evidence.packets["hop_count"] == HOPS))


def paths_used(evidence: "Evidence") -> float:
    """Different (spine, core) on the way up of packets between pods."""
    packets = evidence.packets[evidence.packets["hop_count"] == HOPS]
    up = evidence.hops["node_id"][packets["first_hop"][:, None] + np.array([1, 2])]
    return float(len(np.unique(up, axis=0)))


SCENARIOS = (
    replace(
        SMALL,
        number=21,
        name="three-tiers",
        summary="two pods of two leaves and two spines under four cores, one link in 16 "
        "asymmetric: paths of five hops, stacks of 40 words",
        topology=Topology.THREE_TIER,
        bad_link_share=0.0625,
        limits=(
            *SOUND,
            Limit(name="packets of five hops, share", measure=between_pods_share, at_least=0.2),
            Limit(
                name="ways up between pods in use", measure=paths_used, at_least=8.0, at_most=8.0
            ),
            Limit(
                name="hops of any packet, most",
                measure=lambda e: float(e.packets["hop_count"].max()),
                at_most=5.0,
            ),
        ),
        # two uplinks that differ by 15 ns leave it open whether one is bad
        estimate_limits=(*determined(bound_ns=200.0), EVERY_BAD_LINK),
    ),
)
