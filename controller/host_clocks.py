# SPDX-License-Identifier: Apache-2.0
"""What is taken of a host's clocks where a log of clock pairs declares nothing.

Names are those of `tracing_core.clock_domains`. Limits are those of the kernel and of quartz; a log
that knows better (nobody steers, a better oscillator) says so in a `derived_clock` line, and hard
bounds become narrower.
"""

from correction.derived.readings import Behaviour
from tracing_core.clock_domains import ClockKind, kind_of_name

KERNEL_STEERING_PPB = 500_000.0
"""The kernel's largest frequency adjustment (clock_adjtime(2)): what NTP, chrony and phc2sys may do
from one moment to the next while they do not set the clock."""
QUARTZ_PPB = 100_000.0
"""No oscillator of a server is off by more."""
WANDER_NS_PER_S_SQRT_S = 100.0
"""Ten times that of a NIC's oscillator: a server's is not compensated for temperature."""

_ONE_NUMBER = (ClockKind.MONOTONIC, ClockKind.TAI)
"""CLOCK_REALTIME is CLOCK_MONOTONIC, and CLOCK_TAI, and one number, which only setting changes."""


def default_behaviour(clock: str, parent: str) -> Behaviour:
    """Limits of a clock against its parent, by what kinds they are.

    >>> default_behaviour("h3/monotonic/b1", "h3/system").rate_ppb_max
    0.0
    """
    own, of_parent = kind_of_name(clock), kind_of_name(parent)
    if of_parent is ClockKind.SYSTEM and own in _ONE_NUMBER and "/monotonic_raw" not in clock:
        return Behaviour(
            steering_ppb=0.0,
            wander_ns_per_s_sqrt_s=0.0,
            rate_ppb_max=0.0,
            settable=own is ClockKind.TAI,
        )
    return Behaviour(
        steering_ppb=KERNEL_STEERING_PPB,
        wander_ns_per_s_sqrt_s=WANDER_NS_PER_S_SQRT_S,
        rate_ppb_max=KERNEL_STEERING_PPB + 2 * QUARTZ_PPB,
        settable=own in (ClockKind.SYSTEM, ClockKind.PHC, ClockKind.UNKNOWN),
    )
