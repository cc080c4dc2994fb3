# SPDX-License-Identifier: Apache-2.0
"""The lab in real time: embedded switches on veth ports, and the real ptp4l and chronyd.

One kernel has one clock, so the true offset of every host is zero and all that ptp4l reports is
error.
"""

import json
import os
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
from tempotrace.demo_run import FinishedDemo, run_demo
from tests.support.real_time_lab import running_lab

MISSING = missing_of("veth")
pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.enable_socket,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]
SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
SCENARIO = replace(
    SCENARIOS["tiny-2x2"],
    duration_ns=4_500_000_000,
    window_starts_ns=(3_000_000_000,),
)
SEED = 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedDemo]:
    """One short run with everything that a run leaves."""
    out = tmp_path_factory.mktemp("veth")
    with run_demo(
        SCENARIO,
        SEED,
        out,
        lambda _stage, _share: None,
        run_scenario=lambda scenario, seed, progress: run_real_time(
            scenario, "veth", seed, progress
        ),
    ) as demo:
        yield demo


def test_all_limits_on_telemetry_and_truth_are_kept(finished: FinishedDemo) -> None:
    """No report rejected, no ICRC wrong, no transfer incomplete, exchanges of every client."""
    limits = finished.summary["real_time"]["limits"]
    assert len(limits) == 9
    assert [limit for limit in limits if not limit["passed"]] == []


def test_the_files_are_those_of_every_run(finished: FinishedDemo, tmp_path: Path) -> None:
    """Summary and truth fit their schemas."""
    path = tmp_path / "truth.json"
    finished.run.lab.truth.write(path)
    for name, document in (
        ("summary", finished.summary),
        ("truth", json.loads(path.read_text(encoding="utf-8"))),
    ):
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.validate(json.loads(json.dumps(document)), schema)


def test_ptp4l_went_through_our_p4(finished: FinishedDemo) -> None:
    """Its Syncs and Delay_Reqs are in the reports of every switch on their way, and join."""
    counters = finished.analysis.solution.counters
    assert counters.exchanges_joined > 0
    packets = finished.analysis.collection.packets
    whole = packets[packets["complete"]]  # the last ones may still be on their way
    assert len(packets) - len(whole) < 10
    assert set(whole["hop_count"].tolist()) == {1, 3}


def test_hosts_are_one_clock(finished: FinishedDemo) -> None:
    """The truth says zero, and every message took its cables' time or longer, never less."""
    windows = finished.run.lab.truth.windows
    offsets = [c.offset_ns for w in windows for c in w.clocks if c.offset_ns is not None]
    assert offsets == [0.0] * 4
    shortest_ns = min(min(link.a_to_b_ns, link.b_to_a_ns) for link in finished.run.drawn.links)
    for _client, row in finished.run.lab.result.exchanges:
        assert int(row["t2_local_ns"]) - int(row["t1_reference_ns"]) > 2 * shortest_ns
        assert int(row["t4_reference_ns"]) - int(row["t3_local_ns"]) > 2 * shortest_ns


def test_cables_hold_frames_back_as_long_as_they_should(finished: FinishedDemo) -> None:
    """By the switches' own stamps, put on true time: no frame is early on any fabric link."""
    run, model = finished.run, finished.analysis.model
    samples = finished.analysis.samples
    names = [clock.name for clock in model.clocks]
    base_ns = run.lab.truth.windows[0].reference_ns - run.lab.truth.windows[0].centre_true_ns
    true_of = {
        name: (lambda ns, n=name: run.drawn.oscillators[n].true_of_ns(ns))
        if name.startswith(("leaf", "spine"))
        else (lambda ns: ns - base_ns)
        for name in names
    }
    for index, (link, true_link) in enumerate(zip(model.links, run.drawn.links, strict=True)):
        for reverse in (False, True):
            mine = samples[(samples["link"] == index) & (samples["reverse"] == reverse)]
            if not len(mine):
                continue
            sender, receiver = (link.b, link.a) if reverse else (link.a, link.b)
            took_ns = true_of[names[receiver]](mine["ingress_local_ns"]) - true_of[names[sender]](
                mine["egress_local_ns"]
            )
            cable_ns = true_link.b_to_a_ns if reverse else true_link.a_to_b_ns
            assert np.min(took_ns) > cable_ns - 1_000
            assert np.median(took_ns) < cable_ns + 20_000_000


def test_hard_bounds_hold_on_real_packets(finished: FinishedDemo) -> None:
    """Every client's error is within its hard bound, which causality alone gives."""
    assert finished.summary["sync"]["bound_hard_coverage"] == 1.0


def test_nothing_is_left_after_sigterm(tmp_path: Path) -> None:
    """The run ends as interrupted; no process of it runs, and none of its namespaces exists."""
    with running_lab("veth", tmp_path) as lab:
        assert len(lab.namespaces) == 5
        code, _ = lab.end(signal.SIGTERM)
        assert code == 130
        assert lab.left() == (set(), set())


def test_after_sigkill_a_folder_is_left_and_the_next_run_removes_it(tmp_path: Path) -> None:
    """The kernel ends its processes and takes its namespaces; its folder goes with the next run."""
    with running_lab("veth", tmp_path, folders=tmp_path) as lab:
        code, _ = lab.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
        assert lab.left() == (set(), set())
    left = set(tmp_path.glob("tempotrace-*"))
    assert len(left) == 2
    with running_lab("veth", tmp_path, folders=tmp_path) as lab:
        assert not any(path.exists() for path in left)
        lab.end(signal.SIGTERM)
    assert list(tmp_path.glob("tempotrace-*")) == []


def test_a_link_flap_is_real() -> None:
    """`ip link` takes the cable down, the controller routes around it, and it carries again."""
    run = run_real_time(SCENARIOS["link-flap"], "veth", SEED, lambda _stage, _share: None)
    limits = {limit.name: limit for limit in event_limits(run)}
    (down,) = [event for event in run.lab.truth.events if event.kind == "link_down"]
    assert limits["packets into it after the new routes"].found == 0.0
    assert limits["packets over it once it is back"].found >= 1.0
    assert down.until_true_ns is not None
    assert down.until_true_ns - down.from_true_ns > 1_000_000_000


def test_a_daemon_that_dies_ends_the_run_with_one_line(tmp_path: Path) -> None:
    """Exit 2, the daemon is named, and nothing is left."""
    with running_lab("veth", tmp_path) as lab:
        os.kill(lab.child("ptp4l"), signal.SIGKILL)
        code, said = lab.end(None)
        assert code == 2
        assert said.startswith("ptp4l of h")
        assert "ended with code -9" in said
        assert lab.left() == (set(), set())
