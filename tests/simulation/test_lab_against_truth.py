# SPDX-License-Identifier: Apache-2.0
"""What the switches report is what truly happened: residence of every hop, paths, link delays."""

import numpy as np
import pytest

from bmv2_lab.draw import DrawnFabric, draw_fabric
from bmv2_lab.lab_run import make_switches, program_switches
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from controller.collector.aggregation import Aggregation
from controller.fabric_model import fabric_model
from controller.pipeline import load_pipeline
from controller.telemetry.collector import Collection, collect
from correction.links import link_samples
from correction.prepare import declared_delay_ns
from correction.records import EXCHANGE_DTYPE, TRAFFIC_PTP, TRAFFIC_ROCE
from tests.support.grpc_loop import in_grpc_loop

TINY = Scenario(
    name="tiny",
    summary="2 leaves x 2 spines for tests",
    leaves=2,
    spines=2,
    duration_ns=3_000_000_000,
    window_starts_ns=(1_500_000_000,),
    qps_per_peer=3,
    bad_link_share=0.25,
    faults_hop=8,
    faults_link=0,
    faults_sender=0,
    faults_receiver=0,
)
BTH_OFFSET = 42
SINK_PORTS = (11, 12)


class _Witness:
    """True instants at which each RoCEv2 packet entered and left its last switch."""

    def __init__(self, lab: VirtualFabric) -> None:
        self.entered: dict[tuple[int, int], int] = {}
        self.left: dict[tuple[int, int], tuple[str, int]] = {}
        for name, node in lab.switch_nodes.items():
            strikes, receive = node.before_send, node.switch.ingress

            def sent(switch: str, port: int, frame: bytes, then=strikes) -> None:  # type: ignore[no-untyped-def]
                if port in SINK_PORTS and frame[36:38] == (4791).to_bytes(2, "big"):
                    self.left[_key(frame, BTH_OFFSET)] = (switch, lab.engine.now_ns)
                then(switch, port, frame)

            def received(frame: bytes, port: int, stamp: int, then=receive):  # type: ignore[no-untyped-def]
                if frame[15] >> 2 & 1 and frame[36:38] == (4791).to_bytes(2, "big"):
                    offset = BTH_OFFSET + 4 + 4 * frame[BTH_OFFSET + 1]
                    self.entered[_key(frame, offset)] = stamp
                return then(frame, port, stamp)

            assert name == node.name
            node.before_send = sent
            node.switch.ingress = received


def _key(frame: bytes, bth: int) -> tuple[int, int]:
    return int.from_bytes(frame[bth + 5 : bth + 8], "big"), int.from_bytes(
        frame[bth + 9 : bth + 12], "big"
    )


@pytest.fixture(scope="module")
def run() -> tuple[DrawnFabric, VirtualFabric, _Witness, Collection]:
    """One tiny run with its witness."""
    drawn = draw_fabric(TINY, 11)
    pipeline = load_pipeline()
    switches = make_switches(drawn.fabric, pipeline)

    @in_grpc_loop
    async def program() -> None:
        assert (await program_switches(drawn.fabric, switches, pipeline)).ok

    program()
    lab = VirtualFabric(TINY, 11, drawn, switches)
    witness = _Witness(lab)
    lab.run()
    return drawn, lab, witness, collect(lab.result.reports, drawn.fabric)


def test_the_sinks_own_latency_is_the_true_one(
    run: tuple[DrawnFabric, VirtualFabric, _Witness, Collection],
) -> None:
    """Ingress and egress stamps of the last hop are the sink's clock at the true instants."""
    drawn, _, witness, collection = run
    compared = waited = 0
    for packet in collection.packets[collection.packets["traffic"] == TRAFFIC_ROCE]:
        key = (int(packet["dest_qp"]), int(packet["psn"]))
        if key not in witness.entered:
            continue  # source and sink on one switch: no INT on the wire
        switch, left_ns = witness.left[key]
        sink = collection.hops[packet["first_hop"] + packet["hop_count"] - 1]
        assert int(sink["node_id"]) == drawn.fabric.switch(switch).node_id
        assert int(sink["ingress_tstamp_local_ns"]) == witness.entered[key]
        true_egress_ns = drawn.oscillators[switch].read_ns(left_ns)
        assert int(sink["egress_tstamp_local_ns"]) == true_egress_ns
        compared += 1
        waited += true_egress_ns - witness.entered[key] > 10_000
    assert compared > 50
    assert waited > 0  # an injected burst held some packets back at their sink


def test_every_packet_is_complete_and_every_path_is_cabled(
    run: tuple[DrawnFabric, VirtualFabric, _Witness, Collection],
) -> None:
    """No report is missing; between leaves a path is leaf, spine, leaf."""
    _, _, _, collection = run
    assert collection.counters.incomplete == collection.counters.lost == 0
    packets = collection.packets
    assert bool(packets["complete"].all())
    assert set(np.unique(packets["hop_count"]).tolist()) <= {1, 3}
    assert (packets["traffic"] == TRAFFIC_PTP).sum() > 20


def test_link_samples_are_true_delay_plus_one_sided_noise(
    run: tuple[DrawnFabric, VirtualFabric, _Witness, Collection],
) -> None:
    """x minus declared latencies, on true clocks, is the cable's delay plus jitter >= 0."""
    drawn, _, _, collection = run
    model = fabric_model(drawn.fabric)
    empty = np.zeros(0, EXCHANGE_DTYPE)
    samples, _ = link_samples(collection.packets, collection.hops, empty, model)
    uncertainty_ns = 2 * TINY.nuisance.switch_stamp_uncertainty_ns
    for index, link in enumerate(model.links):
        if link.access:
            continue
        for reverse in (False, True):
            mine = samples[(samples["link"] == index) & (samples["reverse"] == reverse)]
            if not len(mine):
                continue
            sender = model.clocks[link.b if reverse else link.a].name
            receiver = model.clocks[link.a if reverse else link.b].name
            true_link = drawn.links[index]
            delay_ns = true_link.b_to_a_ns if reverse else true_link.a_to_b_ns
            sent_ns = _true_ns(drawn, sender, mine["egress_local_ns"])
            arrived_ns = _true_ns(drawn, receiver, mine["ingress_local_ns"])
            declared_ns = declared_delay_ns(
                link, reverse=reverse, frame_bytes=mine["frame_bytes"].astype(np.float64)
            )
            noise_ns = arrived_ns - sent_ns - declared_ns - delay_ns
            assert noise_ns.min() >= -uncertainty_ns - 2
            assert np.median(noise_ns) < uncertainty_ns + 10


def test_envelopes_of_both_directions_add_up_to_the_round_trip(
    run: tuple[DrawnFabric, VirtualFabric, _Witness, Collection],
) -> None:
    """What the collector hands on of a link: the clocks cancel, both cables remain, and no sample
    and no hop is missing from the counts."""
    drawn, _, _, collection = run
    model = fabric_model(drawn.fabric)
    aggregation = Aggregation(model)
    for part in np.array_split(np.arange(len(collection.packets)), 7):
        aggregation.add(collection.packets[part], collection.hops)
    found = aggregation.flush()
    counters = aggregation.counters
    assert (counters.late_samples, counters.left_out.rejected) == (0, {})
    assert found.links["count"].sum() == counters.link_samples > 400
    assert found.path_changes == ()
    uncertainty_ns = 4 * TINY.nuisance.switch_stamp_uncertainty_ns
    compared = 0
    rows = found.links[found.links["used"] >= 8]
    for there in rows[~rows["reverse"]]:
        same = ["window_start_collector_ns", "link", "queue_id", "length_class"]
        back = rows[rows["reverse"] & np.logical_and.reduce([rows[n] == there[n] for n in same])]
        for row in back:
            apart_ns = int(there["at_a_local_ns"]) - int(row["at_a_local_ns"])
            moved_ns = apart_ns * float(there["slope_ppb"]) / 1e9
            round_trip_ns = int(there["envelope_ns"]) + int(row["envelope_ns"]) - moved_ns
            link = drawn.links[int(there["link"])]
            true_ns = link.a_to_b_ns + link.b_to_a_ns
            assert -uncertainty_ns - 4 < round_trip_ns - true_ns < uncertainty_ns + 20
            compared += 1
    assert compared > 5
    hops = found.hops
    assert hops["count"].sum() == len(collection.hops)
    assert (hops["residence_ns"][:, 0] > 0).all()


def _true_ns(drawn: DrawnFabric, clock: str, local_ns: np.ndarray) -> np.ndarray:
    """True instants of a free-running clock's readings, by bisection."""
    oscillator = drawn.oscillators[clock]
    result = []
    for reading in local_ns.tolist():
        low, high = 0, TINY.duration_ns
        while low < high:
            middle = (low + high) // 2
            if oscillator.read_ns(middle) < reading:
                low = middle + 1
            else:
                high = middle
        result.append(low)
    return np.array(result, dtype=np.float64)
