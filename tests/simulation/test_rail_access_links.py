# SPDX-License-Identifier: Apache-2.0
"""Rail-optimised: the cables of NICs are measured through their machines, as well as cross-stamps
are."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from bmv2_lab.lab_run import CLOCK_PAIRS_FILE, LabRun, run_lab_here, write_lab_files
from bmv2_lab.scenarios import SCENARIOS
from correction.link_bounds import LinkBounds, link_bounds
from correction.priors import UNIFORM_SD
from tempotrace.analysis import Analysis, analyse
from tests.support.grpc_loop import in_grpc_loop

SEED = 3
"""The grandmaster's own cable is one of the bad ones."""
BAD_ACCESS = 3
UNCERTAINTIES_NS = (6, 20, 60)
"""Of cross-stamps: declared, and three quarters of it a constant error of each NIC."""
FABRIC_SD_NS = 5.0
"""What a cable of a leaf and its way over the spines add at most, by their declared sd of 5 ns: one
NIC in eight measures each tie and each way anew."""


@cache
def rails(uncertainty_ns: int) -> tuple[LabRun, Analysis]:
    """Eight rails, two machines; three of the 16 cables of NICs are asymmetric."""
    scenario = SCENARIOS["rail-optimised"]
    nuisance = replace(scenario.nuisance, ptm_uncertainty_ns=uncertainty_ns)
    scenario = replace(scenario, bad_access_links=BAD_ACCESS, nuisance=nuisance)
    runs: list[LabRun] = []

    @in_grpc_loop
    async def lab() -> None:
        runs.append(await run_lab_here(scenario, SEED, lambda _stage, _share: None))

    lab()
    with TemporaryDirectory() as name:
        out = Path(name)
        write_lab_files(runs[0], out)
        found = analyse(
            runs[0].drawn.fabric,
            out / "reports.pcap",
            out / "exchanges.jsonl",
            out / CLOCK_PAIRS_FILE,
        )
    return runs[0], found


def access(uncertainty_ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, LinkBounds]:
    """Of the cables of NICs: index, whether bad, error of the estimate, ns; and all bounds."""
    run, found = rails(uncertainty_ns)
    index = np.array([i for i, link in enumerate(found.declared.links) if link.access])
    true_ns = np.array([run.lab.truth.links[i].asymmetry_ns for i in index])
    bad = np.array([run.lab.truth.links[i].bad for i in index])
    error_ns = found.solution.links.a_ns[index] - true_ns
    return index, bad, error_ns, link_bounds(found.solution)


@pytest.mark.enable_socket
@pytest.mark.parametrize("uncertainty_ns", UNCERTAINTIES_NS)
def test_estimates_of_access_links_are_within_their_bounds(uncertainty_ns: int) -> None:
    """All 16 lie in loops, through machines; each estimate is within both bounds of the truth, the
    three bad cables are reported and no other."""
    _, found = rails(uncertainty_ns)
    index, bad, error_ns, bounds = access(uncertainty_ns)
    assert len(index) == 16
    assert found.solution.links.observable[index].all()
    assert (np.abs(error_ns) <= bounds.hard_ns[index]).all()
    assert (np.abs(error_ns) <= bounds.conditional_ns[index]).all()
    assert (bounds.conditional_ns[index] <= bounds.hard_ns[index]).all()
    assert bad.sum() == BAD_ACCESS
    assert (found.solution.links.asymmetric[index] == bad).all()


@pytest.mark.enable_socket
@pytest.mark.parametrize("uncertainty_ns", UNCERTAINTIES_NS)
def test_the_cross_stamps_error_sets_theirs(uncertainty_ns: int) -> None:
    """What is known of a bad cable is what is known of its NIC's tie, an error that is anywhere in
    the declared range, and of the fabric around it: claimed, and measured."""
    _, found = rails(uncertainty_ns)
    index, bad, error_ns, _ = access(uncertainty_ns)
    tie_sd_ns = UNIFORM_SD * uncertainty_ns
    claimed_ns = found.solution.links.sd_ns[index][bad]
    assert (claimed_ns > 0.9 * tie_sd_ns).all()
    # its own tie, and the mean of the seven others
    limit_ns = np.hypot(np.sqrt(1 + 1 / 7) * tie_sd_ns, FABRIC_SD_NS)
    assert (claimed_ns < limit_ns).all()
    assert np.sqrt(np.mean(error_ns[bad] ** 2)) < 2.0 * limit_ns


@pytest.mark.enable_socket
def test_bounds_follow_the_declared_error_of_cross_stamps() -> None:
    """Better cross-stamps, narrower bounds of every bad cable; both bounds, one step after the
    other, and the conditional one by almost as much as the cross-stamps where these dominate."""
    index, bad, _, _ = access(UNCERTAINTIES_NS[0])
    chosen = index[bad]
    bounds = [access(uncertainty_ns)[3] for uncertainty_ns in UNCERTAINTIES_NS]
    for better, worse in pairwise(bounds):
        assert (better.conditional_ns[chosen] < worse.conditional_ns[chosen]).all()
        assert (better.hard_ns[chosen] < worse.hard_ns[chosen]).all()
    growth = bounds[2].conditional_ns[chosen] / bounds[1].conditional_ns[chosen]
    assert (growth > 2.4).all()
    assert (growth < 3.0).all()
