# SPDX-License-Identifier: Apache-2.0
"""Statistics of ended windows as the arrays of parts: links, egress queues, changes of path.

The rows are those of `correction.link_windows` and `hop_windows`, with a column for each quantile.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from controller.collector.aggregation import Aggregates
from controller.collector.outputs.part import Rows
from controller.collector.outputs.rows import PARTS_OVERHEAD_BYTES
from correction.flow_paths import Flow, PathChange
from correction.hop_windows import DEPTH_QUANTILES, RESIDENCE_QUANTILES
from correction.link_windows import LINK_WINDOW_DTYPE, QUANTILES, LinkWindows

PATH_CHANGE_DTYPE = np.dtype(
    [
        ("capture_collector_ns", np.int64),
        ("traffic", np.uint8),
        ("src_ip", np.uint32),
        ("dst_ip", np.uint32),
        ("src_port", np.uint16),
        ("dst_port", np.uint16),
        ("dest_qp", np.uint32),
        ("sprayed", np.bool_),  # several paths at once from here on
        ("first_hop", np.int64),  # row in `path_change_hops`: the old path, then the new one
        ("before_hops", np.int16),
        ("after_hops", np.int16),
    ]
)
PATH_CHANGE_HOP_DTYPE = np.dtype(
    [("node_id", np.uint32), ("ingress_port", np.uint16), ("egress_port", np.uint16)]
)


def statistics_arrays(aggregates: Aggregates, *, bytes_max: int) -> Iterator[dict[str, Rows]]:
    """The statistics in pieces of at most about `bytes_max`; none when there are none."""
    room = max(bytes_max - PARTS_OVERHEAD_BYTES, 1)
    tables = {
        "link_windows": flat(aggregates.links, _LINK_QUANTILES),
        "hop_windows": flat(
            aggregates.hops,
            {
                "residence_ns": _names("residence", RESIDENCE_QUANTILES, "ns"),
                "queue_depth": _names("queue_depth", DEPTH_QUANTILES, ""),
            },
        ),
    }
    for name, rows in tables.items():
        step = max(room // rows.dtype.itemsize, 1)
        for first in range(0, len(rows), step):
            yield {name: rows[first : first + step]}
    changes = aggregates.path_changes
    hops_max = max((len(c.before) + len(c.after) for c in changes), default=0)
    row_bytes = PATH_CHANGE_DTYPE.itemsize + hops_max * PATH_CHANGE_HOP_DTYPE.itemsize
    step = max(room // row_bytes, 1)
    for first in range(0, len(changes), step):
        yield _path_changes(changes[first : first + step])


def link_windows_of(rows: Rows) -> LinkWindows:
    """The rows of `link_windows` of a part; `ValueError` for what another version wrote."""
    result = np.zeros(len(rows), LINK_WINDOW_DTYPE)
    for name in LINK_WINDOW_DTYPE.names or ():
        if name in _LINK_QUANTILES:
            for column, one in enumerate(_LINK_QUANTILES[name]):
                result[name][:, column] = rows[one]
        else:
            result[name] = rows[name]
    return result


def flat(rows: Rows, quantiles: dict[str, tuple[str, ...]]) -> Rows:
    """The rows with a field of its own for each column of the named fields."""
    fields: list[tuple[str, np.dtype[np.generic]]] = []
    for name in rows.dtype.names or ():
        base = rows.dtype[name]
        if name in quantiles:
            fields += [(one, base.base) for one in quantiles[name]]
        else:
            fields.append((name, base))
    result = np.zeros(len(rows), np.dtype(fields))
    for name in rows.dtype.names or ():
        if name in quantiles:
            for column, one in enumerate(quantiles[name]):
                result[one] = rows[name][:, column]
        else:
            result[name] = rows[name]
    return result


def _names(stem: str, quantiles: Sequence[float], unit: str) -> tuple[str, ...]:
    """Field names by percent: `above_p95_ns`."""
    ending = f"_{unit}" if unit else ""
    return tuple(f"{stem}_p{round(100 * level):02d}{ending}" for level in quantiles)


_LINK_QUANTILES = {"above_ns": _names("above", QUANTILES, "ns")}


def _path_changes(changes: Sequence[PathChange]) -> dict[str, Rows]:
    rows = np.zeros(len(changes), PATH_CHANGE_DTYPE)
    hops: list[tuple[int, ...]] = []
    for row, change in zip(rows, changes, strict=True):
        for name in Flow._fields:
            row[name] = getattr(change.flow, name)
        row["capture_collector_ns"], row["sprayed"] = change.capture_collector_ns, change.sprayed
        row["first_hop"] = len(hops)
        row["before_hops"], row["after_hops"] = len(change.before), len(change.after)
        hops += [tuple(hop) for hop in (*change.before, *change.after)]
    return {"path_changes": rows, "path_change_hops": np.array(hops, PATH_CHANGE_HOP_DTYPE)}
