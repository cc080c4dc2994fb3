# SPDX-License-Identifier: Apache-2.0
"""Links without traffic: no estimate without probes, a true one with them."""

import asyncio

import numpy as np
import pytest

from bmv2_lab.draw import DrawnFabric, draw_fabric
from bmv2_lab.lab_run import make_switches, program_switches
from bmv2_lab.scenarios import Congestion, Scenario
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from bmv2_lab.switch.p4runtime import serve
from controller.client import deploy
from controller.fabric_model import fabric_model
from controller.pipeline import load_pipeline
from controller.probes import ProbePlanner
from controller.session import open_session, program_schema
from controller.telemetry.collector import Collection, collect
from correction.engine import solve
from correction.records import EXCHANGE_DTYPE, TRAFFIC_PROBE
from correction.solution import FabricSolution
from tests.support.grpc_loop import in_grpc_loop

NS_PER_S = 1_000_000_000
WINDOW_NS = NS_PER_S
QUIET = Scenario(
    name="quiet",
    summary="2 leaves x 3 spines on which nothing but a little PTP goes",
    leaves=2,
    spines=3,
    duration_ns=WINDOW_NS + 100_000_000,
    window_starts_ns=(),
    ptp_interval_ns=400_000_000,
    qps_per_peer=1,
    bad_link_share=0.0,
    congestion=Congestion(congested_ports_share=0.0),
    faults_hop=0,
    faults_link=0,
    faults_sender=0,
    faults_receiver=0,
    probe_budget_pps=150,
)


def _run(scenario: Scenario, *, probing: bool) -> tuple[DrawnFabric, Collection, FabricSolution]:
    """One window."""
    drawn = draw_fabric(scenario, 5)
    pipeline = load_pipeline()
    switches = make_switches(drawn.fabric, pipeline)

    @in_grpc_loop
    async def program() -> None:
        assert (await program_switches(drawn.fabric, switches, pipeline)).ok

    program()
    lab = VirtualFabric(scenario, 5, drawn, switches)
    start_collector_ns = lab.collector_now_ns()
    if probing:
        for probe in ProbePlanner(drawn.fabric).plan({}, start_ns=0, window_ns=WINDOW_NS):
            lab.packet_out(probe.switch, probe.packet_out, probe.at_ns)
    lab.run()
    collection = collect(lab.result.reports, drawn.fabric)
    window = np.array([[start_collector_ns, lab.collector_now_ns()]], np.int64)
    model = fabric_model(drawn.fabric)
    exchanges = np.zeros(0, EXCHANGE_DTYPE)
    return drawn, collection, solve(collection.packets, collection.hops, exchanges, model, window)


@pytest.fixture(scope="module")
def probed() -> tuple[DrawnFabric, Collection, FabricSolution]:
    """With 20 probes on each of the six links."""
    return _run(QUIET, probing=True)


def test_without_probes_a_quiet_link_has_no_estimate() -> None:
    """PTP takes few of the paths; what it does not take is unknown, and said to be."""
    _, _, solution = _run(QUIET, probing=False)
    inner = [not link.access for link in solution.model.links]
    assert np.isnan(solution.links.half_round_trip_ns[inner]).any()


def test_with_probes_every_fabric_link_has_a_true_one(
    probed: tuple[DrawnFabric, Collection, FabricSolution],
) -> None:
    """Round trips within stamp uncertainties; the direction's difference is observable."""
    drawn, _, solution = probed
    for index, link in enumerate(solution.model.links):
        if link.access:
            continue
        true = drawn.links[index]
        half_ns = (true.a_to_b_ns + true.b_to_a_ns) / 2
        slack_ns = 2 * QUIET.nuisance.switch_stamp_uncertainty_ns + 2
        assert solution.links.half_round_trip_ns[index] == pytest.approx(half_ns, abs=slack_ns)
        assert solution.links.observable[index]


def test_each_probe_is_one_packet_of_three_hops(
    probed: tuple[DrawnFabric, Collection, FabricSolution],
) -> None:
    """Out of u, back from v, home to u: nothing is lost, and no probe reaches a host."""
    _, collection, _ = probed
    probes = collection.packets[collection.packets["traffic"] == TRAFFIC_PROBE]
    assert len(probes) == 6 * 20
    assert bool(probes["complete"].all())
    assert set(probes["hop_count"].tolist()) == {3}
    for packet in probes:
        first = int(packet["first_hop"])
        out, back, home = collection.hops[first : first + 3]
        assert out["node_id"] == home["node_id"] != back["node_id"]
        assert out["egress_port"] == home["ingress_port"]
        assert back["ingress_port"] == back["egress_port"]


def test_a_probe_sent_over_p4runtime_goes_all_the_way() -> None:
    """Packet-outs of a controller's session reach the fabric, and the probe's end is reported."""
    drawn = draw_fabric(QUIET, 5)
    pipeline = load_pipeline()
    switches = make_switches(drawn.fabric, pipeline)
    lab = VirtualFabric(QUIET, 5, drawn, switches)
    probe = ProbePlanner(drawn.fabric).plan({}, start_ns=0, window_ns=WINDOW_NS)[0]

    @in_grpc_loop
    async def send() -> None:
        switch = switches[probe.switch]
        taken = asyncio.Event()
        to_fabric = lab.switch_nodes[probe.switch].packet_out
        switch.on_packet_out = lambda frame: (to_fabric(frame), taken.set())[0]
        server = await serve(switches.values())
        addresses = {name: server.addresses[one.device_id] for name, one in switches.items()}
        try:
            assert (await deploy(drawn.fabric, addresses, pipeline)).ok
            async with open_session(
                name=probe.switch,
                address=addresses[probe.switch],
                device_id=switch.device_id,
                schema=program_schema(pipeline),
            ) as session:
                await session.become_primary()
                await session.packet_out(probe.frame, egress_port=probe.egress_port)
                await asyncio.wait_for(taken.wait(), 10)
        finally:
            await server.stop()

    send()
    lab.run_until(WINDOW_NS)
    packets = collect(lab.result.reports, drawn.fabric).packets
    assert (packets["traffic"] == TRAFFIC_PROBE).sum() == 1
    assert bool(packets[packets["traffic"] == TRAFFIC_PROBE]["complete"].all())
