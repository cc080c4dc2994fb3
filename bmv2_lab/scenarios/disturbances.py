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


Event: TypeAlias = None
"""Something that happens while the scenario runs."""
