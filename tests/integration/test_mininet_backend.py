# SPDX-License-Identifier: Apache-2.0
"""The lab in real time on BMv2: a simple_switch_grpc per switch in a network that Mininet built."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from bmv2_lab.backends.event_limits import event_limits
from bmv2_lab.backends.needs import missing_of
from bmv2_lab.backends.real_time_run import run_real_time
from bmv2_lab.scenarios import SCENARIOS
from correction.records import UNKNOWN_U32
from tempotrace.demo_run import FinishedDemo, run_demo
from tests.support.real_time_lab import running_lab

MISSING = missing_of("bmv2")
pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.enable_socket,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "summary.schema.json"
SCENARIO = replace(
    SCENARIOS["tiny-2x2"],
    duration_ns=5_000_000_000,
    window_starts_ns=(3_000_000_000,),
)
US = 1_000


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedDemo]:
    """One short run with everything that a run leaves."""
    out = tmp_path_factory.mktemp("bmv2")
    with run_demo(
        SCENARIO,
        3,
        out,
        lambda _stage, _share: None,
        run_scenario=lambda scenario, seed, progress: run_real_time(
            scenario, "bmv2", seed, progress
        ),
    ) as demo:
        yield demo


def test_all_limits_on_telemetry_and_truth_are_kept(finished: FinishedDemo) -> None:
    """BMv2's reports are decoded by the collector that everybody has, and no ICRC is wrong."""
    limits = finished.summary["real_time"]["limits"]
    assert [limit for limit in limits if not limit["passed"]] == []
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(json.dumps(finished.summary)), schema)


def test_the_controller_programmed_bmv2(finished: FinishedDemo) -> None:
    """Four pipelines pushed over P4Runtime, everything read back, and nothing differs."""
    deployment = finished.run.deployment
    assert deployment.ok
    assert deployment.pipelines_pushed == 4
    assert deployment.drift_count == 0


def test_stamps_are_bmv2s(finished: FinishedDemo) -> None:
    """Whole microseconds since each switch started, seconds ago."""
    hops = finished.analysis.collection.hops
    stamps = hops["ingress_tstamp_local_ns"]
    assert np.all(stamps % US == 0)
    assert np.all((stamps > 0) & (stamps < 300_000_000_000))


def test_queues_fill_where_ports_have_rates(finished: FinishedDemo) -> None:
    """Thrift gave every cabled port a rate; the packets of a message meet each other's queue."""
    depths = finished.analysis.collection.hops["queue_depth"]
    known = depths[depths != UNKNOWN_U32]
    assert len(known) > 100
    assert known.max() >= 1


def test_the_truth_has_the_switches_clocks(finished: FinishedDemo) -> None:
    """What Thrift told of each clock agrees with the stamps: no frame is early on any cable."""
    run, model, samples = finished.run, finished.analysis.model, finished.analysis.samples
    window = run.lab.truth.windows[0]
    epoch_ns = {clock.clock: clock.local_ns - window.centre_true_ns for clock in window.clocks}
    names = [clock.name for clock in model.clocks]
    for index, (link, true_link) in enumerate(zip(model.links, run.drawn.links, strict=True)):
        for reverse in (False, True):
            mine = samples[(samples["link"] == index) & (samples["reverse"] == reverse)]
            if not len(mine):
                continue
            sender, receiver = (link.b, link.a) if reverse else (link.a, link.b)
            took_ns = (mine["ingress_local_ns"] - epoch_ns[names[receiver]]) - (
                mine["egress_local_ns"] - epoch_ns[names[sender]]
            )
            cable_ns = true_link.b_to_a_ns if reverse else true_link.a_to_b_ns
            assert np.min(took_ns) > cable_ns - 200 * US  # two Thrift calls' uncertainty


def test_hard_bounds_hold_on_bmv2(finished: FinishedDemo) -> None:
    """Every client's error is within its hard bound, which causality alone gives."""
    assert finished.summary["sync"]["bound_hard_coverage"] == 1.0


def test_nothing_is_left_after_sigkill(tmp_path: Path) -> None:
    """Nobody tells Mininet: its processes die with their parent, and namespaces with them."""
    with running_lab("bmv2", tmp_path, folders=tmp_path) as lab:
        code, _ = lab.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
        assert lab.left() == (set(), set())


def test_a_switch_restarts() -> None:
    """Its process ends and another starts: no pipeline, sequences from zero, programmed again."""
    run = run_real_time(SCENARIOS["switch-restart"], "bmv2", 3, lambda _stage, _share: None)
    limits = {limit.name: limit for limit in event_limits(run)}
    assert limits["packets through it while it is dark"].found == 0.0
    assert limits["packets through it once it is back"].found >= 1.0
    assert limits["report sequences that began anew"].found >= 1.0


def test_nothing_is_left_after_sigint(tmp_path: Path) -> None:
    """Mininet, its hosts, the switches and the daemons end with the run, namespaces included."""
    with running_lab("bmv2", tmp_path) as lab:
        commands = list(lab.children.values())
        assert sum("simple_switch_grpc" in command for command in commands) == 4
        assert len(lab.namespaces) == 5
        code, _ = lab.end(signal.SIGINT)
        assert code == 130
        assert lab.left() == (set(), set())
