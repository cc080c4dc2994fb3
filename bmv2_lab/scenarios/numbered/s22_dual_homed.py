# SPDX-License-Identifier: Apache-2.0
"""Every NIC has two cables, to two leaves."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import determined
from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import Topology

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence


def least_used_cable_share(evidence: "Evidence") -> float:
    """Over all hosts, the smaller share of a host's two cables in the packets that reach it."""
    packets, hops = evidence.packets, evidence.hops
    last = hops[packets["first_hop"] + packets["hop_count"] - 1]
    shares = []
    for host in evidence.fabric.hosts:
        mine = packets["dst_ip"] == host.ip
        counts = [
            np.count_nonzero(
                mine
                & (last["node_id"] == evidence.fabric.switch(end.node).node_id)
                & (last["egress_port"] == end.port)
            )
            for end in evidence.ports_to(host.name)
        ]
        shares.append(min(counts) / sum(counts) if len(counts) == 2 else 0.0)
    return float(min(shares))


def ptp_ways(evidence: "Evidence") -> float:
    """Clients whose Sync and Delay_Req do not use the same cable."""
    found = 0
    sync, request = evidence.access_ends(0), evidence.access_ends(1)
    for host in evidence.fabric.hosts:
        if host.name in sync and host.name in request:
            found += sync[host.name] != request[host.name]
    return float(found)


SCENARIOS = (
    replace(
        SMALL,
        number=22,
        name="dual-homed",
        summary="every NIC has a cable to both leaves of its pair, one address and one clock: "
        "flows of one host come and go over either, PTP's two directions too",
        topology=Topology.DUAL_HOMED,
        limits=(
            *SOUND,
            Limit(
                name="packets over a host's less used cable, smallest share",
                measure=least_used_cable_share,
                at_least=0.1,
            ),
            Limit(name="clients whose PTP uses both cables", measure=ptp_ways, at_least=1.0),
        ),
        # two cables that differ by 15 ns leave it open whether one is bad
        estimate_limits=determined(bound_ns=200.0),
    ),
)
