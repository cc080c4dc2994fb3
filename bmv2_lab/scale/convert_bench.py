# SPDX-License-Identifier: Apache-2.0
"""How many stamps a second become reference time with both bounds, on one core.

The plain limit beside it: the same number of subtractions of 64-bit integers.
"""

import time
from dataclasses import dataclass

import numpy as np

from correction.table import CORRECTION_DTYPE, CorrectionTable, Status, with_worst_bounds

EPOCH_NS = 1_790_000_000_000_000_000
WINDOW_NS = 1_000_000_000
ROWS = 3_600
"""An hour of windows of one clock."""
REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertBench:
    """Processor time; the fastest of several."""

    stamps: int
    rows: int
    convert_per_s: float
    """Stamps to reference time, both bounds and status."""
    in_order_per_s: float
    """The same, of stamps in order of time."""
    subtract_per_s: float
    """Integer subtractions alone."""


def table(rows: int) -> CorrectionTable:
    """One clock's rows, end to end."""
    made = np.zeros(rows, CORRECTION_DTYPE)
    made["valid_from_local_ns"] = EPOCH_NS + WINDOW_NS * np.arange(rows)
    made["valid_to_local_ns"] = made["valid_from_local_ns"] + WINDOW_NS
    made["anchor_local_ns"] = made["valid_from_local_ns"] + WINDOW_NS // 2
    made["offset_ns"] = 123_456_789 + 8_000 * np.arange(rows)
    made["rate_ppb"], made["rate_sd_ppb"], made["wander_ns_per_s_sqrt_s"] = 8_000.0, 2.0, 14.0
    made["bound_hard_ns"], made["bound_conditional_ns"], made["sigmas"] = 150, 30, 3.0
    made["status"] = Status.OK
    return CorrectionTable(rows=with_worst_bounds(made), clock_names=("h1",), prior="")


def run(stamps: int) -> ConvertBench:
    """Measure in this process."""
    rng = np.random.default_rng(1)
    local = EPOCH_NS + rng.integers(0, ROWS * WINDOW_NS, stamps)
    ordered = np.sort(local)
    of = table(ROWS)

    def per_s(values: np.ndarray, *, only_subtract: bool = False) -> float:
        fastest = float("inf")
        for _ in range(REPEATS):
            began = time.process_time()
            if only_subtract:
                values - EPOCH_NS
            else:
                of.convert(values, 0)
            fastest = min(fastest, time.process_time() - began)
        return stamps / max(fastest, 1e-9)

    return ConvertBench(
        stamps=stamps,
        rows=ROWS,
        convert_per_s=per_s(local),
        in_order_per_s=per_s(ordered),
        subtract_per_s=per_s(local, only_subtract=True),
    )
