# SPDX-License-Identifier: Apache-2.0
"""A host that follows NTP: each poll is off by the asymmetry of its path and by noise."""

from collections.abc import Callable

import numpy as np

from bmv2_lab.simulator.clocks import SteeredClock
from bmv2_lab.simulator.engine import Engine

FREQUENCY_PPB_MAX = 500_000.0
"""chronyd slews no faster by default than the kernel allows: 500 ppm."""
GAIN = 0.3
"""Part of the measured offset that is slewed away until the next poll."""

OnAdjust = Callable[[int, int, float], None]
"""`on_adjust(phc_local_ns, step_ns, frequency_ppb)`."""


class NtpFollower:
    """Slews a PHC towards the reference plus the bias of its path, from now on."""

    def __init__(
        self,
        engine: Engine,
        phc: SteeredClock,
        reference: SteeredClock,
        *,
        poll_ns: int,
        bias_ns: int,
        noise_sd_ns: int,
        rng: np.random.Generator,
        on_adjust: OnAdjust,
    ) -> None:
        self._engine = engine
        self._phc = phc
        self._reference = reference
        self._poll_ns = poll_ns
        self._bias_ns = bias_ns
        self._noise_sd_ns = noise_sd_ns
        self._rng = rng
        self._on_adjust = on_adjust
        self._base_ppb = phc.frequency_ppb
        engine.at(engine.now_ns + poll_ns, self._poll)

    def _poll(self) -> None:
        now_ns = self._engine.now_ns
        offset_ns = self._phc.offset_from_ns(self._reference, now_ns) - self._bias_ns
        offset_ns += float(self._rng.normal(0.0, self._noise_sd_ns))
        slew_ppb = GAIN * offset_ns / self._poll_ns * 1e9
        frequency_ppb = max(-FREQUENCY_PPB_MAX, min(FREQUENCY_PPB_MAX, self._base_ppb - slew_ppb))
        before_ns = self._phc.adjust(now_ns, frequency_ppb=frequency_ppb, step_ns=0)
        self._on_adjust(before_ns, 0, frequency_ppb)
        self._engine.at(now_ns + self._poll_ns, self._poll)
