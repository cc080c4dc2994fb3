# SPDX-License-Identifier: Apache-2.0
"""Collectors cabled to the fabric: reports share its links, and nothing is missing from them."""

from dataclasses import replace

import numpy as np

from bmv2_lab.draw import draw_fabric
from bmv2_lab.lab_run import make_switches, program_switches
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from controller.fabric import LinkEnd
from controller.pipeline import load_pipeline
from controller.telemetry.collector import collect
from tests.support.grpc_loop import in_grpc_loop

SHORT = Scenario(
    name="short",
    summary="2 leaves x 2 spines, 1.5 s",
    leaves=2,
    spines=2,
    duration_ns=1_500_000_000,
    window_starts_ns=(200_000_000,),
    qps_per_peer=2,
    bad_link_share=0.0,
    faults_hop=0,
    faults_link=0,
    faults_sender=0,
    faults_receiver=0,
)


@in_grpc_loop
async def test_two_cabled_collectors_get_every_report() -> None:
    """Reports routed over leaf and spine ports to two collectors join into complete packets."""
    drawn = draw_fabric(SHORT, 3)
    first = drawn.fabric.collector
    collectors = tuple(
        replace(
            first,
            ip=first.ip + index,
            mac=first.mac + index,
            destination_id=index,
            attached=LinkEnd(node=leaf, port=20),
        )
        for index, leaf in enumerate(("leaf1", "leaf2"))
    )
    fabric = replace(drawn.fabric, collectors=collectors)
    drawn = replace(drawn, fabric=fabric)
    pipeline = load_pipeline()
    switches = make_switches(fabric, pipeline)
    assert (await program_switches(fabric, switches, pipeline)).ok
    lab = VirtualFabric(SHORT, 3, drawn, switches)
    lab.run()
    used = {frame[:6] for _, frame in lab.result.reports}
    assert used == {collector.mac.to_bytes(6, "big") for collector in collectors}
    collection = collect(lab.result.reports, fabric)
    counters = collection.counters
    assert (counters.incomplete, counters.lost) == (0, 0)
    assert len(collection.packets) > 100
    assert bool(np.asarray(collection.packets["complete"]).all())
