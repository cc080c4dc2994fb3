# SPDX-License-Identifier: Apache-2.0
"""A follower publishes what transparent clocks should add, window by window."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from controller.following.link_delay_output import LinkDelayOutput
from controller.int_policy.delay_plan_file import read_delay_plan
from controller.transparent_clock import VALIDITY_NS, LinkDelayPlan, plan_link_delays
from correction.engine import solve
from correction.model import FabricModel
from correction.stream.follow import FollowedWindow, Follower
from tests.support.followed import follow
from tests.support.synthetic_fabric import Run, Setup, draw
from tests.support.transparent_clocks import transparent

SETUP = Setup(leaves=2, spines=2, windows=3, bad_share=0.0, exchanges=10)
CLOCKS = ("leaf1", "leaf2", "spine1")
SCALED_PER_NS = 65_536


@pytest.fixture(scope="module")
def run() -> Run:
    """A fabric of which three of four switches are transparent clocks."""
    return draw(5, SETUP)


@pytest.fixture(scope="module")
def model(run: Run) -> FabricModel:
    """What its description says."""
    return transparent(run.model, CLOCKS)


@pytest.fixture(scope="module")
def windows(run: Run, model: FabricModel) -> list[FollowedWindow]:
    """All windows that a follower closes."""
    return follow(run, Follower(model))


def published(path: Path, output: LinkDelayOutput, *windows: FollowedWindow) -> LinkDelayPlan:
    """The plan in the file after these windows."""
    for window in windows:
        output.write(output.encode(window, "run"))
    return read_delay_plan(path, CLOCKS)


def values(plan: LinkDelayPlan) -> dict[tuple[str, int], float]:
    """Delays without the constant, ns, of fabric ports."""
    return {
        (one.switch, one.ingress_port): (one.delay_scaled_ns + plan.fabric_constant_scaled_ns)
        / SCALED_PER_NS
        for one in plan.delays
        if one.basis.value != "access"
    }


def test_values_are_those_of_a_solve_over_everything(
    run: Run, model: FabricModel, windows: list[FollowedWindow], tmp_path: Path
) -> None:
    """The same ports, each to within 3 ns, valid from the end of the last window on."""
    path = tmp_path / "plan.jsonl"
    plan = published(path, LinkDelayOutput(path, model, {}), *windows)
    whole = plan_link_delays(solve(run.packets, run.hops, run.exchanges, model, run.windows))
    expected = {key: one for key, one in values(whole).items() if key[0] in CLOCKS}
    found = values(plan)
    assert found.keys() == expected.keys()
    assert max(abs(found[key] - expected[key]) for key in found) < 3
    last = max(window.end_collector_ns for window in windows if window.tracked is not None)
    assert {one.valid_to_collector_ns for one in plan.delays} == {last + VALIDITY_NS}


def unmeasured(window: FollowedWindow, name: str, later_ns: int) -> FollowedWindow:
    """The window so much later, without a round trip of one link."""
    assert window.tracked is not None
    half_ns = window.tracked.half_round_trip_ns.copy()
    half_ns[[link.name for link in window.model.links].index(name)] = np.nan
    return replace(
        window,
        end_collector_ns=window.end_collector_ns + later_ns,
        tracked=replace(window.tracked, half_round_trip_ns=half_ns),
    )


def test_link_that_is_not_measured_keeps_its_end(
    model: FabricModel, windows: list[FollowedWindow], tmp_path: Path
) -> None:
    """Others are valid for longer; that of the quiet link ends when it would have."""
    path = tmp_path / "plan.jsonl"
    output = LinkDelayOutput(path, model, {})
    published(path, output, *windows)
    link = next(one for one in model.links if not one.access)
    last = next(window for window in reversed(windows) if window.tracked is not None)
    plan = published(path, output, unmeasured(last, link.name, 5_000_000_000))
    ends = {one.valid_to_collector_ns - VALIDITY_NS for one in plan.delays}
    assert ends == {last.end_collector_ns, last.end_collector_ns + 5_000_000_000}


def test_another_follower_goes_on_with_the_file(
    model: FabricModel, windows: list[FollowedWindow], tmp_path: Path
) -> None:
    """What it has not measured itself holds as long as it did; then it is gone."""
    path = tmp_path / "plan.jsonl"
    before = published(path, LinkDelayOutput(path, model, {}), *windows)
    link = next(one for one in model.links if not one.access)
    last = next(window for window in reversed(windows) if window.tracked is not None)
    output = LinkDelayOutput(path, model, {})
    plan = published(path, output, unmeasured(last, link.name, 0))
    assert values(plan).keys() == values(before).keys()
    gone = published(path, output, unmeasured(last, link.name, VALIDITY_NS))
    assert len(values(gone)) < len(values(before))


def test_window_without_measurements_changes_nothing(
    model: FabricModel, windows: list[FollowedWindow], tmp_path: Path
) -> None:
    """The file stays as it is."""
    path = tmp_path / "plan.jsonl"
    output = LinkDelayOutput(path, model, {})
    published(path, output, *windows)
    text = path.read_bytes()
    published(path, output, replace(windows[-1], tracked=None))
    assert path.read_bytes() == text
