# SPDX-License-Identifier: Apache-2.0
"""Switches are boundary clocks: PTP crosses one link at a time."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import (
    DECODED,
    INTACT,
    MEASURED,
    NOTHING_LOST,
    NS_PER_MS,
    SMALL,
    TRANSFERRED,
    TRUE_STAMPS,
)
from bmv2_lab.scenarios.estimate_limits import determined
from bmv2_lab.scenarios.limits import Limit
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence


def strangers(evidence: "Evidence") -> float:
    """Exchanges of a host with anybody but its own leaf or the grandmaster."""
    ips = {switch.name: switch.ip for switch in evidence.fabric.switches}
    found = 0
    for client, row in evidence.result.exchanges:
        leaves = [ips[end.node] for end in evidence.ports_to(client)]
        found += int(row["time_transmitter_ip"]) not in leaves
    return float(found)


def longest_path(evidence: "Evidence") -> float:
    """Most hops of a PTP packet: it is reported where it leaves a CPU port or reaches one."""
    ptp = evidence.packets["traffic"] == TRAFFIC_PTP
    return float(evidence.packets["hop_count"][ptp].max())


def hosts_served(evidence: "Evidence") -> float:
    """Hosts with five exchanges or more."""
    clients = [client for client, _ in evidence.result.exchanges]
    return float(sum(clients.count(name) >= 5 for name in set(clients)))


def switches_served(evidence: "Evidence") -> float:
    """Switches with five exchanges or more."""
    clients = [client for client, _ in evidence.result.switch_exchanges]
    return float(sum(clients.count(name) >= 5 for name in set(clients)))


def largest_offset_ns(evidence: "Evidence", *, of_switches: bool) -> float:
    """Largest true offset in the last window, of the switches' PTP clocks or the hosts'."""
    last = evidence.truth.windows[-1]
    offsets = []
    for clock in last.clocks:
        is_ptp = clock.clock.endswith("/ptp")
        if (is_ptp or clock.offset_ns is not None) and is_ptp == of_switches:
            offsets.append(abs(clock.local_ns - last.reference_ns))
    return float(max(offsets))


def roce_gaps(evidence: "Evidence") -> float:
    """RoCE packets whose path has a gap."""
    roce = evidence.packets["traffic"] == TRAFFIC_ROCE
    return float(np.count_nonzero(~evidence.packets["complete"][roce]))


SCENARIOS = (
    replace(
        SMALL,
        number=27,
        name="boundary-clocks",
        summary="every switch is a boundary clock: hosts take the time from their leaf, exchanges "
        "name switches, and no PTP packet crosses the fabric",
        boundary_clocks=True,
        duration_ns=4_000 * NS_PER_MS,
        window_starts_ns=(1_850 * NS_PER_MS, 2_900 * NS_PER_MS),
        limits=(
            DECODED,
            NOTHING_LOST,
            INTACT,
            TRANSFERRED,
            MEASURED,
            TRUE_STAMPS,
            Limit(name="RoCE paths with gaps", measure=roce_gaps, at_most=0.0),
            Limit(name="exchanges with others than the own leaf", measure=strangers, at_most=0.0),
            Limit(name="hosts with exchanges", measure=hosts_served, at_least=7.0, at_most=7.0),
            Limit(
                name="switches with exchanges", measure=switches_served, at_least=8.0, at_most=8.0
            ),
            Limit(name="hops of a PTP packet, most", measure=longest_path, at_most=1.0),
            Limit(
                name="true offset of the switches' PTP clocks, largest, ns",
                measure=lambda e: largest_offset_ns(e, of_switches=True),
                at_most=1_000.0,
            ),
            Limit(
                name="true offset of the hosts, largest, ns",
                measure=lambda e: largest_offset_ns(e, of_switches=False),
                at_most=2_000.0,
            ),
        ),
        # each host is two more stamp points away from the INT clocks
        estimate_limits=determined(bound_ns=60.0),
    ),
)
