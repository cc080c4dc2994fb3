# SPDX-License-Identifier: Apache-2.0
"""The grandmaster falls silent, another host takes over, and the old one comes back."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import NS_PER_MS, SMALL, SOUND
from bmv2_lab.scenarios.disturbances import GrandmasterFailover
from bmv2_lab.scenarios.estimate_limits import (
    BOUND_NS,
    COVERED,
    HARD,
    NO_FALSE_LINK,
    ORACLE,
    UNFLAGGED,
    conditional_bound,
    recovered,
)
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

BACK_NS = 2_250 * NS_PER_MS
FAILOVER = GrandmasterFailover(
    at_ns=1_000 * NS_PER_MS, successor="h6", takeover_ns=250 * NS_PER_MS, back_ns=BACK_NS
)
TAKEN_NS = FAILOVER.at_ns + FAILOVER.takeover_ns
END_NS = 3_300 * NS_PER_MS
HOLDOVER_WINDOW = 1
"""The second window, which lies between takeover and return."""
ANSWER_NS = 10 * NS_PER_MS
"""An exchange that has begun ends within this."""


def exchanges_of(evidence: "Evidence", transmitter: str, from_ns: int, to_ns: int) -> float:
    """Exchanges with a time transmitter whose t2 lies in a span of true time."""
    nodes, ip = evidence.run.lab.host_nodes, evidence.fabric.host(transmitter).ip
    times = [
        nodes[client].true_of_stamp[int(row["t2_local_ns"])]
        for client, row in evidence.result.exchanges
        if int(row["time_transmitter_ip"]) == ip
    ]
    return float(np.count_nonzero((np.array(times) >= from_ns) & (np.array(times) < to_ns)))


def clients_left_behind(evidence: "Evidence") -> float:
    """Hosts other than both grandmasters without an exchange with the successor."""
    ip = evidence.fabric.host(FAILOVER.successor).ip
    followed = {
        client for client, row in evidence.result.exchanges if int(row["time_transmitter_ip"]) == ip
    }
    everybody = {host.name for host in evidence.fabric.hosts}
    return float(len(everybody - followed - {FAILOVER.successor, evidence.fabric.ptp.grandmaster}))


SCENARIOS = (
    replace(
        SMALL,
        number=17,
        name="grandmaster-failover",
        summary="the grandmaster falls silent at 1.0 s, a client takes over 250 ms later in "
        "holdover and all others follow it until the old one is back at 2.25 s: exchanges name "
        "another time transmitter, the reference does not move",
        duration_ns=END_NS,
        window_starts_ns=tuple(n * NS_PER_MS for n in (300, 1_300, 2_300)),
        events=(FAILOVER,),
        limits=(
            *SOUND,
            Limit(
                name="exchanges with the old one before",
                measure=lambda e: exchanges_of(e, e.fabric.ptp.grandmaster, 0, FAILOVER.at_ns),
                at_least=20.0,
            ),
            Limit(
                name="exchanges with the old one while it is silent",
                measure=lambda e: exchanges_of(
                    e, e.fabric.ptp.grandmaster, FAILOVER.at_ns + NS_PER_MS, BACK_NS
                ),
                at_most=0.0,
            ),
            Limit(
                name="exchanges with the old one once it is back",
                measure=lambda e: exchanges_of(e, e.fabric.ptp.grandmaster, BACK_NS, END_NS),
                at_least=20.0,
            ),
            Limit(
                name="exchanges with the new one before it took over, or after",
                measure=lambda e: (
                    exchanges_of(e, FAILOVER.successor, 0, TAKEN_NS)
                    + exchanges_of(e, FAILOVER.successor, BACK_NS + ANSWER_NS, END_NS)
                ),
                at_most=0.0,
            ),
            Limit(name="clients that do not follow it", measure=clients_left_behind, at_most=0.0),
            Limit(
                name="events in the truth",
                measure=lambda e: float(
                    len(e.events("grandmaster")) + len(e.events("grandmaster_silent"))
                ),
                at_least=2.0,
            ),
        ),
        estimate_limits=(
            HARD,
            COVERED,
            ORACLE,
            UNFLAGGED,
            NO_FALSE_LINK,
            recovered(FAILOVER.at_ns, windows=0),
            conditional_bound("hosts in holdover", window=HOLDOVER_WINDOW, at_most=200.0),
            conditional_bound("hosts once it is back", window=-1, at_most=BOUND_NS),
        ),
    ),
)
