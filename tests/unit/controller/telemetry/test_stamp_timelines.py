# SPDX-License-Identifier: Apache-2.0
"""Raw stamps become local nanoseconds that never wrap; what no clock can show is counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.telemetry.stamp_timelines import StampTimelines
from controller.telemetry.topology import TelemetryFabric, TelemetryNode
from correction.records import NO_TSTAMP_NS

_T0 = 10**18
_S = 10**9
_TAI_S = 37


def _timelines(*, unit_ns=1, width_bits=48, **more):
    node = TelemetryNode(node_id=7, stamp_unit_ns=unit_ns, stamp_width_bits=width_bits, **more)
    return StampTimelines(
        TelemetryFabric(nodes={7: node}, neighbours={}, report_udp_ports=frozenset())
    )


def _place(timelines, stamps, captured):
    """Local ns of ingress stamps alone."""
    ingress = np.array(stamps, np.uint64)
    local_ns, _ = timelines.to_local_ns(
        np.full(len(stamps), 7, np.uint32),
        ingress,
        np.zeros_like(ingress),
        np.array(captured, np.int64),
    )
    return local_ns.tolist()


@pytest.mark.parametrize("width_bits", [32, 48])
def test_stamps_go_on_across_wraps(width_bits):
    """A device that wraps several times, also while nothing is reported, keeps one time line."""
    period = 2**width_bits
    true = [period - 10, period + 5, 2 * period + 7, 2 * period - 3, 7 * period + 1]
    timelines = _timelines(width_bits=width_bits)
    captured = [stamp + _T0 for stamp in true]
    first = _place(timelines, [stamp % period for stamp in true[:2]], captured[:2])
    rest = _place(timelines, [stamp % period for stamp in true[2:]], captured[2:])
    assert first + rest == true
    assert not timelines.epoch_counts


def test_the_unit_is_applied_once():
    """BMv2 counts microseconds: 5 is 5000 ns, and the collector's clock is still in ns."""
    timelines = _timelines(unit_ns=1000, width_bits=32)
    captured = [_T0, _T0 + 2**32 * 1000]
    assert _place(timelines, [5, 6], captured) == [5_000, (2**32 + 6) * 1000]


def test_what_no_clock_can_show_is_counted_by_reason():
    """Raw 0 is not available; 49 bits from a 48-bit device are impossible."""
    timelines = _timelines()
    local_ns = _place(timelines, [0, 2**48, 9, 2**64 - 1], [0, 0, 0, 0])
    assert local_ns == [NO_TSTAMP_NS, NO_TSTAMP_NS, 9, NO_TSTAMP_NS]
    assert timelines.faults == {"ingress_tstamp_impossible": 2}


def test_a_64_bit_stamp_is_taken_as_it_is():
    """A clock on the epoch of today does not wrap; what would overflow int64 is impossible."""
    timelines = _timelines(width_bits=64)
    local_ns = _place(timelines, [1_800_000_000_000_000_001, 2**62], [5, 6])
    assert local_ns == [1_800_000_000_000_000_001, NO_TSTAMP_NS]


def test_no_stamps_at_all_are_no_error():
    """An empty batch leaves the time line without an anchor."""
    timelines = _timelines()
    assert _place(timelines, [], []) == []
    assert _place(timelines, [3], [7]) == [3]


def test_an_18_bit_egress_stamp_is_counted_on_from_the_ingress_stamp():
    """Tofino 1 gives 18 bits of the dequeue time: the packet left within 262 us of its arrival."""
    timelines = _timelines(egress_stamp_width_bits=18)
    ingress = 123_456_789_000
    left = ingress + 200_000
    got = timelines.instants(7, ingress, left % 2**18, _T0)
    assert got == (ingress, left)


def test_an_18_bit_stamp_alone_is_ambiguous():
    """It wraps 3,800 times a second, so that no report's arrival can place it."""
    timelines = _timelines(egress_stamp_width_bits=18)
    assert timelines.instants(7, None, 4711, _T0, on_record=True) == (None, None)
    assert timelines.faults == {"egress_tstamp_ambiguous": 1}


def test_a_damaged_stamp_does_not_mislead_those_after_it():
    """Wrong by 0.4 periods twice: the next good stamp is still in its own period."""
    period = 2**32
    timelines = _timelines(width_bits=32)
    step = period // 100
    good = [10 + n * step for n in range(8)]
    shown = list(good)
    shown[3] += 2 * period // 5
    shown[4] += 4 * period // 5
    placed = _place(timelines, [s % period for s in shown], [_T0 + g for g in good])
    assert placed[:3] + placed[5:] == good[:3] + good[5:]
    assert not timelines.epoch_counts


def test_a_restarted_device_begins_a_new_epoch():
    """Its clock starts at zero again: told once, with the jump, and one time line goes on."""
    timelines = _timelines(width_bits=64)
    before = [50 * 3600 * _S + n * _S for n in range(3)]
    after = [n * _S + 1 for n in range(6)]
    captured = [_T0 + n * _S for n in range(9)]
    placed = _place(timelines, before + after, captured)
    assert placed == before + after
    (epoch,) = timelines.take_epochs()
    assert (epoch.node_id, epoch.capture_collector_ns) == (7, captured[5])
    assert epoch.jump_local_ns == after[0] - (before[-1] + _S)
    assert timelines.epoch_counts == {7: 1}


def test_stamps_after_a_restart_stay_one_apart_though_they_wrap():
    """With 48 bits the period is not known, but differences after the restart are true."""
    timelines = _timelines()
    before = [50 * 3600 * _S + n * _S for n in range(3)]
    captured = [_T0 + n * _S for n in range(10)]
    placed = _place(timelines, before + [n * _S + 1 for n in range(7)], captured)
    assert np.diff(placed[3:]).tolist() == [_S] * 6
    assert timelines.epoch_counts == {7: 1}


def test_a_late_report_is_placed_by_its_own_arrival():
    """Rows of hours ago, read after newer ones, begin no epoch."""
    timelines = _timelines()
    hours = 3 * 3600 * _S
    drifted = hours + hours // 10_000
    assert _place(timelines, [drifted], [_T0 + hours]) == [drifted]
    assert _place(timelines, [5, 6, 7, 8], [_T0, _T0 + 1, _T0 + 2, _T0 + 3]) == [5, 6, 7, 8]
    assert not timelines.epoch_counts


def test_a_clock_on_the_ptp_epoch_is_absolute():
    """48 bits of TAI nanoseconds, completed by the collector's UTC clock."""
    collector_ns = 1_800_000_000 * _S
    tai_ns = collector_ns + _TAI_S * _S - 1_000
    timelines = _timelines(stamp_origin_ns=_TAI_S * _S)
    assert _place(timelines, [tai_ns % 2**48], [collector_ns]) == [tai_ns]


def test_a_clock_of_1970_is_off_its_origin():
    """A 64-bit PTP clock that was never set is no time of today."""
    collector_ns = 1_800_000_000 * _S
    timelines = _timelines(width_bits=64, stamp_origin_ns=_TAI_S * _S)
    assert _place(timelines, [5 * _S], [collector_ns]) == [NO_TSTAMP_NS]
    assert timelines.faults == {"ingress_tstamp_off_origin": 1}


@given(
    st.sampled_from([32, 48, 62]),
    st.integers(1, 2**40),
    st.lists(st.integers(0, 3 * _S), min_size=1, max_size=30),
    st.integers(-100, 100),
)
def test_any_steady_clock_is_recovered(width_bits, start, steps_ns, rate_ppm):
    """Whatever the pauses (up to 3 s) and a rate of 100 ppm, no stamp falls into another period."""
    times = np.cumsum([0, *steps_ns])
    local = [start + int(t) + int(t) * rate_ppm // 10**6 for t in times]
    first = local[0] % 2**width_bits
    timelines = _timelines(width_bits=width_bits)
    placed = _place(
        timelines, [max(1, s % 2**width_bits) for s in local], [_T0 + int(t) for t in times]
    )
    shift = first - local[0]
    expected = [s + shift if s % 2**width_bits else None for s in local]
    assert all(e is None or e == p for e, p in zip(expected, placed, strict=True))
