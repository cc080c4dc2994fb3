# SPDX-License-Identifier: Apache-2.0
"""Trace Event Format (Chrome, Kineto): the events of a file, and a first look at all of them.

A file is read twice. The first reading keeps a few numbers per event, in arrays: that is enough to
nest events, to join kernels to their launches and to find steps, whatever the order of the
file. The second one makes spans. So memory is a few hundred bytes an event, not the event itself.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.numbers import INT64_MAX, Gcd, micros_to_ns, whole
from tracing_core.importers.source import Digest, Source
from tracing_core.importers.values import label, member, text

Event = Mapping[str, object]
Int64Array = NDArray[np.int64]

EVENTS = "traceEvents"
_KEPT_MEMBERS = frozenset(
    ("baseTimeNanoseconds", "distributedInfo", "deviceProperties", "record_shapes", "with_stack",
     "hostname", "host_name", "metadata")
)  # fmt: skip
"""What importers ask for; a file may have any number of others, of any size."""
_CATEGORIES_MAX = 1_000
_NAMES_MAX = 100_000
"""Names of processes and threads kept of one file."""
_KEY_CHARS_MAX = 128
"""Of ids and names that are held per event."""
NO_PARENT = -1
UNENDED_NS = -INT64_MAX - 1
"""End of a row whose end event never came."""
NO_CORRELATION = -1
HOST_ROW = -1
"""Device of a row that the host stamped."""

GPU_CATEGORIES = frozenset(
    ("kernel", "concurrent_kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset",
     "gpu_user_annotation", "mtia_ccp_events")
)  # fmt: skip
LAUNCH_CATEGORIES = frozenset(
    ("runtime", "driver", "cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime",
     "mtia_runtime", "privateuse1_runtime", "privateuse1_driver")
)  # fmt: skip
HOST_CATEGORIES = frozenset(("cpu_op", "operator", "user_annotation", "python_function"))
_STEP = re.compile(r"ProfilerStep#([0-9]{1,18})$")
_DEVICE_SYNC = re.compile(r"(cuda|hip)DeviceSynchronize$")
_IGNORED = {
    "i": "instant events", "I": "instant events", "R": "instant events",
    "C": "counter samples", "M": "metadata events", "s": "flow arrows", "t": "flow arrows",
    "f": "flow arrows", "n": "instant events", "T": "steps of asynchronous events",
    "p": "steps of asynchronous events", "N": "object events", "O": "object events",
    "D": "object events", "P": "samples", "v": "memory dumps", "V": "memory dumps",
    "c": "clock syncs",
}  # fmt: skip


@dataclass(slots=True)
class TraceEventScan:
    """What the first reading keeps. Rows are events that may become spans, in file order."""

    members: dict[str, object] = field(default_factory=dict)
    """What stands at the top level beside the events, as far as importers ask for it."""
    digest: bytes = b""
    ordinal: "array[int]" = field(default_factory=lambda: array("q"))
    """Number of the event in the file."""
    start_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """As the file has it, without any base."""
    end_ns: "array[int]" = field(default_factory=lambda: array("q"))
    lane: "array[int]" = field(default_factory=lambda: array("i"))
    """Number of the thread or stream; negative where nesting means nothing."""
    device: "array[int]" = field(default_factory=lambda: array("i"))
    """GPU whose timer stamped it, or HOST_ROW."""
    correlation: "array[int]" = field(default_factory=lambda: array("q"))
    launches: dict[int, int] = field(default_factory=dict)
    """Row of the launching call by correlation id."""
    device_syncs: list[int] = field(default_factory=list)
    """Rows of calls that wait for everything on the device."""
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    """(start, end, number) of the profiler's steps."""
    process_names: dict[str, str] = field(default_factory=dict)
    thread_names: dict[tuple[str, str], str] = field(default_factory=dict)
    categories: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    host_gcd: Gcd = field(default_factory=Gcd)
    gpu_gcd: Gcd = field(default_factory=Gcd)

    def __len__(self) -> int:
        return len(self.ordinal)

    def column(self, name: str) -> Int64Array:
        """A column as int64."""
        return np.array(getattr(self, name), np.int64)


def walk(reader: JsonReader, members: dict[str, object] | None = None) -> Iterator[object]:
    """The events of a file, which is an object or an array; other members go into `members`."""
    if reader.peek() == "[":
        for _ in reader.items():
            yield reader.value()
        return
    found = False
    for key in reader.members():
        if key == EVENTS:
            found = True
            for _ in reader.items():
                yield reader.value()
        elif members is not None and key in _KEPT_MEMBERS:
            members[key] = reader.value()
    if not found:
        raise ImportRefusedError(f"{EVENTS}: missing")


def events_with_rows(source: Source, scan: TraceEventScan) -> Iterator[tuple[int, Event]]:
    """Second reading: (row, event) of each event that the first one kept."""
    row, count = 0, len(scan)
    for ordinal, event in enumerate(walk(JsonReader(source.chunks()))):
        if row == count:
            return
        if ordinal == scan.ordinal[row]:
            if not isinstance(event, dict):
                break
            yield row, event
            row += 1
    if row < count:
        raise ImportRefusedError("the file changed while it was read")


def scan_events(source: Source) -> TraceEventScan:
    """First reading."""
    scan = TraceEventScan()
    digest = Digest()
    lanes: dict[tuple[str, str, bool], int] = {}
    open_rows: dict[tuple[object, ...], list[int]] = {}
    reader = JsonReader(digest.through(source.chunks()))
    for ordinal, event in enumerate(walk(reader, scan.members)):
        if not isinstance(event, dict):
            if event is not None:  # writers end lists with a null
                scan.refused["no object"] += 1
            continue
        phase = event.get("ph")
        match phase:
            case "X":
                start_ns = micros_to_ns(event.get("ts"))
                duration_ns = micros_to_ns(event.get("dur", 0))
                if start_ns is None or duration_ns is None:
                    scan.refused["ts or dur is no number in range"] += 1
                    continue
                _add(scan, ordinal, event, start_ns, start_ns + duration_ns, lanes)
            case "B" | "b" | "S":
                start_ns = micros_to_ns(event.get("ts"))
                if start_ns is None:
                    scan.refused["ts is no number in range"] += 1
                    continue
                nests = phase == "B"
                _add(scan, ordinal, event, start_ns, UNENDED_NS, lanes if nests else None)
                open_rows.setdefault(_pair_key(event, nests), []).append(len(scan) - 1)
            case "E" | "e" | "F":
                waiting = open_rows.get(_pair_key(event, phase == "E"))
                end_ns = micros_to_ns(event.get("ts"))
                if end_ns is None:
                    scan.refused["ts is no number in range"] += 1
                elif not waiting:
                    scan.refused["an end without its begin"] += 1
                else:
                    scan.end_ns[waiting.pop()] = end_ns
            case _:
                if phase == "M":
                    _name(scan, event)
                scan.ignored[_IGNORED.get(str(phase), "events of an unknown phase")] += 1
    for _ in reader.documents():  # counts the rest into the digest, and finds what is no JSON
        pass
    scan.digest = digest.value()
    return scan


def _add(
    scan: TraceEventScan,
    ordinal: int,
    event: Event,
    start_ns: int,
    end_ns: int,
    lanes: dict[tuple[str, str, bool], int] | None,
) -> None:
    category = text(event.get("cat")).lower()
    if category in scan.categories or len(scan.categories) < _CATEGORIES_MAX:
        scan.categories[category] += 1
    arguments = member(event, "args")
    row = len(scan)
    on_gpu = category in GPU_CATEGORIES
    if on_gpu:
        number = whole(arguments.get("device", event.get("pid")))
        device = number if number is not None and 0 <= number < 2**15 else 0
        scan.gpu_gcd.add(start_ns, end_ns)
    else:
        device = HOST_ROW
        scan.host_gcd.add(start_ns, *(() if end_ns == UNENDED_NS else (end_ns,)))
    correlation = whole(arguments.get("correlation"))
    scan.ordinal.append(ordinal)
    scan.start_ns.append(start_ns)
    scan.end_ns.append(end_ns)
    scan.device.append(device)
    scan.correlation.append(
        NO_CORRELATION if correlation is None or correlation < 0 else correlation
    )
    if lanes is None:
        scan.lane.append(-1)
    else:
        key = (_key(event.get("pid")), _key(event.get("tid")), on_gpu)
        scan.lane.append(lanes.setdefault(key, len(lanes)))
    if category in LAUNCH_CATEGORIES:
        if correlation is not None and correlation >= 0:
            scan.launches[correlation] = row
        if _DEVICE_SYNC.match(text(event.get("name"))):
            scan.device_syncs.append(row)
    elif category == "user_annotation":
        step = _STEP.match(text(event.get("name")))
        if step and end_ns != UNENDED_NS:
            scan.steps.append((start_ns, end_ns, int(step[1])))


def _pair_key(event: Event, nests: bool) -> tuple[object, ...]:
    """What joins a begin to its end: the thread, or for asynchronous ones category, id and name."""
    pid = _key(event.get("pid"))
    if nests:
        return pid, _key(event.get("tid"))
    scoped = member(event, "id2")
    category, name = _key(event.get("cat")), _key(event.get("name"))
    if "global" in scoped:
        return "global", category, _key(scoped["global"]), name
    return "async", pid, category, _key(scoped.get("local", event.get("id"))), name


def _key(value: object) -> str:
    return label(value)[:_KEY_CHARS_MAX]


def _name(scan: TraceEventScan, event: Event) -> None:
    name = text(member(event, "args").get("name"))[:_KEY_CHARS_MAX]
    pid = _key(event.get("pid"))
    if not name or len(scan.process_names) + len(scan.thread_names) >= _NAMES_MAX:
        return
    if event.get("name") == "process_name":
        scan.process_names[pid] = name
    elif event.get("name") == "thread_name":
        scan.thread_names[pid, _key(event.get("tid"))] = name


def nesting(start_ns: Int64Array, end_ns: Int64Array, lane: Int64Array) -> Int64Array:
    """Row of the innermost event of the same lane that is open when a row starts, or NO_PARENT.

    Of two that start together the longer one is the parent. Rows in a negative lane have none.

    >>> nesting(np.array([0, 1, 5]), np.array([9, 3, 9]), np.array([0, 0, 0])).tolist()
    [-1, 0, 0]
    """
    parent = np.full(start_ns.shape, NO_PARENT, np.int64)
    rows = np.flatnonzero(lane >= 0)
    order = rows[np.lexsort((rows, -end_ns[rows], start_ns[rows], lane[rows]))]
    stack: list[tuple[int, int]] = []
    at_lane = -1
    columns = (order, lane[order], start_ns[order], end_ns[order])
    for row, row_lane, start, end in zip(*(c.tolist() for c in columns), strict=True):
        if row_lane != at_lane:
            stack.clear()
            at_lane = row_lane
        while stack and stack[-1][1] <= start:
            stack.pop()
        if stack:
            parent[row] = stack[-1][0]
        stack.append((row, end))
    return parent
