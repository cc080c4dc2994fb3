# SPDX-License-Identifier: Apache-2.0
"""Windows that a follower published, looked up as a reader would: the newest row that covers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from correction.stream.follow import FollowedWindow, Follower
from correction.table import UNBOUNDED_NS, Status, bounds_at
from tests.support.synthetic_fabric import Run

BATCH = 400


@dataclass(frozen=True)
class Found:
    """What the rows say of readings of one clock; NaN where nothing bounded is said."""

    whole_ns: np.ndarray
    """Offset at the row's anchor: whole, since floats do not hold epochs."""
    change_ns: np.ndarray
    """Of the offset since there."""
    hard_ns: np.ndarray
    conditional_ns: np.ndarray
    sound: np.ndarray
    """The row's status is OK, and it was not held over."""


def look_up(windows: Sequence[FollowedWindow], clock: int, readings_ns: np.ndarray) -> Found:
    """Rows in the order of their versions; a later one overrides."""
    change, hard, conditional = np.full((3, len(readings_ns)), np.nan)
    whole = np.zeros(len(readings_ns), np.int64)
    sound = np.zeros(len(readings_ns), np.bool_)
    for window in windows:
        mine = np.flatnonzero(window.rows["clock"] == clock)
        for row, held in zip(window.rows[mine], window.held[mine], strict=True):
            inside = (row["valid_from_local_ns"] <= readings_ns) & (
                readings_ns < row["valid_to_local_ns"]
            )
            away = readings_ns[inside] - row["anchor_local_ns"]
            bounded = row["bound_hard_ns"] != UNBOUNDED_NS
            whole[inside] = row["offset_ns"]
            change[inside] = row["rate_ppb"] * 1e-9 * away if bounded else np.nan
            bounds = bounds_at(np.repeat(np.array([row]), len(away)), away)
            for column, bound in zip((hard, conditional), bounds, strict=True):
                column[inside] = bound if bounded else np.nan
            sound[inside] = row["status"] == Status.OK and not held and bounded
    return Found(whole, change, hard, conditional, sound)


@dataclass(frozen=True)
class Scored:
    """Arrays [clock, instant] of a synthetic run; error is NaN where nothing bounded is said."""

    error_ns: np.ndarray
    hard_ns: np.ndarray
    conditional_ns: np.ndarray
    sound: np.ndarray


def score(run: Run, windows: Sequence[FollowedWindow], true_ns: np.ndarray) -> Scored:
    """Every clock at true instants."""
    truth = run.truth
    reference = truth.clocks[truth.reference]
    columns = []
    for number, clock in enumerate(truth.clocks):
        readings = clock.stamp(true_ns, 1)
        found = look_up(windows, number, readings)
        epochs = clock.epoch_ns - reference.epoch_ns
        true = clock.elapsed(true_ns) - reference.elapsed(true_ns)
        error = (found.whole_ns - epochs) + found.change_ns - true
        columns.append((error, found.hard_ns, found.conditional_ns, found.sound))
    return Scored(*(np.array(one) for one in zip(*columns, strict=True)))


def follow(run: Run, follower: Follower | None = None) -> list[FollowedWindow]:
    """All windows of a run, packets in order of capture, some hundred at a time."""
    follower = follower or Follower(run.model)
    follower.add_exchanges(run.exchanges)
    packets = run.packets[np.argsort(run.packets["capture_collector_ns"], kind="stable")]
    windows = []
    for first in range(0, len(packets), BATCH):
        follower.add_packets(packets[first : first + BATCH], run.hops)
        windows += follower.close()
    return windows + follower.rest()
