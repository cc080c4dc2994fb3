# SPDX-License-Identifier: Apache-2.0
"""PTP alone, and PTP over ideal transparent clocks, both filtered over a window.

    offset_est = ((t2 - t1 - c1) - (t4 - t3 - c2)) / 2

`raw`: c1 = c2 = 0. `residence only`: what the packets of this very exchange spent in switches,
which is what transparent clocks would have written. A servo follows offset_est; the median of a
window is what a slow one with a median filter, and without any noise of its own, would arrive at.
"""

import numpy as np

from correction.baselines.host_packets import Placed
from correction.timebase import Float64s


def window_medians(
    down: Placed, up: Placed, reference: int, shape: tuple[int, int], *, residence: bool
) -> Float64s:
    """[window, clock]: median offset_est less the solution's offset, ns; NaN without exchanges.

    `down` and `up` hold the Sync and the Delay_Req of the same exchanges in the same order.
    """
    there = down.delay_ns - (down.residence_ns if residence else 0.0)
    back = up.delay_ns - (up.residence_ns if residence else 0.0)
    estimate = 0.5 * (there - back)
    use = np.isfinite(estimate) & (down.sender == reference)
    result = np.full(shape, np.nan)
    key = down.window[use] * shape[1] + down.receiver[use]
    order = np.argsort(key, kind="stable")
    values, keys = estimate[use][order], key[order]
    for group in np.split(np.arange(len(keys)), np.flatnonzero(np.diff(keys)) + 1):
        if len(group):
            where = divmod(int(keys[group[0]]), shape[1])
            result[where] = np.median(values[group])
    result[:, reference] = 0.0
    return result
