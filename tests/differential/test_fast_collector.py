# SPDX-License-Identifier: Apache-2.0
"""The compiled collector gives what the reference collector gives: rows, events and counters.

A million reports by hand: tools/compare_collectors.py.
"""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.collector.batch import ReportBatch, batch_of_payloads
from controller.collector.collect_frames import collect_frames
from controller.collector.fast_collector import FastCollector
from controller.telemetry.collector import Collector, collect
from controller.telemetry.stamp_kernel import JUMP_NS
from tests.support import telemetry_reports as t
from tests.support.compare_collectors import assert_same, assert_same_results, compare_random
from tests.support.random_reports import Arriving, RandomReports, random_fabric

_NOW_NS = 10**18


@pytest.mark.parametrize(("seed", "damage"), [(1, 0.1), (2, 0.0), (3, 0.5)])
def test_random_reports_give_the_same(seed: int, damage: float) -> None:
    """All kinds of reports, lost, repeated, late, cut and damaged: no result differs."""
    counters = compare_random(seed, 7_000, damage=damage)
    assert counters.complete > 500
    assert counters.incomplete > 500
    assert counters.duplicates > 50
    assert counters.replicas > 20
    assert counters.resent > 0
    assert counters.unconfirmed > 0
    assert counters.dropped
    assert counters.congested > 20
    assert counters.lost > 50
    assert len(counters.rejected) > 8


def test_every_prefix_gives_the_same() -> None:
    """A report that is cut anywhere is rejected for the same reason, or taken alike."""
    sender = t.ReportSender()
    whole = [
        sender.payload(t.LEAF2, 0, t.stack_report(psn=1)),
        sender.payload(t.LEAF2, 1, t.sink_postcard(psn=1)),
        sender.payload(t.LEAF1, 1, t.ptp_postcard(t.SOURCE_HOP)),
        sender.payload(t.SPINE, 1, t.mx_postcard(t.TRANSIT_HOP)),
        sender.payload(t.LEAF2, 0, t.stack_report(psn=2), t.stack_report(psn=3)),
        RandomReports(5, damage=0).take(1)[0].payload,
    ]
    cuts = [payload[:end] for payload in whole for end in range(len(payload) + 1)]
    arriving = [Arriving(_NOW_NS + at, cut, t.COLLECTOR) for at, cut in enumerate(cuts)]
    counters = assert_same_results(iter([arriving]), t.three_switch_fabric(), seed=0)
    assert counters.rejected_total > 500


def test_clocks_that_begin_anew_are_found_alike() -> None:
    """Stamps that jump: the same epochs, whether postcards or stacks show them."""
    fabric = t.three_switch_fabric()
    arriving = []
    sender = t.ReportSender()
    for psn in range(200):
        later = psn * 20_000 + (50 * JUMP_NS if psn > 100 else 0)
        now_ns = _NOW_NS + psn * 20_000
        for node_id, values in t.PATH_HOPS:
            later_here = later if node_id == t.SPINE else psn * 20_000
            spec = t.xd_postcard(t.delayed(values, later_here), psn=psn)
            arriving.append(Arriving(now_ns, sender.payload(node_id, 1, spec), t.COLLECTOR))
    counters = assert_same_results(iter([arriving]), fabric, seed=1)
    assert counters.clock_epochs == {t.SPINE: 1}


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_lost_postcards_leave_the_same_fragments(lost: int) -> None:
    """What is left of a path whose postcard is lost closes alike, in time or at the end."""
    sender = t.ReportSender()
    arriving = []
    for psn in range(400):
        frames = [
            sender.payload(node_id, 1, t.xd_postcard(t.delayed(values, psn * 10_000), psn=psn))
            for node_id, values in t.PATH_HOPS
        ]
        if psn % 3 == 1:
            del frames[lost]
        now_ns = _NOW_NS + psn * 10_000_000
        arriving += [Arriving(now_ns, payload, t.COLLECTOR) for payload in frames]
    counters = assert_same_results(iter([arriving]), t.three_switch_fabric(), seed=2)
    assert counters.incomplete == 133


def test_repeated_key_is_closed_alike() -> None:
    """A sender that repeats one key fills its group: all that waits is closed."""
    sender = t.ReportSender()
    arriving = [
        Arriving(
            _NOW_NS + number,
            sender.payload(t.SPINE, 1, t.xd_postcard(t.delayed(t.TRANSIT_HOP, number * 5_000))),
            t.COLLECTOR,
        )
        for number in range(150)
    ]
    counters = assert_same_results(iter([arriving]), t.three_switch_fabric(), seed=3)
    assert counters.resent == 3


def test_reports_of_workers_and_batches_mix() -> None:
    """Payloads fed one at a time and batches share all state."""
    fabric = random_fabric()
    reference, fast = Collector(fabric), FastCollector(fabric)
    chance = random.Random(4)
    generator = RandomReports(4)
    for _ in range(60):
        part = generator.take(30)
        for datagram in part:
            reference.feed_payload(
                datagram.payload, datagram.capture_collector_ns, datagram.destination
            )
        if chance.random() < 0.5:
            for datagram in part:
                fast.feed_payload(
                    datagram.payload, datagram.capture_collector_ns, datagram.destination
                )
        else:
            fast.feed_batch(
                batch_of_payloads(
                    [datagram.payload for datagram in part],
                    [datagram.capture_collector_ns for datagram in part],
                    [datagram.destination for datagram in part],
                )
            )
    assert_same(reference.flush(), fast.flush())


def test_frames_give_the_same() -> None:
    """Captured frames, sound and damaged: as `collect` has them."""
    fabric = random_fabric()
    chance = random.Random(6)
    frames = []
    for datagram in RandomReports(6).take(1_500):
        frame = bytearray(
            t.report_frame(datagram.payload, dst_ip=datagram.destination.ip, src_port=7)
        )
        if chance.random() < 0.05:
            frame[chance.randrange(50)] ^= 1 << chance.randrange(8)
        frames.append((datagram.capture_collector_ns, bytes(frame)))
    assert_same(collect(frames, fabric), collect_frames(frames, fabric))


_TABLE = t.three_switch_fabric()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=120),
            st.builds(
                lambda head, node, rest: head + node + rest,
                st.binary(min_size=4, max_size=4).map(lambda b: bytes([0x20 | b[0] & 15]) + b[1:]),
                st.sampled_from([bytes([0, 0, 0, 1]), bytes([0, 0, 0, 2])]),
                st.binary(max_size=150),
            ),
        ),
        max_size=8,
    )
)
def test_any_bytes_give_the_same(payloads: list[bytes]) -> None:
    """Whatever arrives: no exception, and what the reference makes of it."""
    arriving = [Arriving(_NOW_NS + at, payload, t.COLLECTOR) for at, payload in enumerate(payloads)]
    assert_same_results(iter([arriving]), _TABLE, seed=0)


def test_datagram_outside_the_buffer_is_refused() -> None:
    """A batch that points past its buffer is the caller's mistake, and is not read."""
    batch = ReportBatch.empty(rows=1, buffer_bytes=16)
    batch.count, batch.byte_count[0] = 1, 17
    with pytest.raises(ValueError, match="outside its buffer"):
        FastCollector(_TABLE).feed_batch(batch)
    with pytest.raises(ValueError, match="more datagrams"):
        FastCollector(_TABLE).feed_batch(replace(batch, count=2))
    with pytest.raises(TypeError, match="int32"):
        FastCollector(_TABLE).feed_batch(replace(batch, byte_count=batch.start))
