# SPDX-License-Identifier: Apache-2.0
"""The PI servo of a PTP client, with the gains and the start-up that linuxptp uses by default."""

from collections import deque
from dataclasses import dataclass
from statistics import median

FIRST_STEP_THRESHOLD_NS = 20_000
"""Step rather than slew at start when further off than this."""
DELAY_FILTER_LENGTH = 10
"""Moving median of the path delay."""
FREQUENCY_PPB_MAX = 900_000.0
"""Limit of the clock's frequency adjustment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """What to do to the clock: a new frequency and a phase step."""

    frequency_ppb: float
    step_ns: int


class PiServo:
    """Offsets in (client - time transmitter, ns), adjustments out."""

    __slots__ = ("_delays", "_drift_ppb", "_first", "_ki", "_kp", "_locked")

    def __init__(self, interval_s: float) -> None:
        self._kp = min(0.7 * interval_s**-0.3, 0.7 / interval_s)
        self._ki = min(0.3 * interval_s**0.4, 0.3 / interval_s)
        self._drift_ppb = 0.0
        self._first: tuple[int, int] | None = None
        self._locked = False
        self._delays: deque[float] = deque(maxlen=DELAY_FILTER_LENGTH)

    def path_delay(self, delay_ns: float) -> None:
        """A new mean path delay, ns."""
        self._delays.append(delay_ns)

    @property
    def filtered_delay_ns(self) -> float | None:
        """The filtered mean path delay; None before the first exchange."""
        return median(self._delays) if self._delays else None

    def sample(self, offset_ns: float, local_ns: int) -> Adjustment | None:
        """One offset at the client's time `local_ns`; None while more is needed."""
        if not self._locked:
            return self._start(offset_ns, local_ns)
        ki_term = self._ki * offset_ns
        adjust_ppb = self._kp * offset_ns + self._drift_ppb + ki_term
        self._drift_ppb = self._clamp(self._drift_ppb + ki_term)
        return Adjustment(frequency_ppb=self._clamp(-adjust_ppb), step_ns=0)

    def _start(self, offset_ns: float, local_ns: int) -> Adjustment | None:
        if self._first is None:
            self._first = (round(offset_ns), local_ns)
            return None
        offset0_ns, local0_ns = self._first
        self._drift_ppb = self._clamp((offset_ns - offset0_ns) / (local_ns - local0_ns) * 1e9)
        self._locked = True
        step_ns = -round(offset_ns) if abs(offset_ns) > FIRST_STEP_THRESHOLD_NS else 0
        return Adjustment(frequency_ppb=-self._drift_ppb, step_ns=step_ns)

    @staticmethod
    def _clamp(frequency_ppb: float) -> float:
        return max(-FREQUENCY_PPB_MAX, min(FREQUENCY_PPB_MAX, frequency_ppb))
