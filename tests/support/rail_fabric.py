# SPDX-License-Identifier: Apache-2.0
"""Synthetic fabrics with more than cables: cross-stamps of NICs in one machine; errors."""

import numpy as np

from correction.cross_stamps import CROSS_STAMP_DTYPE, CrossStamps
from tests.support.synthetic_fabric import Run, TrueClock

COUNTER_EPOCH_NS = 7_000_000_000_000


def rail_stamps(
    run: Run,
    machines: list[list[int]],
    *,
    limit_ns: int = 20,
    constant_ns: dict[int, float] | None = None,
    seed: int = 5,
    every_ns: float = 50e6,
) -> CrossStamps:
    """PTM reads of every clock of each machine; `constant_ns`: by clock, how late its counter is
    read. Beyond that the two readings are within the limit of one another."""
    rng = np.random.default_rng(seed)
    rows = []
    duration = run.truth.centre_true_ns[-1] + 2e9
    for number, clocks in enumerate(machines):
        counter = TrueClock(
            rng, COUNTER_EPOCH_NS + number, 4_000.0, run.setup.wander, duration, np.zeros(0), 0.0
        )
        for clock in clocks:
            times = np.arange(1.2e9 + rng.uniform(0.0, every_ns), duration - 1e9, every_ns)
            fixed = (constant_ns or {}).get(clock, 0.0)
            room = limit_ns - 1 - abs(fixed)
            apart = fixed + rng.uniform(-room, room, len(times))
            phc = run.truth.clocks[clock].stamp(times, 1)
            system = counter.stamp(times + apart, 1)
            rows += [
                (clock, number, p, s, limit_ns)
                for p, s in zip(phc.tolist(), system.tolist(), strict=True)
            ]
    return CrossStamps(
        rows=np.array(rows, CROSS_STAMP_DTYPE),
        machines=tuple(f"m{number + 1}" for number in range(len(machines))),
    )


def true_error_ns(run, solution, window: int, clock: int) -> float:
    """Published offset of a clock less the true one at its anchor."""
    one, truth = solution.windows[window], run.truth
    mine, reference = truth.clocks[clock], truth.clocks[truth.reference]
    aim = float(int(one.anchor_local_ns[clock]) - mine.epoch_ns)
    at = aim
    for _ in range(8):
        at -= float(mine.elapsed(at)) - aim
    epochs = mine.epoch_ns - reference.epoch_ns
    return int(one.offset_ns[clock]) - epochs - float(mine.elapsed(at) - reference.elapsed(at))
