# SPDX-License-Identifier: Apache-2.0
"""Hosts' system clocks and GPUs, which no packet carries, tied to their NICs by clock pairs."""

from dataclasses import replace
from typing import TYPE_CHECKING

from bmv2_lab.scenarios.common import NS_PER_MS, SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import COVERED_SHARE, DETERMINED
from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import HostClocks

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence
    from bmv2_lab.host_clock_score import HostClockErrors

CLOCKS = HostClocks(step_host="h2", step_at_ns=1_430 * NS_PER_MS, step_ns=-3 * NS_PER_MS)


def pairs_per_clock(evidence: "Evidence") -> float:
    """Mean number of readings of a pair."""
    lines = evidence.result.clock_pair_lines
    pairs = sum('"clock_pair"' in line for line in lines)
    return pairs / (len(lines) - pairs)


def clocks_of(evidence: "Evidence", kind: str, *, ntp: bool) -> tuple[str, ...]:
    """Clocks of a kind on hosts whose system clock follows NTP, or runs free."""
    hosts = evidence.fabric.hosts
    chosen = (host for n, host in enumerate(hosts) if (n % CLOCKS.ntp_every == 0) == ntp)
    return tuple(f"{host.name}/{kind}" for host in chosen)


def limits_of(kind: str, *, ntp: bool, rms_ns: float, conditional_ns: float) -> tuple[Limit, ...]:
    """Of all clocks of a kind."""

    def found(evidence: "Evidence") -> "HostClockErrors":
        return evidence.estimates.host_clocks(clocks_of(evidence, kind, ntp=ntp))

    name = f"{kind}, {'NTP' if ntp else 'free'}"
    return (
        Limit(
            name=f"{name}: answers outside their hard bound",
            measure=lambda e: found(e).outside_hard,
            at_most=0.0,
        ),
        Limit(
            name=f"{name}: confident answers within their conditional bound, share",
            measure=lambda e: found(e).covered_share,
            at_least=COVERED_SHARE,
        ),
        Limit(
            name=f"{name}: rms error, ns",
            measure=lambda e: found(e).rms_ns,
            at_most=rms_ns,
        ),
        Limit(
            name=f"{name}: conditional bound, median, ns",
            measure=lambda e: found(e).conditional_ns_median,
            at_most=conditional_ns,
        ),
        Limit(
            name=f"{name}: readings with a correction, share",
            measure=lambda e: found(e).answered_share,
            at_least=0.9,
        ),
    )


SCENARIOS = (
    replace(
        SMALL,
        number=28,
        name="host-clocks",
        summary="every host has a system clock in UTC and a GPU, read in pairs with its NIC's "
        "clock ten times a second over PCIe ways that are uneven; half of the system clocks follow "
        "NTP, and one is set back by 3 ms",
        host_clocks=CLOCKS,
        limits=(
            *SOUND,
            Limit(name="readings of a pair, mean", measure=pairs_per_clock, at_least=20.0),
        ),
        estimate_limits=(
            *DETERMINED,
            *limits_of("system", ntp=False, rms_ns=300.0, conditional_ns=600.0),
            *limits_of("gpu0/globaltimer", ntp=False, rms_ns=900.0, conditional_ns=2_000.0),
            *limits_of("system", ntp=True, rms_ns=600.0, conditional_ns=6_000.0),
            *limits_of("gpu0/globaltimer", ntp=True, rms_ns=1_500.0, conditional_ns=15_000.0),
        ),
    ),
)
