# SPDX-License-Identifier: Apache-2.0
"""What happens to a fabric under control, as values: for the log, for metrics and for tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, unique
from typing import TypeAlias


@unique
class EventKind(Enum):
    """Everything that is worth a line; names are a contract with whoever reads the log."""

    STARTED = "started"
    STOPPED = "stopped"
    FABRIC_LOADED = "fabric_loaded"
    FABRIC_REFUSED = "fabric_refused"
    CONNECTED = "connected"
    LOST = "lost"
    PRIMARY = "primary"
    BACKUP = "backup"
    EMPTY = "empty"
    OTHER_PIPELINE = "other_pipeline"
    PIPELINE_PUSHED = "pipeline_pushed"
    DRIFT = "drift"
    WRITTEN = "written"
    IN_SYNC = "in_sync"
    REFUSED = "refused"
    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    PORTS_KNOWN = "ports_known"
    PORTS_UNKNOWN = "ports_unknown"
    CABLING_WRONG = "cabling_wrong"
    CABLING_RIGHT = "cabling_right"
    CABLING_UNCHECKED = "cabling_unchecked"
    SAMPLING_CHANGED = "sampling_changed"
    SAMPLING_EXHAUSTED = "sampling_exhausted"
    LINK_SAMPLES_REFUSED = "link_samples_refused"
    LINK_DELAYS = "link_delays"
    LINK_DELAYS_REFUSED = "link_delays_refused"
    PIPELINE_CHANGE_BEGINS = "pipeline_change_begins"
    PIPELINE_CHANGED = "pipeline_changed"
    PIPELINE_CHANGE_FAILED = "pipeline_change_failed"
    PIPELINE_RESTORED = "pipeline_restored"
    PIPELINE_RESTORE_FAILED = "pipeline_restore_failed"
    FAILED = "failed"


FAULTS = frozenset(
    {
        EventKind.FABRIC_REFUSED,
        EventKind.LOST,
        EventKind.OTHER_PIPELINE,
        EventKind.REFUSED,
        EventKind.LINK_DOWN,
        EventKind.PORTS_UNKNOWN,
        EventKind.CABLING_WRONG,
        EventKind.CABLING_UNCHECKED,
        EventKind.SAMPLING_EXHAUSTED,
        EventKind.LINK_SAMPLES_REFUSED,
        EventKind.LINK_DELAYS_REFUSED,
        EventKind.PIPELINE_CHANGE_FAILED,
        EventKind.PIPELINE_RESTORE_FAILED,
        EventKind.FAILED,
    }
)
"""Events that somebody should look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened."""

    kind: EventKind
    switch: str | None = None
    message: str = ""

    def __str__(self) -> str:
        place = f"{self.switch}: " if self.switch else ""
        return f"{place}{self.kind.value}{': ' if self.message else ''}{self.message}"


OnEvent: TypeAlias = Callable[[Event], None]


def event_line(event: Event, now_ns: int) -> str:
    """The event as one line of JSON; now_ns: since 1970, UTC.

    >>> event_line(Event(kind=EventKind.LOST, switch="leaf1", message="gone"), 1_500_000_000)
    '{"time":"1970-01-01T00:00:01.500Z","event":"lost","fault":true,"switch":"leaf1","message":"gone"}'
    """
    seconds, rest_ns = divmod(now_ns, 1_000_000_000)
    time = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    line: dict[str, object] = {
        "time": f"{time}.{rest_ns // 1_000_000:03}Z",
        "event": event.kind.value,
        "fault": event.kind in FAULTS,
    }
    if event.switch is not None:
        line["switch"] = event.switch
    if event.message:
        line["message"] = event.message
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False)
