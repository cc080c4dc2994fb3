# SPDX-License-Identifier: Apache-2.0
"""The plan of link delays that a solve publishes for the controller."""

from dataclasses import replace
from pathlib import Path

import pytest

from controller.int_policy.delay_plan_file import publish_link_delays, read_delay_plan
from controller.transparent_clock import plan_link_delays
from correction.engine import solve
from correction.solution import FabricSolution
from tests.support.synthetic_fabric import Setup, draw
from tests.support.transparent_clocks import transparent

SETUP = Setup(
    leaves=2, spines=2, windows=2, bad_share=0.0, rate_sd_ppb=0.0, wander=0.0, exchanges=10
)
CLOCKS = ("leaf1", "leaf2", "spine1")


@pytest.fixture(scope="module")
def solution() -> FabricSolution:
    """Three of four switches are transparent clocks."""
    made = draw(5, SETUP)
    model = transparent(made.model, CLOCKS)
    return solve(made.packets, made.hops, made.exchanges, model, made.windows)


def test_plan_holds_the_values_of_the_transparent_clocks(
    solution: FabricSolution, tmp_path: Path
) -> None:
    """The same as the plan of the solve, without the switch that adds nothing."""
    path = tmp_path / "plan.jsonl"
    published = publish_link_delays(path, solution, {})
    expected = [one for one in plan_link_delays(solution).delays if one.switch in CLOCKS]
    read = read_delay_plan(path, CLOCKS)
    assert expected
    assert list(read.delays) == list(published.delays) == expected
    assert read.fabric_constant_scaled_ns == plan_link_delays(solution).fabric_constant_scaled_ns


def test_constants_go_on_from_the_plan_before(solution: FabricSolution, tmp_path: Path) -> None:
    """A fabric whose delays hardly move keeps its constants and values: nothing is written to it.
    A file that cannot be read is made anew."""
    path = tmp_path / "plan.jsonl"
    first = publish_link_delays(path, solution, {})
    text = path.read_text(encoding="utf-8")
    estimates = replace(solution.links, half_round_trip_ns=solution.links.half_round_trip_ns + 0.25)
    moved = replace(solution, links=estimates)
    assert publish_link_delays(path, moved, {}).delays == first.delays
    assert path.read_text(encoding="utf-8") == text
    path.write_text("nonsense", encoding="utf-8")
    assert publish_link_delays(path, solution, {}).delays == first.delays
