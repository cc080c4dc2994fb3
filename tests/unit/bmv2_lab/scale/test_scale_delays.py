# SPDX-License-Identifier: Apache-2.0
"""One-way delays as text: exact, from a run in memory and from its folder alike."""

import json
from pathlib import Path

import numpy as np
import pytest

from bmv2_lab import lab_run
from bmv2_lab.draw import draw_fabric
from bmv2_lab.lab_run import make_switches, program_switches
from bmv2_lab.scale import delays as module
from bmv2_lab.scale.delays import (
    DelaysError,
    TrueDelays,
    delays_of_folder,
    delays_of_lab,
    write_delays,
)
from bmv2_lab.scale.recording import write_run
from bmv2_lab.scale.run import start_run
from bmv2_lab.scale.settings import NS_PER_S, ScaleSettings
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from controller.pipeline import load_pipeline
from controller.ptp_log import write_ptp_log
from tests.support.grpc_loop import in_grpc_loop

TINY = Scenario(
    name="tiny-delays",
    summary="2 leaves x 2 spines for tests",
    leaves=2,
    spines=2,
    duration_ns=6 * NS_PER_S,
    window_starts_ns=(4 * NS_PER_S,),
    qps_per_peer=1,
    steps_per_window=1,
    faults_hop=0,
    faults_link=0,
    faults_sender=0,
    faults_receiver=0,
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrueDelays, VirtualFabric, Path]:
    """A run of the packet-level lab, in memory and as a folder."""
    drawn = draw_fabric(TINY, 5)
    pipeline = load_pipeline()
    switches = make_switches(drawn.fabric, pipeline)

    @in_grpc_loop
    async def program() -> None:
        assert (await program_switches(drawn.fabric, switches, pipeline)).ok

    program()
    fabric = VirtualFabric(TINY, 5, drawn, switches)
    fabric.run()
    folder = tmp_path_factory.mktemp("lab")
    write_ptp_log(folder / lab_run.EXCHANGES_FILE, fabric.result.ptp_lines)
    fabric.truth.write(folder / lab_run.TRUTH_FILE)
    return delays_of_lab(fabric, drawn.fabric), fabric, folder


@pytest.fixture(autouse=True)
def _known_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' scenario is in the catalogue for as long as they run."""

    def by_name(name: str) -> Scenario:
        if name != TINY.name:
            raise KeyError(f"no scenario called {name!r}")
        return TINY

    monkeypatch.setattr(module, "scenario_by_name", by_name)


def test_delays_are_those_between_the_nics_stamps(
    lab: tuple[TrueDelays, VirtualFabric, Path],
) -> None:
    """Both directions, their true delays taken off, tell the same offset of the client's PHC."""
    delays, fabric, _ = lab
    assert delays.clients == ("h2", "h3", "h4")
    compared = 0
    asymmetric = 0
    for client, name in enumerate(delays.clients):
        there = delays.of(client, to_client=True)
        back = delays.of(client, to_client=False)
        d_ms = dict(zip(there["sequence_id"].tolist(), there["delay_ns"].tolist(), strict=True))
        d_sm = dict(zip(back["sequence_id"].tolist(), back["delay_ns"].tolist(), strict=True))
        for who, row in fabric.result.exchanges:
            sync, delay_req = int(row["sync_sequence_id"]), int(row["delay_req_sequence_id"])
            if who != name or sync not in d_ms:
                continue
            first_ns = int(row["t2_local_ns"] - row["t1_reference_ns"]) - d_ms[sync]
            second_ns = d_sm[delay_req] - int(row["t4_reference_ns"] - row["t3_local_ns"])
            assert abs(first_ns - second_ns) < 300  # 3 ms apart, at up to 100 ppm
            asymmetric += abs(d_ms[sync] - d_sm[delay_req]) > 600
            compared += 1
    assert compared > 30
    assert asymmetric > 0


def test_a_folder_gives_the_delays_of_its_run(
    lab: tuple[TrueDelays, VirtualFabric, Path],
) -> None:
    """Replayed from scenario, seed and servo log, every delay is what it was, to a nanosecond."""
    memory, _, folder = lab
    files = delays_of_folder(folder)
    assert files.clients == memory.clients
    assert files.rate_offset_ppb == memory.rate_offset_ppb
    for name in ("client", "to_client", "sequence_id"):
        assert files.rows[name].tolist() == memory.rows[name].tolist()
    for name in ("sent_true_ns", "delay_ns"):
        wrong = files.rows[name] - memory.rows[name]
        assert np.abs(wrong).max() <= 1, name
        assert np.count_nonzero(wrong) < 0.05 * len(wrong), name


def test_text_has_the_documented_columns(
    lab: tuple[TrueDelays, VirtualFabric, Path], tmp_path: Path
) -> None:
    """One table with a header; per direction one number in seconds a line and nothing else."""
    delays = lab[0]
    assert write_delays(delays, tmp_path, ["h3"]) == ("h3",)
    lines = (tmp_path / "delays.tsv").read_text().splitlines()
    assert lines[0] == "client\tdirection\tsequence_id\tsent_true_ns\tdelay_ns"
    rows = [line.split("\t") for line in lines[1:]]
    assert {row[0] for row in rows} == {"h3"}
    for direction in ("there", "back"):
        mine = delays.of(1, to_client=direction == "there")
        told = [int(row[4]) for row in rows if row[1] == direction]
        assert told == mine["delay_ns"].tolist()
        text = (tmp_path / f"h3.{direction}.delays").read_text()
        assert [round(float(line) * 1e9) for line in text.splitlines()] == told
    sent = [int(row[3]) for row in rows if row[1] == "there"]
    assert sent == sorted(sent)
    conf = (tmp_path / "h3.clknetsim.conf").read_text()
    assert 'node1_delay2 = (file "h3.there.delays")' in conf
    assert 'node2_delay1 = (file "h3.back.delays")' in conf


def test_a_large_run_keeps_its_delays(tmp_path: Path) -> None:
    """A folder of `lab scale` has both directions of every exchange, named by NIC."""
    settings = ScaleSettings(
        gpus=16, nics_per_host=2, radix=8, gpus_per_job=16, warm_up_ns=NS_PER_S, qps_per_peer=1
    )
    run = start_run(settings, 3)
    write_run(run, tmp_path)
    delays = delays_of_folder(tmp_path)
    assert delays.clients == run.world.topology.nic_names[1:]
    exchanges = run.all_exchanges()
    first = exchanges[exchanges["client"] == 1]
    there = delays.of(0, to_client=True)
    assert there["sequence_id"].tolist() == first["sync_sequence_id"].tolist()
    assert len(delays.rows) == 2 * len(exchanges)
    assert bool((delays.rows["residence_ns"] < delays.rows["delay_ns"]).all())
    assert write_delays(delays, tmp_path / "text") == delays.clients


def test_what_has_no_truth_is_refused(
    lab: tuple[TrueDelays, VirtualFabric, Path], tmp_path: Path
) -> None:
    """An empty folder, an unknown scenario, another run's truth and an unknown client are told."""
    delays, _, folder = lab
    with pytest.raises(DelaysError, match=r"no truth\.json"):
        delays_of_folder(tmp_path)
    with pytest.raises(DelaysError, match="no client called 'h9'"):
        write_delays(delays, tmp_path / "x", ["h9"])
    truth = json.loads((folder / "truth.json").read_text())
    (tmp_path / "exchanges.jsonl").write_text((folder / "exchanges.jsonl").read_text())
    (tmp_path / "truth.json").write_text(json.dumps({**truth, "scenario": "nobody's"}))
    with pytest.raises(DelaysError, match="no scenario called"):
        delays_of_folder(tmp_path)
    (tmp_path / "truth.json").write_text(json.dumps({**truth, "seed": 6}))
    with pytest.raises(DelaysError, match="draw other clocks"):
        delays_of_folder(tmp_path)
    (tmp_path / "truth.json").write_text("{")
    with pytest.raises(DelaysError, match=r"truth\.json"):
        delays_of_folder(tmp_path)
