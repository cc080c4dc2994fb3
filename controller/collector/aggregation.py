# SPDX-License-Identifier: Apache-2.0
"""What a running collector hands on besides packets: link, hop and path statistics by window.

The statistics are the estimator's own (`correction.link_windows`, `hop_windows`, `flow_paths`);
this puts finished packets through all of them and says when windows have ended.
"""

from dataclasses import dataclass

import numpy as np

from correction.flow_paths import FlowPaths, PathChange
from correction.hop_windows import HopWindowing, HopWindows
from correction.link_windows import LinkWindowing, LinkWindows
from correction.links import JoinCounters
from correction.links_fast import FabricSampler
from correction.model import FabricModel
from correction.records import Hops, Packets
from correction.windows import WINDOW_NS

LATE_NS = 2_000_000_000
"""A window is closed this long after its end: twice the time in which a packet's reports join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates:
    """Statistics of the windows that have ended, and the changes of path since the last call."""

    links: LinkWindows
    hops: HopWindows
    path_changes: tuple[PathChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationCounters:
    """Totals since the start."""

    link_samples: int
    link_windows: int
    """Rows of link statistics handed on."""
    hop_windows: int
    """Rows of queue statistics handed on."""
    path_changes: int
    late_samples: int
    """Link samples that came after their window had been closed."""
    late_hops: int
    left_out: JoinCounters
    """Hop pairs that are no sample, and samples that no envelope used, by reason."""
    flows: int
    """Flows whose paths are known now."""
    forgotten: dict[str, int]
    """What bounded memory made the path statistics forget."""


class Aggregation:
    """Turns finished packets into statistics by window; time is the collector's."""

    def __init__(
        self, model: FabricModel, *, window_ns: int = WINDOW_NS, late_ns: int = LATE_NS
    ) -> None:
        self._sampler = FabricSampler(model)
        self._links = LinkWindowing(model, window_ns=window_ns, late_ns=late_ns)
        self._hops = HopWindowing(model, window_ns=window_ns, late_ns=late_ns)
        self.flow_paths = FlowPaths()
        self._changes: list[PathChange] = []
        self._left_out = JoinCounters()
        self._samples = self._link_rows = self._hop_rows = self._change_count = 0
        self._newest_collector_ns = -(2**63)

    def add(self, packets: Packets, hops: Hops) -> None:
        """Take finished packets, in any order."""
        if not len(packets):
            return
        samples = self._sampler.samples(packets, hops, self._left_out)
        self._samples += len(samples)
        self._links.add(samples)
        self._hops.add(packets, hops)
        self._changes += self.flow_paths.add(packets, hops)
        newest = int(np.max(packets["capture_collector_ns"]))
        self._newest_collector_ns = max(self._newest_collector_ns, newest)

    def take(self, now_collector_ns: int | None = None) -> Aggregates:
        """The windows that have ended by now (default: by the newest packet)."""
        now = self._newest_collector_ns if now_collector_ns is None else now_collector_ns
        return self._aggregates(self._links.closed(now), self._hops.closed(now))

    def flush(self) -> Aggregates:
        """The end of the input: all windows."""
        return self._aggregates(self._links.rest(), self._hops.rest())

    @property
    def counters(self) -> AggregationCounters:
        """Totals so far."""
        left_out = JoinCounters()
        for counters in (self._left_out, self._links.counters):
            for reason, count in counters.rejected.items():
                left_out.reject(reason, count)
        return AggregationCounters(
            link_samples=self._samples,
            link_windows=self._link_rows,
            hop_windows=self._hop_rows,
            path_changes=self._change_count,
            late_samples=self._links.late_count,
            late_hops=self._hops.late_count,
            left_out=left_out,
            flows=len(self.flow_paths),
            forgotten=dict(self.flow_paths.counts),
        )

    def _aggregates(self, links: LinkWindows, hops: HopWindows) -> Aggregates:
        changes = tuple(self._changes)
        self._changes.clear()
        self._link_rows += len(links)
        self._hop_rows += len(hops)
        self._change_count += len(changes)
        return Aggregates(links=links, hops=hops, path_changes=changes)
