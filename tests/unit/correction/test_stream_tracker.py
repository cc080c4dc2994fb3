# SPDX-License-Identifier: Apache-2.0
"""A fabric followed window by window: as good as all windows at once, whatever moves in between."""

from dataclasses import replace

import numpy as np
import pytest

from correction.mesh.solve import Standing
from correction.records import NO_TSTAMP_NS
from correction.stream.saved import moved_to, state_arrays, tracker_of
from correction.stream.tracker import FabricTracker, track
from correction.table import Status
from tests.support.synthetic_fabric import Setup
from tests.support.tracked_fabric import errors_ns, record

WINDOW_NS = 1_000_000_000


@pytest.fixture(scope="module")
def recording():
    """8 x 4 with a tenth of the links bad, eight seconds."""
    return record(1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_offsets_have_both_bounds_and_bad_links_are_found(seed) -> None:
    """Hard bounds cover all clocks in all windows; rms error stays at what the cables allow."""
    made = record(seed)
    windows = track(made.run.model, made.windows())
    assert len(windows) >= 7
    for window in windows:
        error = np.abs(errors_ns(made.run, window))
        known = np.isfinite(error)
        assert (error[known] <= window.bound_hard_ns[known]).all()
        sound = known & (window.status == Status.OK)
        assert (error[sound] <= window.bound_conditional_ns[sound]).mean() > 0.9
        assert np.std(error[sound]) < 8.0
    bad = windows[-1].solution.bad
    large = np.abs(made.run.truth.a_ns) > 30.0
    assert (bad & large).sum() == large.sum()


def test_the_statistical_part_shrinks_with_windows(recording) -> None:
    """A link's average gets less noise; what is constant stays."""
    tracker = FabricTracker(recording.run.model)
    noise = []
    for rows in recording.windows():
        tracker.push(rows)
        count = tracker.links.count
        noise.append(np.median((tracker.links.noise_sd_ns / np.sqrt(count))[count > 0]))
    assert noise[-1] < 0.6 * noise[0]


def test_a_clock_that_is_set_between_windows_moves_and_spoils_nothing() -> None:
    """5 us on a spine: told as a step of that clock, no link is blamed, all others stay."""
    setup = Setup(windows=8, window_gap_s=1.0)
    made = record(2, setup)
    spine = next(n for n, c in enumerate(made.run.model.clocks) if c.name == "spine2")
    at = float(made.run.truth.centre_true_ns[4]) + 0.55e9
    stepped = record(2, setup, steps={spine: (at, 5_000)})
    windows = track(stepped.run.model, stepped.windows())
    found = [
        (number, clock)
        for number, window in enumerate(windows)
        for clock in np.flatnonzero(window.update.stepped).tolist()
    ]
    assert {clock for _, clock in found} == {spine}
    assert len(found) == 1
    size = windows[found[0][0]].update.step_ns[spine]
    assert size == pytest.approx(5_000, abs=50)
    last = windows[-1]
    error = errors_ns(stepped.run, last)
    assert abs(error[spine]) <= last.bound_hard_ns[spine]
    plain = track(made.run.model, made.windows())[-1]
    assert last.solution.bad.tolist() == plain.solution.bad.tolist()
    assert not any(len(window.changed_links) for window in windows)


def test_a_link_whose_asymmetry_changes_begins_anew_and_moves_no_clock(recording) -> None:
    """80 ns more one way on one link from the fifth window on: it alone is told."""
    link = 5
    tracker = FabricTracker(recording.run.model)
    windows = []
    for number, rows in enumerate(recording.windows()):
        rows = rows.copy()
        if number >= 4:
            mine = (rows["link"] == link) & ~rows["reverse"]
            rows["envelope_ns"][mine] += 160
            rows["limit_ns"][mine] += 160
            rows["difference_ns_min"][mine] += 160
        windows += tracker.push(rows)
    changed = [number for number, window in enumerate(windows) if len(window.changed_links)]
    assert changed == [5]
    assert windows[5].changed_links.tolist() == [link]
    plain = track(recording.run.model, recording.windows())
    for window, other in zip(windows, plain, strict=True):
        moved = window.offset_ns - other.offset_ns
        assert np.abs(moved[window.status == Status.OK]).max() <= 8


def test_a_host_that_falls_silent_coasts_and_is_acquired_again(recording) -> None:
    """Two windows without its link: no offset is published, then its clock is known as before."""
    model = recording.run.model
    link = next(e for e, one in enumerate(model.links) if model.clocks[one.a].name == "h3")
    host = model.links[link].a
    tracker = FabricTracker(model)
    windows = []
    for number, rows in enumerate(recording.windows()):
        silent = number in (3, 4)
        windows += tracker.push(rows[rows["link"] != link] if silent else rows)
    assert [int(w.status[host]) for w in windows[2:6]] == [
        Status.OK,
        Status.FLOATING,
        Status.FLOATING,
        Status.OK,
    ]
    assert [bool(w.update.coasting[host]) for w in windows[2:6]] == [False, True, True, False]
    assert not any(w.update.stepped[host] for w in windows)
    error = errors_ns(recording.run, windows[5])[host]
    assert abs(error) <= windows[5].bound_conditional_ns[host]


def test_a_window_that_comes_late_is_skipped_and_counted(recording) -> None:
    """The answers are those of the windows in order."""
    first, second, third, *_ = recording.windows()
    tracker = FabricTracker(recording.run.model)
    assert len(tracker.push(first)) == len(tracker.push(third)) == 1
    assert tracker.push(second) == []
    assert tracker.late_windows == 1


def test_a_restart_goes_on_where_it_stopped(recording) -> None:
    """Saved and restored in the middle, the answers are the same to the last digit."""
    windows = recording.windows()
    through = track(recording.run.model, windows)
    before = FabricTracker(recording.run.model)
    for rows in windows[:4]:
        before.push(rows)
    after = tracker_of(state_arrays(before), recording.run.model)
    resumed = [one for rows in windows[4:] for one in after.push(rows)]
    for one, other in zip(resumed, through[4:], strict=True):
        assert one.offset_ns.tolist() == other.offset_ns.tolist()
        assert one.status.tolist() == other.status.tolist()
        assert one.bound_conditional_ns == pytest.approx(other.bound_conditional_ns)


def test_a_fabric_that_loses_a_spine_keeps_what_it_knows_of_the_rest(recording) -> None:
    """Links and clocks are kept by name; their numbers change."""
    model = recording.run.model
    windows = recording.windows()
    tracker = FabricTracker(model)
    for rows in windows[:5]:
        tracker.push(rows)
    gone = next(n for n, c in enumerate(model.clocks) if c.name == "spine2")
    kept_links = [e for e, one in enumerate(model.links) if gone not in (one.a, one.b)]
    number = {old: new for new, old in enumerate(n for n in range(len(model.clocks)) if n != gone)}
    smaller = replace(
        model,
        clocks=tuple(c for n, c in enumerate(model.clocks) if n != gone),
        links=tuple(
            replace(model.links[e], a=number[model.links[e].a], b=number[model.links[e].b])
            for e in kept_links
        ),
        reference=number[model.reference],
    )
    moved = moved_to(tracker, smaller)
    assert moved.links.z_ns.tolist() == tracker.links.z_ns[kept_links].tolist()
    place = {old: new for new, old in enumerate(kept_links)}
    rows = windows[5][np.isin(windows[5]["link"], kept_links)].copy()
    rows["link"] = [place[e] for e in rows["link"].tolist()]
    (window,) = moved.push(rows)
    assert not window.update.acquired.any()
    assert not window.update.stepped.any()
    error = errors_ns(recording.run, replace_clocks(window, len(model.clocks), gone))
    known = np.isfinite(error)
    assert known.sum() == len(smaller.clocks)
    sound = np.insert(window.standing <= Standing.SINGLE_HOMED, gone, False)
    assert sound.sum() > 12
    assert np.abs(error[sound]).max() < 40.0


def replace_clocks(window, count, gone):
    """The window with its clocks numbered as before one went."""
    anchors = np.insert(window.anchor_local_ns, gone, NO_TSTAMP_NS)
    assert len(anchors) == count
    return replace(window, anchor_local_ns=anchors, offset_ns=np.insert(window.offset_ns, gone, 0))
