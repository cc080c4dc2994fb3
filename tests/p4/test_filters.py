# SPDX-License-Identifier: Apache-2.0
"""Reports on change: a postcard that says nothing new in this interval is not sent."""

import pytest

from tests.p4.frames import roce
from tests.p4.harness import RESIDENCE, Node
from tests.p4.nodes import SPINE_IN, sink_node, source_node, transit_node

REPORT_FILTERED = 4
LATENCY_SHIFT, INTERVAL_SHIFT = 10, 20
"""Latencies count in steps of 1,024 units, intervals are 1,048,576 units of the ingress stamp."""
INTERVAL = 1 << INTERVAL_SHIFT
START = 7 * INTERVAL

FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])


def filtering(
    node: Node | None = None, *, filter_mx: int = 0, filter_drops: int = 0, change_only: int = 1
) -> Node:
    """A switch whose XD entries report changes only."""
    node = node or transit_node()
    arguments = (filter_mx, filter_drops, LATENCY_SHIFT, INTERVAL_SHIFT)
    node.set_default("report_filter", "set_report_filter", *arguments)
    node.watch_xd(change_only=change_only)
    return node


def count(
    node: Node, frame: bytes, at: int, *, residence: int = RESIDENCE, port: int = SPINE_IN
) -> int:
    """Reports that one packet makes at a time."""
    return len(node.send(frame, port, at=at, residence=residence).reports)


@FAMILY
def test_flow_is_reported_once_per_interval(v6: bool) -> None:
    """The first packet of a flow in an interval is reported, the others are counted."""
    node = filtering()
    frame = roce(v6=v6)
    assert [count(node, frame, START + n * 1000) for n in range(6)] == [1, 0, 0, 0, 0, 0]
    assert node.egress_event(REPORT_FILTERED) == 5
    assert count(node, frame, START + INTERVAL) == 1
    assert count(node, frame, START + INTERVAL + 5) == 0


def test_last_unit_of_an_interval_is_still_in_it() -> None:
    """Intervals are cut by shifting the ingress stamp."""
    node = filtering()
    assert count(node, roce(), START) == 1
    assert count(node, roce(), START + INTERVAL - 1) == 0
    assert count(node, roce(), START + INTERVAL) == 1


def test_every_flow_has_its_own_memory() -> None:
    """Many flows in one interval: each is reported once."""
    node = filtering()
    frames = [roce(sport=number) for number in range(200)]
    assert sum(count(node, frame, START + n) for n, frame in enumerate(frames)) == 200
    again = sum(count(node, frame, START + 500 + n) for n, frame in enumerate(frames))
    assert again <= 2, "flows that share both cells of the filter may be reported again"


def test_change_of_latency_is_news() -> None:
    """A hop latency in another step is reported at once; within the step it is not."""
    node = filtering()
    assert count(node, roce(), START, residence=2048) == 1
    assert count(node, roce(), START + 1, residence=3071) == 0
    assert count(node, roce(), START + 2, residence=3072) == 1
    assert count(node, roce(), START + 3, residence=2048) == 1


def test_change_of_port_is_news() -> None:
    """A flow that arrives or leaves elsewhere is reported at once."""
    node = filtering()
    assert count(node, roce(), START) == 1
    assert count(node, roce(), START + 1, port=7) == 1
    group = node.route("10.0.2.1", 32, 5)
    assert count(node, roce(), START + 2, port=7) == 1
    assert count(node, roce(), START + 3, port=7) == 0
    assert group > 0


def test_entry_without_change_only_reports_every_packet() -> None:
    """The filter is a choice of each watchlist entry."""
    node = filtering(change_only=0)
    assert [count(node, roce(), START + n) for n in range(4)] == [1, 1, 1, 1]


def test_sequence_numbers_have_no_gap_from_the_filter() -> None:
    """What is filtered takes no number, so a gap still means a lost report."""
    node = filtering()
    numbers = []
    for n in range(12):
        sent = node.send(roce(), SPINE_IN, at=START + n * INTERVAL // 3)
        numbers += [report.sequence for report in sent.reports]
    assert numbers == [0, 1, 2, 3]


@FAMILY
@pytest.mark.parametrize("filter_mx", [0, 1])
def test_mx_postcards_are_filtered_by_the_node(filter_mx: int, v6: bool) -> None:
    """MX packets have no entry at later nodes, so filter_mx decides for all of them."""
    source = source_node()
    source.watch_mx()
    marked = source.send(roce(v6=v6), 11).frame
    for node in (transit_node(), sink_node()):
        filtering(node, filter_mx=filter_mx)
        counts = [count(node, marked, START + n) for n in range(4)]
        assert counts == ([1, 0, 0, 0] if filter_mx else [1, 1, 1, 1])


def test_congestion_is_news() -> None:
    """A congested packet is reported even if the flow was reported already."""
    node = filtering()
    match = node.ternary("queue_report", {})
    node.add("queue_report", match, "set_queue_report", 100, (1 << 32) - 1, 50, priority=1)
    assert count(node, roce(), START) == 1
    node.queue_depth = 100
    (report,) = node.send(roce(), SPINE_IN, at=START + 1).reports
    assert "Q" in report.flag_letters


def test_md_reports_are_never_filtered() -> None:
    """A stack of a sink is measurement, not monitoring: filtering would break pairs."""
    source, node = source_node(), filtering(sink_node(), filter_mx=1, filter_drops=1)
    source.watch()
    marked = source.send(roce(), 11).frame
    assert [count(node, marked, START + n, port=1) for n in range(3)] == [2, 2, 2]
