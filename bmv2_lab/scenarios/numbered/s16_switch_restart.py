# SPDX-License-Identifier: Apache-2.0
"""A switch restarts: no pipeline, a clock that starts anew, and sequence numbers from zero."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import DECODED, INTACT, NS_PER_MS, SMALL, TRANSFERRED
from bmv2_lab.scenarios.disturbances import SwitchRestart
from bmv2_lab.scenarios.estimate_limits import (
    COVERED,
    HARD,
    NO_FALSE_LINK,
    ORACLE,
    USEFUL,
    all_but,
    flagged,
    only,
    recovered,
)
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

RESTART = SwitchRestart(
    switch="spine4",
    at_ns=400 * NS_PER_MS,
    detect_ns=50 * NS_PER_MS,
    boot_ns=600 * NS_PER_MS,
    uptime_ns=900 * NS_PER_MS,
)
BACK_NS = RESTART.at_ns + RESTART.boot_ns


STAMP_PERIOD_NS = 1 << 48


def _stamps(evidence: "Evidence") -> np.ndarray:
    """Its ingress stamps as they were on the wire."""
    mine = evidence.at(node=RESTART.switch)
    stamps: np.ndarray = evidence.hops["ingress_tstamp_local_ns"][mine] % STAMP_PERIOD_NS
    return stamps


def epochs(evidence: "Evidence") -> float:
    """Runs of its stamps that are less than a minute apart."""
    return float(1 + np.count_nonzero(np.diff(np.sort(_stamps(evidence))) > 60_000 * NS_PER_MS))


def new_epoch_error_ns(evidence: "Evidence") -> float:
    """Largest difference of a stamp of the new epoch from its uptime at that instant."""
    sent_ns, _ = evidence.stamp_jumps_ns(RESTART.switch)
    new = np.sort(_stamps(evidence))
    new = new[new < 60_000 * NS_PER_MS]
    late = np.sort(sent_ns[sent_ns > BACK_NS])
    return float(abs((new[0] - RESTART.uptime_ns) - (late[0] - BACK_NS)))


def hops_while_dark(evidence: "Evidence") -> float:
    """Hops of packets over it that were sent while it was dark."""
    sent_ns, _ = evidence.stamp_jumps_ns(RESTART.switch)
    return float(np.count_nonzero((sent_ns > RESTART.at_ns) & (sent_ns < BACK_NS)))


SCENARIOS = (
    replace(
        SMALL,
        number=16,
        name="switch-restart",
        summary="a spine is dark for 600 ms; it comes back with no pipeline, a clock that has just "
        "started and sequence numbers from zero, and the controller programs it again",
        events=(RESTART,),
        retransmit_ns=20 * NS_PER_MS,
        limits=(
            DECODED,
            INTACT,
            TRANSFERRED,
            Limit(name="hops while it was dark", measure=hops_while_dark, at_most=0.0),
            Limit(name="epochs of its stamps", measure=epochs, at_least=2.0, at_most=2.0),
            Limit(
                name="first stamp of the new epoch less its uptime, ns",
                measure=new_epoch_error_ns,
                at_most=5_000.0,
            ),
            Limit(
                name="sequences that began anew",
                measure=lambda e: float(e.collection.counters.restarts),
                at_least=1.0,
            ),
        ),
        estimate_limits=(
            HARD,
            COVERED,
            ORACLE,
            NO_FALSE_LINK,
            USEFUL,
            flagged(only(RESTART.switch), "the spine", 1),
            flagged(all_but(RESTART.switch), "all others"),
            recovered(RESTART.at_ns, windows=1),
        ),
    ),
)
