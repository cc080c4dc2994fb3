# SPDX-License-Identifier: Apache-2.0
"""Output for people fits the terminal and stays whole elsewhere."""

import pytest

from controller.client import FabricDifference, SwitchDifference
from controller.deploy_report import format_status
from controller.desired import desired_entries
from controller.fabric_generate import leaf_spine
from controller.plan_report import format_plan
from controller.reconcile import reconcile
from controller.switch_error import SwitchError
from tempotrace.terminal import fitted, fitted_to

FABRIC = leaf_spine()
EMPTY = FabricDifference(
    switches=tuple(
        SwitchDifference(
            name=switch.name,
            pipeline_differs=True,
            pipeline_runs=True,
            entries_desired=1,
            updates=tuple(reconcile(desired_entries(FABRIC, switch.name), ())),
        )
        for switch in FABRIC.switches
    ),
    errors=(SwitchError(switch="leaf9", message="word " * 40),),
)


@pytest.mark.parametrize("width", [80, 100, 132])
@pytest.mark.parametrize("verbose", [False, True])
def test_a_plan_fits(width: int, verbose: bool) -> None:
    """Every line of a plan for empty switches, however long, and no word is lost or changed."""
    text = format_plan(EMPTY, FABRIC, verbose=verbose)
    wide = max(map(len, text.split("\n")))
    shown = fitted_to(text, width)
    assert wide > 100
    assert max(map(len, shown.split("\n"))) <= width
    assert shown.split() == text.split()


def test_what_fits_is_left_alone() -> None:
    """Short lines, empty ones and their indents stay; the rest of a long one is indented."""
    text = "a: 1\n\n  b: 2\n  " + "word " * 20 + "end"
    lines = fitted_to(text, 40).split("\n")
    assert lines[:3] == ["a: 1", "", "  b: 2"]
    assert [line.startswith("      ") for line in lines[3:]] == [False, True, True]


def test_files_and_pipes_get_whole_lines() -> None:
    """Where no terminal is, nothing is broken: one line a fact, for grep."""
    text = format_plan(EMPTY, FABRIC)
    assert fitted(text) == text


def test_status_ends_with_a_count() -> None:
    """Switches that could not be asked count as not in sync, and are errors like those of apply."""
    lines = format_status(EMPTY).split("\n")
    assert lines[-1] == "0 of 13 in sync"
    assert lines[-2].startswith("error: leaf9: word word")
