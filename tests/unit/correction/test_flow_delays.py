# SPDX-License-Identifier: Apache-2.0
"""Flows on the paths that they took: the way back, changes of path, and what is not known."""

from dataclasses import replace

import numpy as np
import pytest

from correction.flow_delays import NO_WAY_BACK, NOT_REPORTED, FlowDelays, WayBack, packet_delay
from correction.flow_paths import Flow, FlowPaths, Path, PathHop
from correction.hop_windows import HopWindowing
from correction.path_delays import PathError, PathSource
from correction.records import HOP_DTYPE, PACKET_DTYPE, TRAFFIC_PTP, TRAFFIC_ROCE
from correction.residences import residences_of_packets, residences_of_windows
from tests.support.hand_links import BACK1, BACK2, TWO_SPINES, UP1, UP2, hand_fabric

IP1, IP2 = 0x0A000001, 0x0A000002
DATA = Flow(TRAFFIC_ROCE, IP1, IP2, 50_000, 4791, 7)
ACK = Flow(TRAFFIC_ROCE, IP2, IP1, 50_000, 4791, 8)
LINKS = TWO_SPINES | {"leaf1-spine2": (400.0, 400.0)}
DELAYS = hand_fabric(LINKS, reach_ns=1_000.0)
NS_PER_MS = 1_000_000


def records(*packets: tuple[Flow, Path, int], stay_ns: tuple[int, ...] = ()):
    """Complete packets of (flow, path, capture time); `stay_ns` per packet, in every switch."""
    rows = np.zeros(len(packets), PACKET_DTYPE)
    hops: list[PathHop] = []
    stays: list[int] = []
    for number, (row, (flow, path, at_ns)) in enumerate(zip(rows, packets, strict=True)):
        row["first_hop"], row["hop_count"], row["complete"] = len(hops), len(path), True
        for name, value in flow._asdict().items():
            row[name] = value
        row["capture_collector_ns"] = at_ns
        hops += path
        stays += [stay_ns[number] if stay_ns else 500] * len(path)
    table = np.zeros(len(hops), HOP_DTYPE)
    for name in PathHop._fields:
        table[name] = [getattr(hop, name) for hop in hops]
    table["ingress_tstamp_local_ns"] = 1_000
    table["egress_tstamp_local_ns"] = 1_000 + np.array(stays)
    return rows, table


def seen(*packets: tuple[Flow, Path, int]):
    """Paths learnt, and the changes."""
    paths = FlowPaths()
    changes = paths.add(*records(*packets))
    return paths, changes


def test_both_directions_of_a_queue_pair_are_told_together():
    """The way back of RoCEv2 has the same ports; half the difference of their cables."""
    paths, _ = seen((DATA, UP2, 5), (ACK, BACK1, 6))
    found = FlowDelays(DELAYS, paths).of(DATA)
    assert (found.back, found.way_back) == (ACK, WayBack.SAME_PORTS)
    assert found.asymmetry is not None
    assert found.asymmetry.asymmetry.value_ns == (600.0 - 300.0) / 2
    back = FlowDelays(DELAYS, paths).of(ACK)
    assert back.asymmetry is not None
    assert back.asymmetry.asymmetry.value_ns == -(600.0 - 300.0) / 2


def test_way_back_prefers_exchanged_ports_then_the_same_then_the_most_used():
    """PTP answers from 319 to 319; other flows between the hosts are a last resort, and said so."""
    sync = Flow(TRAFFIC_PTP, IP1, IP2, 319, 319, 0)
    answer = Flow(TRAFFIC_PTP, IP2, IP1, 319, 319, 0)
    other = ACK._replace(src_port=50_001)
    paths, _ = seen((sync, UP1, 1), (answer, BACK1, 2), (DATA, UP1, 3), (other, BACK2, 4))
    service = FlowDelays(DELAYS, paths)
    assert service.way_back(sync) == (answer, WayBack.MIRRORED)
    assert service.way_back(DATA) == (other, WayBack.SAME_HOSTS)
    assert service.of(DATA, back=answer._replace(traffic=TRAFFIC_ROCE)).way_back is WayBack.NAMED


def test_a_rehash_gives_an_event_with_the_new_asymmetry():
    """Each change with the way back of its time: after the data, after the acknowledgements."""
    paths, changes = seen(
        (DATA, UP1, 1), (ACK, BACK1, 2), (DATA, UP2, 1 * NS_PER_MS), (ACK, BACK2, 2 * NS_PER_MS)
    )
    first, second = FlowDelays(DELAYS, paths).shifts(changes)
    assert first.change.flow == DATA
    assert first.delay_change is not None
    assert first.delay_change.value_ns == 300.0
    assert first.delay_change.bound_hard_ns <= 1.01
    asymmetries = [first.asymmetry_before, first.asymmetry_after]
    assert [one.asymmetry.value_ns for one in asymmetries if one] == [0.0, 150.0]
    # of the acknowledgements' own flow, forward is their direction
    asymmetries = [second.asymmetry_before, second.asymmetry_after]
    assert [one.asymmetry.value_ns for one in asymmetries if one] == [-150.0, 0.0]


def test_without_the_other_direction_the_delay_alone_is_told():
    """And why the asymmetry is not."""
    paths, changes = seen((DATA, UP1, 1), (DATA, UP2, 1 * NS_PER_MS))
    found = FlowDelays(DELAYS, paths).of(DATA)
    assert found.forward is not None
    assert found.forward.link_delay.value_ns == 600.0
    assert (found.asymmetry, found.reason) == (None, NO_WAY_BACK)
    (shift,) = FlowDelays(DELAYS, paths).shifts(changes)
    assert shift.delay_change is not None
    assert (shift.asymmetry_after, shift.reason) == (None, NO_WAY_BACK)


def test_flow_that_was_never_reported_is_unknown_unless_predicted():
    """A hash model is asked for that alone; reported paths stand against it."""
    paths, _ = seen((ACK, BACK1, 1))
    found = FlowDelays(DELAYS, paths).of(DATA)
    assert (found.forward, found.asymmetry, found.reason) == (None, None, NOT_REPORTED)
    asked: list[Flow] = []

    def predict(flow: Flow) -> Path | None:
        asked.append(flow)
        return UP1 if flow == DATA else BACK2

    found = FlowDelays(DELAYS, paths, predict=predict).of(DATA)
    assert asked == [DATA]
    assert found.asymmetry is not None
    assert found.asymmetry.forward.source is PathSource.PREDICTED
    assert found.asymmetry.reverse.source is PathSource.REPORTED
    assert found.asymmetry.reverse.path == BACK1


def test_paths_that_cables_do_not_explain_are_told_as_the_reason():
    """Not an exception for the caller."""
    strange = (PathHop(1, 12, 30), UP1[1], UP1[2])
    paths, changes = seen((DATA, UP1, 1), (ACK, BACK1, 2), (DATA, strange, 1 * NS_PER_MS))
    service = FlowDelays(DELAYS, paths)
    assert "port 30 of node 1" in service.of(DATA).reason
    assert "port 30 of node 1" in service.of(ACK).reason
    (shift,) = service.shifts(changes)
    assert shift.delay_change is None
    assert "port 30 of node 1" in shift.reason


def test_residences_of_packets_and_of_windows_agree():
    """Quantiles of the same hops; one packet is told exactly."""
    stays = (700, 300, 900, 500, 400)
    packets, hops = records(*[(DATA, UP1, k) for k in range(5)], stay_ns=stays)
    own = residences_of_packets(packets, hops, DELAYS)
    assert [one.median_ns for one in own] == [500.0] * 3
    assert (own[0].count, own[0].least_ns, own[0].most_ns) == (5, 300.0, 900.0)
    windowing = HopWindowing(DELAYS.model, window_ns=1_000, late_ns=0)
    windowing.add(packets, hops)
    told = residences_of_windows(UP1, 0, windowing.rest(), DELAYS)
    assert [(one.count, one.median_ns, one.most_ns) for one in told] == [(5, 500.0, 900.0)] * 3
    assert residences_of_windows(UP2, 0, windowing.rest(), DELAYS) == ()
    (single, *_) = residences_of_packets(packets[1:2], hops, DELAYS)
    assert (single.count, single.least_ns, single.most_ns) == (1, 300.0, 300.0)


def test_one_packet_is_told_exactly():
    """Its own path and residences; a packet with hops missing has none."""
    packets, hops = records((DATA, UP1, 1), (DATA, UP2, 2), stay_ns=(700, 300))
    one = packet_delay(packets[1], hops, DELAYS)
    assert one.path == UP2
    assert one.residence_ns == 900.0
    assert one.total_ns == 1_500.0
    packets["complete"] = False
    with pytest.raises(PathError, match="not reported whole"):
        packet_delay(packets[1], hops, DELAYS)


def test_residence_is_told_in_reference_time():
    """A clock 50 ppm fast counts 5 ns too many in 100 us (clocks.md 2.1)."""
    fast = replace(DELAYS, rate_ppb=np.full(len(DELAYS.model.clocks), 50_000.0))
    packets, hops = records((DATA, UP1, 1), stay_ns=(100_000,))
    (one, *_) = residences_of_packets(packets, hops, fast)
    assert one.median_ns == 99_995.0
