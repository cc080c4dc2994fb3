# SPDX-License-Identifier: Apache-2.0
"""Verdicts of the solve against the explanation with the fewest bad links, found exactly."""

import numpy as np
import pytest

from tests.support.mesh_fabric import leaf_spine_mesh
from tests.support.milp_oracle import Comparison, compare, determined


def leaf_spine(leaves: int, spines: int, bad: dict[tuple[int, int], float]) -> np.ndarray:
    """[switch]: what the oracle calls determined, leaves first; leaf 0 is the ground."""
    u, v = np.repeat(np.arange(leaves), spines), np.tile(np.arange(spines), leaves) + leaves
    a = np.zeros(len(u))
    for (leaf, spine), value in bad.items():
        a[leaf * spines + spine] = value
    return determined(u, v, a, leaves + spines).clock


def test_one_bad_uplink_of_four_is_named() -> None:
    """To blame the other three takes two links more, and one more is all that is granted."""
    assert leaf_spine(4, 4, {(2, 1): 100.0}).all()


def test_two_bad_uplinks_of_four_are_not_told_from_the_other_two() -> None:
    """Both off by the same: the leaf may as well be elsewhere with the others bad."""
    found = leaf_spine(4, 4, {(2, 0): 100.0, (2, 1): 100.0})
    assert np.flatnonzero(~found).tolist() == [2]


def test_two_bad_uplinks_of_four_that_disagree_leave_no_rival() -> None:
    """Any other place for the leaf agrees with one uplink only: three bad for two, which is one
    more, so that it is in doubt; with six uplinks it is five for two."""
    assert np.flatnonzero(~leaf_spine(4, 4, {(2, 0): 100.0, (2, 1): -70.0})).tolist() == [2]
    assert leaf_spine(4, 6, {(2, 0): 100.0, (2, 1): -70.0}).all()


def test_two_uplinks_do_not_bear_one_bad_link() -> None:
    """Either of the two is the bad one: one bad for one."""
    assert not leaf_spine(4, 2, {(1, 0): 100.0})[1]


@pytest.fixture(scope="module")
def compared() -> Comparison:
    """A few seeds; more by hand, in docs/certificates.md."""
    total = Comparison()
    for leaves, spines, share, seeds in ((4, 2, 0.1, 6), (6, 3, 0.1, 4), (8, 4, 0.1, 1)):
        for seed in range(1, seeds + 1):
            fabric = leaf_spine_mesh(leaves, spines, 2 * leaves, seed=seed, bad_share=share)
            compare(fabric, total)
    return total


def test_few_determined_clocks_are_flagged(compared: Comparison) -> None:
    """At most one in twenty of those that the exact search calls determined."""
    assert compared.determined > 0.7 * compared.switches
    assert compared.flagged_determined <= 0.05 * compared.determined


def test_no_confident_answer_is_wrong(compared: Comparison) -> None:
    """The hard bound holds for all; beyond the conditional one, of 99 %, are few, and by little."""
    assert compared.beyond_hard == 0
    assert compared.beyond_conditional <= 0.02 * compared.confident
    assert compared.worst < 1.5
