# SPDX-License-Identifier: Apache-2.0
"""Collections made of whole paths, for tests of what comes behind the collector."""

from controller.collector.outputs.part import Part
from controller.collector.outputs.rows import part_arrays
from controller.telemetry.collector import Collection, Collector
from tests.support.telemetry_reports import (
    LEAF1,
    LEAF2,
    SPINE,
    ReportSender,
    drop_report,
    roce_packet,
    three_switch_fabric,
)

DROP_NO_ROUTE = 29


def collection(*, packets: int = 5, drops: int = 1, first_psn: int = 1) -> Collection:
    """`packets` complete RoCEv2 paths of three hops each, and drop reports of the spine."""
    collector = Collector(three_switch_fabric())
    sender = ReportSender()
    for number in range(packets):
        for frame in sender.xd_path(psn=first_psn + number, later=1000 * number):
            collector.feed(frame, 10**18 + 1000 * number)
    for number in range(drops):
        spec = drop_report(roce_packet(psn=number), reason=DROP_NO_ROUTE)
        collector.feed(sender.frame(SPINE, 0, spec), 10**18 + number)
    collected = collector.flush()
    assert len(collected.packets) == packets
    assert collected.hops["node_id"].tolist() == [LEAF1, SPINE, LEAF2] * packets
    return collected


def part(number: int = 0, *, run: str = "r1", packets: int = 5) -> Part:
    """A part of some packets; each number has other packets."""
    collected = collection(packets=packets, drops=0, first_psn=1 + 100 * number)
    (arrays,) = part_arrays(collected, bytes_max=1 << 20)
    return Part(run=run, number=number, arrays=arrays, totals={"received": 15})
