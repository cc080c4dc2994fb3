# SPDX-License-Identifier: Apache-2.0
"""Postcards and probes joined into paths: whole ones, parts, and packets that were sent again."""

from dataclasses import replace

import numpy as np
import pytest

from controller.fabric_generate import leaf_spine
from controller.fabric_model import fabric_model
from controller.telemetry.collector import Collector, collect
from controller.telemetry.packet import NETWORK_ETHERNET, NETWORK_IPV6
from controller.telemetry.postcards import JOIN_WINDOW_NS
from controller.telemetry.report_encode import ReportSpec
from controller.telemetry.topology import HOST_END
from correction.links import JoinCounters, Reject, fabric_samples, port_index
from correction.links_fast import FabricSampler
from correction.records import NO_TSTAMP_NS, TRAFFIC_PROBE, TRAFFIC_ROCE
from tests.support.telemetry_reports import (
    COPIES,
    LEAF1,
    LEAF2,
    LOCAL_COPY,
    PATH_HOPS,
    POSTCARD_BITS,
    SINK_HOP,
    SOURCE_HOP,
    SPINE,
    TRANSIT_HOP,
    ReportSender,
    delayed,
    multicast_postcard,
    mx_postcard,
    three_switch_fabric,
    xd_postcard,
)

_NOW_NS = 1_800_000_000_000_000_000
_FABRIC = three_switch_fabric()


def _collect(*frames, fabric=_FABRIC):
    return collect([(_NOW_NS + k, frame) for k, frame in enumerate(frames)], fabric)


def _paths(collection):
    """(nodes, ingress stamps, complete) of each packet."""
    rows = []
    for packet in collection.packets:
        hops = collection.hops[packet["first_hop"] :][: packet["hop_count"]]
        rows.append(
            (
                hops["node_id"].tolist(),
                hops["ingress_tstamp_local_ns"].tolist(),
                bool(packet["complete"]),
            )
        )
    return rows


def _stamps(later=0):
    return [values.ingress_tstamp + later for _node, values in PATH_HOPS]


_NODES = [node for node, _values in PATH_HOPS]

# ---------------------------------------------------------------- INT-XD, INT-MX


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_xd_postcards_of_a_roce_packet_are_one_path(order):
    """Joined by 5-tuple, queue pair, PSN and opcode; the frame is the same on all links."""
    frames = ReportSender().xd_path(psn=42)
    collection = _collect(*(frames[k] for k in order))
    assert _paths(collection) == [(_NODES, _stamps(), True)]
    assert collection.packets[["traffic", "psn", "dest_qp"]].tolist() == [(TRAFFIC_ROCE, 42, 0x17)]
    assert collection.hops["ingress_bytes"].tolist() == [118] * 3
    assert collection.hops["egress_bytes"].tolist() == [118] * 3


def test_the_frame_of_an_mx_packet_is_longer_between_source_and_sink():
    """16 bytes from the source's egress to the sink's ingress."""
    sender = ReportSender()
    collection = _collect(
        sender.frame(LEAF1, 1, mx_postcard(SOURCE_HOP)),
        sender.frame(LEAF2, 1, mx_postcard(SINK_HOP, stripped=True)),
        sender.frame(SPINE, 1, mx_postcard(TRANSIT_HOP)),
    )
    assert _paths(collection) == [(_NODES, _stamps(), True)]
    assert collection.packets["wire_bytes"].tolist() == [118]
    assert collection.hops["ingress_bytes"].tolist() == [118, 134, 134]
    assert collection.hops["egress_bytes"].tolist() == [134, 134, 118]


def test_a_missing_mx_postcard_leaves_known_lengths():
    """Behind a gap the node's own report says how long the frame was."""
    sender = ReportSender()
    collection = _collect(
        sender.frame(LEAF1, 1, mx_postcard(SOURCE_HOP)),
        sender.frame(SPINE, 1, mx_postcard(TRANSIT_HOP)),
    )
    assert collection.hops["egress_bytes"].tolist() == [134, 134]
    only = _collect(ReportSender().frame(SPINE, 1, mx_postcard(TRANSIT_HOP)))
    assert only.hops[["ingress_bytes", "egress_bytes"]].tolist() == [(134, 134)]
    assert not only.packets["complete"].any()


# ---------------------------------------------------------------- retransmissions


def test_two_attempts_that_both_arrived_are_two_packets():
    """The first is whole before the second begins."""
    sender = ReportSender()
    collection = _collect(*sender.xd_path(), *sender.xd_path(later=20_000))
    assert _paths(collection) == [(_NODES, _stamps(), True), (_NODES, _stamps(20_000), True)]
    assert collection.counters.resent == 0


def test_interleaved_attempts_are_told_apart_by_the_order_of_stamps():
    """Equally many at every node: the k-th of each belong together, whatever arrived when."""
    sender = ReportSender()
    first, second = sender.xd_path(), sender.xd_path(later=20_000)
    collection = _collect(second[0], first[0], first[1], second[2], second[1], first[2])
    assert sorted(_paths(collection)) == [
        (_NODES, _stamps(), True),
        (_NODES, _stamps(20_000), True),
    ]
    assert collection.counters.resent == 1


def _learned(sender):
    """A packet that was sent once: what the links' stamps differ by is known from it."""
    return sender.xd_path(psn=999)


@pytest.mark.parametrize("lost_at", [1, 2], ids=["before the spine", "behind the spine"])
def test_an_attempt_that_was_lost_does_not_meet_the_one_that_arrived(lost_at):
    """Two leaf 1 postcards, one path to the host: it is the one whose stamps fit the links."""
    sender = ReportSender()
    known = _learned(sender)
    frames = [*known, *sender.xd_path()[:lost_at], *sender.xd_path(later=20_000)]
    paths = _paths(_collect(*frames))
    assert paths[1:] == [
        (_NODES, _stamps(20_000), True),
        (_NODES[:lost_at], _stamps()[:lost_at], False),
    ]


def test_no_sample_spans_two_attempts_when_a_report_is_lost_too():
    """The first attempt's spine and the second's leaves: nothing there fits together."""
    sender = ReportSender()
    known = _learned(sender)
    first, second = sender.xd_path(), sender.xd_path(later=20_000)
    paths = _paths(_collect(*known, first[0], first[1], second[0], second[2]))[1:]
    assert (_NODES[:2], _stamps()[:2], False) in paths
    assert ([LEAF1], [_stamps(20_000)[0]], False) in paths
    assert ([LEAF2], [_stamps(20_000)[2]], False) in paths
    assert len(paths) == 3


def test_without_a_known_link_unequal_counts_are_left_apart():
    """Which of two belongs to the one at the next node cannot be told."""
    sender = ReportSender()
    first, second = sender.xd_path(), sender.xd_path(later=20_000)
    paths = _paths(_collect(first[0], second[0], second[1], second[2]))
    assert ([LEAF1], [_stamps()[0]], False) in paths
    assert ([SPINE, LEAF2], _stamps(20_000)[1:], False) in paths
    assert len(paths) == 3


def test_a_hop_of_another_attempt_waits_for_its_own():
    """Whole by the cables, but 20 us off by the stamps: the packet's own hops come later."""
    sender = ReportSender()
    known = _learned(sender)
    first, second = sender.xd_path(), sender.xd_path(later=20_000)
    collector = Collector(_FABRIC)
    for k, frame in enumerate((*known, first[0], first[1], second[2])):
        collector.feed(frame, _NOW_NS + k)
    assert len(collector.drain().packets) == 1
    for frame in (second[0], second[1]):
        collector.feed(frame, _NOW_NS + 10)
    paths = _paths(collector.flush())
    assert paths == [(_NODES, _stamps(20_000), True), (_NODES[:2], _stamps()[:2], False)]


@pytest.mark.parametrize("step_ns", [900_000_000, -4_000_000])
def test_a_clock_that_was_set_delays_paths_but_loses_none(step_ns):
    """After a step nothing fits what the link showed before; two windows later it does again."""
    sender = ReportSender()
    collector = Collector(_FABRIC)
    for frame in _learned(sender):
        collector.feed(frame, _NOW_NS)

    def stepped(psn):
        hops = (SOURCE_HOP, delayed(TRANSIT_HOP, step_ns), SINK_HOP)
        return [
            sender.frame(node, 1, xd_postcard(values, psn=psn))
            for node, values in zip(_NODES, hops, strict=True)
        ]

    for k in range(4):
        for frame in stepped(k):
            collector.feed(frame, _NOW_NS + 1 + k * (JOIN_WINDOW_NS + 1))
        if k == 0:
            assert collector.drain().packets["psn"].tolist() == [999]
    collection = collector.drain()
    assert collection.packets["complete"].all()
    assert collection.packets["psn"].tolist() == [0, 1, 2, 3]
    assert collection.packets["capture_collector_ns"][0] == _NOW_NS + 1


def test_attempts_across_a_wrap_of_the_stamps_keep_their_order():
    """32-bit stamps: the second attempt's are smaller numbers."""
    sender = ReportSender()
    late = 2**32 - 10_000
    frames = []
    for later in (0, 20_000):
        for node_id, values in PATH_HOPS:
            shifted = delayed(values, late - 1_000_000 + later)
            wrapped = shifted._replace(
                ingress_tstamp=shifted.ingress_tstamp % 2**32 or 1,
                egress_tstamp=shifted.egress_tstamp % 2**32 or 1,
            )
            frames.append(sender.frame(node_id, 1, xd_postcard(wrapped)))
    shuffled = [frames[k] for k in (3, 0, 4, 2, 1, 5)]
    collection = _collect(*shuffled, fabric=three_switch_fabric(stamp_width_bits=32))
    assert collection.packets["complete"].tolist() == [True, True]
    hops = collection.hops
    for node_id in _NODES:
        first, second = sorted(hops["ingress_tstamp_local_ns"][hops["node_id"] == node_id])
        assert second - first == 20_000
    by_packet = hops["ingress_tstamp_local_ns"].reshape(2, 3)
    assert len(set((by_packet[1] - by_packet[0]).tolist())) == 1


# ---------------------------------------------------------------- link probes


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_probe_is_three_hops(order):
    """Egress stamp on the way out, both at the neighbour, ingress stamp at home."""
    frames = ReportSender().probe_path()
    collection = _collect(*(frames[k] for k in order))
    (packet,) = collection.packets
    assert (packet["traffic"], packet["complete"], packet["hop_count"]) == (TRAFFIC_PROBE, True, 3)
    assert (packet["src_ip"], packet["dst_ip"]) == (0x0AFE0001, 0x0AFE0065)
    hops = collection.hops
    assert hops["node_id"].tolist() == [LEAF1, SPINE, LEAF1]
    assert hops["ingress_tstamp_local_ns"].tolist() == [NO_TSTAMP_NS, 7_000_000, 1_009_000]
    assert hops["egress_tstamp_local_ns"].tolist() == [1_000_500, 7_000_700, NO_TSTAMP_NS]
    assert hops["egress_port"].tolist() == [1, 1, 0xFFFF]
    assert packet["wire_bytes"] == 14 + 20 + 8 + 12 + 64 + 4
    assert collection.counters.invalid_tstamps == {}


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_probe_with_a_lost_report_is_incomplete(missing):
    """What is there is in order; two hops of one switch are not neighbours."""
    frames = ReportSender().probe_path()
    del frames[missing]
    collection = _collect(*reversed(frames))
    expected = [LEAF1, SPINE, LEAF1]
    del expected[missing]
    assert collection.hops["node_id"].tolist() == expected
    assert collection.packets["complete"].tolist() == [False]


def test_probes_of_one_port_are_told_apart_by_their_number():
    """Interleaved as they arrive."""
    sender = ReportSender()
    paths = [sender.probe_path(sequence_number=k) for k in (1, 2)]
    collection = _collect(*(f for pair in zip(*paths, strict=True) for f in pair))
    assert collection.packets["complete"].tolist() == [True, True]


def test_a_probe_gives_one_sample_each_way():
    """Out: leaf's egress to spine's ingress; back: spine's egress to leaf's ingress."""
    fabric = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
    collection = _collect(*ReportSender().probe_path(), fabric=fabric)
    model = fabric_model(fabric)
    counters = JoinCounters()
    samples = fabric_samples(
        collection.packets, collection.hops, model, port_index(model), counters
    )
    assert counters.rejected == {}
    assert samples["link"].tolist() == [samples["link"][0]] * 2
    assert samples["reverse"].tolist() == [False, True]
    assert samples["egress_local_ns"].tolist() == [1_000_500, 7_000_700]
    assert samples["ingress_local_ns"].tolist() == [7_000_000, 1_009_000]
    assert samples["frame_bytes"].tolist() == [122, 122]
    assert np.unique(samples["capture_collector_ns"]).tolist() == [_NOW_NS + 2]


# ---------------------------------------------------------------- multicast


def _copies(chosen, *, sequence_id=1, later=0):
    sender = ReportSender()
    return [
        sender.frame(node, 1, multicast_postcard(delayed(hop, later), sequence_id=sequence_id))
        for node, hop in (COPIES[k] for k in chosen)
    ]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_each_copy_of_a_multicast_sync_is_a_path(order):
    """To the host beyond the spine and to the one beside the sender, named by their ports."""
    fabric = replace(_FABRIC, host_ip_at={(LEAF1, 12): 0x0A000102, (LEAF2, 11): 0x0A000201})
    collection = _collect(*_copies(order), fabric=fabric)
    found = dict(zip(collection.packets["dst_ip"].tolist(), _paths(collection), strict=True))
    assert found == {
        0x0A000201: (_NODES, _stamps(), True),
        0x0A000102: ([LEAF1], [LOCAL_COPY.ingress_tstamp], True),
    }


def test_copies_share_the_hops_in_front_of_where_they_part():
    """Two hosts beyond the spine: two paths of three hops out of four reports."""
    fabric = replace(_FABRIC, neighbours={**_FABRIC.neighbours, (LEAF2, 12): HOST_END})
    other = SINK_HOP._replace(egress_port=12)
    frames = [
        *_copies((0, 1, 2)),
        ReportSender().frame(LEAF2, 3, multicast_postcard(other, sequence_id=1)),
    ]
    collection = _collect(*frames, fabric=fabric)
    assert _paths(collection) == [(_NODES, _stamps(), True)] * 2
    assert collection.hops["egress_port"].tolist() == [1, 2, 11, 1, 2, 12]


def test_of_a_copy_that_is_not_wholly_reported_what_follows_the_gap_is_a_path():
    """Without the spine's report: the first leaf's hop, and the last leaf's, both incomplete."""
    collection = _collect(*_copies((0, 2, 3)))
    assert sorted(_paths(collection)) == [
        ([LEAF1], [SOURCE_HOP.ingress_tstamp], False),
        ([LEAF1], [LOCAL_COPY.ingress_tstamp], True),
        ([LEAF2], [SINK_HOP.ingress_tstamp], False),
    ]


def test_a_multicast_message_under_a_used_key_is_no_path():
    """Both sendings' reports of one port: which belongs to which cannot be told."""
    collection = _collect(*_copies((0, 1, 2)), *_copies((0,), later=9_000_000))
    assert [complete for _nodes, _stamps, complete in _paths(collection)] == [False] * 4
    assert collection.counters.resent == 1


def test_shared_hops_are_one_measurement():
    """Of two copies over one link there is one sample of it; the other is counted."""
    fabric = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
    other = SINK_HOP._replace(egress_port=12)
    frames = [
        *_copies((0, 1, 2)),
        ReportSender().frame(LEAF2, 3, multicast_postcard(other, sequence_id=1)),
    ]
    collection = _collect(*frames, fabric=fabric)
    model = fabric_model(fabric)
    for counters, samples in (
        _reference_samples(collection, model),
        _compiled_samples(collection, model),
    ):
        assert counters.rejected == {Reject.SHARED_HOPS: 2}
        assert samples["egress_local_ns"].tolist() == [1_000_500, 7_000_700]


def _reference_samples(collection, model):
    counters = JoinCounters()
    samples = fabric_samples(
        collection.packets, collection.hops, model, port_index(model), counters
    )
    return counters, samples


def _compiled_samples(collection, model):
    counters = JoinCounters()
    samples = FabricSampler(model).samples(collection.packets, collection.hops, counters)
    return counters, samples


# ---------------------------------------------------------------- addresses that are not IPv4


def test_a_packet_over_ipv6_names_its_hosts_by_their_ipv4_addresses():
    """As declared; a stranger is 0. The addresses themselves stand beside the records."""
    known, stranger = 0x20010DB8 << 96 | 1, 0x20010DB8 << 96 | 2
    fabric = replace(_FABRIC, host_ips={(NETWORK_IPV6, known): 0x0A000101})
    inner = bytes.fromhex("66900000 0014 11 40") + known.to_bytes(16, "big")
    inner += stranger.to_bytes(16, "big") + bytes.fromhex("c350 12b7 0014 0000 04000000 00000017")
    inner += bytes.fromhex("00000001")
    local = SOURCE_HOP._replace(egress_port=12)
    spec = ReportSpec(inner=inner, inner_type=5, metadata_bits=POSTCARD_BITS, metadata=local)
    collection = _collect(ReportSender().frame(LEAF1, 1, spec), fabric=fabric)
    assert collection.packets[["src_ip", "dst_ip", "psn", "complete"]].tolist() == [
        (0x0A000101, 0, 1, True)
    ]
    assert collection.addresses == {0: (NETWORK_IPV6, known, stranger)}
    assert NETWORK_ETHERNET not in {network for network, *_rest in collection.addresses.values()}
