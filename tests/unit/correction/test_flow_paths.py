# SPDX-License-Identifier: Apache-2.0
"""Paths are learnt per flow from what packets reported; a change is told once."""

import numpy as np

from correction.flow_paths import SPRAYED_NS, Flow, FlowPaths, PathHop
from correction.records import HOP_DTYPE, PACKET_DTYPE, TRAFFIC_ROCE

_FLOW = Flow(TRAFFIC_ROCE, 0x0A000101, 0x0A000201, 50_000, 4791, 7)
_S = 1_000_000_000


def _path(spine):
    return (PathHop(1, 11, spine), PathHop(100 + spine, 1, 2), PathHop(2, spine, 11))


def _records(*packets):
    """Of (flow, path, capture time, complete)."""
    rows = np.zeros(len(packets), PACKET_DTYPE)
    hops = []
    for row, (flow, path, at_ns, complete) in zip(rows, packets, strict=True):
        row["first_hop"], row["hop_count"], row["complete"] = len(hops), len(path), complete
        for name, value in flow._asdict().items():
            row[name] = value
        row["capture_collector_ns"] = at_ns
        hops += path
    table = np.zeros(len(hops), HOP_DTYPE)
    for name in PathHop._fields:
        table[name] = [getattr(hop, name) for hop in hops]
    return rows, table


def _add(paths, *packets):
    return paths.add(*_records(*[(*p, True)[:4] if len(p) == 3 else p for p in packets]))


def test_a_flow_keeps_the_paths_that_its_packets_reported():
    """With their number and the newest time; other flows do not mix in."""
    paths = FlowPaths()
    other = _FLOW._replace(src_port=50_001)
    changes = _add(
        paths,
        (_FLOW, _path(1), 5),
        (other, _path(2), 6),
        (_FLOW, _path(1), 9),
        (_FLOW, _path(1), 7),
    )
    assert changes == []
    assert paths.paths_of(_FLOW) == ((_path(1), 3, 9),)
    assert paths.paths_of(other) == ((_path(2), 1, 6),)
    assert paths.paths_of(_FLOW._replace(dest_qp=8)) == ()


def test_incomplete_packets_say_nothing_about_a_path():
    """A missing hop is loss, not another way."""
    paths = FlowPaths()
    _add(paths, (_FLOW, _path(1), 5))
    assert _add(paths, (_FLOW, _path(1)[:2], 6, False)) == []
    assert len(paths.paths_of(_FLOW)) == 1


def test_a_change_is_told_once_with_both_paths():
    """Inside a batch or between two, by the order of capture and not of the rows."""
    paths = FlowPaths()
    _add(paths, (_FLOW, _path(1), 5))
    (change,) = _add(paths, (_FLOW, _path(2), 30), (_FLOW, _path(1), 10), (_FLOW, _path(2), 20))
    assert change == (_FLOW, _path(1), _path(2), 20, False)
    assert _add(paths, (_FLOW, _path(2), 40)) == []


def test_failover_and_return_are_two_changes():
    """They are seconds apart and neither is spraying."""
    paths = FlowPaths()
    _add(paths, (_FLOW, _path(1), 0))
    there = _add(paths, (_FLOW, _path(2), 1 * _S))
    back = _add(paths, (_FLOW, _path(1), 3 * _S))
    assert [(c.before, c.after, c.sprayed) for c in there + back] == [
        (_path(1), _path(2), False),
        (_path(2), _path(1), False),
    ]


def test_a_sprayed_flow_is_told_once():
    """10,000 packets over four spines: three changes tell it, the rest is silence."""
    paths = FlowPaths()
    packets = [(_FLOW, _path(1 + k % 4), k) for k in range(10_000)]
    changes = [
        c for first in range(0, 10_000, 500) for c in _add(paths, *packets[first : first + 500])
    ]
    assert [c.sprayed for c in changes] == [False, False, True]
    assert [use.packets for use in paths.paths_of(_FLOW)] == [2_500] * 4


def test_a_flow_that_settles_may_change_again():
    """After a second on one path a change is news once more."""
    paths = FlowPaths()
    _add(paths, *[(_FLOW, _path(1 + k % 2), k) for k in range(50)])
    assert _add(paths, (_FLOW, _path(2), 60)) == []
    assert _add(paths, (_FLOW, _path(2), 60 + 2 * SPRAYED_NS)) == []
    (change,) = _add(paths, (_FLOW, _path(3), 70 + 2 * SPRAYED_NS))
    assert (change.before, change.after) == (_path(2), _path(3))


def test_memory_is_bounded_and_says_what_it_forgot():
    """The flow that was silent for longest goes; paths of forgotten flows go too."""
    paths = FlowPaths(flows_max=10)
    flows = [_FLOW._replace(dest_qp=k) for k in range(25)]
    for k, flow in enumerate(flows):
        _add(paths, (flow, _path(k), k))
    assert paths.flows() == tuple(flows[-10:])
    assert paths.counts == {"flows_forgotten": 15}
    paths._forget_paths()
    assert paths.paths_of(flows[-1]) == ((_path(24), 1, 24),)
    (change,) = _add(paths, (flows[-1], _path(3), 99))
    assert (change.before, change.after) == (_path(24), _path(3))
