# SPDX-License-Identifier: Apache-2.0
"""Background load: an arrival process per port and queue, not packets through the P4 program.

Bursts arrive as a Poisson process; a burst is a geometric number of full-sized frames. The process
is drawn lazily, only around the instants at which a simulated packet needs the port's state: when a
port has not been asked for longer than `MEMORY_NS`, the process starts anew, empty, `MEMORY_NS` in
the past. That is long against the busy periods of the loads used, so the state found is the
stationary one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MEMORY_NS = 400_000
"""How far back arrivals can still matter: many busy periods at loads up to about 0.85."""
CHUNK_NS = 400_000
"""Arrivals are drawn this far ahead at a time."""
FRAME_BYTES = 1_520
"""Background frames, with preamble and gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load of one queue: a share of the port's rate, in bursts of `burst_frames` on average."""

    share: float
    burst_frames: float


class BackgroundLoad:
    """Arrival times (ns, true time) and work (ns of the port's time) of one queue's bursts."""

    __slots__ = ("_frame_work_ns", "_from_ns", "_load", "_rng", "_times", "_to_ns", "_work")

    def __init__(self, rng: np.random.Generator, load: Load, rate_bps: int) -> None:
        self._rng = rng
        self._load = load
        self._frame_work_ns = FRAME_BYTES * 8e9 / rate_bps
        self._from_ns = 0
        self._to_ns = -1
        self._times: NDArray[np.float64] = np.empty(0)
        self._work: NDArray[np.float64] = np.empty(0)

    @property
    def frame_work_ns(self) -> float:
        """Port time of one background frame, ns."""
        return self._frame_work_ns

    def between(self, from_ns: int, to_ns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Arrivals in (from_ns, to_ns], in order: their times and their work, ns."""
        self._cover(from_ns, to_ns)
        low = int(np.searchsorted(self._times, from_ns, side="right"))
        high = int(np.searchsorted(self._times, to_ns, side="right"))
        return self._times[low:high], self._work[low:high]

    def _cover(self, from_ns: int, to_ns: int) -> None:
        if from_ns > self._to_ns:
            self._from_ns = from_ns
            self._to_ns = from_ns
            self._times = np.empty(0)
            self._work = np.empty(0)
        while self._to_ns < to_ns:
            self._extend()

    def _extend(self) -> None:
        load = self._load
        mean_bursts = CHUNK_NS * load.share / (self._frame_work_ns * load.burst_frames)
        count = int(self._rng.poisson(mean_bursts))
        times = np.sort(self._rng.uniform(self._to_ns, self._to_ns + CHUNK_NS, count))
        frames = self._rng.geometric(1.0 / load.burst_frames, count)
        keep = int(np.searchsorted(self._times, self._to_ns - 2 * MEMORY_NS))
        self._times = np.concatenate((self._times[keep:], times))
        self._work = np.concatenate((self._work[keep:], frames * self._frame_work_ns))
        self._to_ns += CHUNK_NS
