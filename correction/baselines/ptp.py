# SPDX-License-Identifier: Apache-2.0
"""PTP alone, and PTP over ideal transparent clocks, both averaged over a window.

    offset_est = ((t2 - t1 - c1) - (t4 - t3 - c2)) / 2

`raw`: c1 = c2 = 0. `residence only`: what the packets of this very exchange spent in switches,
which is what transparent clocks would have written. A servo follows offset_est; its window mean is
what a slow one, without any noise of its own, would arrive at.
"""

import numpy as np

from correction.baselines.host_packets import Placed
from correction.timebase import Float64s


def window_means(
    down: Placed, up: Placed, reference: int, shape: tuple[int, int], *, residence: bool
) -> Float64s:
    """[window, clock]: mean offset_est less the solution's offset, ns; NaN without exchanges.

    `down` and `up` hold the Sync and the Delay_Req of the same exchanges in the same order.
    """
    there = down.delay_ns - (down.residence_ns if residence else 0.0)
    back = up.delay_ns - (up.residence_ns if residence else 0.0)
    estimate = 0.5 * (there - back)
    use = np.isfinite(estimate) & (down.sender == reference)
    total, count = np.zeros(shape), np.zeros(shape)
    where = (down.window[use], down.receiver[use])
    np.add.at(total, where, estimate[use])
    np.add.at(count, where, 1.0)
    mean: Float64s = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0.0)
    mean[:, reference] = 0.0
    return mean
