# SPDX-License-Identifier: Apache-2.0
"""Both engines, from samples to published offsets, against dense closed forms and exact L1."""

import numpy as np
import pytest
from scipy.optimize import linprog

from correction.engine import solve_samples
from correction.link_windows import LinkWindowing
from correction.links import link_samples
from correction.measure import Measured
from correction.mesh.solve import Standing
from correction.priors import priors
from correction.selection import BAD_SD_NS
from correction.stream.tracker import FabricTracker
from correction.table import Status
from tests.support.synthetic_fabric import Run, Setup, draw

SETUP = Setup(leaves=5, spines=4, hosts_per_leaf=1, windows=3, window_gap_s=1.0, bad_share=0.0)
LARGE = {"leaf2-spine1": 220.0, "leaf4-spine3": -310.0}
CLEAR_NS = 60.0
"""Between what healthy links and these two leave."""


def drawn(seed: int, *, bad: bool) -> tuple[Run, np.ndarray]:
    """A run and its samples."""
    run = draw(seed, SETUP, a_ns=LARGE if bad else None)
    return run, link_samples(run.packets, run.hops, run.exchanges, run.model)[0]


def incidence(measured_ends: np.ndarray, clocks: int) -> np.ndarray:
    """[link, clock]: -1 at a, +1 at b."""
    rows = np.zeros((len(measured_ends), clocks))
    rows[np.arange(len(measured_ends)), measured_ends[:, 0]] = -1.0
    rows[np.arange(len(measured_ends)), measured_ends[:, 1]] = 1.0
    return rows


def generalised_least_squares(measured: Measured, bad: np.ndarray) -> np.ndarray:
    """[window, clock]: clock - reference at the instants, by one dense solve over all windows.

    y = (I x B) theta + (1 x D) q + noise, with q ~ N(0, prior); nothing is eliminated.
    """
    equations, unknowns = measured.equations, measured.unknowns
    n, reference = len(measured.model.clocks), measured.model.reference
    others = np.delete(np.arange(n), reference)
    b = incidence(measured.ends, n)[:, others]
    windows, links = np.nonzero(equations.known)
    design = np.zeros((len(links), len(measured.windows) * len(others)))
    for row, (w, e) in enumerate(zip(windows, links, strict=True)):
        design[row, w * len(others) : (w + 1) * len(others)] = b[e]
    prior = unknowns.prior_sd_ns.copy()
    prior[: len(bad)][bad] = np.maximum(BAD_SD_NS, prior[: len(bad)][bad])
    lift = unknowns.design[links]
    covariance = np.diag(equations.sd_ns[windows, links] ** 2) + (lift * prior**2) @ lift.T
    inverse = np.linalg.inv(covariance)
    theta = np.linalg.solve(
        design.T @ inverse @ design, design.T @ inverse @ equations.y_ns[windows, links]
    )
    result = np.zeros((len(measured.windows), n))
    result[:, others] = theta.reshape(len(measured.windows), -1)
    return result


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("bad", [False, True], ids=["healthy", "two bad"])
def test_published_offsets_are_those_of_one_dense_solve(seed: int, bad: bool) -> None:
    """With the links that the engine calls bad: readings and estimate to 2 ns, of which rounding is
    one and the weight of rivals the other."""
    run, samples = drawn(seed, bad=bad)
    found = solve_samples(samples, run.model, run.windows)
    measured = found.measured
    expected = generalised_least_squares(measured, found.links.rejected)
    n, reference = len(run.model.clocks), run.model.reference
    anchors = measured.prepared.anchors.anchor_local_ns.reshape(-1, n)
    for w, one in enumerate(found.windows):
        rest = measured.instants.rest_ns[w]
        whole = anchors[w] - anchors[w, reference]
        small = rest - rest[reference] + expected[w]
        sound = one.status == Status.OK
        assert sound.sum() > n // 2
        difference = (one.offset_ns - whole)[sound] - small[sound]
        assert np.abs(difference).max() < 2.0


def exact_l1(ends: np.ndarray, clocks: int, y_ns: np.ndarray, sd_ns: np.ndarray) -> np.ndarray:
    """Residuals of min sum |y - B theta| / sd, as a linear program."""
    b = incidence(ends, clocks)[:, 1:]
    count, free = len(y_ns), clocks - 1
    program = linprog(
        np.r_[np.zeros(free), 1.0 / sd_ns],
        A_ub=np.block([[b, -np.eye(count)], [-b, -np.eye(count)]]),
        b_ub=np.r_[y_ns, -y_ns],
        bounds=[(None, None)] * free + [(0, None)] * count,
    )
    assert program.status == 0
    residual: np.ndarray = y_ns - b @ program.x[:free]
    return residual


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_dense_engine_blames_the_links_that_exact_l1_leaves_large(seed: int) -> None:
    """And no other."""
    run, samples = drawn(seed, bad=True)
    found = solve_samples(samples, run.model, run.windows)
    measured = found.measured
    y_ns = measured.equations.y_ns.mean(axis=0)
    sd_ns = np.hypot(measured.equations.sd_ns.mean(axis=0), SETUP.asymmetry_sd_ns)
    residual = exact_l1(measured.ends, len(run.model.clocks), y_ns, sd_ns)
    names = [link.name for link in run.model.links]
    by_l1 = {names[e] for e in np.flatnonzero(np.abs(residual) > CLEAR_NS)}
    assert by_l1 == set(LARGE)
    assert {names[e] for e in np.flatnonzero(found.links.asymmetric)} == by_l1
    for name, value in LARGE.items():
        assert found.links.a_ns[names.index(name)] == pytest.approx(value, abs=30.0)


def tracked(run: Run, samples: np.ndarray):
    """(tracker, its last window)."""
    windowing = LinkWindowing(run.model, window_ns=10**9, late_ns=0)
    windowing.add(samples)
    tracker = FabricTracker(run.model)
    return tracker, tracker.push(windowing.rest())[-1]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_stream_blames_the_links_that_exact_l1_leaves_large(seed: int) -> None:
    """Of the averages that it keeps of each link."""
    run, samples = drawn(seed, bad=True)
    tracker, last = tracked(run, samples)
    ends = np.array([(link.a, link.b) for link in run.model.links])
    links = tracker.links
    sd_ns = np.hypot(links.noise_sd_ns / np.sqrt(links.count), SETUP.asymmetry_sd_ns)
    residual = exact_l1(ends, len(run.model.clocks), links.z_ns, sd_ns)
    names = [link.name for link in run.model.links]
    assert {names[e] for e in np.flatnonzero(np.abs(residual) > CLEAR_NS)} == set(LARGE)
    assert {names[e] for e in np.flatnonzero(last.solution.bad)} == set(LARGE)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_what_the_stream_keeps_is_solved_as_one_dense_system(seed: int) -> None:
    """theta of the last window's averages: generalised least squares with the shared stamp-point
    constants in the covariance, and the bad links' own variance."""
    run, samples = drawn(seed, bad=True)
    tracker, last = tracked(run, samples)
    model, links, declared = run.model, tracker.links, priors(run.model)
    n, reference = len(model.clocks), model.reference
    others = np.delete(np.arange(n), reference)
    b = incidence(np.array([(one.a, one.b) for one in model.links]), n)[:, others]
    own = declared.own_sd_ns.copy()
    own[last.solution.bad] = np.maximum(BAD_SD_NS, own[last.solution.bad])
    covariance = np.diag(links.noise_sd_ns**2 / links.count + own**2)
    covariance += (declared.shared * declared.shared_sd_ns**2) @ declared.shared.T
    inverse = np.linalg.inv(covariance)
    information = b.T @ inverse @ b
    theta = np.zeros(n)
    theta[others] = np.linalg.solve(information, b.T @ inverse @ links.z_ns)
    sound = last.standing <= Standing.SINGLE_HOMED
    assert sound.sum() > n // 2
    np.testing.assert_allclose(last.solution.theta_ns[sound], theta[sound], atol=1.0)
    sd = np.zeros(n)
    sd[others] = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(last.solution.sd_ns[sound], sd[sound], rtol=0.1, atol=0.3)
