# SPDX-License-Identifier: Apache-2.0
"""A batch of stored requests becomes two blocks: the spans, and one row a trace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracing_core.model import JOB_ATTRIBUTE, STEP_ATTRIBUTE
from tracing_core.otlp.wire import Bytes
from tracing_core.store.blocks import native
from tracing_core.store.blocks import tables as at
from tracing_core.store.blocks.index import index_requests
from tracing_core.store.blocks.intern import Numbered, fixed_column, number_texts, text_column
from tracing_core.store.blocks.native import Column, Part
from tracing_core.store.blocks.pairs import Attributes
from tracing_core.store.blocks.resources import Shared, shared_columns
from tracing_core.store.blocks.tables import Index, Numbers, Room
from tracing_core.store.blocks.trace_block import trace_block

_CHUNK_BYTES = 2 * 2**20
"""About 8,000 spans are built at a time, more only if one request has more."""
_PAD_BYTES = 16
"""Behind the requests, so that words may be loaded beyond the last byte."""


@dataclass(frozen=True, slots=True)
class Record:
    """One stored request: where it stands in the batch, and what its sender did not write."""

    offset: int
    size: int
    received_ns: int
    """The service's clock when the request came."""
    tenant: str
    """Tenant of resources that name none."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that are stored together, under one number."""

    data: Bytes
    records: Sequence[Record]
    segment: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """What is inserted, in parts to be written one after the other; of no spans there are none."""

    row_count: int
    spans: list[Part]
    traces: list[Part]


def build_blocks(batch: Batch) -> Iterator[Blocks]:
    """The blocks of a batch, whose requests are canonical (`otlp.admit`).

    They come in pieces of the batch, so that what is built stays in the cache; the store joins
    the blocks of one insert to one.
    """
    room = Room()
    for records in _chunks(batch.records):
        blocks = _build_chunk(batch, records, room)
        if blocks.row_count:
            yield blocks


def _chunks(records: Sequence[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    size = 0
    for record in records:
        if chunk and size + record.size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += record.size
    if chunk:
        yield chunk


def _build_chunk(batch: Batch, records: Sequence[Record], room: Room) -> Blocks:
    first, last = records[0], records[-1]
    data = batch.data[first.offset : last.offset + last.size]
    buf = np.concatenate([data, np.zeros(_PAD_BYTES, np.uint8)])
    places = np.array([(r.offset - first.offset, r.size) for r in records], np.int64)
    index = index_requests(buf, places, room)
    count = len(index.spans)
    if count == 0:
        return Blocks(0, [], [])
    shared = shared_columns(
        buf,
        index,
        tenants=[record.tenant for record in records],
        received_ns=[record.received_ns for record in records],
    )
    spans = np.array(index.spans.T, order="C")  # a copy: the index is written over
    attributes = Attributes(buf, index.pairs, spans[at.PAIRS_END])
    names = number_texts(buf, index.spans, at.NAME)
    trace_id = fixed_column(buf, spans[at.TRACE_ID], 16)
    span_id = fixed_column(buf, spans[at.SPAN_ID], 8)
    parent_span_id = fixed_column(buf, spans[at.PARENT_SPAN_ID], 8)
    segment = np.full(count, batch.segment, np.uint64)
    columns = [
        native.low_cardinality("tenant", shared.tenant.keys, shared.tenant.index),
        native.plain("segment", "UInt64", segment),
        native.plain("trace_id", "FixedString(16)", trace_id),
        native.plain("span_id", "FixedString(8)", span_id),
        native.plain("parent_span_id", "FixedString(8)", parent_span_id),
        native.low_cardinality("name", names.keys, names.index),
        *_number_columns(spans),
        *_text_columns(buf, spans),
        *attributes.columns(),
        *_list_columns(buf, index, spans),
        *_shared_columns(shared),
    ]
    jobs, job, step = attributes.marks(JOB_ATTRIBUTE.encode(), STEP_ATTRIBUTE.encode())
    traces = trace_block(
        batch.segment, shared, names, jobs,
        trace_id=trace_id, span_id=span_id, kind=spans[at.KIND], parent_span_id=parent_span_id,
        start_local_ns=spans[at.START], end_local_ns=spans[at.END], job=job, step=step,
    )  # fmt: skip
    return Blocks(count, native.block(count, columns), traces)


def _number_columns(spans: Numbers) -> list[Column]:
    def narrow(column: int, dtype: type[np.generic]) -> NDArray[Any]:
        values: NDArray[Any] = spans[column].astype(dtype)
        return values

    return [
        native.plain("kind", "UInt8", narrow(at.KIND, np.uint8)),
        native.plain("start_local_ns", "Int64", spans[at.START]),
        native.plain("end_local_ns", "Int64", spans[at.END]),
        native.plain("status_code", "UInt8", narrow(at.STATUS_CODE, np.uint8)),
        native.plain("flags", "UInt32", narrow(at.FLAGS, np.uint32)),
        native.plain("dropped_attributes", "UInt32", narrow(at.DROPPED_ATTRIBUTES, np.uint32)),
        native.plain("dropped_events", "UInt32", narrow(at.DROPPED_EVENTS, np.uint32)),
        native.plain("dropped_links", "UInt32", narrow(at.DROPPED_LINKS, np.uint32)),
    ]


def _text_columns(buf: Bytes, spans: Numbers) -> list[Column]:
    return [
        native.plain(name, "String", text_column(buf, spans[column], spans[column + 1]))
        for name, column in (
            ("status_message", at.STATUS_MESSAGE),
            ("trace_state", at.TRACE_STATE),
        )
    ]


def _list_columns(buf: Bytes, index: Index, spans: Numbers) -> list[Column]:
    events, links = np.array(index.events.T, order="C"), np.array(index.links.T, order="C")
    event_ends = spans[at.EVENTS_END].astype(np.uint64)
    link_ends = spans[at.LINKS_END].astype(np.uint64)
    names: Numbered = number_texts(buf, index.events, at.EVENT_NAME)
    bodies = text_column(buf, events[at.EVENT_BODY], events[at.EVENT_BODY + 1])
    return [
        native.low_cardinality_array("event_name", event_ends, names.keys, names.index),
        native.array("event_time_local_ns", "Int64", event_ends, events[at.EVENT_TIME]),
        native.array("event_body", "String", event_ends, bodies),
        native.array("links", "String", link_ends, text_column(buf, links[0], links[1])),
    ]


def _shared_columns(shared: Shared) -> list[Column]:
    return [
        native.plain("received_ns", "Int64", shared.received_ns),
        *(
            native.low_cardinality(name, texts.keys, texts.index)
            for name, texts in (
                ("clock_domain", shared.clock_domain),
                ("host", shared.host),
                ("service", shared.service),
                ("resource", shared.resource),
                ("resource_schema_url", shared.resource_schema_url),
                ("scope", shared.scope),
                ("scope_schema_url", shared.scope_schema_url),
            )
        ),
    ]
