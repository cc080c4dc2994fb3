# SPDX-License-Identifier: Apache-2.0
"""All clocks of a fabric at once: oscillators with rate error and wander, and steered PHCs.

The same model as `bmv2_lab.simulator.clocks`: the random walk of the rate has a step every 10 ms
and the phase is linear between; a PHC is an oscillator whose frequency and phase a servo adjusts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.simulator.clocks import WANDER_STEP_NS
from correction.servo import ADJUSTMENT_DTYPE, ServoLog

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Oscillators:
    """Free-running counters: epoch + true time + accumulated rate error."""

    epoch_ns: Int64s
    """[clock]: reading at true time 0."""
    phase_ns: Float64s
    """[clock, step]: accumulated rate error every WANDER_STEP_NS."""

    def elapsed_error_ns(self, clock: Int64s, true_ns: Int64s) -> Float64s:
        """What each clock has gained since true time 0, with its fraction."""
        step = true_ns // WANDER_STEP_NS
        within = (true_ns - step * WANDER_STEP_NS) / WANDER_STEP_NS
        before = self.phase_ns[clock, step]
        error: Float64s = before + (self.phase_ns[clock, step + 1] - before) * within
        return error

    def read_ns(self, clock: Int64s, true_ns: Int64s) -> Int64s:
        """Readings in whole nanoseconds."""
        error_ns = np.rint(self.elapsed_error_ns(clock, true_ns)).astype(np.int64)
        return np.asarray(self.epoch_ns[clock] + true_ns + error_ns, np.int64)

    def rate_ppb(self, clock: Int64s, true_ns: Int64s) -> Float64s:
        """Rate errors at true instants, ppb."""
        step = true_ns // WANDER_STEP_NS
        gained = self.phase_ns[clock, step + 1] - self.phase_ns[clock, step]
        return np.asarray(gained * (1e9 / WANDER_STEP_NS), np.float64)


def draw_oscillators(
    rng: np.random.Generator,
    *,
    epoch_ns: Int64s,
    rate_offset_ppb: Float64s,
    wander_ns_per_s_sqrt_s: float,
    duration_ns: int,
) -> Oscillators:
    """Oscillators good for true times from 0 to `duration_ns`."""
    steps = duration_ns // WANDER_STEP_NS + 2
    step_s = WANDER_STEP_NS / 1e9
    phase = np.zeros((len(epoch_ns), steps + 1))
    rate = rate_offset_ppb.copy()
    for step in range(steps):
        rate += rng.normal(0.0, wander_ns_per_s_sqrt_s * step_s**0.5, len(rate))
        phase[:, step + 1] = phase[:, step] + rate * (1e-9 * WANDER_STEP_NS)
    return Oscillators(epoch_ns=epoch_ns, phase_ns=phase)


_PIECE_DTYPE = np.dtype(
    [
        ("from_ns", np.int64),  # true instant of the adjustment
        ("base_ns", np.int64),  # reading just after it
        ("base_error_ns", np.float64),  # the oscillator's elapsed error then
        ("rate", np.float64),  # frequency adjustment, dimensionless
        ("adjusted", np.bool_),  # False: this NIC's piece before, repeated
        ("reading_ns", np.int64),  # just before the adjustment
        ("step_ns", np.int64),
    ]
)


class SteeredPhcs:
    """The PHCs of all NICs. Adjustments are made round by round, for many NICs at a time."""

    def __init__(self, oscillators: Oscillators, nic_count: int) -> None:
        self._oscillators = oscillators
        self._pieces = np.zeros((1, nic_count), _PIECE_DTYPE)
        """[round, nic]: pieces of linear time, each good until the next."""
        self._pieces["base_ns"] = oscillators.epoch_ns[:nic_count]

    def read_ns(self, nic: Int64s, true_ns: Int64s) -> Int64s:
        """PHC readings at true instants, whole nanoseconds."""
        piece = self._piece(nic, true_ns)
        since_ns = np.rint(self._since_ns(piece, nic, true_ns)).astype(np.int64)
        return np.asarray(piece["base_ns"] + since_ns, np.int64)

    def offset_ns(self, nic: Int64s, reference: int, true_ns: Int64s) -> Float64s:
        """PHC minus the reference's PHC at true instants, with its fraction; for scoring only."""
        other = np.full(len(nic), reference)
        mine, its = self._piece(nic, true_ns), self._piece(other, true_ns)
        whole = (mine["base_ns"] - its["base_ns"]).astype(np.float64)
        since = self._since_ns(mine, nic, true_ns) - self._since_ns(its, other, true_ns)
        return np.asarray(whole + since, np.float64)

    def adjust(
        self, nic: Int64s, true_ns: Int64s, *, frequency_ppb: Float64s, step_ns: Int64s
    ) -> None:
        """Set frequency and step the phase of these NICs, each at its own instant."""
        new = self._pieces[-1].copy()
        new["adjusted"] = False
        reading_ns = self.read_ns(nic, true_ns)
        new["from_ns"][nic], new["base_ns"][nic] = true_ns, reading_ns + step_ns
        new["base_error_ns"][nic] = self._oscillators.elapsed_error_ns(nic, true_ns)
        new["rate"][nic], new["step_ns"][nic] = frequency_ppb * 1e-9, step_ns
        new["adjusted"][nic], new["reading_ns"][nic] = True, reading_ns
        self._pieces = np.concatenate([self._pieces, new[None]])

    def forget_before(self, true_ns: int) -> None:
        """Drop pieces that no reading at or after this instant needs."""
        over = np.flatnonzero((self._pieces["from_ns"] <= true_ns).all(axis=1))
        self._pieces = self._pieces[over[-1] :].copy()

    def adjustments(self) -> dict[int, NDArray[np.void]]:
        """By NIC, the adjustments that are kept, in order (`ADJUSTMENT_DTYPE`)."""
        result: dict[int, NDArray[np.void]] = {}
        for nic in np.flatnonzero(self._pieces["adjusted"].any(axis=0)).tolist():
            made = self._pieces[self._pieces["adjusted"][:, nic], nic]
            rows = np.zeros(len(made), ADJUSTMENT_DTYPE)
            rows["phc_local_ns"], rows["step_ns"] = made["reading_ns"], made["step_ns"]
            rows["frequency_ppb"] = made["rate"] * 1e9
            result[nic] = rows
        return result

    def _piece(self, nic: Int64s, true_ns: Int64s) -> NDArray[np.void]:
        """The last piece that starts at or before each instant (bisection along the rounds)."""
        from_ns = self._pieces["from_ns"]
        low = np.zeros(len(nic), np.int64)
        high = np.full(len(nic), len(from_ns), np.int64)
        while bool((high - low > 1).any()):
            middle = (low + high) // 2
            later = from_ns[middle, nic] > true_ns
            wide = high - low > 1
            high = np.where(wide & later, middle, high)
            low = np.where(wide & ~later, middle, low)
        return np.asarray(self._pieces[low, nic])

    def _since_ns(self, piece: NDArray[np.void], nic: Int64s, true_ns: Int64s) -> Float64s:
        error_ns = self._oscillators.elapsed_error_ns(nic, true_ns) - piece["base_error_ns"]
        elapsed_ns = (true_ns - piece["from_ns"]) + error_ns
        return np.asarray(elapsed_ns * (1.0 + piece["rate"]), np.float64)


def servo_logs(adjustments: dict[int, NDArray[np.void]]) -> dict[int, ServoLog]:
    """The logs in the form that `correction.servo` takes, by clock."""
    return {nic: ServoLog.from_adjustments(rows) for nic, rows in adjustments.items()}
