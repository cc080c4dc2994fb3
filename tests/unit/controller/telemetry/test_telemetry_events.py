# SPDX-License-Identifier: Apache-2.0
"""Drop and congestion reports: what they say, what they are not, and several collectors."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from controller.fabric_telemetry import DROP_REASONS
from controller.telemetry.codec import DecodeReason
from controller.telemetry.collector import Collector, Destination, SenderKey, collect
from controller.telemetry.events import drop_reason_name
from controller.telemetry.frames import RoceFlow, probe_frame, roce_frame
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import NETWORK_ETHERNET, NETWORK_IPV6, TRAFFIC_OTHER
from controller.telemetry.report import IN_TYPE_ETHERNET, IN_TYPE_IPV4, IN_TYPE_IPV6
from controller.telemetry.report_encode import ReportSpec, StackSpec, insert_stack
from correction.records import NO_TSTAMP_NS, TRAFFIC_ROCE
from tests.support.telemetry_reports import (
    COLLECTOR,
    FLOW,
    LEAF1,
    LEAF2,
    MARKED,
    POSTCARD_BITS,
    REPORT_PORT,
    SINK_HOP,
    SOURCE_HOP,
    SPINE,
    TRANSIT_HOP,
    UNMARKED,
    ReportSender,
    drop_report,
    report_frame,
    roce_packet,
    sink_postcard,
    stack_report,
    three_switch_fabric,
    xd_postcard,
)

_NOW_NS = 1_800_000_000_000_000_000
_FABRIC = three_switch_fabric()
_REPO = Path(__file__).parents[4]
_TTL, _NO_ROUTE, _CHECKSUM = 26, 29, 31


def _collect(*frames, fabric=_FABRIC):
    return collect([(_NOW_NS + k, frame) for k, frame in enumerate(frames)], fabric)


def _one_drop(spec, node_id=SPINE):
    collection = _collect(ReportSender().frame(node_id, 0, spec))
    assert collection.counters.rejected == {}
    (drop,) = collection.drops
    return drop, collection


# ---------------------------------------------------------------- drops


def test_a_drop_report_says_what_was_dropped_where_and_why():
    """Node, reason, queue and ports; the packet as received; never a hop."""
    drop, collection = _one_drop(drop_report(roce_packet(psn=7)[:64], reason=_NO_ROUTE, queue_id=2))
    assert (drop.node_id, drop.reason, drop.queue_id) == (SPINE, "no_route", 2)
    assert (drop.ingress_port, drop.egress_port) == (1, None)
    assert drop.ingress_tstamp_local_ns == 5_000
    assert drop.capture_collector_ns == _NOW_NS
    assert (drop.packet.key.traffic, drop.packet.key.psn) == (TRAFFIC_ROCE, 7)
    assert drop.packet.problem is None
    assert not drop.tracked_flow
    assert len(collection.packets) == len(collection.hops) == 0
    counters = collection.counters
    assert (dict(counters.dropped), counters.decoded) == ({"no_route": 1}, 1)


def test_the_reasons_are_those_of_the_data_plane():
    """DROP_* of ids.p4, with their numbers; another code keeps its number."""
    text = (_REPO / "p4src" / "include" / "ids.p4").read_text()
    defined = re.findall(r"^#define DROP_([A-Z0-9_]+)\s+(\d+)", text, re.MULTILINE)
    assert {name.lower(): int(code) for name, code in defined} == dict(DROP_REASONS)
    for name, code in defined:
        assert drop_reason_name(int(code)) == name.lower()
    assert drop_reason_name(1) == "reason_1"


def test_an_unknown_queue_and_an_inner_only_report_are_none():
    """All ones is not known; without metadata there is no reason either."""
    drop, _collection = _one_drop(drop_report(roce_packet()[:64], reason=_TTL, queue_id=0xFF))
    assert drop.queue_id is None
    bare = ReportSpec(inner=roce_packet()[:64], dropped=True, tracked_flow=False)
    drop, collection = _one_drop(bare)
    assert (drop.reason, drop.ingress_port, drop.ingress_tstamp_local_ns) == (
        "not_reported",
        None,
        None,
    )
    assert dict(collection.counters.dropped) == {"not_reported": 1}


_MALFORMED = roce_frame(FLOW, psn=1)
_OTHER_PACKETS = {
    "IPv4 of version 5": (IN_TYPE_ETHERNET, _MALFORMED[:14] + b"\x55" + _MALFORMED[15:]),
    "IPv4 header too short": (IN_TYPE_ETHERNET, _MALFORMED[:14] + b"\x44" + _MALFORMED[15:]),
    "IPv4 length below its header": (
        IN_TYPE_ETHERNET,
        _MALFORMED[:16] + b"\x00\x05" + _MALFORMED[18:],
    ),
    "fragment": (IN_TYPE_IPV4, _MALFORMED[14:20] + b"\x20\x00" + _MALFORMED[22:]),
    "cut IPv4": (IN_TYPE_ETHERNET, _MALFORMED[:20]),
    "ARP": (IN_TYPE_ETHERNET, bytes(6) + b"\x02" * 6 + b"\x08\x06" + bytes(46)),
    "an EtherType behind a tag": (
        IN_TYPE_ETHERNET,
        bytes(12) + b"\x81\x00\x00\x05\x12\x34" + bytes(40),
    ),
    "TCP": (IN_TYPE_IPV4, _MALFORMED[14:23] + b"\x06" + _MALFORMED[24:]),
    "UDP cut before its ports": (IN_TYPE_IPV4, _MALFORMED[14:36]),
    "BTH cut": (IN_TYPE_IPV4, _MALFORMED[14:50]),
    "nothing but an IPv6 header": (IN_TYPE_IPV6, b"\x60" + bytes(5) + b"\x3b" + bytes(33)),
    "IPv6 of version 7": (IN_TYPE_ETHERNET, bytes(12) + b"\x86\xdd\x70" + bytes(60)),
}


@pytest.mark.parametrize(("inner_type", "inner"), _OTHER_PACKETS.values(), ids=_OTHER_PACKETS)
@pytest.mark.parametrize("tracked_flow", [False, True])
def test_whatever_was_dropped_is_reported(inner_type, inner, tracked_flow):
    """Malformed packets are the ones that are dropped: their report is good all the same."""
    spec = drop_report(inner, reason=25, inner_type=inner_type, tracked_flow=tracked_flow)
    drop, collection = _one_drop(spec)
    assert drop.packet.key.traffic == TRAFFIC_OTHER
    assert len(collection.packets) == 0


def test_a_malformed_packet_is_told_by_its_mac_addresses_and_problem():
    """Of an IP header that is none, nothing is told."""
    inner_type, inner = _OTHER_PACKETS["IPv4 of version 5"]
    drop, _ = _one_drop(drop_report(inner, reason=25, inner_type=inner_type))
    assert drop.packet.problem is DecodeReason.INNER_IP_HEADER
    assert drop.packet.key.network == NETWORK_ETHERNET
    assert (drop.packet.src_addr, drop.packet.dst_addr) == (FLOW.src_mac, FLOW.dst_mac)
    assert drop.packet.key.protocol == 0x0800
    assert drop.packet.wire_bytes == 0


def test_a_fragment_is_told_by_its_ip_addresses():
    """Its ports are in another fragment."""
    inner_type, inner = _OTHER_PACKETS["fragment"]
    drop, _ = _one_drop(drop_report(inner, reason=_TTL, inner_type=inner_type))
    assert (drop.packet.src_addr, drop.packet.dst_addr) == (FLOW.src_ip, FLOW.dst_ip)
    assert (drop.packet.key.src_port, drop.packet.key.dst_port) == (0, 0)
    assert drop.packet.wire_bytes > 0


@pytest.mark.parametrize(
    ("inner_type", "inner"),
    [
        (IN_TYPE_ETHERNET, bytes(13)),
        (IN_TYPE_ETHERNET, bytes(12) + b"\x81\x00\x00"),
        (IN_TYPE_IPV4, _MALFORMED[14:33]),
        (IN_TYPE_IPV4, bytes(40)),
        (IN_TYPE_IPV6, b"\x60" + bytes(38)),
        (IN_TYPE_IPV6, _MALFORMED[14:] + bytes(30)),
    ],
)
def test_a_drop_report_without_its_first_header_is_refused(inner_type, inner):
    """InType promises at least that much."""
    spec = drop_report(inner, reason=25, inner_type=inner_type)
    collection = _collect(ReportSender().frame(SPINE, 0, spec))
    assert collection.drops == ()
    assert collection.counters.rejected_total == 1


# ---------------------------------------------------------------- drops of followed packets


def _marked_packet(hops=(SOURCE_HOP,)):
    spec = StackSpec(hops=hops, instruction_bitmap=0xFC00, npt_value=UNMARKED << 2)
    return insert_stack(roce_packet(psn=7), spec, marked_dscp=MARKED)


def test_the_hops_of_a_packet_that_was_dropped_on_its_way_are_samples():
    """Its stack up to there, and the node's own ingress stamp; nothing left the node."""
    drop, collection = _one_drop(drop_report(_marked_packet(), reason=_TTL, tracked_flow=True))
    assert drop.tracked_flow
    assert drop.packet.stack is not None
    assert collection.packets[["psn", "complete", "hop_count"]].tolist() == [(7, False, 2)]
    hops = collection.hops
    assert hops["node_id"].tolist() == [LEAF1, SPINE]
    assert hops["ingress_tstamp_local_ns"].tolist() == [1_000_000, 5_000]
    assert hops["egress_tstamp_local_ns"].tolist() == [1_000_500, NO_TSTAMP_NS]
    assert hops["ingress_bytes"].tolist() == [118, 166]
    assert hops["egress_bytes"].tolist() == [166, 0]


@pytest.mark.parametrize(
    ("node_id", "ingress_port", "reason"),
    [(LEAF1, 11, _TTL), (LEAF1, 50, _TTL), (SPINE, 1, _CHECKSUM)],
    ids=["from a host", "from a port without a cable", "with a wrong IP checksum"],
)
def test_a_stack_that_nobody_has_checked_is_no_sample(node_id, ingress_port, reason):
    """A host can write what it likes behind UDP; the drop counts, its stack does not."""
    spec = drop_report(
        _marked_packet(), reason=reason, tracked_flow=True, ingress_port=ingress_port
    )
    drop, collection = _one_drop(spec, node_id)
    assert drop.tracked_flow
    assert len(collection.packets) == 0


def test_int_that_cannot_be_read_does_not_hide_the_drop():
    """The sink drops what it cannot strip; that is what the report is about."""
    packet = bytearray(_marked_packet())
    packet[28] = 0x70
    drop, collection = _one_drop(drop_report(bytes(packet), reason=130, tracked_flow=True))
    assert (drop.reason, drop.packet.problem) == ("int_not_strippable", DecodeReason.INT_SHIM_TYPE)
    assert (drop.packet.key.dst_port, len(collection.packets)) == (4791, 0)


def test_a_strangers_hop_on_a_dropped_stack_does_not_hide_the_drop():
    """The stack is no evidence, the drop is."""
    inner = _marked_packet((SOURCE_HOP._replace(node_id=99),))
    _drop, collection = _one_drop(drop_report(inner, reason=_TTL, tracked_flow=True))
    assert len(collection.packets) == 0


def test_a_hosts_packet_to_the_probe_port_is_no_probe():
    """Dropped, with any node in what would be the probe header."""
    inner = probe_frame(
        node_id=99, egress_port=1, sequence_number=1, src_mac=1, dst_mac=2, src_ip=3, dst_ip=4
    )[14:]
    _drop, collection = _one_drop(drop_report(inner, reason=_TTL), LEAF1)
    assert len(collection.packets) == 0


def test_the_attempt_that_was_dropped_and_the_one_that_arrived():
    """INT-MD: the stack of the second is joined with its own sink, the first ends at the drop."""
    sender = ReportSender()
    first = drop_report(_marked_packet(), reason=_TTL, tracked_flow=True)
    collection = _collect(
        sender.frame(SPINE, 0, first),
        sender.frame(LEAF2, 0, stack_report(psn=7)),
        sender.frame(LEAF2, 1, sink_postcard(psn=7)),
    )
    assert collection.packets[["complete", "hop_count"]].tolist() == [(False, 2), (True, 3)]


# ---------------------------------------------------------------- congestion


def _congested(spec, *, tracked_flow):
    return replace(spec, congested_queue=True, tracked_flow=tracked_flow)


def test_a_congested_packet_that_is_not_followed_is_no_hop():
    """Q without F: no neighbour reports the same packet."""
    spec = _congested(xd_postcard(TRANSIT_HOP, psn=7), tracked_flow=False)
    collection = _collect(ReportSender().frame(SPINE, 1, spec))
    (packet,) = collection.congested
    assert (packet.node_id, packet.queue_id, packet.queue_depth) == (SPINE, 1, 5)
    assert (packet.ingress_port, packet.egress_port) == (1, 2)
    assert packet.ingress_tstamp_local_ns == 7_000_000
    assert packet.egress_tstamp_local_ns == 7_000_700
    assert packet.packet.key.psn == 7
    assert not packet.tracked_flow
    assert (len(collection.packets), collection.counters.congested) == (0, 1)
    assert collection.drops == ()


def test_a_congested_packet_that_is_followed_is_both():
    """Q and F: one report, one hop of the path, one congested packet."""
    sender = ReportSender()
    specs = [xd_postcard(values) for values in (SOURCE_HOP, TRANSIT_HOP, SINK_HOP)]
    specs[1] = _congested(specs[1], tracked_flow=True)
    nodes = (LEAF1, SPINE, LEAF2)
    collection = _collect(
        *(sender.frame(node, 1, spec) for node, spec in zip(nodes, specs, strict=True))
    )
    assert collection.packets[["complete", "hop_count"]].tolist() == [(True, 3)]
    assert [packet.tracked_flow for packet in collection.congested] == [True]


def test_a_congested_packet_with_its_stack_on_it_is_not_counted_twice():
    """Still on its way: the sink reports these hops again."""
    sender = ReportSender()
    spec = ReportSpec(
        inner=_marked_packet((SOURCE_HOP, TRANSIT_HOP)),
        metadata_bits=POSTCARD_BITS,
        metadata=TRANSIT_HOP._replace(node_id=None),
        congested_queue=True,
    )
    collection = _collect(
        sender.frame(SPINE, 1, spec),
        sender.frame(LEAF2, 0, stack_report(psn=7)),
        sender.frame(LEAF2, 1, sink_postcard(psn=7)),
    )
    assert collection.packets[["complete", "hop_count"]].tolist() == [(True, 3)]
    (packet,) = collection.congested
    assert packet.packet.stack is not None


def test_any_packet_may_be_congested():
    """A storage flow over TCP, a fragment: told, and nothing else."""
    for inner in (_OTHER_PACKETS["TCP"][1], _OTHER_PACKETS["fragment"][1]):
        spec = _congested(xd_postcard(TRANSIT_HOP), tracked_flow=False)
        collection = _collect(ReportSender().frame(SPINE, 1, replace(spec, inner=inner)))
        assert len(collection.congested) == 1
        assert collection.counters.rejected == {}


def test_an_impossible_stamp_of_an_event_is_none_and_counted():
    """Zero and all-ones too, which say that there is none."""
    counters = {1 << 48: "egress_tstamp_impossible"}
    for raw in (1 << 48, 0, 2**48 - 1, None):
        values = TRANSIT_HOP._replace(egress_tstamp=raw)
        spec = _congested(xd_postcard(values), tracked_flow=False)
        collection = _collect(ReportSender().frame(SPINE, 1, spec))
        assert collection.congested[0].egress_tstamp_local_ns is None
        assert collection.counters.invalid_tstamps == {counters.get(raw, "egress_tstamp"): 1}


def test_stamps_of_events_and_hops_lie_on_one_time_line():
    """Microsecond units, whichever report comes first."""
    fabric = three_switch_fabric(stamp_unit_ns=1000, stamp_width_bits=32)
    sender = ReportSender()
    values = TRANSIT_HOP._replace(ingress_tstamp=2**32 - 50, egress_tstamp=30)
    frames = (
        sender.frame(SPINE, 1, _congested(xd_postcard(values), tracked_flow=True)),
        sender.frame(SPINE, 0, drop_report(roce_packet()[:64], reason=_TTL, ingress_tstamp=60)),
    )
    collection = _collect(*frames, fabric=fabric)
    (congested,), (drop,) = collection.congested, collection.drops
    assert congested.egress_tstamp_local_ns - congested.ingress_tstamp_local_ns == 80_000
    assert drop.ingress_tstamp_local_ns - congested.egress_tstamp_local_ns == 30_000
    (hop,) = collection.hops
    assert hop["ingress_tstamp_local_ns"] == congested.ingress_tstamp_local_ns
    assert hop["egress_tstamp_local_ns"] == congested.egress_tstamp_local_ns


def test_events_are_handed_over_once():
    """Like packets."""
    collector = Collector(_FABRIC)
    sender = ReportSender()
    collector.feed(sender.frame(SPINE, 0, drop_report(roce_packet()[:64], reason=_TTL)), _NOW_NS)
    assert len(collector.drain().drops) == 1
    collection = collector.flush()
    assert (collection.drops, collection.congested) == ((), ())
    assert dict(collection.counters.dropped) == {"ttl_expired": 1}


def test_level_2_interfaces_are_read_and_may_be_unknown_one_by_one():
    """RepMdBits bit 6: all ones is an interface that nobody has configured."""
    values = HopMetadata(ingress_interface=7)
    spec = ReportSpec(
        inner=roce_packet()[:64],
        metadata_bits=0x0200,
        metadata=values,
        congested_queue=True,
        tracked_flow=False,
    )
    payload = ReportSender().payload(SPINE, 1, spec)
    assert payload[20:28] == bytes.fromhex("00000007 ffffffff")
    collection = _collect(report_frame(payload))
    assert collection.counters.rejected == {}
    (packet,) = collection.congested
    assert (packet.queue_id, packet.egress_port, packet.egress_tstamp_local_ns) == (None,) * 3


def test_a_drop_over_ipv6_is_read_as_a_whole():
    """Inner type 5."""
    flow = RoceFlow(
        src_mac=1, dst_mac=2, src_ip=1 << 100, dst_ip=2, src_port=3, dest_qp=4, ip_version=6
    )
    spec = drop_report(roce_frame(flow, psn=5)[14:], reason=_TTL, inner_type=IN_TYPE_IPV6)
    drop, _ = _one_drop(spec)
    assert (drop.packet.key.psn, drop.packet.key.network) == (5, NETWORK_IPV6)
    assert (drop.packet.src_addr, drop.packet.problem) == (1 << 100, None)


# ---------------------------------------------------------------- destinations, routed frames


def test_each_destination_has_its_own_sequence():
    """Two collectors in one capture: gaps are told for each, none where there is none."""
    to_a, to_b = ReportSender(), ReportSender()
    frames = []
    for psn in range(6):
        spec = sink_postcard(psn=psn)
        frames.append(report_frame(to_a.payload(LEAF2, 1, spec)))
        lost = psn == 3
        payload = to_b.payload(LEAF2, 1, sink_postcard(psn=100 + psn))
        if not lost:
            frames.append(report_frame(payload, dst_ip=0x0AFF0009))
    counters = _collect(*frames).counters
    other = Destination(0x0AFF0009, REPORT_PORT)
    assert counters.senders[SenderKey(LEAF2, 1, COLLECTOR)].lost == 0
    assert counters.senders[SenderKey(LEAF2, 1, other)].lost == 1
    assert (counters.lost, counters.restarts, counters.unconfirmed) == (1, 0, 0)
    assert str(other) == "10.255.0.9:32766"


def test_every_declared_report_port_is_listened_to():
    """Destinations may differ in the port alone."""
    fabric = replace(_FABRIC, report_udp_ports=frozenset({REPORT_PORT, 7000}))
    sender, other = ReportSender(), ReportSender()
    collection = _collect(
        report_frame(sender.payload(LEAF2, 1, sink_postcard(psn=1))),
        report_frame(other.payload(LEAF2, 1, sink_postcard(psn=2)), dst_port=7000),
        report_frame(other.payload(LEAF2, 1, sink_postcard(psn=3)), dst_port=7001),
        fabric=fabric,
    )
    assert collection.counters.rejected == {DecodeReason.UDP_PORT: 1}
    assert {key.destination.udp_port for key in collection.counters.senders} == {REPORT_PORT, 7000}


@pytest.mark.parametrize("ttl", [1, 255])
@pytest.mark.parametrize("vlan_id", [None, 0, 4094])
@pytest.mark.parametrize("src_port", [0xC000, 0xFFFF, 1])
def test_how_a_report_came_does_not_matter(ttl, vlan_id, src_port):
    """Routed over any number of switches, tagged or not, with any entropy."""
    payloads = [
        ReportSender().payload(LEAF2, 0, stack_report()),
        ReportSender().payload(LEAF2, 1, sink_postcard()),
    ]
    frames = [report_frame(p, ttl=ttl, vlan_id=vlan_id, src_port=src_port) for p in payloads]
    assert _collect(*frames).packets["complete"].tolist() == [True]
