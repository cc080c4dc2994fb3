# SPDX-License-Identifier: Apache-2.0
"""Undo what a PTP servo did to a PHC, from the servo's own log.

A disciplined PHC changes its rate at every servo update, by far more than an oscillator wanders:
0.7 ppm for a microsecond of PTP noise, which is 350 ns over half a second. A host knows each
adjustment exactly (the frequency it set, the step it made, the PHC's reading at that instant), so
that the PHC can be mapped to the counter that it would be without a servo. That *free-running*
counter is linear over a window but for wander; clocks are estimated in it, and the result is mapped
back, one linear piece per adjustment.

Model: between adjustments i and i + 1, phc = phc_i + (free - free_i) * (1 + frequency_i), with
phc_i the reading after the step at adjustment i. free is 0 at the first adjustment of the log.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ADJUSTMENT_DTYPE = np.dtype(
    [
        ("phc_local_ns", np.int64),  # reading just before the adjustment
        ("step_ns", np.int64),  # phase step made at that instant, added to the reading
        ("frequency_ppb", np.float64),  # frequency adjustment in force from then on
    ]
)
"""One row per adjustment of one PHC, in the order in which they were made."""


@dataclass(frozen=True, slots=True)
class ServoLog:
    """The adjustments of one PHC, ready for conversion in both directions."""

    adjustments: NDArray[np.void]
    """Array of `ADJUSTMENT_DTYPE`; may be empty: then free-running time is the PHC's."""
    start_local_ns: NDArray[np.int64]
    """PHC just after each adjustment."""
    start_free_ns: NDArray[np.int64]
    """Free-running counter at each adjustment."""

    @classmethod
    def from_adjustments(cls, adjustments: NDArray[np.void]) -> "ServoLog":
        """From rows in order; raises ValueError when the PHC goes back between two of them."""
        start_local_ns = adjustments["phc_local_ns"] + adjustments["step_ns"]
        elapsed_ns = adjustments["phc_local_ns"][1:] - start_local_ns[:-1]
        if np.any(elapsed_ns < 0):
            row = int(np.argmax(elapsed_ns < 0)) + 1
            raise ValueError(f"adjustment {row} is earlier on the PHC than the one before it")
        free_ns = elapsed_ns / (1.0 + adjustments["frequency_ppb"][:-1] * 1e-9)
        start_free_ns = np.zeros(len(adjustments), dtype=np.int64)
        if len(adjustments) > 1:
            start_free_ns[1:] = np.cumsum(np.rint(free_ns).astype(np.int64))
        return cls(adjustments, start_local_ns, start_free_ns)

    def pieces(self, phc_local_ns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Index of the adjustment in force at each PHC reading; -1 before the first.

        A reading that a backward step made ambiguous belongs to the later piece.
        """
        if not len(self.adjustments):
            return np.full(np.shape(phc_local_ns), -1, dtype=np.intp)
        return (
            np.searchsorted(
                np.minimum.accumulate(self.start_local_ns[::-1])[::-1], phc_local_ns, side="right"
            )
            - 1
        )

    def to_free_ns(self, phc_local_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Free-running counter at PHC readings, integer ns."""
        if not len(self.adjustments):
            return np.asarray(phc_local_ns, dtype=np.int64)
        piece = np.maximum(self.pieces(phc_local_ns), 0)
        rate = 1.0 + self.adjustments["frequency_ppb"][piece] * 1e-9
        rate = np.where(phc_local_ns < self.start_local_ns[0], 1.0, rate)
        since_ns = phc_local_ns - self.start_local_ns[piece]
        scaled_ns = since_ns - np.rint(since_ns * ((rate - 1.0) / rate)).astype(np.int64)
        return np.asarray(self.start_free_ns[piece] + scaled_ns, dtype=np.int64)


EMPTY_SERVO_LOG = ServoLog.from_adjustments(np.zeros(0, dtype=ADJUSTMENT_DTYPE))
"""A clock that no servo steers."""
