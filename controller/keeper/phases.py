# SPDX-License-Identifier: Apache-2.0
"""Where a switch stands, what can be asked for it, and what has happened to it."""

from dataclasses import dataclass
from enum import Enum, unique


@unique
class Phase(Enum):
    """Where a switch stands."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    BACKUP = "backup"
    CHECKING = "checking"
    OTHER_PIPELINE = "other_pipeline"
    CHANGING = "changing"
    """A rollout has it."""
    PUSHING = "pushing"
    READING = "reading"
    WRITING = "writing"
    IN_SYNC = "in_sync"
    REFUSED = "refused"


CONNECTED = frozenset(Phase) - {Phase.WAITING, Phase.CONNECTING}


@unique
class Do(Enum):
    """Commands."""

    CONNECT = "connect"
    """Open a session and announce `machine.bid`."""
    ANNOUNCE = "announce"
    """Announce `machine.bid` on the open session."""
    DISCONNECT = "disconnect"
    READ_COOKIE = "read_cookie"
    PUSH = "push"
    READ = "read"
    """Read everything, compare with the target."""
    COMPARE = "compare"
    """Compare what is known of it with the target; read where nothing is."""
    WRITE = "write"
    STAND_DOWN = "stand_down"
    """Stop what is under way: another controller is in charge."""


@dataclass(slots=True)
class SwitchCounters:
    """What has happened, since the start."""

    connects: int = 0
    losses: int = 0
    takeovers: int = 0
    """Times that it became ours after another controller had it."""
    pushes: int = 0
    updates: int = 0
    refusals: int = 0
    drifts: int = 0
    """Reads that found something else than what was written."""
