# SPDX-License-Identifier: Apache-2.0
"""Whatever arrives: the collector counts it and goes on, and the order of reports is no matter."""

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.telemetry.codec import DecodeError
from controller.telemetry.collector import Collector, collect
from controller.telemetry.dialect import DIALECTS
from controller.telemetry.frames import PtpAddresses, PtpTransport, RoceFlow, ptp_sync, roce_frame
from controller.telemetry.packet import (
    IntMarking,
    decode_frame,
    decode_ipv6_packet,
    decode_packet,
)
from controller.telemetry.report import (
    IN_TYPE_ETHERNET,
    IN_TYPE_IPV4,
    IN_TYPE_IPV6,
    decode_group,
    decode_reports,
)
from controller.telemetry.report_encode import ReportSpec, StackSpec, insert_stack
from correction.records import NO_TSTAMP_NS
from tests.support.telemetry_reports import (
    FLOW,
    LEAF1,
    LEAF2,
    MARKED,
    PATH_HOPS,
    SOURCE_HOP,
    SPINE,
    TRANSIT_HOP,
    UNMARKED,
    ReportSender,
    delayed,
    drop_report,
    mx_postcard,
    report_frame,
    roce_packet,
    sink_postcard,
    stack_report,
    three_switch_fabric,
    xd_postcard,
)

_FABRIC = three_switch_fabric()
_MARKING = IntMarking({MARKED: UNMARKED}, 5000)
_NOW_NS = 1_800_000_000_000_000_000
_SENDER = ReportSender()
_ROCE6 = roce_frame(
    RoceFlow(
        src_mac=1, dst_mac=2, src_ip=1 << 99, dst_ip=2 << 99, src_port=5, dest_qp=6, ip_version=6
    ),
    psn=7,
)[14:]
_L2_PTP = ptp_sync(
    PtpAddresses(src_mac=1, dst_mac=2, transport=PtpTransport.ETHERNET, vlan_id=3),
    domain=0,
    clock_identity=4,
    sequence_id=5,
)
_MARKED_PACKET = insert_stack(
    roce_packet(psn=6),
    StackSpec(hops=(SOURCE_HOP,), instruction_bitmap=0xFC00, npt_value=UNMARKED << 2),
    marked_dscp=MARKED,
)
_VALID = [
    *_SENDER.roce_path(psn=1),
    *_SENDER.ptp_path(sequence_id=2),
    _SENDER.frame(LEAF2, 1, sink_postcard(psn=3), stack_report(psn=4), sink_postcard(psn=5)),
    *_SENDER.xd_path(psn=8),
    _SENDER.frame(SPINE, 1, mx_postcard(TRANSIT_HOP, psn=9)),
    *_SENDER.probe_path(),
    _SENDER.frame(SPINE, 0, drop_report(_MARKED_PACKET, reason=26, tracked_flow=True)),
    _SENDER.frame(
        SPINE, 0, drop_report(roce_frame(FLOW, psn=1), reason=25, inner_type=IN_TYPE_ETHERNET)
    ),
    _SENDER.frame(SPINE, 1, replace(xd_postcard(TRANSIT_HOP, psn=10), congested_queue=True)),
    *(
        _SENDER.frame(SPINE, 1, ReportSpec(inner=inner, inner_type=inner_type))
        for inner_type, inner in ((IN_TYPE_IPV6, _ROCE6), (IN_TYPE_ETHERNET, _L2_PTP))
    ),
]


def _assert_books_balance(collection):
    counters = collection.counters
    taken = counters.decoded + counters.duplicates + counters.replicas
    assert counters.received == taken + counters.rejected_total
    assert counters.complete + counters.incomplete == len(collection.packets)
    assert collection.packets["hop_count"].sum() == len(collection.hops)
    assert sum(counters.dropped.values()) == len(collection.drops)
    assert counters.congested == len(collection.congested)


@given(st.binary(max_size=300), st.sampled_from(sorted(DIALECTS)))
@settings(max_examples=300, deadline=None)
def test_random_bytes_raise_nothing_but_a_decode_error(data, dialect_name):
    """Group, reports and packet decoders on noise."""
    dialect = DIALECTS[dialect_name]
    for decoder in (
        lambda: decode_group(data, 0, dialect),
        lambda: decode_reports(data, 0, _MARKING, dialect),
        lambda: decode_packet(data, 0, _MARKING, dialect),
        lambda: decode_ipv6_packet(data, 0, _MARKING, dialect),
        lambda: decode_frame(data, 0, _MARKING, dialect),
    ):
        with suppress(DecodeError):
            decoder()


@given(
    st.sampled_from(_VALID),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    st.integers(0, 400),
)
@settings(max_examples=400, deadline=None)
def test_a_damaged_report_is_taken_or_counted(frame, damage, end):
    """Valid frames with bytes changed and the end cut: the books balance, nothing is raised."""
    changed = bytearray(frame)
    for offset, value in damage:
        changed[offset % len(changed)] = value
    collector = Collector(_FABRIC)
    collector.feed(bytes(changed[:end]), _NOW_NS)
    collector.feed_payload(bytes(changed[42 : 42 + end]), _NOW_NS)
    collection = collector.flush()
    assert collection.counters.received == 2
    _assert_books_balance(collection)


@given(st.lists(st.binary(max_size=120), max_size=8))
@settings(deadline=None)
def test_noise_between_reports_changes_no_packet(noise):
    """Random payloads on the report port are rejections; the good reports still join."""
    frames = list(_VALID)
    rng = random.Random(len(noise))
    for payload in noise:
        # version 15: never a report, so it cannot be one of the fabric's by chance
        frames.insert(rng.randrange(len(frames) + 1), report_frame(b"\xf0" + payload))
    collection = collect([(_NOW_NS, frame) for frame in frames], _FABRIC)
    clean = collect([(_NOW_NS, frame) for frame in _VALID], _FABRIC)
    assert collection.packets.tolist() == clean.packets.tolist()
    assert collection.hops.tolist() == clean.hops.tolist()
    assert collection.counters.rejected_total == len(noise)


@given(
    st.sampled_from([IN_TYPE_ETHERNET, IN_TYPE_IPV4, IN_TYPE_IPV6]),
    st.sampled_from([_ROCE6, _L2_PTP, _MARKED_PACKET, roce_packet(), roce_frame(FLOW, psn=1)]),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=4),
    st.integers(0, 160),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_no_dropped_packet_is_too_damaged_to_be_told(inner_type, inner, damage, end, tracked_flow):
    """With its first header whole and of InType's version a drop report is never refused."""
    changed = bytearray(inner)
    for offset, value in damage:
        changed[offset % len(changed)] = value
    data = bytes(changed[:end])
    spec = drop_report(data, reason=25, inner_type=inner_type, tracked_flow=tracked_flow)
    collection = collect([(_NOW_NS, ReportSender().frame(SPINE, 0, spec))], _FABRIC)
    _assert_books_balance(collection)
    version = data[0] >> 4 if data else 0
    if inner_type == IN_TYPE_ETHERNET:
        tagged = data[12:14] == b"\x81\x00"
        readable = len(data) >= (18 if tagged else 14)
    elif inner_type == IN_TYPE_IPV6:
        readable = len(data) >= 40 and version == 6
    else:
        ihl_bytes = (data[0] & 0x0F) * 4 if data else 0
        total_bytes = int.from_bytes(data[2:4], "big")
        readable = len(data) >= 20 and version == 4 and 20 <= ihl_bytes <= total_bytes
    assert len(collection.drops) == readable


_ATTEMPTS = st.lists(
    st.lists(st.booleans(), min_size=3, max_size=3),
    min_size=1,
    max_size=4,
)
"""Of each attempt, in order: which of the three switches' reports arrived."""


@given(_ATTEMPTS, st.integers(5, 400), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_hops_of_two_attempts_to_send_a_packet_do_not_mix(arrived, spacing_us, wraps, rng):
    """Reports of one packet sent up to four times, some lost, in any order, stamps wrapping.

    Only a path from host to host may have a hop of a later attempt behind one of an earlier, where
    all else that was sent is lost: that looks like a link that was paused.
    """
    base = 2**32 - 7_000_000 - 30_000 if wraps else 0
    sender = ReportSender()

    def frames_of(psn, later, is_there):
        frames = []
        for (node_id, values), there in zip(PATH_HOPS, is_there, strict=True):
            shifted = delayed(values, base + later)
            ingress, egress = shifted.ingress_tstamp, shifted.egress_tstamp
            wrapped = shifted._replace(
                ingress_tstamp=ingress % 2**32 or 1, egress_tstamp=egress % 2**32 or 1
            )
            if there:
                frames.append(sender.frame(node_id, 1, xd_postcard(wrapped, psn=psn)))
        return frames

    frames = []
    for k, is_there in enumerate(arrived):
        frames += frames_of(1, (k + 1) * spacing_us * 1000, is_there)
    rng.shuffle(frames)
    frames = [*frames_of(98, 0, [True] * 3), *frames, *frames_of(99, 0, [True] * 3)]
    collection = collect(
        [(_NOW_NS + k, frame) for k, frame in enumerate(frames)],
        three_switch_fabric(stamp_width_bits=32),
    )
    assert len(collection.hops) == len(frames)
    first = {hop["node_id"]: hop["ingress_tstamp_local_ns"] for hop in collection.hops[:3]}
    for packet in collection.packets:
        hops = collection.hops[packet["first_hop"] :][: packet["hop_count"]]
        attempts = [int(h["ingress_tstamp_local_ns"] - first[h["node_id"]]) for h in hops]
        gap = set(hops["node_id"].tolist()) == {LEAF1, LEAF2}  # not neighbours: no sample of a link
        assert len(set(attempts)) == 1 or gap or packet["complete"]
        assert attempts == sorted(attempts) or gap
    whole = sum(all(attempt) for attempt in arrived)
    assert np.count_nonzero(collection.packets["complete"]) >= 2 + whole


def _paths(collection):
    """Packets as a multiset of (key, hops), without arrival order and times."""
    paths = Counter()
    for packet in collection.packets:
        first = packet["first_hop"]
        hops = collection.hops[first : first + packet["hop_count"]].tolist()
        key = packet[["traffic", "psn", "ptp_sequence_id", "complete", "wire_bytes"]].tolist()
        paths[key, tuple(hops)] += 1
    return paths


@given(st.integers(1, 8), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_duplicates_of_reports_do_not_matter(packet_count, rng):
    """Shuffled within the window, some twice: the same packets with the same hops."""
    sender = ReportSender()
    frames = []
    for k in range(packet_count):
        shifted = tuple(
            hop._replace(
                ingress_tstamp=hop.ingress_tstamp + 1000 * k,
                egress_tstamp=hop.egress_tstamp + 1000 * k,
            )
            for hop in (SOURCE_HOP, TRANSIT_HOP)
        )
        frames += [
            sender.frame(LEAF2, 0, stack_report(psn=k, hops=shifted)),
            sender.frame(LEAF2, 1, sink_postcard(psn=k)),
            *sender.ptp_path(sequence_id=k),
            *sender.xd_path(psn=1000 + k, later=1000 * k),
            *sender.probe_path(sequence_number=k),
        ]
    expected = collect([(_NOW_NS, frame) for frame in frames], _FABRIC)
    shuffled = frames + [frame for frame in frames if rng.random() < 0.3]
    rng.shuffle(shuffled)
    collection = collect([(_NOW_NS + k, frame) for k, frame in enumerate(shuffled)], _FABRIC)
    assert _paths(collection) == _paths(expected)
    assert collection.packets["complete"].all()
    assert collection.counters.duplicates == len(shuffled) - len(frames)
    assert collection.counters.lost == 0


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_every_report_is_accounted_for_under_loss(kept):
    """received + lost = sent, for what lies between the first and the last that arrived."""
    sender = ReportSender()
    frames = [sender.frame(LEAF2, 1, sink_postcard(psn=k)) for k in range(len(kept))]
    arrived = [k for k, keep in enumerate(kept) if keep]
    collection = collect([(_NOW_NS, frames[k]) for k in arrived], _FABRIC)
    counters = collection.counters
    assert counters.decoded == len(arrived)
    assert counters.lost == (arrived[-1] - arrived[0] + 1 - len(arrived) if arrived else 0)
    _assert_books_balance(collection)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_no_stamp_outside_the_device_reaches_an_estimator(ingress_tstamp, egress_tstamp):
    """Zero, all-ones and too wide stamps are none and counted; any other is exact."""
    odd = TRANSIT_HOP._replace(ingress_tstamp=ingress_tstamp, egress_tstamp=egress_tstamp)
    sender = ReportSender()
    collection = collect(
        [
            (_NOW_NS, sender.frame(LEAF2, 0, stack_report(hops=(SOURCE_HOP, odd)))),
            (_NOW_NS, sender.frame(LEAF2, 1, sink_postcard())),
        ],
        _FABRIC,
    )
    valid = [0 < stamp < 2**48 - 1 for stamp in (ingress_tstamp, egress_tstamp)]
    stamps = np.array(
        [collection.hops[f"{name}_tstamp_local_ns"][1] for name in ("ingress", "egress")]
    )
    assert (stamps != NO_TSTAMP_NS).tolist() == valid
    assert sum(collection.counters.invalid_tstamps.values()) == 2 - sum(valid)
    if valid[0]:
        assert stamps[0] == ingress_tstamp
