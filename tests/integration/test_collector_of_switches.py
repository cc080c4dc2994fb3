# SPDX-License-Identifier: Apache-2.0
"""From the committed P4 program to the collector's records: every kind of report that it sends.

Three embedded switches in a row, host to host; the frames that leave their report ports are what
the collector gets. What each hop stamped is known from the switches themselves.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bmv2_lab.switch.state import exact_match
from controller.telemetry.collector import Collection, Destination, SenderKey, collect
from controller.telemetry.packet import NETWORK_ETHERNET, NETWORK_IPV4, NETWORK_IPV6
from controller.telemetry.topology import HOST_END, TelemetryFabric
from correction.records import NO_TSTAMP_NS, TRAFFIC_PROBE, TRAFFIC_PTP, TRAFFIC_ROCE
from tests.p4.control import COLLECTOR_IP, COLLECTOR_PORT
from tests.p4.frames import HOST_V4, HOST_V6, probe, ptp, roce, udp_frame
from tests.p4.harness import Node, Sent
from tests.p4.nodes import (
    HOST_PORT,
    LEAF_UPLINK,
    SINK_IN,
    SINK_PORT,
    SPINE_IN,
    SPINE_OUT,
    sink_node,
    source_node,
    transit_node,
    walk,
)
from tests.p4.wire import ip
from tests.support.telemetry_reports import LEAF1, LEAF2, SPINE, three_switch_fabric

_NOW_NS = 1_800_000_000_000_000_000
_NODES = [LEAF1, SPINE, LEAF2]
_INGRESS = [HOST_PORT, SPINE_IN, SINK_IN]
_EGRESS = [LEAF_UPLINK, SPINE_OUT, SINK_PORT]
FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])


def _fabric() -> TelemetryFabric:
    fabric = three_switch_fabric()
    neighbours = {**fabric.neighbours, (LEAF2, SINK_PORT): HOST_END}
    return replace(fabric, neighbours=neighbours)


def _path() -> list[Node]:
    """Clocks of three switches have nothing to do with each other."""
    path = [source_node(), transit_node(), sink_node()]
    for node, epoch in zip(path, (5_000_000_000, 80_000_000, 333_000_000_000), strict=True):
        node.now = epoch
    return path


def _collect(sent: Sequence[Sent]) -> Collection:
    frames = [report.frame for step in sent for report in step.reports]
    collection = collect([(_NOW_NS + k, frame) for k, frame in enumerate(frames)], _fabric())
    assert collection.counters.rejected == {}
    assert collection.counters.lost == 0
    assert collection.counters.decoded == len(frames)
    return collection


def _expect_whole_path(collection: Collection, sent: Sequence[Sent]) -> None:
    """Exactly what each hop stamped, in order, and nothing else."""
    assert collection.packets["complete"].tolist() == [True]
    hops = collection.hops
    assert hops["node_id"].tolist() == _NODES
    assert hops["ingress_port"].tolist() == _INGRESS
    assert hops["egress_port"].tolist() == _EGRESS
    for name, stamps in (
        ("ingress_tstamp_local_ns", [step.ingress_tstamp for step in sent]),
        ("egress_tstamp_local_ns", [step.egress_tstamp for step in sent]),
        ("queue_depth", [3, 3, 3]),
    ):
        assert hops[name].tolist() == stamps
    for row, step in zip(hops, sent, strict=True):
        assert row["ingress_bytes"] == max(len(step.received) + 4, 64)
        assert row["egress_bytes"] == max(len(step.frame) + 4, 64)


@FAMILY
@pytest.mark.parametrize("mode", ["md", "mx", "xd"])
def test_every_int_mode_gives_the_same_path(mode: str, v6: bool) -> None:
    """Stack, MX postcards, XD postcards: stamps, ports and the frame's length on each link."""
    path = _path()
    if mode == "md":
        path[0].watch()
    elif mode == "mx":
        path[0].watch_mx()
    else:
        for node in path:
            node.watch_xd()
    sent = walk(path, roce(v6=v6, psn=0x010203, payload=bytes(700)))
    collection = _collect(sent)
    _expect_whole_path(collection, sent)
    (packet,) = collection.packets
    assert (packet["traffic"], packet["psn"], packet["dest_qp"]) == (TRAFFIC_ROCE, 0x010203, 0x1234)
    assert (packet["dscp"], packet["bth_opcode"]) == (26, 4)
    if v6:
        assert collection.addresses == {0: (NETWORK_IPV6, *(ip(address) for address in HOST_V6))}
    else:
        assert (packet["src_ip"], packet["dst_ip"]) == tuple(ip(address) for address in HOST_V4)


@pytest.mark.parametrize("over", ["ipv4", "ipv6", "ethernet"])
@pytest.mark.parametrize("message_type", [0, 1, 2, 3])
def test_ptp_event_messages_on_every_transport(over: str, message_type: int) -> None:
    """Sync, Delay_Req and the peer delay messages, joined by their port identity."""
    path = _path()
    for node, ingress, egress in zip(path, _INGRESS, _EGRESS, strict=True):
        node.watch_ptp()
        keys = {"ingress_port": (ingress, 0x1FF)}
        node.add("l2_ptp", node.ternary("l2_ptp", keys), "forward_l2", egress, priority=1)
    sent = walk(path, ptp(message_type, over=over, sequence_id=0xBEEF))
    collection = _collect(sent)
    _expect_whole_path(collection, sent)
    (packet,) = collection.packets
    assert packet["traffic"] == TRAFFIC_PTP
    assert (packet["ptp_message_type"], packet["ptp_sequence_id"]) == (message_type, 0xBEEF)
    assert packet["ptp_clock_identity"] == 0xAABBCCFFFEDDEEFF
    network = {"ipv4": NETWORK_IPV4, "ipv6": NETWORK_IPV6, "ethernet": NETWORK_ETHERNET}[over]
    assert {kept.network for kept in collection.addresses.values()} == (
        set() if network == NETWORK_IPV4 else {network}
    )


def test_a_tagged_ptp_frame_keeps_its_tag_in_the_report() -> None:
    """Bridged with its tag, and four bytes longer on every link."""
    path = _path()
    for node, ingress, egress in zip(path, _INGRESS, _EGRESS, strict=True):
        node.watch_ptp()
        keys = {"ingress_port": (ingress, 0x1FF)}
        node.add("l2_ptp", node.ternary("l2_ptp", keys), "forward_l2", egress, priority=1)
    sent = walk(path, ptp(0, over="ethernet", vlan=0x0064, length=44))
    collection = _collect(sent)
    _expect_whole_path(collection, sent)


def test_a_probe_stamps_its_link_both_ways() -> None:
    """Out of the leaf, round at the spine, home; each stamp as the switch took it."""
    leaf, spine, _sink = _path()
    for node in (leaf, spine):
        node.set_default("probe_config", "set_probe_config", 0x7C00)
    out = leaf.packet_out(probe(egress_port=LEAF_UPLINK, node_id=LEAF1), LEAF_UPLINK)
    back = spine.send(out.frame, SPINE_IN)
    home = leaf.send(back.frame, LEAF_UPLINK)
    collection = _collect((out, back, home))
    assert collection.packets[["traffic", "complete"]].tolist() == [(TRAFFIC_PROBE, True)]
    hops = collection.hops
    assert hops["node_id"].tolist() == [LEAF1, SPINE, LEAF1]
    assert hops["egress_tstamp_local_ns"].tolist() == [
        out.egress_tstamp,
        back.egress_tstamp,
        NO_TSTAMP_NS,
    ]
    assert hops["ingress_tstamp_local_ns"].tolist() == [
        NO_TSTAMP_NS,
        back.ingress_tstamp,
        home.ingress_tstamp,
    ]
    assert hops["ingress_bytes"].tolist()[1:] == [len(out.frame) + 4] * 2
    assert hops["egress_bytes"].tolist()[:2] == [len(out.frame) + 4] * 2
    assert collection.counters.invalid_tstamps == {}


@FAMILY
def test_a_packet_dropped_on_its_way_ends_there(v6: bool) -> None:
    """INT-MD that meets no route: the drop with its reason, and the hops up to it."""
    path = _path()
    path[0].watch()
    path[0].route("10.9.0.0", 16, LEAF_UPLINK)
    path[0].route("fd00:0:9::", 48, LEAF_UPLINK)
    path[1].add("drop_report", path[1].ternary("drop_report", {}), "report_drop", priority=1)
    dst = "fd00:0:9::1" if v6 else "10.9.0.1"
    first = path[0].send(roce(v6=v6, dst=dst, psn=9), HOST_PORT)
    second = path[1].send(first.frame, SPINE_IN)
    collection = _collect((first, second))
    (drop,) = collection.drops
    assert (drop.node_id, drop.reason, drop.tracked_flow) == (SPINE, "no_route", True)
    assert (drop.ingress_port, drop.egress_port, drop.queue_id) == (SPINE_IN, None, 1)
    assert drop.ingress_tstamp_local_ns == second.ingress_tstamp
    assert (drop.packet.key.psn, drop.packet.dst_addr) == (9, ip(dst))
    assert collection.packets[["complete", "hop_count"]].tolist() == [(False, 2)]
    assert collection.hops["ingress_tstamp_local_ns"].tolist() == [
        first.ingress_tstamp,
        second.ingress_tstamp,
    ]


@pytest.mark.parametrize("offset", range(14, 34))
def test_a_malformed_packet_that_is_dropped_is_told(offset: int) -> None:
    """Any byte of the IPv4 header wrong: the report is taken, whatever its reason."""
    node = _path()[1]
    node.add("drop_report", node.ternary("drop_report", {}), "report_drop", priority=1)
    frame = bytearray(roce())
    frame[offset] ^= 0xFF
    sent = node.send(bytes(frame), SPINE_IN)
    collection = _collect([sent])
    assert len(collection.drops) == len(sent.reports) == 1
    assert len(collection.packets) == 0


@pytest.mark.parametrize("followed", [False, True])
def test_a_congested_packet_is_told_and_counted_once(followed: bool) -> None:
    """Q alone is no hop; Q and F of INT-XD is one report for both."""
    path = _path()
    for node in path:
        if followed:
            node.watch_xd()
    queue = path[1].ternary("queue_report", {})
    path[1].add("queue_report", queue, "set_queue_report", 2, 2**32 - 1, 8, priority=1)
    sent = walk(path, roce(psn=4))
    collection = _collect(sent)
    (packet,) = collection.congested
    assert (packet.node_id, packet.queue_id, packet.queue_depth) == (SPINE, 1, 3)
    assert packet.egress_tstamp_local_ns == sent[1].egress_tstamp
    assert packet.tracked_flow is followed
    assert collection.packets["complete"].tolist() == ([True] if followed else [])


def test_a_congested_int_md_packet_is_one_path() -> None:
    """Its stack is in the congestion report too, and comes again with the sink's."""
    path = _path()
    path[0].watch()
    queue = path[1].ternary("queue_report", {})
    path[1].add("queue_report", queue, "set_queue_report", 2, 2**32 - 1, 8, priority=1)
    sent = walk(path, roce(psn=4, payload=bytes(300)))
    collection = _collect(sent)
    _expect_whole_path(collection, sent)
    assert [packet.node_id for packet in collection.congested] == [SPINE]


def test_several_collectors_number_their_reports_apart() -> None:
    """Flows spread over two destinations; each sees an unbroken sequence."""
    path = _path()
    other = "10.255.0.2"
    for node in path:
        node.watch_xd()
        node.route(other, 32, 60)
        for bucket in range(0, 64, 2):
            node.destination(bucket, 1, other, COLLECTOR_PORT)
    sent = [
        step for sport in range(0xC000, 0xC020) for step in walk(path, roce(sport=sport, psn=sport))
    ]
    frames = [report.frame for step in sent for report in step.reports]
    collection = collect([(_NOW_NS + k, frame) for k, frame in enumerate(frames)], _fabric())
    counters = collection.counters
    assert (counters.lost, counters.restarts, counters.unconfirmed) == (0, 0, 0)
    assert (counters.complete, counters.incomplete) == (32, 0)
    keys = {
        SenderKey(node_id, 1, Destination(ip(address), COLLECTOR_PORT))
        for node_id in _NODES
        for address in (COLLECTOR_IP, other)
    }
    assert set(counters.senders) == keys
    assert all(sender.received for sender in counters.senders.values())


def test_retransmissions_of_an_xd_packet_are_told_apart() -> None:
    """The first attempt is lost behind the spine, the second arrives 10 us later."""
    path = _path()
    for node in path:
        node.watch_xd()
    known = walk(path, roce(psn=1))
    lost = walk(path[:2], roce(psn=2))
    path[2].now += 10_000  # time goes on at the sink, too
    again = walk(path, roce(psn=2))
    collection = _collect([*known, *lost, *again])
    assert collection.packets[["psn", "complete", "hop_count"]].tolist() == [
        (1, True, 3),
        (2, True, 3),
        (2, False, 2),
    ]
    assert collection.hops["ingress_tstamp_local_ns"][3:].tolist() == [
        *(step.ingress_tstamp for step in again),
        *(step.ingress_tstamp for step in lost),
    ]


def test_a_host_that_writes_a_stack_of_its_own_makes_no_hops() -> None:
    """A marked DSCP and a forged stack from a host port, on a packet that is dropped there."""
    leaf, spine, sink = _path()
    leaf.watch()
    first = leaf.send(roce(psn=3), HOST_PORT)
    forged = bytearray(first.frame)
    forged[22] = 1  # TTL: expires at the next router
    forged[24:26] = b"\0\0"
    total = int(np.frombuffer(bytes(forged[14:34]), ">u2").astype(np.int64).sum())
    total = (total & 0xFFFF) + (total >> 16)
    forged[24:26] = (0xFFFF - total).to_bytes(2, "big")
    sink.add("int_edge_ports", [exact_match(HOST_PORT)], "set_int_source_edge")
    for node, port in ((spine, SPINE_IN), (sink, HOST_PORT)):
        node.add("drop_report", node.ternary("drop_report", {}), "report_drop", priority=1)
        sent = node.send(bytes(forged), port)
        collection = _collect([sent])
        assert [drop.reason for drop in collection.drops] == ["ttl_expired"]
        assert len(collection.packets) == (1 if node is spine else 0)


def test_other_traffic_is_no_report_of_a_path() -> None:
    """UDP to an unknown port under INT-XD: refused with its reason, since nothing joins it."""
    node = _path()[1]
    node.watch_xd()
    sent = node.send(udp_frame(bytes(64), sport=5, dport=6), SPINE_IN)
    frames = [report.frame for report in sent.reports]
    assert len(frames) == 1
    collection = collect([(_NOW_NS, frames[0])], _fabric())
    assert [reason.value for reason in collection.counters.rejected] == ["inner_protocol"]
