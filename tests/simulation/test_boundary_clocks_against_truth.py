# SPDX-License-Identifier: Apache-2.0
"""With boundary clocks, hosts are corrected along grandmaster, PTP clocks, INT clocks, hosts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bmv2_lab.lab_run import CLOCK_PAIRS_FILE, LabRun, run_lab_here, write_lab_files
from bmv2_lab.scenarios import SCENARIOS
from bmv2_lab.simulator.boundary_clock import parents
from bmv2_lab.truth import TrueClockReading
from correction.boundary_clocks import PTP_SUFFIX
from correction.table import Status
from tempotrace.analysis import Analysis, analyse
from tests.support.grpc_loop import in_grpc_loop

SEED = 4
SCENARIO = replace(SCENARIOS["boundary-clocks"], bad_link_share=2 / 16)


@pytest.fixture(scope="module")
def run() -> LabRun:
    """All switches are boundary clocks, and two cables between them are asymmetric."""
    runs: list[LabRun] = []

    @in_grpc_loop
    async def lab() -> None:
        runs.append(await run_lab_here(SCENARIO, SEED, lambda _stage, _share: None))

    lab()
    return runs[0]


@pytest.fixture(scope="module")
def analysis(run: LabRun, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """What is made of its files."""
    out: Path = tmp_path_factory.mktemp("boundary-clocks")
    write_lab_files(run, out)
    assert not (out / CLOCK_PAIRS_FILE).exists()
    return analyse(run.drawn.fabric, out / "reports.pcap", out / "exchanges.jsonl")


def readings(run: LabRun) -> list[tuple[int, TrueClockReading]]:
    """(what the reference truly reads, what a clock does), of all windows."""
    return [
        (window.reference_ns, clock) for window in run.lab.truth.windows for clock in window.clocks
    ]


@pytest.mark.enable_socket
def test_both_bounds_hold_for_all_hosts_and_all_clocks_of_switches(
    run: LabRun, analysis: Analysis
) -> None:
    """Every clock of every window is determined, and within both bounds of the truth; the
    grandmaster's tree has a bad cable, so that PTP itself is off by more than the bound."""
    names = {clock.name: number for number, clock in enumerate(analysis.model.clocks)}
    seen = set()
    raw_ns, conditional_ns = [], []
    for reference_ns, clock in readings(run):
        at = np.array([clock.local_ns], np.int64)
        found = analysis.table.convert(at, names[clock.clock])
        assert found.status[0] == Status.OK, clock.clock
        error_ns = abs(int(found.reference_ns[0]) - reference_ns)
        assert error_ns <= found.bound_hard_ns[0]
        assert error_ns <= found.bound_conditional_ns[0] <= found.bound_hard_ns[0]
        seen.add(clock.clock)
        if clock.clock.startswith("h"):
            raw_ns.append(abs(clock.local_ns - reference_ns))
            conditional_ns.append(float(found.bound_conditional_ns[0]))
    fabric = run.drawn.fabric
    assert seen == {node.name for node in fabric.nodes} | {
        switch.name + PTP_SUFFIX for switch in fabric.switches
    }
    tree = {frozenset(pair) for pair in parents(fabric).items()}
    bad = {
        frozenset((link.a.node, link.b.node))
        for link, true in zip(fabric.links, run.lab.truth.links, strict=True)
        if true.bad
    }
    assert tree & bad
    assert max(raw_ns) > 2 * max(conditional_ns)


@pytest.mark.enable_socket
def test_a_bad_cable_of_the_tree_is_found_once(run: LabRun, analysis: Analysis) -> None:
    """INT measures it; the exchanges over the same cable are no second bad link."""
    bad = {true.name for true in run.lab.truth.links if true.bad}
    found = {
        link.name
        for link, is_bad in zip(
            analysis.model.links, analysis.solution.links.asymmetric.tolist(), strict=True
        )
        if is_bad
    }
    assert found == bad


@pytest.mark.enable_socket
def test_the_log_names_switches_as_clients_and_their_servos(
    run: LabRun, analysis: Analysis
) -> None:
    """`exchanges.jsonl` has exchanges and adjustments of all eight PTP clocks of switches."""
    switches = {switch.name + PTP_SUFFIX for switch in run.drawn.fabric.switches}
    assert switches <= set(analysis.ptp_log.servos)
    clients = {
        analysis.model.clocks[int(one)].name
        for one in np.unique(analysis.ptp_log.exchanges["client"])
    }
    assert switches <= clients
