# SPDX-License-Identifier: Apache-2.0
"""Which correction row decides on a reading of one clock: layers of rows, newer ones on top.

Rows of one version are disjoint. Those of the next version mostly begin where the last ones end, as
windows follow one another; then both are one layer, so that a clock that has been followed for
hours has a few layers, not one for every window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracing_core.model import Correction

Int64Array = NDArray[np.int64]

UNCOVERED = -1
"""Row index of a stamp that no correction covers."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows of one clock, disjoint and sorted by validity, of one version or of several in order."""

    index: Int64Array
    """Of each row in the table."""
    version: Int64Array
    start: Int64Array
    end: Int64Array
    """Exclusive; before the row's own end where a newer row of this layer begins there."""
    own_end: Int64Array

    @classmethod
    def of(cls, rows: Sequence[Correction], first_index: int, version: int) -> "Layer":
        """From one clock's rows of one version; ValueError if they overlap."""
        order = sorted(range(len(rows)), key=lambda i: rows[i].valid_from_local_ns)
        start = np.array([rows[i].valid_from_local_ns for i in order], np.int64)
        end = np.array([rows[i].valid_to_local_ns for i in order], np.int64)
        if (start[1:] < end[:-1]).any():
            raise ValueError(f"corrections of {rows[0].clock} overlap within version {version}")
        index = first_index + np.array(order, np.int64)
        return cls(index, np.full(len(order), version), start, end, end)

    def find(self, raw_local_ns: Int64Array) -> Int64Array:
        """Index of the row that covers each stamp, UNCOVERED where none does."""
        position = np.searchsorted(self.start, raw_local_ns, side="right") - 1
        clipped = np.maximum(position, 0)
        inside = (position >= 0) & (raw_local_ns < self.end[clipped])
        return np.where(inside, self.index[clipped], UNCOVERED)

    def followed_by(self, newer: "Layer") -> "Layer | None":
        """Both as one layer, where the newer rows begin in or behind the last row of this one."""
        if newer.start[0] < self.start[-1] or newer.own_end[0] < self.own_end[-1]:
            return None
        end = self.end.copy()
        end[-1] = min(int(end[-1]), int(newer.start[0]))
        return Layer(
            np.concatenate([self.index, newer.index]),
            np.concatenate([self.version, newer.version]),
            np.concatenate([self.start, newer.start]),
            np.concatenate([end, newer.end]),
            np.concatenate([self.own_end, newer.own_end]),
        )

    def covers(self, start: Int64Array, end: Int64Array) -> NDArray[np.bool_]:
        """Whether one row of this layer holds all of each interval."""
        position = np.searchsorted(self.start, start, side="right") - 1
        clipped = np.maximum(position, 0)
        return (position >= 0) & (end <= self.own_end[clipped])


def stacked(layers: tuple[Layer, ...], newer: Layer) -> tuple[Layer, ...]:
    """The layers with rows of a newer version, which decide where they are."""
    merged = layers[-1].followed_by(newer) if layers else None
    return (*layers[:-1], merged) if merged is not None else (*layers, newer)


def decisive(layers: tuple[Layer, ...]) -> list[tuple[int, int]]:
    """(version, index) of the rows that no newer row replaces wholly; newest layer first."""
    found: list[tuple[int, int]] = []
    for depth, layer in enumerate(layers):
        left = layer.end > layer.start
        for above in layers[depth + 1 :]:
            left &= ~above.covers(layer.start, layer.own_end)
        mine = zip(layer.version[left].tolist(), layer.index[left].tolist(), strict=True)
        found = [*mine, *found]
    return found
