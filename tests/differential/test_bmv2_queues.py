# SPDX-License-Identifier: Apache-2.0
"""BMv2's own queues, made slow: what the program does with a depth that is not zero."""

from bmv2_lab.switch.state import exact_match
from tests.p4.frames import roce
from tests.p4.int_headers import IntStack
from tests.p4.nodes import HOST_PORT, LEAF_UPLINK, source_node
from tests.p4.reports import ReportBytes
from tests.support.bmv2_mirror import Mirror

RATE, FRAMES, THRESHOLD = 100, 20, 5
ROCE_QUEUE = 1
ECN_CE = 3
LATENCY_US_MIN = 30_000
"""What the last of 20 frames waits at least: 19 frames at 100 a second, less BMv2's own slack."""


def test_depth_marks_reports_and_is_stamped(bmv2_mirror: Mirror) -> None:
    """From the threshold on frames carry CE; their depth in INT and in the report says why."""
    node = source_node()
    node.watch()
    node.add("ecn_config", [exact_match(ROCE_QUEUE)], "set_ecn_threshold", THRESHOLD)
    keys = node.ternary("queue_report", {})
    never = 0xFFFFFFFF
    node.add("queue_report", keys, "set_queue_report", THRESHOLD, never, 1000, priority=1)
    bmv2 = bmv2_mirror.bmv2(node.switch)
    bmv2.thrift.set_priority_queue_rate(LEAF_UPLINK, ROCE_QUEUE, RATE)
    try:
        sent = bmv2.send_all([(HOST_PORT, roce(psn=psn)) for psn in range(FRAMES)])
    finally:
        bmv2.thrift.set_priority_queue_rate(LEAF_UPLINK, ROCE_QUEUE, 0)
    frames = [frame for port, frame in sent if port == LEAF_UPLINK]
    reports = [ReportBytes(frame, port) for port, frame in sent if port != LEAF_UPLINK]
    assert len(frames) == FRAMES
    depths, latencies = [], []
    for frame in frames:
        (hop,) = IntStack.of(frame).hops()
        latency, queue = (int.from_bytes(hop[start : start + 4], "big") for start in (8, 12))
        assert queue >> 24 == ROCE_QUEUE
        depths.append(queue & 0xFFFFFF)
        latencies.append(latency)
        assert (frame[15] & 3 == ECN_CE) == (depths[-1] >= THRESHOLD)
    assert max(depths) > THRESHOLD > min(depths)
    assert max(latencies) > LATENCY_US_MIN
    assert len(reports) == sum(depth >= THRESHOLD for depth in depths)
    assert all("Q" in report.flag_letters for report in reports)
    assert sorted(report.sequence for report in reports) == list(range(len(reports)))
