# SPDX-License-Identifier: Apache-2.0
"""Emulated clocks: an oscillator with rate error and wander, and a counter that a servo steers."""

import numpy as np
from numpy.typing import NDArray

WANDER_STEP_NS = 10_000_000
"""The random walk of the rate is drawn every 10 ms and is linear in phase between."""


class Oscillator:
    """A free-running counter: epoch + true time + accumulated rate error, in ns.

    The rate is a constant plus a random walk (ns/s per square root of a second).
    """

    __slots__ = ("_jumps", "_phase_ns", "_rate", "epoch_ns")

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        epoch_ns: int,
        rate_offset_ppb: float,
        wander_ns_per_s_sqrt_s: float,
        duration_ns: int,
    ) -> None:
        steps = duration_ns // WANDER_STEP_NS + 2
        step_s = WANDER_STEP_NS / 1e9
        walk_ns_per_s = np.cumsum(rng.normal(0.0, wander_ns_per_s_sqrt_s * step_s**0.5, steps))
        rate = (rate_offset_ppb + walk_ns_per_s) * 1e-9
        self.epoch_ns = epoch_ns
        self._jumps: list[tuple[int, int]] = []
        """(true instant, by how much the counter jumped then)"""
        self._rate: list[float] = rate.tolist()
        phase = np.concatenate(([0.0], np.cumsum(rate * WANDER_STEP_NS)[:-1]))
        self._phase_ns: list[float] = phase.tolist()

    def elapsed_ns(self, true_ns: int) -> float:
        """What the counter has advanced since its epoch, with its fraction."""
        step = true_ns // WANDER_STEP_NS
        within = true_ns - step * WANDER_STEP_NS
        return true_ns + self._phase_ns[step] + self._rate[step] * within

    def read_ns(self, true_ns: int) -> int:
        """The counter at true time `true_ns`, whole nanoseconds."""
        reading_ns = self.epoch_ns + round(self.elapsed_ns(true_ns))
        for at_ns, jump_ns in self._jumps:
            if true_ns >= at_ns:
                reading_ns += jump_ns
        return reading_ns

    def jump(self, true_ns: int, jump_ns: int) -> None:
        """The counter goes on from `jump_ns` more at that instant, later than all jumps before."""
        self._jumps.append((true_ns, jump_ns))

    def elapsed_of_ns(self, true_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        """`elapsed_ns` of many instants."""
        elapsed: NDArray[np.float64] = true_ns + np.interp(true_ns, *self._phases())
        return elapsed

    def true_of_ns(self, local_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """True instants at which it read these values; for scoring only.

        Of a reading that came twice, before and after a jump back, the first.
        """
        true_ns = self._true_since_epoch(local_ns - self.epoch_ns)
        jumped_ns = 0
        for at_ns, jump_ns in self._jumps:
            jumped_ns += jump_ns
            later_ns = self._true_since_epoch(local_ns - self.epoch_ns - jumped_ns)
            impossible = (true_ns < 0.0) | (true_ns >= at_ns)
            true_ns = np.where(impossible & (later_ns >= at_ns), later_ns, true_ns)
        return true_ns

    def _true_since_epoch(self, since_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        elapsed_ns = since_ns.astype(np.float64)
        true_ns = elapsed_ns
        for _ in range(4):  # rates are below 10^-3, so each round gains three digits
            true_ns = elapsed_ns - np.interp(true_ns, *self._phases())
        return true_ns

    def _phases(self) -> tuple[NDArray[np.float64], list[float]]:
        starts_ns = np.arange(len(self._phase_ns), dtype=np.float64) * WANDER_STEP_NS
        return starts_ns, self._phase_ns

    def rate_offset(self, true_ns: int) -> float:
        """Its rate error at that time, dimensionless; positive when it runs fast."""
        return self._rate[true_ns // WANDER_STEP_NS]


class SteeredClock:
    """A NIC's PHC: an oscillator whose frequency and phase a servo adjusts."""

    __slots__ = ("_base_elapsed_ns", "_base_ns", "_rate", "frequency_ppb", "oscillator")

    def __init__(self, oscillator: Oscillator) -> None:
        self.oscillator = oscillator
        self.frequency_ppb = 0.0
        self._rate = 1.0
        self._base_ns = oscillator.epoch_ns
        self._base_elapsed_ns = 0.0

    def read_ns(self, true_ns: int) -> int:
        """The PHC at true time `true_ns`, whole nanoseconds."""
        return self._base_ns + round(self._since_base_ns(true_ns))

    def offset_from_ns(self, other: "SteeredClock", true_ns: int) -> float:
        """This clock minus `other` at one true instant, with its fraction; for scoring only."""
        return (
            (self._base_ns - other._base_ns)
            + self._since_base_ns(true_ns)
            - other._since_base_ns(true_ns)
        )

    def adjust(self, true_ns: int, *, frequency_ppb: float, step_ns: int) -> int:
        """Set the frequency and step the phase; returns the reading just before the step."""
        before_ns = self.read_ns(true_ns)
        self._base_elapsed_ns = self.oscillator.elapsed_ns(true_ns)
        self._base_ns = before_ns + step_ns
        self.frequency_ppb = frequency_ppb
        self._rate = 1.0 + frequency_ppb * 1e-9
        return before_ns

    def _since_base_ns(self, true_ns: int) -> float:
        return (self.oscillator.elapsed_ns(true_ns) - self._base_elapsed_ns) * self._rate
