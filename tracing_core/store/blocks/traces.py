# SPDX-License-Identifier: Apache-2.0
"""The spans of one batch grouped by trace: one row a trace, which searches read."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from correction.compiled import compiled, inlined
from tracing_core.otlp.wire import Bytes, load64, mix64, signed

Numbers = NDArray[np.int64]


class Groups(NamedTuple):
    """One element a trace, in order of first appearance."""

    first_row: NDArray[np.int64]
    start_local_ns_min: NDArray[np.int64]
    end_local_ns_max: NDArray[np.int64]
    span_count: NDArray[np.int64]
    root_row: NDArray[np.int64]
    """The root that starts first; -1 without one."""
    job: NDArray[np.int64]
    step: NDArray[np.int64]
    """-1 without one, as the job."""


class Members(NamedTuple):
    """The distinct members of one set of all traces, trace after trace."""

    ends: NDArray[np.uint64]
    numbers: NDArray[np.uint32]


@inlined
def _same_trace(tenant: NDArray[np.uint32], trace_id: Bytes, a: int, b: int) -> bool:
    return bool(
        tenant[a] == tenant[b]
        and load64(trace_id, a * 16) == load64(trace_id, b * 16)
        and load64(trace_id, a * 16 + 8) == load64(trace_id, b * 16 + 8)
    )


@inlined
def _is_new(
    span_id: Bytes, kind: Numbers, group_of: NDArray[np.int32], slots: NDArray[np.int32], row: int
) -> int:
    """1 for the first row of a span, 0 for one that was sent again."""
    mask = len(slots) - 1
    number = load64(span_id, row * 8)
    code = mix64(number, np.uint64(group_of[row])) ^ np.uint64(kind[row])
    slot = signed((code >> np.uint64(8)) & np.uint64(mask))
    while slots[slot] > 0:
        other = signed(slots[slot]) - 1
        if (
            load64(span_id, other * 8) == number
            and group_of[other] == group_of[row]
            and kind[other] == kind[row]
        ):
            return 0
        slot = (slot + 1) & mask
    slots[slot] = row + 1
    return 1


@compiled
def group_rows(
    tenant: NDArray[np.uint32], trace_id: Bytes, start_local_ns: Numbers, end_local_ns: Numbers,
    parent_span_id: Bytes, span_id: Bytes, kind: Numbers, job: Numbers, step: Numbers,
    group_of: NDArray[np.int32], slots: NDArray[np.int32], span_slots: NDArray[np.int32],
    first_row: Numbers, start_local_ns_min: Numbers, end_local_ns_max: Numbers,
    span_count: Numbers, root_row: Numbers, group_job: Numbers, group_step: Numbers,
) -> int:  # fmt: skip
    """Fills each row's group and the columns of `Groups`; returns the number of groups."""
    mask = len(slots) - 1
    count = 0
    for row in range(len(tenant)):
        code = mix64(load64(trace_id, row * 16), load64(trace_id, row * 16 + 8))
        slot = signed((code ^ np.uint64(tenant[row])) & np.uint64(mask))
        while True:
            group = signed(slots[slot]) - 1
            if group < 0 or _same_trace(tenant, trace_id, first_row[group], row):
                break
            slot = (slot + 1) & mask
        if group < 0:
            group = count
            count += 1
            slots[slot] = group + 1
            first_row[group] = row
            start_local_ns_min[group] = start_local_ns[row]
            end_local_ns_max[group] = end_local_ns[row]
            span_count[group] = 0
            root_row[group] = -1
            group_job[group] = -1
            group_step[group] = -1
        group_of[row] = group
        span_count[group] += _is_new(span_id, kind, group_of, span_slots, row)
        start_local_ns_min[group] = min(start_local_ns_min[group], start_local_ns[row])
        end_local_ns_max[group] = max(end_local_ns_max[group], end_local_ns[row])
        if load64(parent_span_id, row * 8) == 0:
            root = root_row[group]
            if root < 0 or start_local_ns[row] < start_local_ns[root]:
                root_row[group] = row
        if group_job[group] < 0:
            group_job[group] = job[row]
        group_step[group] = max(group_step[group], step[row])
    return count


@compiled
def _distinct(
    group_of: NDArray[np.int32],
    value: NDArray[np.uint32],
    group_count: int,
    slots: NDArray[np.int64],
    index: NDArray[np.uint32],
    ends: NDArray[np.uint64],
) -> int:
    """The distinct values of each group: a hash set of pairs, then a counting sort by group."""
    mask = len(slots) - 1
    count = 0
    for row in range(len(value)):
        pair = signed(group_of[row]) << 32 | signed(value[row])
        code = mix64(np.uint64(0), np.uint64(pair))
        slot = signed((code >> np.uint64(16)) & np.uint64(mask))
        while slots[slot] >= 0 and slots[slot] != pair:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = pair
            ends[group_of[row]] += np.uint64(1)
            count += 1
    total = np.uint64(0)
    for group in range(group_count):  # the start of each group, for now
        size = ends[group]
        ends[group] = total
        total += size
    for slot in range(len(slots)):
        pair = slots[slot]
        if pair >= 0:
            group = pair >> 32
            index[signed(ends[group])] = np.uint32(pair & 0xFFFFFFFF)
            ends[group] += np.uint64(1)
    return count


def slot_count(row_count: int) -> int:
    """A power of two at least twice as large."""
    return 1 << max(4, (2 * row_count - 1).bit_length())


def distinct_members(
    group_of: NDArray[np.int32], value: NDArray[np.uint32], group_count: int
) -> Members:
    """Each group's distinct values."""
    slots = np.full(slot_count(len(value)), -1, np.int64)
    index = np.empty(len(value), np.uint32)
    ends = np.zeros(group_count, np.uint64)
    count = _distinct(group_of, value, group_count, slots, index, ends)
    return Members(ends=ends, numbers=index[:count])


def empty_groups(row_count: int) -> Groups:
    """Room for as many traces as rows."""
    return Groups(*(np.empty(row_count, np.int64) for _ in Groups._fields))
