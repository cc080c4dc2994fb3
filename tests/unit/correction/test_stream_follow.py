# SPDX-License-Identifier: Apache-2.0
"""A fabric followed from packets and exchanges: bounds hold whatever happens, and what is said is
as good as what the engine says that sees the whole recording."""

from dataclasses import replace

import numpy as np
import pytest

from correction.engine import solve
from correction.stream.follow import Follower
from correction.stream.saved_follower import follower_arrays, follower_of
from correction.table import CONDITIONAL_SIGMAS, Status
from tests.support.followed import follow, score
from tests.support.synthetic_fabric import Setup, draw

SETUP = Setup(windows=8, window_gap_s=1.0)
WITHIN_NS = np.arange(-0.45e9, 0.5e9, 0.05e9)
"""Instants of a window, from its centre."""
DISTURBED = 3
"""Window in which something happens."""


def instants(run):
    """Nineteen true instants a window."""
    return (run.truth.centre_true_ns[:, None] + WITHIN_NS).ravel()


def clock_of(run, name):
    return next(n for n, clock in enumerate(run.model.clocks) if clock.name == name)


def at_disturbance(run, offset_s=0.0):
    """True time in the disturbed window."""
    return float(run.truth.centre_true_ns[DISTURBED]) + offset_s * 1e9


@pytest.fixture(scope="module")
def run():
    """8 x 4 with a tenth of the links bad, eight seconds end to end."""
    return draw(1, SETUP)


@pytest.fixture(scope="module")
def followed(run):
    return follow(run)


def check_bounds(run, windows):
    """Hard bounds hold wherever one is given, conditional ones of sound rows too."""
    scored = score(run, windows, instants(run))
    known = np.isfinite(scored.error_ns)
    assert (np.abs(scored.error_ns[known]) <= scored.hard_ns[known]).all()
    inside = np.abs(scored.error_ns) <= scored.conditional_ns
    assert inside[scored.sound].mean() > 0.998
    return scored


def sound_share(run, scored):
    """[clock, window]: share of the instants with a sound row."""
    shape = (len(run.model.clocks), len(run.truth.centre_true_ns), len(WITHIN_NS))
    return scored.sound.reshape(shape).mean(axis=2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_errors_are_those_of_the_engine_that_sees_everything(seed) -> None:
    """From the third window on within 4 ns of the whole recording's solution, on every clock."""
    run = draw(seed, SETUP)
    windows = follow(run)
    assert len(windows) == 8
    scored = check_bounds(run, windows)
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    for number in range(2, 8):
        dense = solution.windows[number]
        for row in windows[number].rows:
            clock = int(row["clock"])
            if dense.status[clock] != Status.OK or row["status"] != Status.OK:
                continue
            away = int(dense.anchor_local_ns[clock]) - int(row["anchor_local_ns"])
            difference = int(row["offset_ns"]) - int(dense.offset_ns[clock])
            assert abs(difference + row["rate_ppb"] * 1e-9 * away) <= 4.0
    assert np.isfinite(scored.error_ns).mean() > 0.99


def test_rows_lie_end_to_end(run, followed) -> None:
    """Between the first and the last window every reading of every clock is covered once."""
    rows = np.concatenate([window.rows for window in followed])
    for clock in range(len(run.model.clocks)):
        mine = rows[rows["clock"] == clock]
        assert (mine["valid_from_local_ns"][1:] == mine["valid_to_local_ns"][:-1]).all()
        assert mine["correction_version"].tolist() == [1, *range(1, 9)]
        held = np.concatenate([window.held for window in followed])[rows["clock"] == clock]
        assert held.tolist() == [True] + 8 * [False]


@pytest.mark.parametrize("name", ["spine2", "leaf3", "h5"])
@pytest.mark.parametrize("step_ns", [1_000, -1_000])
def test_a_clock_step_of_a_microsecond_withholds_its_window_and_no_other(name, step_ns) -> None:
    """The clock has no correction in that window; both bounds are back in the next one."""
    made = draw(1, SETUP)
    clock = clock_of(made, name)
    stepped = draw(1, SETUP, steps={clock: (at_disturbance(made, 0.2), step_ns)})
    windows = follow(stepped)
    share = sound_share(stepped, check_bounds(stepped, windows))
    assert share[clock, DISTURBED] < 0.1
    assert (np.delete(share[clock], DISTURBED) == 1.0).all()
    if name != "leaf3":
        others = np.arange(len(stepped.model.clocks)) != clock
        assert (share[others] == 1.0).all()


def test_a_clock_that_starts_anew_is_back_in_the_next_window() -> None:
    """A spine that restarts reads five hours less from one instant on."""
    made = draw(1, SETUP)
    clock = clock_of(made, "spine2")
    restarted = draw(1, SETUP, steps={clock: (at_disturbance(made), -5 * 3600 * 10**9)})
    share = sound_share(restarted, check_bounds(restarted, follow(restarted)))
    assert (share[clock, DISTURBED + 1 :] == 1.0).all()


def test_readings_that_a_clock_shows_twice_lose_their_rows() -> None:
    """A host set back by five seconds: what it reads again is unknown, before the step too."""
    made = draw(1, SETUP)
    clock = clock_of(made, "h5")
    back = draw(1, SETUP, steps={clock: (at_disturbance(made), -5 * 10**9)})
    scored = check_bounds(back, follow(back))
    known = np.isfinite(scored.error_ns[clock]).reshape(8, -1)
    assert not known[:DISTURBED].any()


def test_half_of_the_reports_lost_leaves_the_bounds() -> None:
    """Every window of every clock stays sound."""
    lossy = draw(1, SETUP)
    rng = np.random.default_rng(3)
    lossy.packets = lossy.packets[rng.random(len(lossy.packets)) < 0.5]
    share = sound_share(lossy, check_bounds(lossy, follow(lossy)))
    assert (share == 1.0).all()


def without_reference(run, windows):
    """The run without exchanges in so many windows from the disturbed one on."""
    start = at_disturbance(run, -0.5)
    sent = run.exchanges["t1_reference_ns"] - run.truth.clocks[0].epoch_ns
    kept = (sent < start) | (sent > start + windows * 1e9)
    run.exchanges = run.exchanges[kept]
    return run


def test_a_silent_reference_leaves_growing_bounds_and_is_back_at_once() -> None:
    """Three windows without exchanges: held over, hard bounds hold; then sound again."""
    silent = without_reference(draw(1, SETUP), 3)
    windows = follow(silent)
    scored = check_bounds(silent, windows)
    host = clock_of(silent, "h5")
    hard = scored.hard_ns[host].reshape(8, -1).max(axis=1)
    assert np.isfinite(scored.error_ns[host]).all()
    assert hard[DISTURBED - 1] < hard[DISTURBED] < hard[DISTURBED + 1] < hard[DISTURBED + 2]
    share = sound_share(silent, scored)
    assert (share[host, DISTURBED : DISTURBED + 3] == 0.0).all()
    assert (share[host, DISTURBED + 3 :] == 1.0).all()
    assert [window.held.any() for window in windows[1:]] == [3 <= n < 6 for n in range(1, 8)]


def test_holdover_ends() -> None:
    """After the time that is allowed nothing is said."""
    silent = without_reference(draw(1, SETUP), 4)
    windows = follow(silent, Follower(silent.model, holdover_ns=2_000_000_000))
    scored = score(silent, windows, instants(silent))
    host = clock_of(silent, "h5")
    known = np.isfinite(scored.error_ns[host]).reshape(8, -1).all(axis=1)
    assert known.tolist() == [True] * 5 + [False] * 2 + [True]


def test_a_step_while_held_over_takes_back_what_was_said() -> None:
    """A host is cut off, steps unseen by 30 us, and comes back: its held rows are withdrawn."""
    made = draw(1, SETUP)
    host = clock_of(made, "h5")
    cut = draw(1, SETUP, steps={host: (at_disturbance(made, 0.9), 30_000)})
    start = at_disturbance(cut, -0.5)
    sent = cut.exchanges["t1_reference_ns"] - cut.truth.clocks[0].epoch_ns
    gone = (cut.exchanges["client"] == host) & (sent > start) & (sent < start + 3e9)
    cut.exchanges = cut.exchanges[~gone]
    windows = follow(cut)
    scored = check_bounds(cut, windows)
    known = np.isfinite(scored.error_ns[host]).reshape(8, -1).all(axis=1)
    assert known.tolist() == [True] * 3 + [False] * 3 + [True] * 2
    before = score(cut, windows[:6], instants(cut))
    held = np.isfinite(before.error_ns[host]).reshape(8, -1).all(axis=1)
    assert held[DISTURBED : DISTURBED + 3].all()


def test_what_comes_late_is_counted_and_changes_nothing(run, followed) -> None:
    """Packets of a window that has been closed."""
    follower = Follower(run.model)
    windows = follow(run, follower)
    before = follower.late_samples
    follower.add_packets(run.packets[:50], run.hops)
    assert follower.close() == []
    assert follower.late_samples > before
    assert len(windows) == len(followed)


def as_saved(follower):
    """Through the arrays of a file."""
    return {name: np.array(rows) for name, rows in follower_arrays(follower).items()}


def packets_in_order(run):
    return run.packets[np.argsort(run.packets["capture_collector_ns"], kind="stable")]


def test_a_restart_in_the_middle_publishes_the_same_windows(run, followed) -> None:
    """Saved after the fourth window; the input is read again from its start."""
    first = Follower(run.model)
    first.add_exchanges(run.exchanges)
    packets, published = packets_in_order(run), []
    for at in range(0, len(packets), 200):
        first.add_packets(packets[at : at + 200], run.hops)
        published += first.close()
        if len(published) == 4:
            break
    second = follower_of(as_saved(first), run.model)
    published += follow(run, second)
    assert [w.number for w in published] == [w.number for w in followed]
    for one, other in zip(published, followed, strict=True):
        assert np.array_equal(one.rows, other.rows)
        assert np.array_equal(one.held, other.held)
    assert second.counters.windows == 8


def test_a_spine_that_is_taken_out_while_it_runs(run) -> None:
    """The others go on without a gap, with what was known of them, under new numbers."""
    model = run.model
    gone = clock_of(run, "spine2")
    kept = [e for e, link in enumerate(model.links) if gone not in (link.a, link.b)]
    number = {old: new for new, old in enumerate(c for c in range(len(model.clocks)) if c != gone)}
    smaller = replace(
        model,
        clocks=tuple(c for n, c in enumerate(model.clocks) if n != gone),
        links=tuple(
            replace(model.links[e], a=number[model.links[e].a], b=number[model.links[e].b])
            for e in kept
        ),
        reference=number[model.reference],
    )
    follower = Follower(model)
    follower.add_exchanges(run.exchanges)
    packets, windows = packets_in_order(run), []
    for at in range(0, len(packets), 200):
        if len(windows) >= 4 and follower.declared is model:
            follower.change(smaller)
        follower.add_packets(packets[at : at + 200], run.hops)
        windows += follower.close()
    windows += follower.rest()
    assert len(windows) == 8
    last = windows[-1]
    assert last.model is follower.model
    assert len(last.rows) == len(model.clocks) - 1
    assert last.tracked is not None
    assert not last.tracked.update.stepped.any()
    assert not last.tracked.update.acquired.any()
    plain = follow(run)[-1]
    ours = {last.model.clocks[row["clock"]].name: row for row in last.rows}
    for row in plain.rows:
        name = model.clocks[row["clock"]].name
        if name != "spine2":
            assert abs(int(row["offset_ns"]) - int(ours[name]["offset_ns"])) <= 60


def test_another_reference_begins_anew(run) -> None:
    """Offsets against another clock are not those of before: no step is told of, no row stands."""
    follower = Follower(run.model)
    windows = follow(run, follower)
    follower.change(replace(run.model, reference=clock_of(run, "h2")))
    assert not follower.coverage.known.any()
    assert (follower.tracker.links.count > 0).all()
    assert len(windows) == 8


def test_the_conditional_bound_has_the_products_width(followed) -> None:
    """Rows say how many standard deviations they take."""
    assert {float(k) for w in followed for k in w.rows["sigmas"]} == {CONDITIONAL_SIGMAS}
