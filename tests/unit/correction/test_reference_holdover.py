# SPDX-License-Identifier: Apache-2.0
"""Windows in which the reference shows nothing."""

from dataclasses import replace

import numpy as np
import pytest

from correction.engine import solve
from correction.solution import FabricSolution
from correction.table import Status
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Run, Setup, draw

NEAR = Setup(
    leaves=4, spines=4, hosts_per_leaf=1, windows=3, window_gap_s=1.0, bad_share=0.0, exchanges=8
)
SWITCHES = list(range(4, 12))
LEAF2 = 5
SILENT = 1


def _silent(run: Run) -> FabricSolution:
    """Solved without the exchanges of the middle window: there is only one time transmitter."""
    epoch_ns = run.truth.clocks[run.truth.reference].epoch_ns
    about_true_ns = (run.exchanges["t1_reference_ns"] - epoch_ns).astype(float)
    gone = np.abs(about_true_ns - run.truth.centre_true_ns[SILENT]) < 0.5e9
    return solve(run.packets, run.hops, run.exchanges[~gone], run.model, run.windows)


@pytest.mark.parametrize("seed", range(71, 77))
def test_fabric_clocks_carry_the_reference_over_a_silent_window(seed: int) -> None:
    """All switches are determined while it is silent; both bounds hold, at the window's centre and
    near its ends, and the conditional one is wider than beside it."""
    run = draw(seed, NEAR)
    solution = _silent(run)
    held = solution.windows[SILENT]
    assert [one.held for one in solution.windows] == [False, True, False]
    assert (held.status[SWITCHES] == Status.OK).all()
    for shift_s in (-0.45, 0.0, 0.45):
        got = score(run, solution, shift_s=shift_s)
        error = np.abs(got.error_ns[:, SWITCHES])
        assert (error <= got.hard_ns[:, SWITCHES]).all()
        assert (error <= got.conditional_ns[:, SWITCHES]).all()
    bound = got.conditional_ns[:, SWITCHES]
    assert (bound[SILENT] > bound[0]).all()
    assert np.isfinite(bound).all()


def test_windows_too_far_away_tell_nothing() -> None:
    """Corrections may be used for two seconds beyond their windows; these are five apart."""
    run = draw(71, replace(NEAR, window_gap_s=5.0))
    solution = _silent(run)
    assert not solution.windows[SILENT].held
    assert (solution.windows[SILENT].status[SWITCHES] == Status.FLOATING).all()


def test_a_clock_that_was_set_meanwhile_is_not_asked() -> None:
    """A leaf that is set by 5 us between two windows contradicts all its links: the others carry
    the reference, and it is right again at once."""
    at_ns = draw(72, NEAR).truth.centre_true_ns[SILENT] - 0.5e9
    run = draw(72, NEAR, steps={LEAF2: (at_ns, 5_000)})
    solution = _silent(run)
    got = score(run, solution)
    assert solution.windows[SILENT].held
    error = np.abs(got.error_ns[SILENT, SWITCHES])
    judged = solution.windows[SILENT].status[SWITCHES] == Status.OK
    assert judged.sum() >= len(SWITCHES) - 1
    assert (error <= got.conditional_ns[SILENT, SWITCHES])[judged].all()


def test_a_recording_with_the_reference_throughout_is_solved_once() -> None:
    """No tie is added."""
    run = draw(71, NEAR)
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    assert len(solution.model.links) == len(run.model.links)
    assert not any(one.held for one in solution.windows)
