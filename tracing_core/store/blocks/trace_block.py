# SPDX-License-Identifier: Apache-2.0
"""The block of traces: for each trace of a batch its time range and what searches ask for."""

import numpy as np
from numpy.typing import NDArray

from tracing_core.otlp.wire import Bytes
from tracing_core.store.blocks import native, traces
from tracing_core.store.blocks.intern import Numbered
from tracing_core.store.blocks.native import Column, Keys, Part
from tracing_core.store.blocks.resources import Shared
from tracing_core.store.blocks.tables import Numbers


def trace_block(
    segment: int, shared: Shared, names: Numbered, jobs: Numbered, *, trace_id: Bytes,
    span_id: Bytes, kind: Numbers, parent_span_id: Bytes, start_local_ns: Numbers,
    end_local_ns: Numbers, job: Numbers, step: Numbers,
) -> list[Part]:  # fmt: skip
    """One row a trace; all arguments but the first four have a value a span."""
    rows = len(start_local_ns)
    groups = traces.empty_groups(rows)
    slots = traces.slot_count(rows)
    group_of = np.empty(rows, np.int32)
    count = traces.group_rows(
        shared.tenant.index, trace_id, start_local_ns, end_local_ns, parent_span_id, span_id, kind,
        job, step, group_of, np.zeros(slots, np.int32), np.zeros(slots, np.int32), *groups,
    )  # fmt: skip
    groups = traces.Groups(*(column[:count] for column in groups))
    first = groups.first_row
    ids = np.ascontiguousarray(trace_id.reshape(-1, 16)[first])
    root_name = np.where(groups.root_row >= 0, names.index[groups.root_row].astype(np.int64), -1)
    columns = [
        native.low_cardinality("tenant", shared.tenant.keys, shared.tenant.index[first]),
        native.plain("trace_id", "FixedString(16)", ids),
        native.plain("segment", "UInt64", np.full(count, segment, np.uint64)),
        native.plain("start_local_ns", "Int64", groups.start_local_ns_min),
        native.plain("end_local_ns", "Int64", groups.end_local_ns_max),
        native.plain("span_count", "UInt32", groups.span_count.astype(np.uint32)),
        _one_or_empty("root_name", names.keys, root_name),
        _one_or_empty("job", jobs.keys, groups.job),
        native.plain("step", "Int64", groups.step),
    ]
    for name, keys, index in (
        ("services", shared.service.keys, shared.service.index),
        ("hosts", shared.host.keys, shared.host.index),
        ("names", names.keys, names.index),
    ):
        members = traces.distinct_members(group_of, index, count)
        columns.append(native.low_cardinality_array(name, members.ends, keys, members.numbers))
    return native.block(count, columns)


def _one_or_empty(name: str, keys: Keys, chosen: NDArray[np.int64]) -> Column:
    """A text a row, the empty one where `chosen` is negative."""
    with_empty = Keys(keys.count + 1, native.strings([b""]) + keys.data)
    return native.low_cardinality(name, with_empty, (chosen + 1).astype(np.uint32))
