# SPDX-License-Identifier: Apache-2.0
"""Which paths each flow takes, and when it changes from one to another.

Paths are those that packets reported, complete from host to host: a hash is never trusted to say
where a packet went. A flow whose packets go several ways at once is sprayed: that is told once,
and its alternation is no event. Memory is bounded by the number of flows and of paths a flow.
"""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from correction.records import Hops, Packets
from correction.timebase import Int64s

FLOWS_MAX = 65_536
"""Flows that are known at once; the one that was silent for longest goes first."""
PATHS_PER_FLOW_MAX = 64
_PATHS_MIN = 65_536
"""Paths that no flow takes any more are dropped beyond this."""
SPRAYED_CHANGES = 3
"""So many changes of path within SPRAYED_NS are no rehash and no failover."""
SPRAYED_NS = 1_000_000_000


class Flow(NamedTuple):
    """What a switch hashes, and the queue pair that tells transfers apart."""

    traffic: int
    src_ip: int
    dst_ip: int
    src_port: int
    dst_port: int
    dest_qp: int


class PathHop(NamedTuple):
    """One switch on a path."""

    node_id: int
    ingress_port: int
    egress_port: int


Path = tuple[PathHop, ...]


class PathChange(NamedTuple):
    """A flow's packets go another way than before."""

    flow: Flow
    before: Path
    after: Path
    """The first packet that was seen on the new path went this way."""
    capture_collector_ns: int
    """When its last report arrived."""
    sprayed: bool
    """The flow uses several paths at once from here on; further changes are not told."""


class PathUse(NamedTuple):
    """How many packets of a flow took a path, and when the last one did."""

    path: Path
    packets: int
    last_collector_ns: int


@dataclass(slots=True)
class _FlowState:
    path: int
    """Number of the path of the newest packet."""
    uses: dict[int, list[int]] = field(default_factory=dict)
    """Per path [packets, newest capture]."""
    changes: deque[int] = field(default_factory=lambda: deque(maxlen=SPRAYED_CHANGES))
    sprayed: bool = False


class FlowPaths:
    """Learns paths from finished packets."""

    def __init__(self, *, flows_max: int = FLOWS_MAX) -> None:
        self._flows_max = flows_max
        self._flows: OrderedDict[Flow, _FlowState] = OrderedDict()
        self._paths: list[Path] = []
        self._number_of: dict[bytes, int] = {}
        self._paths_max = _PATHS_MIN
        self.counts: Counter[str] = Counter()
        """What bounded memory made it forget: `flows_forgotten`, `paths_not_kept`."""

    def __len__(self) -> int:
        return len(self._flows)

    def paths_of(self, flow: Flow) -> tuple[PathUse, ...]:
        """Paths of a flow, the most used first; empty for one that is not known."""
        state = self._flows.get(flow)
        if state is None:
            return ()
        uses = [PathUse(self._paths[number], *use) for number, use in state.uses.items()]
        return tuple(sorted(uses, key=lambda use: -use.packets))

    def flows(self) -> tuple[Flow, ...]:
        """All known flows, the one that was silent for longest first."""
        return tuple(self._flows)

    def add(self, packets: Packets, hops: Hops) -> list[PathChange]:
        """Take finished packets (in any order among themselves); complete ones count."""
        whole = np.flatnonzero(packets["complete"] & (packets["hop_count"] > 0))
        if not len(whole):
            return []
        chosen = packets[whole]
        path = self._numbers(chosen, hops)
        key = np.stack([chosen[name].astype(np.int64) for name in Flow._fields], axis=1)
        keys, flow = np.unique(key, axis=0, return_inverse=True)
        captured = chosen["capture_collector_ns"]
        order = np.lexsort((captured, flow.ravel()))
        flow, path, captured = flow.ravel()[order], path[order], captured[order]
        # runs of packets of one flow on one path: few, whatever the number of packets
        begins = np.flatnonzero(np.r_[True, (flow[1:] != flow[:-1]) | (path[1:] != path[:-1])])
        ends = np.r_[begins[1:], len(flow)]
        changes: list[PathChange] = []
        for k in np.unique(flow[begins]).tolist():
            first, last = np.searchsorted(flow[begins], (k, k + 1))
            runs = range(first, last)
            self._take_runs(
                Flow(*keys[k].tolist()),
                path[begins[runs]],
                ends[runs] - begins[runs],
                captured[begins[runs]],
                captured[ends[runs] - 1],
                changes,
            )
        while len(self._flows) > self._flows_max:
            self._flows.popitem(last=False)
            self.counts["flows_forgotten"] += 1
        if len(self._paths) > self._paths_max:
            self._forget_paths()
        return sorted(changes, key=lambda change: change.capture_collector_ns)

    def _take_runs(
        self,
        flow: Flow,
        path: NDArray[np.int64],
        count: Int64s,
        first_collector_ns: Int64s,
        last_collector_ns: Int64s,
        changes: list[PathChange],
    ) -> None:
        state = self._flows.get(flow)
        if state is None:
            state = self._flows[flow] = _FlowState(int(path[0]))
        self._flows.move_to_end(flow)
        for number in np.unique(path).tolist():
            mine = path == number
            if number not in state.uses and len(state.uses) >= PATHS_PER_FLOW_MAX:
                self.counts["paths_not_kept"] += int(count[mine].sum())
                continue
            use = state.uses.setdefault(number, [0, 0])
            use[0] += int(count[mine].sum())
            use[1] = max(use[1], int(last_collector_ns[mine][-1]))
        if state.sprayed and len(path) == 1 and path[0] == state.path:
            quiet_ns = int(last_collector_ns[0]) - state.changes[-1]
            state.sprayed = quiet_ns < SPRAYED_NS
            return
        # of a sprayed flow the newest changes are enough to know that it still is
        runs = range(max(0, len(path) - SPRAYED_CHANGES) if state.sprayed else 0, len(path))
        for k in runs:
            number, at_ns = int(path[k]), int(first_collector_ns[k])
            if number == state.path:
                continue
            before, state.path = state.path, number
            state.changes.append(at_ns)
            was_sprayed = state.sprayed
            state.sprayed = (
                len(state.changes) == SPRAYED_CHANGES and at_ns - state.changes[0] < SPRAYED_NS
            )
            if not was_sprayed:
                changes.append(
                    PathChange(flow, self._paths[before], self._paths[number], at_ns, state.sprayed)
                )

    def _forget_paths(self) -> None:
        """Drop the paths that no known flow has taken, and number the rest anew."""
        used = sorted({n for state in self._flows.values() for n in (state.path, *state.uses)})
        renumbered = {old: new for new, old in enumerate(used)}
        for state in self._flows.values():
            state.path = renumbered[state.path]
            state.uses = {renumbered[old]: use for old, use in state.uses.items()}
        self._paths = [self._paths[old] for old in used]
        self._number_of = {
            shape: renumbered[old] for shape, old in self._number_of.items() if old in renumbered
        }
        self._paths_max = max(_PATHS_MIN, 2 * len(self._paths))

    def _numbers(self, packets: Packets, hops: Hops) -> NDArray[np.int64]:
        """A number per packet that stands for its path."""
        numbers = np.zeros(len(packets), np.int64)
        fields = np.stack([hops[name].astype(np.uint32) for name in PathHop._fields], axis=1)
        for hop_count in np.unique(packets["hop_count"]).tolist():
            rows = np.flatnonzero(packets["hop_count"] == hop_count)
            index = packets["first_hop"][rows][:, None] + np.arange(hop_count)
            shape = np.ascontiguousarray(fields[index].reshape(len(rows), -1))
            whole = shape.view(np.dtype((np.void, shape.dtype.itemsize * shape.shape[1])))
            unique, inverse = np.unique(whole.ravel(), return_inverse=True)
            known = np.array([self._number(one.tobytes()) for one in unique], np.int64)
            numbers[rows] = known[inverse]
        return numbers

    def _number(self, path: bytes) -> int:
        number = self._number_of.get(path)
        if number is None:
            number = self._number_of[path] = len(self._paths)
            rows = np.frombuffer(path, np.uint32).reshape(-1, len(PathHop._fields))
            self._paths.append(tuple(PathHop(*row) for row in rows.tolist()))
        return number
