# SPDX-License-Identifier: Apache-2.0
"""How many samples traffic gives of each link, probes left out: what a probe scheduler asks.

Probes do not count, so that a link does not cease to be quiet because it is probed.
"""

from collections import Counter, defaultdict

import numpy as np

from correction.prepare import LENGTH_CLASS_BYTES
from correction.records import LinkSamples
from correction.timebase import Int64s

WINDOW_COUNT_MAX = 64
"""Windows that are open at the same time; the oldest beyond go."""


class OwnSamples:
    """Counts by window, link, queue and length class, for both directions."""

    def __init__(self, window_ns: int, link_count: int) -> None:
        self._window_ns = window_ns
        self._link_count = link_count
        self._counts: defaultdict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)

    def add(self, samples: LinkSamples, *, count: int = 1) -> None:
        """Take samples; count: -1 takes them off again."""
        if not len(samples):
            return
        key = np.stack(
            [
                samples["capture_collector_ns"] // self._window_ns,
                samples["link"].astype(np.int64),
                samples["queue_id"].astype(np.int64),
                np.searchsorted(LENGTH_CLASS_BYTES, samples["frame_bytes"]).astype(np.int64),
                samples["reverse"].astype(np.int64),
            ]
        )
        kinds, numbers = np.unique(key, axis=1, return_counts=True)
        for (number, *kind), found in zip(kinds.T.tolist(), numbers.tolist(), strict=True):
            self._counts[number][tuple(kind)] += count * found
        while len(self._counts) > WINDOW_COUNT_MAX:
            del self._counts[min(self._counts)]

    def take(self, number: int) -> Int64s:
        """[link]: samples in both directions, of equal queue and length class, in this window."""
        pairs = np.zeros(self._link_count, np.int64)
        counts = self._counts.pop(number, Counter())
        for (link, queue, length, reverse), found in counts.items():
            if not reverse and 0 <= link < self._link_count:
                pairs[link] += max(0, min(found, counts[link, queue, length, 1]))
        for old in [one for one in self._counts if one < number]:
            del self._counts[old]
        return pairs
