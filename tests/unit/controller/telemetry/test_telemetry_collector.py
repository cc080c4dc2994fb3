# SPDX-License-Identifier: Apache-2.0
"""The collector: report frames in, paths out, everything else counted under its reason."""

import random
from dataclasses import replace

import numpy as np
import pytest

from controller.fabric_generate import leaf_spine
from controller.telemetry.codec import DecodeReason
from controller.telemetry.collector import Collector, SenderKey, collect
from controller.telemetry.dialect import Dialect
from controller.telemetry.postcards import JOIN_WINDOW_NS, PIECES_PER_PACKET_MAX
from controller.telemetry.report_encode import ReportSpec
from controller.telemetry.topology import HOST_END, telemetry_fabric
from correction.records import (
    HOP_DTYPE,
    NO_TSTAMP_NS,
    PACKET_DTYPE,
    TRAFFIC_PTP,
    TRAFFIC_ROCE,
    UNKNOWN_U32,
)
from tests.support.telemetry_reports import (
    CLOCK_IDENTITY,
    COLLECTOR,
    FLOW,
    LEAF1,
    LEAF2,
    PATH_HOPS,
    SINK_HOP,
    SOURCE_HOP,
    SPINE,
    TRANSIT_HOP,
    ReportSender,
    hop,
    ptp_postcard,
    report_frame,
    roce_packet,
    sink_postcard,
    stack_report,
    three_switch_fabric,
)

_NOW_NS = 1_800_000_000_000_000_000
_FABRIC = three_switch_fabric()
_INGRESS, _EGRESS = (SenderKey(LEAF2, hw_id, COLLECTOR) for hw_id in (0, 1))


def _collect(*frames, fabric=_FABRIC):
    return collect([(_NOW_NS + k, frame) for k, frame in enumerate(frames)], fabric)


@pytest.mark.parametrize("postcard_first", [False, True])
def test_a_roce_packet_is_joined_from_its_two_reports(postcard_first):
    """Stack and sink postcard, in any order, make one complete packet with three hops."""
    frames = ReportSender().roce_path(psn=42)
    collection = _collect(*(reversed(frames) if postcard_first else frames))
    (packet,) = collection.packets
    assert (packet["first_hop"], packet["hop_count"], packet["complete"]) == (0, 3, True)
    assert (packet["traffic"], packet["src_ip"], packet["dst_ip"]) == (
        TRAFFIC_ROCE,
        FLOW.src_ip,
        FLOW.dst_ip,
    )
    assert (packet["src_port"], packet["dst_port"], packet["dscp"]) == (50000, 4791, 26)
    assert (packet["bth_opcode"], packet["dest_qp"], packet["psn"]) == (4, 0x17, 42)
    assert packet["capture_collector_ns"] == _NOW_NS + 1
    assert collection.hops["node_id"].tolist() == [LEAF1, SPINE, LEAF2]
    assert collection.hops["ingress_port"].tolist() == [11, 1, 1]
    assert collection.hops["egress_port"].tolist() == [1, 2, 11]
    assert collection.hops["queue_id"].tolist() == [1, 1, 1]
    assert collection.hops["queue_depth"].tolist() == [5, 5, 5]
    assert collection.hops["ingress_tstamp_local_ns"].tolist() == [1_000_000, 7_000_000, 3_000_000]
    assert collection.hops["egress_tstamp_local_ns"].tolist() == [1_000_500, 7_000_700, 3_000_900]
    assert (collection.counters.decoded, collection.counters.complete) == (2, 1)


def test_frame_lengths_follow_the_growing_stack():
    """118 bytes enter; the source adds 48, the transit 32; the sink sends 118 on."""
    collection = _collect(*ReportSender().roce_path())
    assert collection.packets["wire_bytes"].tolist() == [118]
    assert collection.hops["ingress_bytes"].tolist() == [118, 166, 198]
    assert collection.hops["egress_bytes"].tolist() == [166, 198, 118]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_ptp_postcards_are_ordered_by_the_cables(order):
    """Whatever order they arrive in; the frame is the same on all links."""
    frames = ReportSender().ptp_path(sequence_id=9)
    collection = _collect(*(frames[k] for k in order))
    (packet,) = collection.packets
    assert packet["complete"]
    assert packet["traffic"] == TRAFFIC_PTP
    assert (packet["ptp_clock_identity"], packet["ptp_port_number"]) == (CLOCK_IDENTITY, 1)
    assert (packet["ptp_sequence_id"], packet["ptp_message_type"]) == (9, 0)
    assert collection.hops["node_id"].tolist() == [LEAF1, SPINE, LEAF2]
    assert collection.hops["ingress_bytes"].tolist() == [90, 90, 90]
    assert collection.hops["egress_bytes"].tolist() == [90, 90, 90]


def test_a_packet_between_two_hosts_of_one_switch_is_one_postcard():
    """Host port in, host port out: complete at once."""
    local = hop(None, 11, 12, 5_000, 6_000)
    for spec in (ptp_postcard(local), sink_postcard(metadata=local)):
        collection = _collect(ReportSender().frame(LEAF1, 1, spec))
        assert collection.packets["complete"].tolist() == [True]
        assert collection.hops["egress_bytes"].tolist() == collection.hops["ingress_bytes"].tolist()


def test_packets_of_one_flow_do_not_mix():
    """Same 5-tuple, other PSN or other sequenceId: other packet."""
    sender = ReportSender()
    first, second = sender.roce_path(psn=1), sender.roce_path(psn=2)
    syncs = [sender.ptp_path(sequence_id=k) for k in (1, 2)]
    collection = _collect(
        first[0],
        second[0],
        first[1],
        second[1],
        *(f for pair in zip(*syncs, strict=True) for f in pair),
    )
    assert collection.packets["psn"].tolist() == [1, 2, 0, 0]
    assert collection.packets["complete"].all()
    assert collection.counters.incomplete == 0


def test_a_retransmission_is_told_apart_by_the_sinks_ingress_stamp():
    """Same key twice: each stack is joined with the postcard of its own stamp."""
    sender = ReportSender()
    second = SINK_HOP._replace(ingress_tstamp=3_500_000, egress_tstamp=3_500_001)
    frames = [
        sender.frame(LEAF2, 0, stack_report(metadata=SINK_HOP)),
        sender.frame(LEAF2, 0, stack_report(metadata=second)),
        sender.frame(LEAF2, 1, sink_postcard(metadata=second)),
        sender.frame(LEAF2, 1, sink_postcard(metadata=SINK_HOP)),
    ]
    collection = _collect(*frames)
    assert collection.packets["complete"].tolist() == [True, True]
    sinks = collection.hops[collection.hops["node_id"] == LEAF2]
    assert sinks["ingress_tstamp_local_ns"].tolist() == [3_500_000, 3_000_000]
    assert sinks["egress_tstamp_local_ns"].tolist() == [3_500_001, 3_000_900]


@pytest.mark.parametrize(
    "spec",
    [
        stack_report(
            hops=(SOURCE_HOP, TRANSIT_HOP, SINK_HOP._replace(node_id=LEAF2)), metadata=SINK_HOP
        ),
        stack_report(
            hops=(SOURCE_HOP, TRANSIT_HOP, SINK_HOP._replace(node_id=LEAF2)), metadata=None
        ),
        stack_report(metadata=SINK_HOP, metadata_bits=0x7C00),
    ],
    ids=["on the stack and in the metadata", "on the stack alone", "in the metadata alone"],
)
def test_a_sinks_hop_in_the_stack_report_is_never_counted_twice(spec):
    """Wherever the sink puts its own hop, there are three hops and the same lengths."""
    collection = _collect(ReportSender().frame(LEAF2, 0, spec))
    assert collection.packets["complete"].tolist() == [True]
    assert collection.hops["node_id"].tolist() == [LEAF1, SPINE, LEAF2]
    assert collection.hops["egress_tstamp_local_ns"].tolist()[-1] == 3_000_900
    assert collection.hops["egress_bytes"].tolist() == [166, 198, 118]


# ---------------------------------------------------------------- incomplete


def test_a_stack_without_its_postcard_is_incomplete_after_the_window():
    """The path so far is handed over; the sink's egress stamp is none, never a guess."""
    collector = Collector(_FABRIC)
    sender = ReportSender()
    collector.feed(sender.roce_path(psn=1)[0], _NOW_NS)
    postcards = sender.ptp_path()
    collector.feed(postcards[0], _NOW_NS + JOIN_WINDOW_NS)
    assert len(collector.drain().packets) == 0
    collector.feed(postcards[1], _NOW_NS + JOIN_WINDOW_NS + 1)
    collection = collector.drain()
    assert collection.packets["complete"].tolist() == [False]
    assert collection.counters.incomplete == 1
    assert collection.hops["node_id"].tolist() == [LEAF1, SPINE, LEAF2]
    sink = collection.hops[-1]
    assert sink["ingress_tstamp_local_ns"] == 3_000_000
    assert sink["egress_tstamp_local_ns"] == NO_TSTAMP_NS
    assert sink["queue_depth"] == UNKNOWN_U32
    assert (sink["ingress_bytes"], sink["egress_bytes"]) == (198, 118)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_postcard_leaves_an_incomplete_path_in_order(missing):
    """Two of three postcards, whichever is lost: source side first, not complete."""
    frames = ReportSender().ptp_path()
    del frames[missing]
    collection = _collect(*reversed(frames))
    expected = [node_id for k, (node_id, _hop) in enumerate(PATH_HOPS) if k != missing]
    assert collection.hops["node_id"].tolist() == expected
    assert collection.packets["complete"].tolist() == [False]
    assert collection.counters.incomplete == 1


def test_a_postcard_whose_stack_was_lost_is_incomplete():
    """One hop alone is not a path."""
    collection = _collect(ReportSender().roce_path()[1])
    assert collection.packets[["hop_count", "complete"]].tolist() == [(1, False)]


def test_a_stack_whose_hops_are_not_neighbours_is_incomplete():
    """A transit switch that could not add its hop leaves a gap between two cables."""
    sender = ReportSender()
    frames = (
        sender.frame(LEAF2, 0, stack_report(hops=(SOURCE_HOP,))),
        sender.frame(LEAF2, 1, sink_postcard()),
    )
    collection = _collect(*frames)
    assert collection.packets["complete"].tolist() == [False]
    assert collection.hops["ingress_bytes"].tolist() == [118, 166]


def test_reports_of_one_key_a_window_apart_are_two_packets():
    """A sequenceId comes round after a while: the old half never meets the new one."""
    collector = Collector(_FABRIC)
    sender = ReportSender()
    first = sender.ptp_path(sequence_id=1)
    collector.feed(first[0], _NOW_NS)
    later_ns = _NOW_NS + JOIN_WINDOW_NS + 1
    for frame in sender.ptp_path(sequence_id=1, later=JOIN_WINDOW_NS):
        collector.feed(frame, later_ns)
    assert collector.flush().packets["complete"].tolist() == [False, True]


# ---------------------------------------------------------------- stamps


@pytest.mark.parametrize("field", ["ingress_tstamp", "egress_tstamp"])
@pytest.mark.parametrize(
    "raw", [None, 0, 2**48 - 1], ids=["all ones", "zero", "all ones of 48 bits"]
)
def test_an_unavailable_stamp_becomes_none_and_is_counted(field, raw):
    """Zero and all-ones, of the field or the device, alike; the rest of the hop is kept."""
    bad = TRANSIT_HOP._replace(**{field: raw})
    sender = ReportSender()
    collection = _collect(
        sender.frame(LEAF2, 0, stack_report(hops=(SOURCE_HOP, bad))),
        sender.frame(LEAF2, 1, sink_postcard()),
    )
    assert collection.hops[f"{field}_local_ns"][1] == NO_TSTAMP_NS
    assert collection.counters.invalid_tstamps == {field: 1}
    assert collection.hops["queue_depth"][1] == 5
    assert collection.packets["complete"].tolist() == [True]


@pytest.mark.parametrize("width_bits", [32, 48, 63, 64])
def test_all_ones_of_the_declared_width_is_no_stamp_of_a_postcard(width_bits):
    """In a report's own metadata too; one less is a stamp, where it fits an int64."""
    ones = 2**width_bits - 1
    local = hop(None, 11, 12, ones, ones - 1)
    frame = ReportSender().frame(LEAF1, 1, sink_postcard(metadata=local))
    collection = _collect(frame, fabric=three_switch_fabric(stamp_width_bits=width_bits))
    assert collection.hops["ingress_tstamp_local_ns"].tolist() == [NO_TSTAMP_NS]
    fits = width_bits < 62
    expected = ones - 1 if fits else NO_TSTAMP_NS
    assert collection.hops["egress_tstamp_local_ns"].tolist() == [expected]
    counts = {"ingress_tstamp": 1} | ({} if fits else {"egress_tstamp_impossible": 1})
    assert collection.counters.invalid_tstamps == counts


def test_an_impossible_stamp_becomes_none_and_is_counted():
    """More bits than the device has."""
    bad = TRANSIT_HOP._replace(egress_tstamp=1 << 48)
    sender = ReportSender()
    collection = _collect(
        sender.frame(LEAF2, 0, stack_report(hops=(SOURCE_HOP, bad))),
        sender.frame(LEAF2, 1, sink_postcard()),
    )
    assert collection.hops["egress_tstamp_local_ns"][1] == NO_TSTAMP_NS
    assert collection.counters.invalid_tstamps == {"egress_tstamp_impossible": 1}


def test_stamps_of_a_microsecond_device_become_nanoseconds():
    """The unit is the device model's."""
    collection = _collect(
        *ReportSender().roce_path(), fabric=three_switch_fabric(stamp_unit_ns=1000)
    )
    assert collection.hops["ingress_tstamp_local_ns"][0] == 1_000_000_000


def test_stamps_that_wrap_between_packets_stay_one_time_line():
    """32-bit nanoseconds wrap after 4.29 s; the collector's clock says how often."""
    collector = Collector(three_switch_fabric(stamp_width_bits=32))
    sender = ReportSender()
    expected = []
    for k in range(4):
        true_ns = 4_000_000_000 + 3_000_000_000 * k
        local = hop(None, 11, 12, true_ns % 2**32, (true_ns + 500_000_000) % 2**32)
        frame = sender.frame(LEAF1, 1, sink_postcard(psn=k, metadata=local))
        collector.feed(frame, _NOW_NS + true_ns)
        expected += [(true_ns, true_ns + 500_000_000)]
        if k == 1:
            hops = [collector.drain().hops]
    hops.append(collector.flush().hops)
    both = np.concatenate(hops)[["ingress_tstamp_local_ns", "egress_tstamp_local_ns"]]
    assert both.tolist() == expected


# ---------------------------------------------------------------- counters


def test_duplicates_are_dropped_and_counted():
    """A report that arrives twice does not make a second packet."""
    frames = ReportSender().roce_path()
    collection = _collect(*frames, *frames)
    assert len(collection.packets) == 1
    counters = collection.counters
    assert (counters.received, counters.decoded, counters.duplicates) == (4, 2, 2)


def _recording(packet_count=40):
    """Frames of one sender per node, in the order in which they would be captured."""
    sender = ReportSender()
    frames = []
    for k in range(packet_count):
        stamp = 3_000_000 + 10_000 * k
        sink = SINK_HOP._replace(ingress_tstamp=stamp, egress_tstamp=stamp + 900)
        frames += [
            sender.frame(LEAF2, 0, stack_report(psn=k, metadata=sink)),
            sender.frame(LEAF2, 1, sink_postcard(psn=k, metadata=sink)),
            *sender.ptp_path(sequence_id=k),
        ]
    return frames


@pytest.mark.parametrize("seed", range(4))
def test_a_capture_fed_again_changes_nothing(seed):
    """Once more, in another order, with copies in between: all that comes again is a duplicate."""
    frames = _recording()
    rng = random.Random(seed)
    again = frames * 2
    if seed:
        rng.shuffle(again)
    once = _collect(*frames)
    fed = _collect(*frames, *again)
    assert fed.packets.tolist() == once.packets.tolist()
    assert fed.hops.tolist() == once.hops.tolist()
    counters = fed.counters
    assert (counters.decoded, counters.duplicates) == (len(frames), 2 * len(frames))
    assert (counters.lost, counters.restarts, counters.unconfirmed) == (0, 0, 0)
    assert counters.senders[_EGRESS].duplicate == 2 * once.counters.senders[_EGRESS].received


def test_overlapping_captures_are_one():
    """The second half first, then the whole."""
    frames = _recording()
    counters = _collect(*frames[len(frames) // 2 :], *frames).counters
    assert (counters.decoded, counters.duplicates) == (len(frames), len(frames) // 2)
    assert (counters.lost, counters.restarts) == (0, 0)


def test_the_same_copy_reported_eighteen_times_is_one():
    """Under numbers of their own: none is lost, and the packet is one packet."""
    sender = ReportSender()
    frames = [sender.frame(LEAF2, 0, stack_report(psn=1, metadata=SINK_HOP)) for _ in range(18)]
    frames += [sender.frame(LEAF2, 1, sink_postcard(psn=1, metadata=SINK_HOP)) for _ in range(18)]
    counters = _collect(*frames).counters
    assert (counters.decoded, counters.replicas, counters.duplicates) == (2, 34, 0)
    assert (counters.complete, counters.incomplete, counters.lost) == (1, 0, 0)
    assert counters.senders[_EGRESS].received == 18


def test_a_device_that_restarts_loses_no_report():
    """Its numbers begin anew, its stamps do not: every packet of both runs is taken."""
    frames = _recording(packet_count=20)
    second = ReportSender()
    for k in range(20, 40):
        sink = SINK_HOP._replace(ingress_tstamp=4_000_000 + k, egress_tstamp=4_000_900 + k)
        frames.append(second.frame(LEAF2, 0, stack_report(psn=k, metadata=sink)))
        frames.append(second.frame(LEAF2, 1, sink_postcard(psn=k, metadata=sink)))
    counters = _collect(*frames).counters
    assert (counters.decoded, counters.complete) == (len(frames), 60)
    assert (counters.lost, counters.restarts, counters.unconfirmed) == (0, 2, 0)


def test_one_damaged_sequence_number_is_no_burst_of_loss():
    """Nothing is missing; the report is used, its number is not."""
    frames = _recording(packet_count=200)
    damaged = bytearray(frames[500])
    damaged[42 + 1] ^= 0x10  # bit 20 of the number
    frames[500] = bytes(damaged)
    counters = _collect(*frames).counters
    assert (counters.decoded, counters.complete) == (len(frames), 400)
    assert (counters.lost, counters.restarts, counters.unconfirmed) == (1, 0, 1)


def test_losses_are_counted_per_sender():
    """Three reports of the ingress side vanish, none of the egress side."""
    sender = ReportSender()
    frames = [frame for psn in range(5) for frame in sender.roce_path(psn=psn)]
    collection = _collect(*(f for k, f in enumerate(frames) if k not in (2, 4, 6)))
    assert collection.counters.lost == 3
    assert collection.counters.senders[_INGRESS].lost == 3
    assert collection.counters.senders[_EGRESS].lost == 0
    assert collection.counters.complete == 2


def test_a_device_without_sequence_numbers_loses_and_repeats_nothing():
    """A constant sequence is a property of the dialect, not 100 % duplication; copies still are."""
    dialect = Dialect(name="x", doc="", sequence_constant=True)
    nodes = {k: replace(node, dialect=dialect) for k, node in _FABRIC.nodes.items()}
    frames = [ReportSender().ptp_path(sequence_id=k) for k in range(3)]
    collection = _collect(
        *(f for path in frames for f in path), fabric=replace(_FABRIC, nodes=nodes)
    )
    assert collection.counters.complete == 3
    assert (collection.counters.lost, collection.counters.duplicates) == (0, 0)
    twice = _collect(
        *(f for path in frames * 2 for f in path), fabric=replace(_FABRIC, nodes=nodes)
    )
    assert (twice.counters.complete, twice.counters.duplicates) == (3, 9)


_WRONG = ReportSender()
_OTHER_TRAFFIC = ReportSpec(inner=roce_packet()[:22] + (53).to_bytes(2, "big") + bytes(40))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", DecodeReason.TRUNCATED),
        (report_frame(b"\x20" * 40, dst_port=53), DecodeReason.UDP_PORT),
        (report_frame(b""), DecodeReason.TRUNCATED),
        (report_frame(b"\x10" + bytes(30)), DecodeReason.REPORT_VERSION),
        (_WRONG.frame(99, 0, sink_postcard()), DecodeReason.UNKNOWN_NODE),
        (
            _WRONG.frame(LEAF2, 0, stack_report(hops=(SOURCE_HOP._replace(node_id=99),))),
            DecodeReason.UNKNOWN_NODE,
        ),
        (
            _WRONG.frame(LEAF2, 0, stack_report(hops=(SOURCE_HOP._replace(node_id=None),))),
            DecodeReason.UNKNOWN_NODE,
        ),
        (_WRONG.frame(LEAF2, 1, _OTHER_TRAFFIC), DecodeReason.INNER_PROTOCOL),
        (_WRONG.frame(LEAF2, 1), DecodeReason.NO_REPORT),
    ],
)
def test_what_is_no_report_of_this_fabric_is_counted_by_reason(frame, reason):
    """Nothing else happens: no exception, no packet."""
    collection = _collect(frame)
    counters = collection.counters
    assert counters.rejected == {reason: 1}
    assert (counters.received, counters.rejected_total, counters.decoded) == (1, 1, 0)
    assert len(collection.packets) == len(collection.hops) == 0


def test_a_datagram_with_one_bad_report_is_refused_whole():
    """Half a datagram would be counted neither as taken nor as refused."""
    frame = ReportSender().frame(LEAF2, 1, sink_postcard(), _OTHER_TRAFFIC)
    collection = _collect(frame)
    assert collection.counters.rejected == {DecodeReason.INNER_PROTOCOL: 1}
    assert len(collection.packets) == 0


def test_a_rejected_report_is_not_also_lost():
    """Its number was seen."""
    sender = ReportSender()
    specs = (sink_postcard(psn=1), _OTHER_TRAFFIC, sink_postcard(psn=2))
    counters = _collect(*(sender.frame(LEAF2, 1, spec) for spec in specs)).counters
    assert (counters.rejected_total, counters.lost, counters.decoded) == (1, 0, 2)


def test_drain_hands_everything_over_once():
    """Two drains: nothing twice, nothing lost, hop indices start at 0 again."""
    collector = Collector(_FABRIC)
    sender = ReportSender()
    for k in range(2):
        for frame in sender.roce_path(psn=k):
            collector.feed(frame, _NOW_NS + k)
        collection = collector.drain()
        assert collection.packets[["psn", "first_hop"]].tolist() == [(k, 0)]
        assert len(collection.hops) == 3
    assert len(collector.flush().packets) == 0


def test_no_input_gives_empty_arrays_of_the_right_types():
    """Estimators need no special case."""
    collection = collect([], _FABRIC)
    assert (collection.packets.dtype, collection.hops.dtype) == (PACKET_DTYPE, HOP_DTYPE)
    assert len(collection.packets) == 0


def test_waiting_packets_are_bounded(monkeypatch):
    """Beyond the limit the oldest is closed, not forgotten."""
    monkeypatch.setattr("controller.telemetry.postcards.PENDING_PACKETS_MAX", 3)
    sender = ReportSender()
    collector = Collector(_FABRIC)
    for psn in range(5):
        collector.feed(sender.roce_path(psn=psn)[0], _NOW_NS)
    assert collector.drain().packets["psn"].tolist() == [0, 1]


def test_a_sender_that_repeats_one_key_is_bounded():
    """A constant PSN makes every packet the same one: nothing piles up under its key."""
    sender = ReportSender()
    collector = Collector(_FABRIC)
    for k in range(PIECES_PER_PACKET_MAX + 3):
        metadata = SINK_HOP._replace(ingress_tstamp=1_000 + k)
        collector.feed(sender.frame(LEAF2, 1, sink_postcard(metadata=metadata)), _NOW_NS)
    packets = collector.drain().packets
    assert packets[["hop_count", "complete"]].tolist() == [(1, False)] * PIECES_PER_PACKET_MAX
    assert collector.flush().packets["hop_count"].tolist() == [1, 1, 1]


def test_a_declared_fabric_gives_nodes_cables_and_marking():
    """Switch ports, hosts' ports, report port and the marked DSCP of fabric.yaml's values."""
    fabric = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
    view = telemetry_fabric(fabric)
    assert set(view.nodes) == {1, 2, 101, 102}
    assert view.neighbours[1, 2] == (102, 1)
    assert view.neighbours[102, 2] == (2, 2)
    assert view.neighbours[1, 11] == HOST_END
    assert view.report_udp_ports == {fabric.collector.udp_port}
    assert view.original_dscp == {27: 26}
    assert view.nodes[1].stamp_width_bits == 48
    assert collect([], fabric).counters.received == 0
