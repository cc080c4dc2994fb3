# SPDX-License-Identifier: Apache-2.0
"""Cut a recording into the windows over which clocks are taken as linear."""

import numpy as np
from numpy.typing import NDArray

from correction.records import TRAFFIC_ROCE, Packets

WINDOW_NS = 1_000_000_000
"""One second suits clocks that wander by about 10 ns/s; ten are too long (clocks.md 2.6)."""
GAP_NS = 500_000_000
"""Instrumented traffic that pauses longer than this ends a window early."""
SHORT_NS = 200_000_000
"""A rest shorter than this is joined to the window before it."""


def telemetry_windows(packets: Packets, window_ns: int = WINDOW_NS) -> NDArray[np.int64]:
    """Windows [start, end) in collector time, shape (n, 2), that hold instrumented traffic.

    RoCEv2 packets decide where there is telemetry; PTP alone, sent all the time, makes no window
    unless there is nothing else.
    """
    roce = packets[packets["traffic"] == TRAFFIC_ROCE]
    times_ns = np.sort((roce if len(roce) else packets)["capture_collector_ns"])
    if not len(times_ns):
        return np.zeros((0, 2), np.int64)
    starts = np.flatnonzero(np.r_[True, np.diff(times_ns) > GAP_NS])
    ends = np.r_[starts[1:], len(times_ns)] - 1
    windows: list[tuple[int, int]] = []
    for first_ns, last_ns in zip(times_ns[starts].tolist(), times_ns[ends].tolist(), strict=True):
        count = max(1, round((last_ns - first_ns) / window_ns + 0.5 - SHORT_NS / window_ns))
        for index in range(count):
            start_ns = first_ns + index * window_ns
            is_last = index == count - 1
            end_ns = max(last_ns + 1, start_ns + window_ns) if is_last else start_ns + window_ns
            windows.append((start_ns, end_ns))
    return np.array(windows, np.int64)
