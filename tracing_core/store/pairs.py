# SPDX-License-Identifier: Apache-2.0
"""Causal pairs of spans on two clocks, found by SQL."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracing_core.model import SpanKind
from tracing_core.ordering import CausalPairs, PairKind
from tracing_core.store.engine import Engine

_COLUMNS = (
    "trace_id",
    "parent_span_id",
    "child_span_id",
    "parent_clock",
    "child_clock",
    "parent_start_local_ns",
    "parent_end_local_ns",
    "child_start_local_ns",
    "child_end_local_ns",
    "synchronous",
)

_SQL = f"""
SELECT lower(hex(child.trace_id)), lower(hex(parent.span_id)), lower(hex(child.span_id)),
    parent.clock_domain, child.clock_domain,
    parent.start_local_ns, parent.end_local_ns, child.start_local_ns, child.end_local_ns,
    (parent.kind = {SpanKind.CLIENT:d} AND child.kind = {SpanKind.SERVER:d}) AS synchronous
FROM (
    SELECT tenant, trace_id, span_id, parent_span_id, kind, clock_domain, host,
        start_local_ns, end_local_ns
    FROM span_rows WHERE parent_span_id != unhex('0000000000000000')
    LIMIT 1 BY tenant, trace_id, span_id, kind
) AS child
INNER JOIN (
    SELECT tenant, trace_id, span_id, kind, clock_domain, host, start_local_ns, end_local_ns
    FROM span_rows LIMIT 1 BY tenant, trace_id, span_id, kind
) AS parent
ON child.tenant = parent.tenant AND child.trace_id = parent.trace_id
    AND child.parent_span_id = parent.span_id
WHERE (parent.clock_domain != child.clock_domain OR parent.host != child.host
    OR (parent.clock_domain != '' AND (child.start_local_ns < parent.start_local_ns
        OR (synchronous AND child.end_local_ns > parent.end_local_ns))))
    AND ({{tenant:String}} = '' OR child.tenant = {{tenant:String}})
ORDER BY child.trace_id, child.span_id
"""


def read_causal_pairs(engine: Engine, *, tenant: str = "") -> CausalPairs:
    """Cross-host parent/child pairs, and the ends of synchronous (CLIENT/SERVER) ones; of pairs on
    one clock those that contradict causality."""
    columns = engine.columns(_SQL, _COLUMNS, {"tenant": tenant})
    clocks, parent_clock, child_clock = indices(columns["parent_clock"], columns["child_clock"])
    parent_end, child_end = columns["parent_end_local_ns"], columns["child_end_local_ns"]
    parent_start, child_start = columns["parent_start_local_ns"], columns["child_start_local_ns"]
    invalid = (parent_end < parent_start) | (child_end < child_start)
    both = np.asarray(columns["synchronous"], bool)

    def stacked(starts: NDArray[Any], ends: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([starts, ends[both]])

    return CausalPairs(
        kind=np.repeat(
            np.array([PairKind.PARENT_START, PairKind.RECV_END], np.uint8),
            [len(both), int(both.sum())],
        ),
        trace_id=stacked(columns["trace_id"], columns["trace_id"]),
        first_span_id=stacked(columns["parent_span_id"], columns["child_span_id"]),
        second_span_id=stacked(columns["child_span_id"], columns["parent_span_id"]),
        clocks=clocks,
        first_clock=stacked(parent_clock, child_clock),
        second_clock=stacked(child_clock, parent_clock),
        first_local_ns=stacked(parent_start, child_end),
        second_local_ns=stacked(child_start, parent_end),
        end_before_start=stacked(invalid, invalid),
    )


def indices(*names: Sequence[str] | NDArray[Any]) -> tuple[Any, ...]:
    """The distinct names, and each argument as indices into them."""
    joined = np.concatenate([np.asarray(part, object) for part in names])
    distinct: dict[str, int] = {}
    index = np.array([distinct.setdefault(name, len(distinct)) for name in joined], np.int64)
    parts = np.split(index, np.cumsum([len(part) for part in names])[:-1])
    return tuple(distinct), *parts
