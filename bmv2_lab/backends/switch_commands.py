# SPDX-License-Identifier: Apache-2.0
"""What a run and the process of its embedded switches say to each other.

In a module of its own, as that process is run by name and would know these classes twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bmv2_lab.simulator.clocks import Oscillator
from controller.fabric import Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchesPlan:
    """What runs where; clocks and interfaces by switch name."""

    fabric: Fabric
    oscillators: Mapping[str, Oscillator]
    interfaces: Mapping[str, Mapping[int, str]]
    """Interface of each cabled port."""
    namespace: str
    """Path of the namespace with all of these interfaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSwitch:
    """The switch goes dark; there is no answer."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSwitch:
    """It comes back without a pipeline, its clock reading `uptime_ns`; a `Booted` as JSON answers
    when its P4Runtime server listens."""

    name: str
    uptime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """A switch that is back."""

    address: str
    at_true_ns: int
    jump_ns: int
    """By how much its clock went on then."""
