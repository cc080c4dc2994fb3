# SPDX-License-Identifier: Apache-2.0
"""A client loses PTP and falls back to NTP."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import NS_PER_MS, SMALL, SOUND
from bmv2_lab.scenarios.disturbances import NtpFallback
from bmv2_lab.scenarios.estimate_limits import (
    COVERED,
    HARD,
    NO_FALSE_LINK,
    ORACLE,
    USEFUL,
    all_but,
    flagged,
    only,
)
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

FALLBACK = NtpFallback(
    host="h4", at_ns=800 * NS_PER_MS, poll_ns=62_500_000, bias_ns=120_000, noise_sd_ns=20_000
)


def _offsets_ns(evidence: "Evidence", *, fallen: bool) -> list[float]:
    """True offsets at the last window's centre, of the host that fell back or of all others."""
    last = evidence.truth.windows[-1]
    return [
        abs(clock.offset_ns)
        for clock in last.clocks
        if clock.offset_ns is not None and (clock.clock == FALLBACK.host) == fallen
    ]


def exchanges_after(evidence: "Evidence") -> float:
    """Its exchanges after the fallback."""
    stamps = evidence.run.lab.host_nodes[FALLBACK.host].true_of_stamp
    times = [
        stamps[int(row["t2_local_ns"])]
        for client, row in evidence.result.exchanges
        if client == FALLBACK.host
    ]
    return float(np.count_nonzero(np.array(times) > FALLBACK.at_ns))


SCENARIOS = (
    replace(
        SMALL,
        number=18,
        name="ntp-fallback",
        summary="a client loses PTP and follows NTP over a path that is 240 us longer one way: no "
        "more exchanges, a servo that goes on, and a clock that is 100 us off",
        events=(FALLBACK,),
        limits=(
            *SOUND,
            Limit(name="its exchanges after the fallback", measure=exchanges_after, at_most=0.0),
            Limit(
                name="its true offset in the last window, ns",
                measure=lambda e: max(_offsets_ns(e, fallen=True)),
                at_least=50_000.0,
                at_most=250_000.0,
            ),
            Limit(
                name="true offset of all others, largest, ns",
                measure=lambda e: max(_offsets_ns(e, fallen=False)),
                at_most=20_000.0,
            ),
            Limit(
                name="its servo's adjustments",
                measure=lambda e: float(len(e.result.adjustments[FALLBACK.host])),
                at_least=20.0,
            ),
        ),
        estimate_limits=(
            HARD,
            COVERED,
            ORACLE,
            NO_FALSE_LINK,
            USEFUL,
            flagged(only(FALLBACK.host), "the host", 1),
            flagged(all_but(FALLBACK.host), "all others"),
        ),
    ),
)
