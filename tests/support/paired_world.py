# SPDX-License-Identifier: Apache-2.0
"""A clock whose rate is off, wanders and is steered, and honest readings of it and its parent."""

import numpy as np
from numpy.typing import NDArray

from correction.derived.readings import PAIR_DTYPE, Behaviour, ClockPairs
from correction.table import Status
from tests.support.paired_clocks import PARENT_NS, S

GRID_NS = 10_000_000


class World:
    """A clock whose rate is off, wanders and is steered; honest readings of it."""

    def __init__(
        self, seed: int, *, steering_ppb: float, interval_ns: int, half_ns: int, step_ns: int
    ) -> None:
        rng = np.random.default_rng(seed)
        duration_ns = 40 * interval_ns
        grid = np.arange(0, duration_ns + 2 * S, GRID_NS)
        wander = 10.0
        walk = np.cumsum(rng.normal(0.0, wander * (GRID_NS / S) ** 0.5, len(grid)))
        held = np.repeat(
            rng.uniform(-0.5, 0.5, len(grid)) * steering_ppb, max(1, interval_ns // GRID_NS)
        )[: len(grid)]
        rate_ns_per_s = rng.uniform(-50_000.0, 50_000.0) + walk + held
        self._grid = grid.astype(np.float64)
        self._offset = np.concatenate([[0.0], np.cumsum(rate_ns_per_s * GRID_NS / S)[:-1]])
        self._base_ns = int(rng.integers(-(10**17), 10**17))
        self._step_at_ns = int(rng.uniform(0.3, 0.7) * duration_ns)
        self._step_ns = step_ns
        times = np.sort(rng.uniform(0.0, duration_ns, 41)).astype(np.int64)
        rows = np.zeros(len(times), PAIR_DTYPE)
        half = rng.integers(1, half_ns + 1, len(times))
        share = np.clip(rng.uniform(-1.0, 1.0) + 0.3 * rng.uniform(-1.0, 1.0, 41), -1.0, 1.0)
        rows["clock_local_ns"] = self.read_ns(times)
        rows["parent_local_ns"] = PARENT_NS + times + np.trunc(share * half).astype(np.int64)
        rows["uncertainty_ns"] = half
        self.asked = rng.uniform(0.0, duration_ns, 300).astype(np.int64)
        self.pairs = ClockPairs(
            clock="h3/system",
            parent="h3",
            rows=rows,
            behaviour=Behaviour(
                steering_ppb=steering_ppb,
                wander_ns_per_s_sqrt_s=wander,
                rate_ppb_max=60_000.0 + steering_ppb,
                settable=True,
            ),
        )

    def read_ns(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """What the clock reads at times of its parent."""
        offset = np.rint(np.interp(times_ns, self._grid, self._offset)).astype(np.int64)
        stepped = np.where(times_ns >= self._step_at_ns, self._step_ns, 0)
        reading: NDArray[np.int64] = PARENT_NS + self._base_ns + times_ns + offset + stepped
        return reading

    def errors_ns(self, rows: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Of all readings asked for that have a correction, by how much it is off, and its row; the
        parent is the reference."""
        local = self.read_ns(self.asked)
        place = np.searchsorted(rows["valid_from_local_ns"], local, side="right") - 1
        row = rows[np.maximum(place, 0)]
        known = (place >= 0) & (local < row["valid_to_local_ns"]) & (row["status"] == Status.OK)
        since = local - row["anchor_local_ns"]
        change = np.rint(since * row["rate_ppb"] * 1e-9).astype(np.int64)
        error = np.abs(local - row["offset_ns"] - change - PARENT_NS - self.asked)
        return error[known], row[known]
