# SPDX-License-Identifier: Apache-2.0
"""The solver's bench draws the fabric that it says, and holds its answers against the truth."""

import numpy as np
import pytest
from typer.testing import CliRunner

from bmv2_lab.scale.solver_bench import measure
from bmv2_lab.scale.solver_fabric import CROSS_STAMP_NS, draw_edges, rail_leaves
from tempotrace.cli import app


def test_a_machine_has_a_nic_on_each_leaf_of_its_pod() -> None:
    """8 leaves, 16 NICs, 4 rails: pods of 4 leaves with two machines each."""
    leaf = rail_leaves(8, 16, 4)
    assert leaf.reshape(4, 4).tolist() == [[0, 1, 2, 3]] * 2 + [[4, 5, 6, 7]] * 2


@pytest.mark.parametrize(("leaves", "hosts", "rails"), [(6, 16, 4), (8, 18, 4), (8, 12, 4)])
def test_what_fills_no_machines_or_pods_is_refused(leaves: int, hosts: int, rails: int) -> None:
    """The sizes are in the error; on the command line it is wrong usage."""
    with pytest.raises(ValueError, match=f"{hosts} NICs on {leaves} leaves"):
        rail_leaves(leaves, hosts, rails)
    words = f"bench solver --leaves {leaves} --spines 2 --hosts {hosts} --rails {rails}"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2


def test_ties_are_within_their_limit_and_cables_within_causality() -> None:
    """By the truth: no limit is broken, and ties are off by what is declared at most."""
    drawn = draw_edges(np.random.default_rng(3), 8, 3, 32, 8)
    edges = drawn.edges
    difference = drawn.theta_ns[edges.v] - drawn.theta_ns[edges.u]
    tie = ~edges.may_be_bad
    assert tie.sum() == 32
    assert (np.abs(edges.y_ns - difference)[tie] < CROSS_STAMP_NS + 4.0).all()
    assert (difference <= edges.forward_limit_ns + 1e-9).all()
    assert (-difference <= edges.backward_limit_ns + 1e-9).all()
    assert drawn.bad[tie].sum() == 0


@pytest.mark.parametrize("rails", [0, 8])
def test_answers_are_right(rails: int) -> None:
    """Small, with and without machines: bounds hold, nearly all clocks are determined, and an
    asymmetric cable of a NIC is known as well as cross-stamps are, where there are any."""
    result = measure(16, 12, 128, rails, 5)
    assert result.edges == 16 * 12 + 128 * (2 if rails else 1)
    assert result.bound_hard_coverage == 1.0
    assert result.bound_conditional_coverage > 0.99
    assert result.determined_share > 0.9
    assert result.error_ns_rms < result.plain_error_ns_rms
    if rails:
        assert result.access_error_ns_rms is not None
        assert result.access_error_ns_rms < 2.0 * CROSS_STAMP_NS
    else:
        assert result.access_error_ns_rms is None
