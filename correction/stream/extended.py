# SPDX-License-Identifier: Apache-2.0
"""The declared model with everything else that ties clocks together, as far as it is known by now.

The order is that of `correction.sources.gather`. Cross-stamps become known while they come in: a
tie's limit is the median of its first window, so that its meaning does not change afterwards.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from correction.boundary_clocks import with_boundary_clocks
from correction.cross_stamps import (
    CROSS_STAMP_DTYPE,
    CrossStamps,
    cross_stamp_samples,
    free_running_stamps,
    sound_stamps,
    with_cross_stamps,
)
from correction.links import JoinCounters
from correction.model import FabricModel, Link
from correction.records import LinkSamples
from correction.references import with_references
from correction.servo import ServoLog
from correction.ties import readings
from correction.timebase import NS_PER_S

STAMPS_MAX = 1_000_000
"""Cross-stamps that wait at most; the oldest are forgotten first."""


@dataclass(slots=True)
class PendingStamps:
    """Cross-stamps as read, and the limits of their ties."""

    machines: list[str] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, CROSS_STAMP_DTYPE))
    limit_ns: dict[tuple[str, int], int] = field(default_factory=dict)
    """By machine and clock."""

    def add(self, stamps: CrossStamps) -> None:
        """Take stamps, clock indices of the model with boundary clocks."""
        if not len(stamps.rows):
            return
        rows = stamps.rows.copy()
        place = np.array([self._number(name) for name in stamps.machines], np.int64)
        rows["machine"] = place[rows["machine"]]
        self.rows = np.concatenate([self.rows, rows])[-STAMPS_MAX:]

    def refuse(self, servos: dict[int, ServoLog], counters: JoinCounters) -> None:
        """Leave out what cannot be true, by the stamps that wait together."""
        waiting = CrossStamps(rows=self.rows, machines=tuple(self.machines))
        self.rows = self.rows[sound_stamps(free_running_stamps(waiting, servos), counters)]

    def know(self, machine: str, clock: int, limit_ns: int) -> None:
        """A tie's limit from before."""
        self._number(machine)
        self.limit_ns[machine, clock] = limit_ns

    def _number(self, machine: str) -> int:
        if machine not in self.machines:
            self.machines.append(machine)
        return self.machines.index(machine)

    def new_ties(self) -> bool:
        """Fix the limits of the ties that have stamps for the first time; whether there are any."""
        stamps = CrossStamps(rows=self.rows, machines=tuple(self.machines))
        new = [
            (machine, clock)
            for machine, clock in stamps.pairs()
            if (self.machines[machine], clock) not in self.limit_ns
        ]
        for machine, clock in new:
            self.limit_ns[self.machines[machine], clock] = stamps.limit_ns(machine, clock)
        return bool(new)

    def ties(self) -> CrossStamps:
        """One row per tie, with its limit: what the model is made of."""
        rows = np.zeros(len(self.limit_ns), CROSS_STAMP_DTYPE)
        for row, ((machine, clock), limit_ns) in zip(rows, self.limit_ns.items(), strict=True):
            row["machine"], row["clock"] = self.machines.index(machine), clock
            row["uncertainty_ns"] = limit_ns
        return CrossStamps(rows=rows, machines=tuple(self.machines))

    def samples(
        self,
        samples: LinkSamples,
        model: FabricModel,
        servos: dict[int, ServoLog],
        counters: JoinCounters,
    ) -> LinkSamples:
        """Samples of the ties, by the other `samples` of a window; what is older is forgotten."""
        limit = [
            self.limit_ns.get((self.machines[machine], clock), -1)
            for machine, clock in zip(
                self.rows["machine"].tolist(), self.rows["clock"].tolist(), strict=True
            )
        ]
        within = self.rows["uncertainty_ns"] <= np.array(limit, np.int64)
        stamps = CrossStamps(rows=self.rows[within], machines=tuple(self.machines))
        free = free_running_stamps(stamps, servos)
        made = cross_stamp_samples(free, samples, model, counters)
        kept = np.ones(len(self.rows), np.bool_)
        whole = free_running_stamps(
            CrossStamps(rows=self.rows, machines=tuple(self.machines)), servos
        )
        for clock in np.unique(self.rows["clock"]).tolist():
            local, _ = readings(samples, model, clock)
            if len(local):
                mine = self.rows["clock"] == clock
                kept &= ~(mine & (whole.rows["phc_local_ns"] < local[-1] - NS_PER_S))
        self.rows = self.rows[kept]
        return made

    def renumbered(self, place: dict[int, int]) -> None:
        """Clocks by their new indices; those that are gone are left out."""
        clock = np.array([place.get(one, -1) for one in self.rows["clock"].tolist()], np.int64)
        self.rows = self.rows[clock >= 0]
        self.rows["clock"] = clock[clock >= 0]
        self.limit_ns = {
            (machine, place[one]): limit
            for (machine, one), limit in self.limit_ns.items()
            if one in place
        }


def extended(declared: FabricModel, paths: tuple[Link, ...], stamps: PendingStamps) -> FabricModel:
    """The model of all that is known; `paths`: links through switches that report nothing."""
    model = with_boundary_clocks(declared)
    model = with_paths(model, paths)
    if stamps.limit_ns:
        model = with_cross_stamps(model, stamps.ties())
    return with_references(model)


def with_paths(model: FabricModel, paths: tuple[Link, ...]) -> FabricModel:
    """The model with more links."""
    return replace(model, links=model.links + paths) if paths else model
