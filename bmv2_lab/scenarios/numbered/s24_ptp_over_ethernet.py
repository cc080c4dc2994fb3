# SPDX-License-Identifier: Apache-2.0
"""PTP as multicast over Ethernet: one Sync is many packets, and takes no ECMP path."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import (
    DECODED,
    INTACT,
    MEASURED,
    NOTHING_LOST,
    SMALL,
    TRANSFERRED,
    TRUE_STAMPS,
)
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit
from controller.ptp_entries import tree_ports
from correction.records import TRAFFIC_PTP

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence


def off_tree(evidence: "Evidence") -> float:
    """PTP hops that left by a port off the grandmaster's tree."""
    tree = tree_ports(evidence.fabric)
    ptp = evidence.at(traffic=TRAFFIC_PTP)
    found = 0
    for switch in evidence.fabric.switches:
        mine = ptp & evidence.at(node=switch.name)
        ports = evidence.hops["egress_port"][mine]
        found += int(np.count_nonzero(~np.isin(ports, tree[switch.name])))
    return float(found)


def clients_served(evidence: "Evidence") -> float:
    """Hosts with five exchanges or more."""
    clients = [client for client, _ in evidence.result.exchanges]
    return float(sum(clients.count(name) >= 5 for name in set(clients)))


def copies_per_sync(evidence: "Evidence") -> float:
    """Egress reports per Sync, of those that were reported at all."""
    packets = evidence.packets
    sync = (packets["traffic"] == TRAFFIC_PTP) & (packets["ptp_message_type"] == 0)
    numbers = np.unique(packets["ptp_sequence_id"][sync])
    return float(packets["hop_count"][sync].sum() / len(numbers))


SCENARIOS = (
    replace(
        SMALL,
        number=24,
        name="ptp-over-ethernet",
        summary="PTP is multicast over Ethernet along the grandmaster's tree: one Sync reaches all "
        "clients, by one path that no other traffic shares",
        ptp_over_ethernet=True,
        limits=(
            DECODED,
            NOTHING_LOST,
            INTACT,
            TRANSFERRED,
            MEASURED,
            TRUE_STAMPS,
            Limit(name="PTP hops off the tree", measure=off_tree, at_most=0.0),
            Limit(name="clients with exchanges", measure=clients_served, at_least=7.0, at_most=7.0),
            Limit(name="reports per Sync", measure=copies_per_sync, at_least=10.0),
        ),
        estimate_limits=DETERMINED,
    ),
)
