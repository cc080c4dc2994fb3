# SPDX-License-Identifier: Apache-2.0
"""Whole runs: determinism, completeness, sampling, faults, files; the engine on their arrays."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from bmv2_lab.scale.messages import ROCE_HEADER_BYTES, TRANSFER_DTYPE
from bmv2_lab.scale.recording import (
    Recording,
    counts,
    model_of,
    read_recording,
    record,
    write_run,
)
from bmv2_lab.scale.run import ScaleRun, start_run
from bmv2_lab.scale.scoring import score
from bmv2_lab.scale.settings import NS_PER_S, Collective, ScaleSettings, Shape
from bmv2_lab.scenarios import Congestion
from correction.links import residence_time_ns
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE

ROOT = Path(__file__).parents[4]
TINY = ScaleSettings(
    gpus=16,
    nics_per_host=2,
    radix=8,
    gpus_per_job=8,
    warm_up_ns=2 * NS_PER_S,
    qps_per_peer=8,
)


def _run(settings: ScaleSettings, seed: int = 3) -> tuple[ScaleRun, Recording]:
    run = start_run(settings, seed)
    return run, record(run)


@pytest.fixture(scope="module")
def tiny() -> tuple[ScaleRun, Recording]:
    """One small run."""
    return _run(TINY)


def test_a_seed_gives_the_same_records(tiny: tuple[ScaleRun, Recording]) -> None:
    """Two runs of one seed are equal in every field; another seed is not."""
    run, first = tiny
    other, second = _run(TINY)
    for name in ("packets", "hops", "exchanges", "transfers"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name
    assert run.truth == other.truth
    assert _run(TINY, seed=4)[1].hops.tobytes() != first.hops.tobytes()


def test_every_packet_is_complete_and_every_hop_is_cabled(
    tiny: tuple[ScaleRun, Recording],
) -> None:
    """Hops join port to port, residence is at least the pipeline's, clocks are the nodes' own."""
    run, recording = tiny
    topology, packets, hops = run.world.topology, recording.packets, recording.hops
    assert bool(packets["complete"].all())
    assert int(packets["hop_count"].sum()) == len(hops)
    assert int(packets["first_hop"][0]) == 0
    peer = {}
    for link in range(topology.link_count):
        a = (int(topology.link_a[link]), int(topology.link_a_port[link]))
        b = (int(topology.link_b[link]), int(topology.link_b_port[link]))
        peer[a], peer[b] = b, a
    clock = {int(n): topology.nic_count + i for i, n in enumerate(topology.node_id.tolist())}
    nic = {int(ip): i for i, ip in enumerate(topology.nic_ip.tolist())}
    for packet in packets[:: max(1, len(packets) // 300)]:
        at = (nic[int(packet["src_ip"])], 1)
        for hop in hops[packet["first_hop"] : packet["first_hop"] + packet["hop_count"]]:
            assert peer[at] == (clock[int(hop["node_id"])], int(hop["ingress_port"]))
            at = (clock[int(hop["node_id"])], int(hop["egress_port"]))
        assert peer[at] == (nic[int(packet["dst_ip"])], 1)
    assert residence_time_ns(hops, model_of(run)).min() >= 399


def test_the_engine_takes_the_arrays(tiny: tuple[ScaleRun, Recording]) -> None:
    """Corrected clocks are inside their bounds and far nearer than PTP left them."""
    run, recording = tiny
    solution, table = recording.solve(model_of(run))
    assert not solution.counters.rejected.keys() - {"outside_windows"}
    found = score(run.truth, run.world, solution, table)
    assert found.clients == TINY.gpus - 1
    assert found.clients_flagged < found.clients / 2
    assert found.bound_hard_coverage == found.bound_conditional_coverage == 1.0
    assert found.corrected_error_ns_rms < 30.0
    assert found.corrected_error_ns_rms < 0.2 * found.ptp_raw_error_ns_rms
    assert found.false_alarms == 0


def test_the_score_tells_errors_from_bounds(tiny: tuple[ScaleRun, Recording]) -> None:
    """A truth shifted by a microsecond is outside all bounds, and the error is that much."""
    run, recording = tiny
    solution, table = recording.solve(model_of(run))
    window = run.truth.windows[0]
    shifted = replace(
        window,
        clocks=tuple(
            reading
            if reading.offset_ns is None
            else replace(reading, offset_ns=reading.offset_ns + 1_000.0)
            for reading in window.clocks
        ),
    )
    truth = replace(run.truth, windows=[shifted])
    found = score(truth, run.world, solution, table)
    assert found.corrected_error_ns_rms == pytest.approx(1_000.0, abs=40.0)
    assert found.bound_conditional_coverage == 0.0


def test_transfers_happen_in_order(tiny: tuple[ScaleRun, Recording]) -> None:
    """On the sender's PHC post, first and last packet, completion; likewise on the receiver's."""
    _, recording = tiny
    transfers = recording.transfers
    assert transfers.dtype == TRANSFER_DTYPE
    for names in (
        ("post", "tx_first", "tx_last", "acknowledged"),
        ("rx_first", "rx_last", "received"),
    ):
        stamps = np.stack([transfers[f"{name}_local_ns"] for name in names])
        assert bool((np.diff(stamps, axis=0) > 0).all())
    span_ns = transfers["tx_last_local_ns"] - transfers["tx_first_local_ns"]
    assert set(span_ns.tolist()) <= {83, 84, 85}  # one frame's port time at 400 Gb/s


def test_telemetry_samples_by_psn() -> None:
    """With two bits every fourth PSN is reported, data and acknowledgement alike, and no other."""
    settings = replace(TINY, packets_per_message=16, sample_psn_bits=2, qps_per_peer=2)
    run, recording = _run(settings)
    roce = recording.packets[recording.packets["traffic"] == TRAFFIC_ROCE]
    assert not (roce["psn"] & 3).any()
    assert len(roce) == 2 * 4 * len(run.flows)
    data = roce[roce["wire_bytes"] > 100]
    assert len(data) == len(roce) // 2
    assert set(data["wire_bytes"].tolist()) == {ROCE_HEADER_BYTES + settings.payload_bytes}
    transfers = recording.transfers
    assert set(((transfers["psn_last"] - transfers["psn_first"]) & 0xFFFFFF).tolist()) == {15}
    send_ns = transfers["tx_last_local_ns"] - transfers["tx_first_local_ns"]
    frame_ns = run.network.frame_work_ns(np.array([ROCE_HEADER_BYTES + 4_096]))[0]
    assert np.abs(send_ns - 15 * frame_ns).max() <= 2


def test_faults_are_felt_where_the_truth_says() -> None:
    """A struck hop holds its transfer's packet, a struck link delays it, a slow host its end."""
    settings = replace(
        TINY,
        faults_hop=6,
        faults_link=6,
        faults_sender=3,
        faults_receiver=3,
        congestion=Congestion(congested_ports_share=0.0),
    )
    run, recording = _run(settings)
    struck = [fault for fault in run.truth.faults if fault.struck]
    assert {fault.kind for fault in struck} == {"hop", "link", "sender", "receiver"}
    transfers = recording.transfers
    took = transfers["acknowledged_local_ns"] - transfers["post_local_ns"]
    got = transfers["received_local_ns"] - transfers["rx_last_local_ns"]
    slow = int(np.count_nonzero(took > 14_000))
    waited = recording.hops["egress_tstamp_local_ns"] - recording.hops["ingress_tstamp_local_ns"]
    kinds = [fault.kind for fault in struck]
    assert slow == kinds.count("hop") + kinds.count("link") + kinds.count("sender")
    assert int(np.count_nonzero(got > 14_000)) == kinds.count("receiver")
    held = {
        int(node)
        for node in recording.hops["node_id"][
            (waited > 14_000) & (recording.hops["queue_id"] == 1)
        ].tolist()
    }
    names = dict(
        zip(run.world.topology.switch_names, run.world.topology.node_id.tolist(), strict=True)
    )
    assert held == {names[f.entity.split(":")[0]] for f in struck if f.kind == "hop"}


def test_a_straggler_host_is_slow_throughout() -> None:
    """Posts and completions of its NICs take 5 to 20 us more, those of the others do not."""
    run, recording = _run(replace(TINY, straggler_hosts=1, faults_hop=0, faults_link=0,
                                  faults_sender=0, faults_receiver=0))  # fmt: skip
    slow = {fault.entity for fault in run.truth.faults if fault.kind == "host"}
    assert len(slow) == TINY.nics_per_host
    transfers = recording.transfers
    names = np.array(run.world.topology.nic_names)
    at_sender = np.isin(names[transfers["src_clock"]], sorted(slow))
    post_ns = transfers["tx_first_local_ns"] - transfers["post_local_ns"]
    assert post_ns[at_sender].min() >= 5_000
    assert post_ns[~at_sender].max() < 2_000


@pytest.mark.parametrize(
    "settings",
    [
        replace(TINY, collective=Collective.TREE),
        replace(TINY, shape=Shape.LEAF_SPINE),
        replace(TINY, gpus=32, shape=Shape.THREE_TIER, gpus_per_job=32),
        replace(TINY, steps_per_window=2, window_count=2, ptp_dscp=46),
    ],
)
def test_other_shapes_and_traffic_run(settings: ScaleSettings) -> None:
    """Trees, three tiers, several windows and PTP in a queue of its own leave complete records."""
    run, recording = _run(settings)
    steps = settings.window_count * settings.steps_per_window
    assert len(recording.transfers) == steps * len(run.flows)
    assert len(run.truth.windows) == settings.window_count
    ptp = recording.packets["traffic"] == TRAFFIC_PTP
    assert int(ptp.sum()) == 2 * len(recording.exchanges)
    assert len(recording.exchanges) == 4 * settings.window_count * (settings.gpus - 1)
    if settings.ptp_dscp == 46:
        queue = np.repeat(ptp, recording.packets["hop_count"])
        assert set(recording.hops["queue_id"][queue].tolist()) == {2}


def test_files_hold_what_the_arrays_hold(tiny: tuple[ScaleRun, Recording], tmp_path: Path) -> None:
    """A folder read back equals the run in memory; truth.json keeps its schema."""
    _, memory = tiny
    run = start_run(TINY, 3)
    (tmp_path / "chunk-9999.npz").write_bytes(b"of an older run")
    write_run(run, tmp_path)
    files = read_recording(tmp_path)
    for name in ("packets", "hops", "exchanges", "transfers"):
        assert getattr(files, name).tobytes() == getattr(memory, name).tobytes(), name
    assert files.servos.keys() == memory.servos.keys()
    assert all(
        files.servos[clock].adjustments.tobytes() == log.adjustments.tobytes()
        for clock, log in memory.servos.items()
    )
    schema = json.loads((ROOT / "docs" / "schemas" / "truth.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "truth.json").read_text()), schema)
    told = json.loads((tmp_path / "scale.json").read_text())
    assert told["packets"] == len(memory.packets) == counts(run)["packets"]
    assert (tmp_path / "fabric.yaml").read_text().startswith("# TempoTrace fabric")
