# SPDX-License-Identifier: Apache-2.0
"""Link windows of a synthetic fabric, second after second, with the truth beside them."""

from dataclasses import dataclass

import numpy as np

from correction.link_windows import LinkWindowing, LinkWindows
from correction.links import link_samples
from correction.records import NO_TSTAMP_NS
from correction.stream.answer import TrackedWindow
from tests.support.synthetic_fabric import Run, Setup, draw


@dataclass
class Recording:
    """Rows of all windows in order, and the run that they come from."""

    run: Run
    rows: LinkWindows

    def windows(self) -> list[LinkWindows]:
        """One array per window."""
        starts = np.unique(self.rows["window_start_collector_ns"])
        return [self.rows[self.rows["window_start_collector_ns"] == start] for start in starts]


def record(seed: int, setup: Setup | None = None, **overrides) -> Recording:
    """Windows of a second, one after the other."""
    run = draw(seed, setup or Setup(windows=8, window_gap_s=1.0), **overrides)
    samples, _ = link_samples(run.packets, run.hops, run.exchanges, run.model)
    windowing = LinkWindowing(run.model, window_ns=1_000_000_000, late_ns=0)
    windowing.add(samples)
    return Recording(run, windowing.rest())


def errors_ns(run: Run, window: TrackedWindow) -> np.ndarray:
    """[clock]: published offset less the true one at the anchor; NaN where none is published."""
    truth = run.truth
    reference = truth.clocks[truth.reference]
    result = np.full(len(truth.clocks), np.nan)
    for number, clock in enumerate(truth.clocks):
        anchor = int(window.anchor_local_ns[number])
        if anchor == NO_TSTAMP_NS:
            continue
        aim, at = float(anchor - clock.epoch_ns), float(anchor - clock.epoch_ns)
        for _ in range(8):
            at -= float(clock.elapsed(at)) - aim
        epochs = clock.epoch_ns - reference.epoch_ns
        small = float(clock.elapsed(at)) - float(reference.elapsed(at))
        result[number] = int(window.offset_ns[number]) - epochs - small
    return result
