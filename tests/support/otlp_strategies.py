# SPDX-License-Identifier: Apache-2.0
"""Random trace requests with every kind of value that OTLP has."""

from typing import Any

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

TEXT = st.text(max_size=12)
UINT32 = st.integers(0, 2**32 - 1)
TIME_NS = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 3))
TRACE_IDS = [bytes(15) + bytes([i]) for i in (1, 2, 3)]
SPAN_ID = st.binary(min_size=8, max_size=8).filter(any)


def any_values() -> st.SearchStrategy[AnyValue]:
    """Empty strings, zeros, NaN, nothing at all, nested arrays and lists included."""
    scalars = st.one_of(
        st.builds(AnyValue, string_value=TEXT),
        st.builds(AnyValue, string_value=st.just("")),
        st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
        st.builds(AnyValue, int_value=st.just(0)),
        st.builds(AnyValue, double_value=st.floats()),
        st.builds(AnyValue, double_value=st.sampled_from([0.0, -0.0])),
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, bytes_value=st.binary(max_size=8)),
        st.just(AnyValue()),
    )

    def nested(inner: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
        arrays = st.lists(inner, max_size=3).map(
            lambda values: AnyValue(array_value=ArrayValue(values=values))
        )
        lists = pairs(inner).map(lambda items: AnyValue(kvlist_value=KeyValueList(values=items)))
        return st.one_of(arrays, lists)

    return st.recursive(scalars, nested, max_leaves=5)


def pairs(values: st.SearchStrategy[AnyValue] | None = None) -> st.SearchStrategy[list[KeyValue]]:
    """Attributes with unique keys, as OTLP demands."""
    pair = st.builds(KeyValue, key=TEXT, value=any_values() if values is None else values)
    return st.lists(pair, max_size=4, unique_by=lambda item: item.key)


def spans() -> st.SearchStrategy[Span]:
    """Valid spans of three traces."""
    events = st.builds(
        Span.Event,
        time_unix_nano=TIME_NS,
        name=TEXT,
        attributes=pairs(),
        dropped_attributes_count=st.sampled_from([0, 1, 2**32 - 1]),
    )
    links = st.builds(
        Span.Link,
        trace_id=st.sampled_from(TRACE_IDS),
        span_id=SPAN_ID,
        trace_state=TEXT,
        attributes=pairs(),
        dropped_attributes_count=st.sampled_from([0, 3]),
        flags=UINT32,
    )
    status = st.builds(Status, message=TEXT, code=st.integers(1, 2))
    fields: dict[str, st.SearchStrategy[Any]] = {
        "trace_id": st.sampled_from(TRACE_IDS),
        "span_id": SPAN_ID,
        "trace_state": TEXT,
        "parent_span_id": st.one_of(st.just(b""), SPAN_ID),
        "name": TEXT,
        "kind": st.integers(0, 5),
        "start_time_unix_nano": TIME_NS,
        "end_time_unix_nano": TIME_NS,
        "attributes": pairs(),
        "dropped_attributes_count": UINT32,
        "events": st.lists(events, max_size=2),
        "dropped_events_count": UINT32,
        "links": st.lists(links, max_size=2),
        "dropped_links_count": UINT32,
        "status": st.one_of(st.none(), status),
        "flags": UINT32,
    }
    return st.fixed_dictionaries(fields).map(lambda values: Span(**values))


def requests(max_size: int = 3) -> st.SearchStrategy[ExportTraceServiceRequest]:
    """Whole requests; every span has ids of its own."""
    scopes = st.builds(
        ScopeSpans,
        scope=st.builds(
            InstrumentationScope,
            name=TEXT,
            version=TEXT,
            attributes=pairs(),
            dropped_attributes_count=st.sampled_from([0, 1]),
        ),
        spans=st.lists(spans(), max_size=4),
        schema_url=TEXT,
    )
    resources = st.builds(
        ResourceSpans,
        resource=st.builds(
            Resource, attributes=pairs(), dropped_attributes_count=st.sampled_from([0, 1])
        ),
        scope_spans=st.lists(scopes, max_size=max_size),
        schema_url=TEXT,
    )
    whole = st.builds(
        ExportTraceServiceRequest, resource_spans=st.lists(resources, max_size=max_size)
    )
    return whole.map(_with_own_ids)


def _with_own_ids(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    number = 0
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                number += 1
                span.span_id = number.to_bytes(8, "big")
    return request
