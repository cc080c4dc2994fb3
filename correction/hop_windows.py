# SPDX-License-Identifier: Apache-2.0
"""Residence and queue of each egress queue, window by window: what a collector hands on.

Residence is egress minus ingress stamp of one switch, on its own clock, modulo its stamp width.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from correction.grouped import group_quantiles
from correction.links import RESIDENCE_NS_MAX, residence_time_ns
from correction.model import FabricModel
from correction.records import UNKNOWN_U32, Hops, Packets
from correction.windowed_rows import ClosedWindow, WindowedRows

RESIDENCE_QUANTILES = (0.0, 0.5, 0.95, 0.99, 1.0)
"""Of the residence time; 0 is the least and 1 the largest of what was kept."""
DEPTH_QUANTILES = (0.5, 0.99, 1.0)
HOPS_PER_GROUP_MAX = 1_024

HOP_WINDOW_DTYPE = np.dtype(
    [
        ("window_start_collector_ns", np.int64),
        ("window_end_collector_ns", np.int64),
        ("node_id", np.uint32),
        ("egress_port", np.uint16),
        ("queue_id", np.uint8),
        ("count", np.int64),  # hops that arrived
        ("timed", np.int64),  # kept hops with both stamps, less than RESIDENCE_NS_MAX apart
        ("residence_ns", np.int64, (len(RESIDENCE_QUANTILES),)),  # -1: no hop was timed
        ("measured", np.int64),  # kept hops with a queue depth
        # queue depth at dequeue in the node's unit; UNKNOWN_U32: no hop told it
        ("queue_depth", np.uint32, (len(DEPTH_QUANTILES),)),
    ]
)

HopWindows = NDArray[np.void]
"""Array of `HOP_WINDOW_DTYPE`."""

_ROW_DTYPE = np.dtype([("residence_ns", np.int64), ("queue_depth", np.uint32)])


class HopWindowing:
    """Gathers hops and gives the statistics of the windows that have ended."""

    def __init__(self, model: FabricModel, *, window_ns: int, late_ns: int) -> None:
        self._model = model
        self._rows = WindowedRows(
            window_ns=window_ns, late_ns=late_ns, rows_per_group_max=HOPS_PER_GROUP_MAX
        )

    @property
    def late_count(self) -> int:
        """Hops that came after their window had been closed."""
        return self._rows.late_count

    def add(self, packets: Packets, hops: Hops) -> None:
        """Take packets in any order, and what `hops` holds of them."""
        count = packets["hop_count"].astype(np.int64)
        first_of_packet = np.cumsum(count) - count
        within = np.arange(count.sum()) - np.repeat(first_of_packet, count)
        hops = hops[np.repeat(packets["first_hop"], count) + within]
        rows = np.zeros(len(hops), _ROW_DTYPE)
        rows["residence_ns"] = residence_time_ns(hops, self._model)
        rows["queue_depth"] = hops["queue_depth"]
        key = hops["node_id"].astype(np.int64) << 24
        key |= hops["egress_port"].astype(np.int64) << 8
        key |= hops["queue_id"]
        captured = np.repeat(packets["capture_collector_ns"], count)
        self._rows.add(rows, key, captured)

    def closed(self, now_collector_ns: int) -> HopWindows:
        """Rows of the windows that have ended, in order."""
        return _statistics(self._rows.closed(now_collector_ns))

    def rest(self) -> HopWindows:
        """Rows of all windows that are open: nothing more will come."""
        return _statistics(self._rows.rest())


def _statistics(windows: Iterable[ClosedWindow]) -> HopWindows:
    return np.concatenate([np.zeros(0, HOP_WINDOW_DTYPE), *map(_window_statistics, windows)])


def _window_statistics(window: ClosedWindow) -> HopWindows:
    result = np.zeros(len(window.keys), HOP_WINDOW_DTYPE)
    result["window_start_collector_ns"] = window.start_collector_ns
    result["window_end_collector_ns"] = window.end_collector_ns
    result["node_id"] = window.keys >> 24
    result["egress_port"] = window.keys >> 8 & 0xFFFF
    result["queue_id"] = window.keys & 0xFF
    result["count"] = window.count
    residence_ns, depth = window.rows["residence_ns"], window.rows["queue_depth"]
    timed = (residence_ns >= 0) & (residence_ns <= RESIDENCE_NS_MAX)
    result["timed"], result["residence_ns"] = _order_statistics(
        window, residence_ns, timed, RESIDENCE_QUANTILES, missing=-1
    )
    result["measured"], result["queue_depth"] = _order_statistics(
        window, depth, depth != UNKNOWN_U32, DEPTH_QUANTILES, missing=UNKNOWN_U32
    )
    return result


def _order_statistics(
    window: ClosedWindow,
    values: NDArray[np.integer],
    usable: NDArray[np.bool_],
    quantiles: tuple[float, ...],
    *,
    missing: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(usable values, their order statistics) per group; values below 2^53 are exact."""
    count = np.bincount(window.group[usable], minlength=len(window.keys))
    result = np.full((len(count), len(quantiles)), missing, np.int64)
    some = np.flatnonzero(count)
    group = np.searchsorted(some, window.group[usable])
    if len(some):
        found = group_quantiles(group, values[usable].astype(np.float64), quantiles, len(some))
        result[some] = found.astype(np.int64)
    return count, result
