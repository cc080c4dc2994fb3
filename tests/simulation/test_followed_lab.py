# SPDX-License-Identifier: Apache-2.0
"""Short runs of the lab followed window by window, held against the truth every 50 ms.

Servos steer the hosts' clocks here, and something happens in most runs. Hard bounds hold
throughout, conditional ones of all sound rows, and all is sound again so many windows later.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from bmv2_lab.lab_run import CLOCK_PAIRS_FILE, LabRun
from bmv2_lab.scenarios import SCENARIOS
from bmv2_lab.scenarios.disturbances import ClockStep, GrandmasterFailover, Rehash, SwitchRestart
from controller.fabric_file import load_fabric
from controller.fabric_model import fabric_model
from correction.stream.follow import FollowedWindow, Follower
from correction.table import Status
from tempotrace.analysis import analyse
from tempotrace.followed import follow_recording
from tests.support.followed import look_up
from tests.support.short_lab import short_run

WINDOWS = 4
AT_NS = 1_500_000_000
"""When it happens: in the second window with traffic."""
BACK_NS = 3_100_000_000
"""When a silent grandmaster is back: a whole window lies in between."""
WHOLE_NS = 1.0
"""A switch's true offset is known from two readings in whole ns."""


@dataclass(frozen=True)
class Followed:
    """A run and what was said of it; arrays [clock, look]."""

    run: LabRun
    windows: list[FollowedWindow]
    names: list[str]
    true_ns: np.ndarray
    error_ns: np.ndarray
    hard_ns: np.ndarray
    conditional_ns: np.ndarray
    sound: np.ndarray
    dense_error_ns: np.ndarray


@cache
def followed(name: str) -> Followed:
    """A scenario, with its event moved into the middle of the run."""
    events = {
        "clock-step": ClockStep(switch="spine3", at_ns=AT_NS, step_ns=1_000),
        "switch-restart": replace(_event(SwitchRestart), at_ns=AT_NS),
        "ecmp-rehash": replace(_event(Rehash), at_ns=AT_NS),
        "grandmaster-failover": replace(_event(GrandmasterFailover), at_ns=AT_NS, back_ns=BACK_NS),
    }
    changes = {"events": (events[name],)} if name in events else {}
    with TemporaryDirectory() as folder:
        out = Path(folder)
        run = short_run(out, name, windows=2 if name in TIES else WINDOWS, **changes)
        pairs = out / CLOCK_PAIRS_FILE
        pairs = pairs if pairs.exists() else None
        files = (out / "reports.pcap", out / "exchanges.jsonl")
        fabric = load_fabric(out / "fabric.yaml")
        windows = list(follow_recording(Follower(fabric_model(fabric)), fabric, *files, pairs))
        dense = analyse(fabric, *files) if name == "nothing-wrong" else None
    looks = run.lab.result.observed
    model = windows[-1].model
    looked_at = {one.clock for one in looks[0].clocks}
    names = [clock.name for clock in model.clocks if clock.name in looked_at]
    of_name = {clock.name: number for number, clock in enumerate(model.clocks)}
    reference = np.array([look.reference_ns for look in looks])
    columns = []
    for clock in names:
        number = of_name[clock]
        of_clock = [next(one for one in look.clocks if one.clock == clock) for look in looks]
        readings = np.array([one.local_ns for one in of_clock], np.int64)
        rest = [0.0 if one.offset_ns is None else one.offset_ns for one in of_clock]
        # a host's true difference has a fraction, its reading has none
        fraction = np.array(rest) - np.rint(rest)
        found = look_up(windows, number, readings)
        error = (readings - reference - found.whole_ns) + fraction - found.change_ns
        other = np.full(len(looks), np.nan)
        if dense is not None:
            told = dense.table.convert(readings, number)
            good = told.status == Status.OK
            other[good] = (told.reference_ns - reference)[good] - fraction[good]
        columns.append((error, found.hard_ns, found.conditional_ns, found.sound, other))
    error, hard, conditional, sound, other = (np.array(one) for one in zip(*columns, strict=True))
    true_ns = np.array([look.centre_true_ns for look in looks])
    return Followed(run, windows, names, true_ns, error, hard, conditional, sound, other)


def _event(kind: type) -> object:
    return next(
        event
        for scenario in SCENARIOS.values()
        for event in scenario.events
        if isinstance(event, kind)
    )


TIES = ("rail-optimised", "only-leaves", "boundary-clocks")
"""Clocks that other things than cables tie together; those of no device are not looked at."""
NAMES = ("nothing-wrong", "clock-step", "switch-restart", "ecmp-rehash", "grandmaster-failover",
         "report-loss-50", *TIES)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_hard_bounds_hold_throughout(name: str) -> None:
    """At every look at which a bound is given; and one is given at most looks."""
    found = followed(name)
    known = np.isfinite(found.error_ns)
    assert known.mean() > (0.3 if name in TIES else 0.6)
    assert (np.abs(found.error_ns[known]) <= found.hard_ns[known] + WHOLE_NS).all()


@pytest.mark.parametrize("name", NAMES)
def test_conditional_bounds_hold_where_rows_are_sound(name: str) -> None:
    """Of the links' prior, which holds in these runs."""
    found = followed(name)
    inside = np.abs(found.error_ns) <= found.conditional_ns + WHOLE_NS
    assert found.sound.any()
    assert inside[found.sound].mean() > 0.995


def window_of(found: Followed, true_ns: np.ndarray | int) -> np.ndarray:
    """Which window of the run an instant lies in."""
    lab = found.run.lab
    ahead = lab.collector_now_ns() - lab.engine.now_ns
    return (true_ns + ahead - found.windows[0].start_collector_ns) // 1_000_000_000


@pytest.mark.parametrize(
    ("name", "from_ns", "windows"),
    [
        ("clock-step", AT_NS, 1),
        ("switch-restart", AT_NS, 2),
        ("ecmp-rehash", AT_NS, 1),
        ("report-loss-50", AT_NS, 1),
        ("grandmaster-failover", BACK_NS, 0),
    ],
)
def test_all_clocks_are_sound_again(name: str, from_ns: int, windows: int) -> None:
    """So many windows after that of the event at the latest: hosts and switches."""
    found = followed(name)
    window = window_of(found, found.true_ns)
    last = window_of(found, 300_000_000 + 1_000_000_000 * WINDOWS)
    later = (window >= window_of(found, from_ns) + windows) & (window < last)
    assert later.any()
    assert found.sound[:, later].mean() > 0.97


def test_errors_are_those_of_the_whole_recordings_solution() -> None:
    """Hosts' rms error within 2 ns of what the engine has that sees everything at once."""
    found = followed("nothing-wrong")
    hosts = [n for n, name in enumerate(found.names) if name.startswith("h") and name != "h1"]
    both = found.sound[hosts] & np.isfinite(found.dense_error_ns[hosts])
    assert both.sum() > 200
    ours = np.sqrt(np.mean(found.error_ns[hosts][both] ** 2))
    theirs = np.sqrt(np.mean(found.dense_error_ns[hosts][both] ** 2))
    assert ours < theirs + 2.0


def test_a_grandmaster_that_falls_silent_leaves_all_clocks_held_over() -> None:
    """In the window between: bounds are wider, and none is broken; then hosts are sound again."""
    found = followed("grandmaster-failover")
    host = found.names.index("h3")
    window = window_of(found, found.true_ns)
    silent = window == window_of(found, AT_NS) + 1
    before, after = found.true_ns < AT_NS - 200_000_000, window == window_of(found, BACK_NS)
    assert np.isfinite(found.error_ns[host, silent]).all()
    assert not found.sound[host, silent].any()
    assert found.sound[host, after].all()
    assert found.hard_ns[host, silent].min() > np.nanmax(found.hard_ns[host, before])
