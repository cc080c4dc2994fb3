# SPDX-License-Identifier: Apache-2.0
"""Residence and queue depth of each egress queue by window."""

import numpy as np

from correction.hop_windows import HopWindowing
from correction.model import Clock, ClockKind, FabricModel
from correction.records import HOP_DTYPE, NO_TSTAMP_NS, PACKET_DTYPE, UNKNOWN_U32

_MODEL = FabricModel(
    clocks=(
        Clock(
            name="leaf1",
            kind=ClockKind.SWITCH,
            node_id=1,
            ip=0,
            stamp_unit_ns=1,
            stamp_jitter_ns=1,
            stamp_bits=48,
        ),
    ),
    links=(),
    reference=0,
    rate_offset_max_ppb=100_000,
    wander_ns_per_s_sqrt_s=10.0,
)
_S = 1_000_000_000


def _statistics(*hops):
    """Of (egress port, queue, depth, residence or None, capture time), one packet each."""
    packets = np.zeros(len(hops), PACKET_DTYPE)
    packets["first_hop"], packets["hop_count"] = np.arange(len(hops)), 1
    packets["capture_collector_ns"] = [hop[4] for hop in hops]
    rows = np.zeros(len(hops), HOP_DTYPE)
    rows["node_id"] = 1
    for row, (port, queue, depth, residence, _) in zip(rows, hops, strict=True):
        row["egress_port"], row["queue_id"], row["queue_depth"] = port, queue, depth
        row["ingress_tstamp_local_ns"] = 1_000
        row["egress_tstamp_local_ns"] = NO_TSTAMP_NS if residence is None else 1_000 + residence
    windowing = HopWindowing(_MODEL, window_ns=_S, late_ns=0)
    windowing.add(packets, rows)
    return windowing.rest()


def test_order_statistics_of_one_queue():
    """Residences of 0 to 100 ns and depths of twice that, at every declared level."""
    (row,) = _statistics(*[(5, 1, k * 2, k, k) for k in range(101)])
    assert (row["node_id"], row["egress_port"], row["queue_id"], row["count"]) == (1, 5, 1, 101)
    assert row["residence_ns"].tolist() == [0, 50, 95, 99, 100]
    assert row["queue_depth"].tolist() == [100, 198, 200]


def test_what_is_missing_is_left_out_and_told():
    """A hop without a stamp is counted, not timed; a queue that told no depth has none."""
    (row,) = _statistics((5, 1, UNKNOWN_U32, None, 0), (5, 1, UNKNOWN_U32, 7, 1))
    assert (row["count"], row["timed"], row["measured"]) == (2, 1, 0)
    assert row["residence_ns"].tolist() == [7] * 5
    assert row["queue_depth"].tolist() == [UNKNOWN_U32] * 3


def test_queues_ports_and_windows_are_apart():
    """Never mixed: each has another residence."""
    rows = _statistics((5, 1, 0, 1, 0), (5, 2, 0, 2, 0), (6, 1, 0, 3, 0), (5, 1, 0, 4, _S))
    found = {
        (int(r["window_start_collector_ns"]), int(r["egress_port"]), int(r["queue_id"])): int(
            r["residence_ns"][0]
        )
        for r in rows
    }
    assert found == {(0, 5, 1): 1, (0, 5, 2): 2, (0, 6, 1): 3, (_S, 5, 1): 4}
