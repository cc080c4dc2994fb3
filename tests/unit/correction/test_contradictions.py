# SPDX-License-Identifier: Apache-2.0
"""Impossible cycles cost the clocks that cause them, not the window."""

import numpy as np

from correction.bounds import Constraints
from correction.contradictions import Contradictions, find_contradictions

REFERENCE, SWITCH_A, SWITCH_B, SWITCH_C, HOST, OTHER = range(6)
"""reference - A, a triangle A B C of switches, HOST at B and OTHER at C."""


def _healthy() -> dict[tuple[int, int], float]:
    cables = [(0, 1), (1, 2), (2, 3), (1, 3), (4, 2), (5, 3)]
    return {(u, v): 100.0 for a, b in cables for u, v in ((a, b), (b, a))}


def _found(limits: dict[tuple[int, int], float]) -> Contradictions:
    return find_contradictions(
        Constraints(
            u=np.array([u for u, _ in limits]),
            v=np.array([v for _, v in limits]),
            limit_ns=np.array(list(limits.values())),
            clock_count=6,
        ),
        REFERENCE,
    )


def _blamed(found: Contradictions) -> list[int]:
    return np.flatnonzero(found.blamed).tolist()


def test_possible_data_blame_nobody() -> None:
    """No cycle, nothing withheld."""
    found = _found(_healthy())
    assert found.cycles == ()
    assert not found.blamed.any()
    assert found.rejected is None


def test_a_host_that_contradicts_its_switch_is_withheld_alone() -> None:
    """Less than no time there and back on an access cable: the switch has other witnesses."""
    found = _found(_healthy() | {(HOST, SWITCH_B): -150.0})
    assert _blamed(found) == [HOST]
    assert found.rejected is None
    assert {HOST, SWITCH_B} == set(found.cycles[0].clocks)
    assert found.cycles[0].excess_ns == 50.0


def test_two_bad_hosts_are_both_withheld_alone() -> None:
    """Each contradiction is judged by itself."""
    found = _found(_healthy() | {(HOST, SWITCH_B): -150.0, (OTHER, SWITCH_C): -1e6})
    assert _blamed(found) == [HOST, OTHER]
    assert found.rejected is None


def test_a_bad_switch_is_the_one_on_all_cycles() -> None:
    """Stamps of B that are off on both its uplinks leave A and C blameless."""
    found = _found(_healthy() | {(SWITCH_B, SWITCH_A): -150.0, (SWITCH_B, SWITCH_C): -150.0})
    assert _blamed(found) == [SWITCH_B]
    assert found.rejected is None


def test_one_bad_cable_withholds_both_its_ends() -> None:
    """Which end is wrong cannot be told."""
    found = _found(_healthy() | {(SWITCH_B, SWITCH_C): -150.0})
    assert _blamed(found) == [SWITCH_B, SWITCH_C]


def test_the_references_own_cable_rejects_the_window() -> None:
    """Everything hangs on it."""
    found = _found(_healthy() | {(REFERENCE, SWITCH_A): -150.0})
    assert found.rejected is not None


def test_two_bad_cables_apart_reject_the_window() -> None:
    """More than one culprit among the switches: no smallest one is looked for."""
    limits = _healthy() | {(SWITCH_A, SWITCH_B): -101.0, (SWITCH_B, SWITCH_C): -101.0}
    limits |= {(SWITCH_A, SWITCH_C): -101.0}
    assert _found(limits).rejected is not None
