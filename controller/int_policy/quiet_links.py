# SPDX-License-Identifier: Apache-2.0
"""Which links are quiet, from the samples that traffic gives of them. Pure.

A link is quiet as soon as a window has fewer samples in both directions than wanted, and gets what
is missing by probes. It is busy, and gets none, after some windows in a row with clearly more. A
link that nobody tells about is quiet.
"""

from collections.abc import Mapping

from controller.probes import PAIRS_PER_WINDOW_WANTED

BUSY_PAIRS = PAIRS_PER_WINDOW_WANTED * 3 // 2
BUSY_WINDOWS = 3


class QuietLinks:
    """Remembers which links are busy; begins with none."""

    def __init__(self) -> None:
        self._busy: set[str] = set()
        self._streak: dict[str, int] = {}

    @property
    def busy(self) -> frozenset[str]:
        """Links that get no probes."""
        return frozenset(self._busy)

    def step(self, pairs: Mapping[str, int]) -> dict[str, int]:
        """pairs: of one window, by link. What `ProbePlanner.plan` takes: as many for a busy link as
        are wanted, so that it gets no probe."""
        self._busy &= pairs.keys()
        self._streak = {
            link: self._streak.get(link, 0) + 1
            for link, count in pairs.items()
            if count >= BUSY_PAIRS
        }
        for link, count in pairs.items():
            if count < PAIRS_PER_WINDOW_WANTED:
                self._busy.discard(link)
            elif self._streak.get(link, 0) >= BUSY_WINDOWS:
                self._busy.add(link)
        return {
            link: PAIRS_PER_WINDOW_WANTED
            if link in self._busy
            else min(count, PAIRS_PER_WINDOW_WANTED - 1)
            for link, count in pairs.items()
        }
