# SPDX-License-Identifier: Apache-2.0
"""Whatever arrives: the collector counts it and goes on, and the order of reports is no matter."""

import random
from collections import Counter
from contextlib import suppress

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.telemetry.codec import DecodeError
from controller.telemetry.collector import Collector, collect
from controller.telemetry.dialect import DIALECTS
from controller.telemetry.packet import IntMarking, decode_packet
from controller.telemetry.report import decode_group, decode_reports
from correction.records import NO_TSTAMP_NS
from tests.support.telemetry_reports import (
    LEAF2,
    MARKED,
    SOURCE_HOP,
    TRANSIT_HOP,
    UNMARKED,
    ReportSender,
    report_frame,
    sink_postcard,
    stack_report,
    three_switch_fabric,
)

_FABRIC = three_switch_fabric()
_MARKING = IntMarking({MARKED: UNMARKED}, 5000)
_NOW_NS = 1_800_000_000_000_000_000
_SENDER = ReportSender()
_VALID = [
    *_SENDER.roce_path(psn=1),
    *_SENDER.ptp_path(sequence_id=2),
    _SENDER.frame(LEAF2, 1, sink_postcard(psn=3), stack_report(psn=4), sink_postcard(psn=5)),
]


def _assert_books_balance(collection):
    counters = collection.counters
    assert counters.received == counters.decoded + counters.duplicates + counters.rejected_total
    assert counters.complete + counters.incomplete == len(collection.packets)
    assert collection.packets["hop_count"].sum() == len(collection.hops)


@given(st.binary(max_size=300), st.sampled_from(sorted(DIALECTS)))
@settings(max_examples=300)
def test_random_bytes_raise_nothing_but_a_decode_error(data, dialect_name):
    """Group, reports and packet decoders on noise."""
    dialect = DIALECTS[dialect_name]
    for decoder in (
        lambda: decode_group(data, 0, dialect),
        lambda: decode_reports(data, 0, _MARKING, dialect),
        lambda: decode_packet(data, 0, _MARKING, dialect),
    ):
        with suppress(DecodeError):
            decoder()


@given(
    st.sampled_from(_VALID),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    st.integers(0, 400),
)
@settings(max_examples=400)
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


def _paths(collection):
    """Packets as a multiset of (key, hops), without arrival order and times."""
    paths = Counter()
    for packet in collection.packets:
        first = packet["first_hop"]
        hops = collection.hops[first : first + packet["hop_count"]].tolist()
        key = packet[["traffic", "psn", "ptp_sequence_id", "complete", "wire_bytes"]].tolist()
        paths[key, tuple(hops)] += 1
    return paths


@given(st.integers(1, 12), st.randoms(use_true_random=False))
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
