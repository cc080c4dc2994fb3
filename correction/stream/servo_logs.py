# SPDX-License-Identifier: Apache-2.0
"""What servos did to their clocks, as it becomes known, with what is no longer needed forgotten.

Free-running time goes on where it was, so that a clock does not seem to move when its log is cut
at the front. `reach_ns` is how far a clock's log is known to be complete: nothing is said of later
readings, since an adjustment may have come in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from correction.servo import ADJUSTMENT_DTYPE, EMPTY_SERVO_LOG, ServoLog
from correction.timebase import Int64s

KEPT_ADJUSTMENTS = 4_096
"""Per clock, the newest: eight a second are 8 minutes."""


@dataclass(slots=True)
class ServoLogs:
    """Logs by clock index."""

    logs: dict[int, ServoLog] = field(default_factory=dict)
    reach_ns: dict[int, int] = field(default_factory=dict)
    """Newest reading of the PHC that a line of its host tells of."""
    broken: int = 0
    """Logs that went back in time, or had a line that could not be read: they began anew."""

    def add(self, clock: int, adjustments: NDArray[np.void]) -> None:
        """Adjustments of one clock, in the order in which they were made."""
        if not len(adjustments):
            return
        try:
            self.logs[clock] = _extended(self.logs.get(clock, EMPTY_SERVO_LOG), adjustments)
        except ValueError:
            self.broken += 1
            self.logs[clock] = ServoLog.from_adjustments(adjustments[-1:])
        self.told(clock, int(adjustments["phc_local_ns"][-1] + adjustments["step_ns"][-1]))

    def told(self, clock: int, phc_local_ns: int) -> None:
        """A line of the host that holds this reading of its PHC."""
        self.reach_ns[clock] = max(self.reach_ns.get(clock, phc_local_ns), phc_local_ns)

    def begin_anew(self, clock: int) -> None:
        """An adjustment is not known: free-running time after it is another one."""
        if self.logs.pop(clock, None) is not None:
            self.broken += 1

    def reach_free_ns(self, clock: int) -> int | None:
        """How far the log is known, in free-running time; None where nobody steers the clock."""
        log = self.logs.get(clock)
        if log is None:
            return None
        return int(log.to_free_ns(np.array([self.reach_ns[clock]], np.int64))[0])

    def renumbered(self, place: dict[int, int]) -> None:
        """Clocks by their new indices; those that are gone are left out."""
        self.logs = {place[c]: log for c, log in self.logs.items() if c in place}
        self.reach_ns = {place[c]: at for c, at in self.reach_ns.items() if c in place}

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """For `restored`."""
        clocks = sorted(self.logs)
        logs = [self.logs[clock] for clock in clocks]
        count = [len(log.adjustments) for log in logs]
        nothing = np.zeros(0, ADJUSTMENT_DTYPE)
        return {
            "clock": np.repeat(np.array(clocks, np.int64), count),
            "adjustments": np.concatenate([nothing, *(log.adjustments for log in logs)]),
            "start_free_ns": np.concatenate(
                [np.zeros(0, np.int64), *(log.start_free_ns for log in logs)]
            ),
            "reach_clock": np.array(sorted(self.reach_ns), np.int64),
            "reach_ns": np.array([self.reach_ns[c] for c in sorted(self.reach_ns)], np.int64),
            "broken": np.array(self.broken),
        }

    @classmethod
    def restored(cls, arrays: dict[str, NDArray[np.generic]], place: dict[int, int]) -> "ServoLogs":
        """From `arrays`; `place` gives the clocks' new indices, those that are gone left out."""
        logs = {
            place[clock]: ServoLog(rows, rows["phc_local_ns"] + rows["step_ns"], free)
            for clock, rows, free in _by_clock(arrays)
            if clock in place
        }
        known = zip(arrays["reach_clock"].tolist(), arrays["reach_ns"].tolist(), strict=True)
        reach = {place[clock]: reading for clock, reading in known if clock in place}
        return cls(logs=logs, reach_ns=reach, broken=int(arrays["broken"]))


def _by_clock(
    arrays: dict[str, NDArray[np.generic]],
) -> Iterator[tuple[int, NDArray[np.void], Int64s]]:
    clock = arrays["clock"]
    for one in np.unique(clock).tolist():
        mine = clock == one
        yield one, arrays["adjustments"][mine], arrays["start_free_ns"][mine]


def _extended(log: ServoLog, rows: NDArray[np.void]) -> ServoLog:
    """The log with more adjustments, without the oldest of too many."""
    if not len(log.adjustments):
        return _cut(ServoLog.from_adjustments(rows))
    more = ServoLog.from_adjustments(np.concatenate([log.adjustments[-1:], rows]))
    start_free = np.r_[log.start_free_ns, more.start_free_ns[1:] + log.start_free_ns[-1]]
    return _cut(
        ServoLog(
            np.concatenate([log.adjustments, rows]),
            np.r_[log.start_local_ns, more.start_local_ns[1:]],
            start_free,
        )
    )


def _cut(log: ServoLog) -> ServoLog:
    if len(log.adjustments) <= 2 * KEPT_ADJUSTMENTS:
        return log
    kept = slice(-KEPT_ADJUSTMENTS, None)
    return ServoLog(log.adjustments[kept], log.start_local_ns[kept], log.start_free_ns[kept])
