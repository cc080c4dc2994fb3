# SPDX-License-Identifier: Apache-2.0
"""DCQCN's reaction point for one queue pair (Zhu et al., SIGCOMM 2015, section 3.1).

Left out: the byte counter and hyper increase, which matter to transfers longer than the lab's.
"""

G = 1 / 16
"""Weight of a new observation in alpha; the paper's 1/256 is for transfers of many seconds."""
TIMER_NS = 55_000
"""Of alpha's decay and of the rate's increase."""
FAST_RECOVERY_STEPS = 5
INCREASE_SHARE = 1 / 200
"""Of the line rate: how much the target grows by per step of additive increase."""
RATE_SHARE_MIN = 1 / 1_000
CNP_INTERVAL_NS = 50_000
"""The notification point sends at most one CNP per queue pair in this time."""


class Dcqcn:
    """The rate at which a queue pair may send, as a share of the line rate."""

    __slots__ = ("_alpha", "_at_ns", "_steps", "_target", "rate_share", "rate_share_min")

    def __init__(self) -> None:
        self.rate_share = 1.0
        self.rate_share_min = 1.0
        """The smallest so far."""
        self._target = 1.0
        self._alpha = 1.0
        self._steps = 0
        self._at_ns = 0
        """Timers have been served up to then."""

    def on_cnp(self, now_ns: int) -> None:
        """A congestion notification: cut the rate."""
        self.advance(now_ns)
        self._target = self.rate_share
        self.rate_share = max(RATE_SHARE_MIN, self.rate_share * (1 - self._alpha / 2))
        self.rate_share_min = min(self.rate_share_min, self.rate_share)
        self._alpha = (1 - G) * self._alpha + G
        self._steps = 0
        self._at_ns = now_ns

    def advance(self, now_ns: int) -> None:
        """Let the timers run: alpha decays, the rate recovers."""
        if self.rate_share >= 1.0:
            self._at_ns = now_ns
            return
        while self._at_ns + TIMER_NS <= now_ns and self.rate_share < 1.0:
            self._at_ns += TIMER_NS
            self._alpha *= 1 - G
            self._steps += 1
            if self._steps > FAST_RECOVERY_STEPS:
                self._target = min(1.0, self._target + INCREASE_SHARE)
            self.rate_share = min(1.0, (self._target + self.rate_share) / 2)
            if self._target >= 1.0 and self.rate_share > 0.999:
                self.rate_share = 1.0
