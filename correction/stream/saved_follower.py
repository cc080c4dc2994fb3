# SPDX-License-Identifier: Apache-2.0
"""A follower's state as named arrays, and back: over a restart, also onto a changed fabric.

What waits for its window (packets, exchanges) is not kept: an input that can be read again is, and
what was on the way is lost. Windows that have been published are never published again.
"""

from dataclasses import asdict, fields
from typing import Any

import numpy as np

from correction.model import FabricModel
from correction.stream.follow import FollowCounters, Follower
from correction.stream.naming import place_of
from correction.stream.rows import HOLDOVER_NS, Coverage
from correction.stream.saved import Arrays, SavedStateError, state_arrays, tracker_of
from correction.stream.servo_logs import ServoLogs
from correction.table import CORRECTION_DTYPE

FOLLOWER_VERSION = 1
NO_NUMBER = -1


def follower_arrays(follower: Follower) -> dict[str, np.ndarray[Any, Any]]:
    """All that the follower has learnt."""
    arrays = {f"tracker.{name}": rows for name, rows in state_arrays(follower.tracker).items()}
    for one in fields(follower.coverage):
        arrays[f"coverage.{one.name}"] = getattr(follower.coverage, one.name)
    arrays |= {f"servo.{name}": rows for name, rows in follower.servos.arrays().items()}
    lags = sorted(follower.lag_ns.items())
    limits = sorted(follower.stamps.limit_ns.items())
    number = NO_NUMBER if follower.next_number is None else follower.next_number
    return arrays | {
        "follower_version": np.array(FOLLOWER_VERSION),
        "window_ns": np.array(follower.window_ns),
        "next_number": np.array(number),
        "correction_version": np.array(follower.version),
        "counters": np.array(list(asdict(follower.counters).values()), np.int64),
        "lag": np.array(lags, np.int64).reshape(-1, 2),
        "heard": np.array(sorted(follower.paths.heard), np.int64),
        "tie_machines": np.array([machine for (machine, _), _ in limits], np.str_),
        "tie_clocks": np.array([clock for (_, clock), _ in limits], np.int64),
        "tie_limits_ns": np.array([limit for _, limit in limits], np.int64),
    }


def follower_of(
    found: Arrays, declared: FabricModel, *, holdover_ns: int = HOLDOVER_NS
) -> Follower:
    """A follower of `declared` that knows what the saved one knew of it; `SavedStateError`."""
    try:
        version = int(found["follower_version"])
    except (KeyError, TypeError, ValueError) as error:
        raise SavedStateError(f"not a saved state: {error}") from None
    if version != FOLLOWER_VERSION:
        raise SavedStateError(f"state of version {version}; expected {FOLLOWER_VERSION}")
    try:
        return _filled(found, declared, holdover_ns)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, SavedStateError):
            raise
        raise SavedStateError(f"not a saved state: {error}") from None


def _filled(found: Arrays, declared: FabricModel, holdover_ns: int) -> Follower:
    follower = Follower(declared, window_ns=int(found["window_ns"]), holdover_ns=holdover_ns)
    names = found["tracker.clock_names"].tolist()
    place = {
        old: new
        for old, new in enumerate(place_of(names, [c.name for c in follower.base.clocks]).tolist())
        if new >= 0
    }
    for machine, clock, limit in zip(
        found["tie_machines"].tolist(),
        found["tie_clocks"].tolist(),
        found["tie_limits_ns"].tolist(),
        strict=True,
    ):
        if clock in place:
            follower.stamps.know(machine, place[clock], limit)
    follower.extend()
    follower.tracker = tracker_of(_under("tracker.", found), follower.model)
    reference = follower.model.clocks[follower.model.reference].name
    if str(found["tracker.reference"]) == reference:
        follower.coverage = _coverage(found, names, follower.model)
    follower.servos = ServoLogs.restored(_under("servo.", found), place)
    follower.lag_ns.update({int(one): int(lag) for one, lag in found["lag"].tolist()})
    follower.paths.heard = set(found["heard"].tolist()) & follower.paths.declared
    follower.version = int(found["correction_version"])
    for one, total in zip(fields(FollowCounters), found["counters"].tolist(), strict=True):
        setattr(follower.counters, one.name, total)
    number = int(found["next_number"])
    follower.begin_at(None if number == NO_NUMBER else number)
    return follower


def _under(prefix: str, found: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    return {name[len(prefix) :]: found[name] for name in found if name.startswith(prefix)}


def _coverage(found: Arrays, names: list[str], model: FabricModel) -> Coverage:
    coverage = Coverage.new(len(model.clocks))
    place = place_of(names, [clock.name for clock in model.clocks])
    old = np.flatnonzero(place >= 0)
    for one in fields(coverage):
        column = found[f"coverage.{one.name}"]
        if one.name == "row" and column.dtype != CORRECTION_DTYPE:
            raise SavedStateError("correction rows of another form")
        getattr(coverage, one.name)[place[old]] = column[old]
    coverage.row["clock"] = np.arange(len(coverage.row))
    return coverage
