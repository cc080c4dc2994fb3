# SPDX-License-Identifier: Apache-2.0
"""What a scenario does to its fabric beyond chance: from the start, or at an instant of its run.

Times are ns of true time. Whatever of these is in a scenario is in the truth of its run
(`Truth.events`), with the same kind and entity.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class StampBias:
    """The ports of one node stamp later on the way in than is declared, by far more than declared.

    Half of it is a_uv of each link, towards the node.
    """

    node: str
    ports: tuple[int, ...] = ()
    """Ports of the line card; empty: all of the node."""
    ingress_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """One host's software is slow in the whole run: every message waits before its first packet."""

    host: str
    stall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongCorrection:
    """All switches are transparent clocks, and one adds this much too much to what it corrects."""

    switch: str
    error_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehash:
    """The controller gives the ECMP hash another seed: most flows take another path."""

    at_ns: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFlap:
    """A cable carries nothing for a while; the controller routes around it once it knows."""

    end: str
    """One end, `switch:port`."""
    down_ns: int
    up_ns: int
    detect_ns: int
    """From either change to the routes that follow from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """A switch's clock jumps."""

    switch: str
    at_ns: int
    step_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRestart:
    """A switch is dark while it boots, and comes back with no pipeline and a clock that starts
    anew; the controller routes around it, and programs it when it is back."""

    switch: str
    at_ns: int
    detect_ns: int
    boot_ns: int
    uptime_ns: int
    """What its clock reads when it is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrandmasterFailover:
    """The grandmaster falls silent; another host takes over, and all others follow it."""

    at_ns: int
    successor: str
    takeover_ns: int
    """Announce timeout and election."""
    back_ns: int | None = None
    """When the old one is there again, and serves all as before; None: never. In virtual time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NtpFallback:
    """A client loses PTP and follows NTP, whose path is longer one way than the other."""

    host: str
    at_ns: int
    poll_ns: int
    bias_ns: int
    """Half the one-way difference of the NTP path: where the clock goes."""
    noise_sd_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcStorm:
    """A NIC takes no more RoCE for a while: it keeps its switch port paused."""

    host: str
    from_ns: int
    until_ns: int


Event: TypeAlias = (
    ClockStep | GrandmasterFailover | LinkFlap | NtpFallback | PfcStorm | Rehash | SwitchRestart
)
"""Something that happens while the scenario runs."""
