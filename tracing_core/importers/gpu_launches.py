# SPDX-License-Identifier: Apache-2.0
"""Joins GPU activities to the host calls that launched them, and says what that proves.

With theta = GPU clock - host clock, causality proves `kernel start - launch start >= theta` and,
where a call waits for the whole device, `kernel end - end of that call <= theta`. Both together
limit the offset between the two clocks; neither is a correction.
"""

from dataclasses import dataclass, field

import numpy as np

from tracing_core.clock_domains import TimeFlag
from tracing_core.importers.trace_events import (
    HOST_ROW,
    NO_CORRELATION,
    NO_PARENT,
    Int64Array,
    TraceEventScan,
)

LEAD_NS_MAX = 1_000_000
"""A GPU activity that starts earlier than this before its launch has a wrong stamp: drivers keep
GPU time within microseconds of host time. (A choice; public reports show leads of microseconds,
pytorch/kineto#1380, and wrong stamps of milliseconds and more, pytorch/pytorch#192021.)"""


@dataclass(slots=True, kw_only=True)
class Launches:
    """What launches say about a file's GPU activities. Rows are those of the scan."""

    launch_row: Int64Array
    """Row of the launching call, or NO_PARENT."""
    launch_start_ns: Int64Array
    newest_host_ns: int
    counts: dict[str, int]
    flags: dict[int, TimeFlag] = field(default_factory=dict)
    lead_ns_max: int = 0
    """The most that an activity starts before its launch, wrong stamps left out."""
    against_host: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    """Lowest and highest GPU - host offset by device, in ns."""


def join_launches(
    scan: TraceEventScan, start_ns: Int64Array, end_ns: Int64Array, usable: np.ndarray
) -> Launches:
    """Joins by correlation id."""
    device, correlation = scan.column("device"), scan.column("correlation")
    on_gpu = usable & (device != HOST_ROW)
    launch_row = np.full(len(scan), NO_PARENT, np.int64)
    launches = scan.launches
    for row in np.flatnonzero(on_gpu & (correlation != NO_CORRELATION)).tolist():
        launch_row[row] = launches.get(scan.correlation[row], NO_PARENT)
    launched = launch_row >= 0
    launched[launched] &= usable[launch_row[launched]]
    launch_row[~launched] = NO_PARENT
    launch_start = np.zeros(len(scan), np.int64)
    launch_start[launched] = start_ns[launch_row[launched]]
    lead = np.where(launched, launch_start - start_ns, 0)
    host_start = start_ns[usable & ~on_gpu]
    found = Launches(
        launch_row=launch_row,
        launch_start_ns=launch_start,
        newest_host_ns=int((host_start if len(host_start) else start_ns).max(initial=0)),
        counts={
            "gpu_activities": int(on_gpu.sum()),
            "with_launch": int(launched.sum()),
            "before_launch": int((lead > 0).sum()),
        },
    )
    for row in np.flatnonzero(lead > 0).tolist():
        wrong = lead[row] > LEAD_NS_MAX
        found.flags[row] = TimeFlag.IMPOSSIBLE_START if wrong else TimeFlag.BEFORE_LAUNCH
    sound = launched & (lead <= LEAD_NS_MAX)
    found.lead_ns_max = int(lead[sound].max(initial=0))
    devices = np.unique(device[sound]).tolist()
    for number in devices:
        rows = np.flatnonzero(sound & (device == number))
        highest = int((start_ns[rows] - launch_start[rows]).min())
        # With several devices it is not known which one a call waited for.
        lowest = _lowest(scan, rows, launch_start, start_ns, end_ns) if len(devices) == 1 else None
        found.against_host[number] = (lowest, highest)
    return found


def _lowest(
    scan: TraceEventScan,
    rows: Int64Array,
    launch_start: Int64Array,
    start_ns: Int64Array,
    end_ns: Int64Array,
) -> int | None:
    """Over all calls that wait for the device: latest end of what was launched before - its end."""
    if not scan.device_syncs:
        return None
    order = rows[np.argsort(launch_start[rows], kind="stable")]
    latest_end = np.maximum.accumulate(end_ns[order])
    syncs = np.array(scan.device_syncs, np.int64)
    before = np.searchsorted(launch_start[order], start_ns[syncs], side="left") - 1
    some = before >= 0
    if not some.any():
        return None
    return int((latest_end[before[some]] - end_ns[syncs[some]]).max())
