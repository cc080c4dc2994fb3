# SPDX-License-Identifier: Apache-2.0
"""What the store returns is what was sent, field for field, against protobuf's own objects."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.support.otlp_strategies import TRACE_IDS, requests
from tracing_core.otlp import CONTENT_TYPE_PROTOBUF, RequestDecodeError, admit
from tracing_core.otlp.encode import any_value
from tracing_core.otlp.protobuf_codec import check_span
from tracing_core.otlp.wire_check import NOT_CANONICAL, count_canonical_spans
from tracing_core.store import Store, TraceQuery
from tracing_core.store.blocks import Batch, Record

SEGMENTS = itertools.count(1)
SEARCHED = st.one_of(
    st.text(max_size=8),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(allow_nan=False),
    st.sampled_from(["", 0, 0.0, False]),
)
_LOAD = {"suppress_health_check": list(HealthCheck), "deadline": None}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open() as opened:
        yield opened


def insert(store: Store, *bodies: bytes) -> None:
    """Puts requests into the emptied store as one segment."""
    for table in ("span_rows", "trace_parts"):
        store.engine.command(f"TRUNCATE TABLE {table}")
    records, offset = [], 0
    for body in bodies:
        records.append(Record(offset, len(body), 7, "default"))
        offset += len(body)
    segment = next(SEGMENTS) << 12
    batch = Batch(np.frombuffer(b"".join(bodies), np.uint8), records, segment)
    store.spans.insert(batch, token=str(segment))


def attributes(pairs) -> tuple:
    """Attributes without their order, which OTLP gives no meaning."""
    return tuple(sorted((pair.key, pair.value.SerializeToString()) for pair in pairs))


def plain(span: Span) -> tuple:
    """A span as a value: its attributes in any order, everything else as it is."""
    rest = Span()
    rest.CopyFrom(span)
    del rest.attributes[:]
    return rest.SerializeToString(), attributes(span.attributes)


def contents(request: ExportTraceServiceRequest) -> list[tuple]:
    """All spans with all that they have from their resource and scope."""
    return sorted(
        (
            resource.resource.SerializeToString(),
            resource.schema_url,
            scope.scope.SerializeToString(),
            scope.schema_url,
            *plain(span),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )


def stored(store: Store) -> list[tuple]:
    """What a reader gets of the three traces."""
    found = (contents(store.spans.request(trace_id.hex())) for trace_id in TRACE_IDS)
    return sorted(itertools.chain.from_iterable(found))


@settings(max_examples=40, **_LOAD)
@given(sent=requests())
def test_what_the_store_returns_is_what_was_sent(
    store: Store, sent: ExportTraceServiceRequest
) -> None:
    """Every attribute kind, events, links, resources, scopes, empty texts and zeros."""
    admitted = admit(sent.SerializeToString(), CONTENT_TYPE_PROTOBUF)
    assert admitted.rejections.total_count == 0
    assert admitted.body == sent.SerializeToString()
    insert(store, admitted.body)
    assert stored(store) == contents(sent)


@settings(max_examples=15, **_LOAD)
@given(first=requests(2), second=requests(2))
def test_requests_of_one_segment_do_not_mix(
    store: Store, first: ExportTraceServiceRequest, second: ExportTraceServiceRequest
) -> None:
    """Dictionaries are shared by the requests of a segment; values are not."""
    for resource in second.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.span_id = b"\xff" + span.span_id[1:]
    insert(store, first.SerializeToString(), second.SerializeToString())
    assert stored(store) == sorted(contents(first) + contents(second))


def shuffled(request: ExportTraceServiceRequest, seed: int) -> bytes:
    """The same request with the fields of each message in another order."""
    rng = random.Random(seed)

    def joined(message, *repeated: str) -> bytes:
        parts = []
        for descriptor, _ in message.ListFields():
            one = type(message)()
            if descriptor.name in repeated:
                continue
            source = getattr(message, descriptor.name)
            if descriptor.message_type is None:
                setattr(one, descriptor.name, source)
            elif descriptor.is_repeated:
                getattr(one, descriptor.name).extend(source)
            else:
                getattr(one, descriptor.name).CopyFrom(source)
            parts.append(one.SerializeToString())
        return b"".join(rng.sample(parts, len(parts)))

    def field(number: int, body: bytes) -> bytes:
        size, out = len(body), bytearray([number << 3 | 2])
        while size > 127:
            out.append(size & 127 | 128)
            size >>= 7
        return bytes(out) + bytes([size]) + body

    resources = []
    for resource in request.resource_spans:
        scopes = []
        for scope in resource.scope_spans:
            spans = [field(2, joined(span)) for span in scope.spans]
            scopes.append(field(2, b"".join(spans) + joined(scope, "spans")))
        resources.append(field(1, b"".join(scopes) + joined(resource, "scope_spans")))
    return b"".join(resources)


@settings(max_examples=15, **_LOAD)
@given(sent=requests(2), seed=st.integers(0, 2**32))
def test_the_order_of_fields_means_nothing(
    store: Store, sent: ExportTraceServiceRequest, seed: int
) -> None:
    """A resource may come behind its spans, and ids behind attributes."""
    body = shuffled(sent, seed)
    assert contents(ExportTraceServiceRequest.FromString(body)) == contents(sent)
    insert(store, admit(body, CONTENT_TYPE_PROTOBUF).body)
    assert stored(store) == contents(sent)


def mutated(body: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut out or doubled."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 3)):
        if not data:
            break
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case 2:
                data[at:at] = data[max(0, at - rng.randint(1, 16)) : at]
            case _:
                data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


@settings(max_examples=150, **_LOAD)
@given(sent=requests(2), seed=st.integers(0, 2**32))
def test_whatever_is_called_canonical_is_valid_protobuf(
    sent: ExportTraceServiceRequest, seed: int
) -> None:
    """Damaged bytes pass the quick check only if protobuf reads as many valid spans in them."""
    rng = random.Random(seed)
    for _ in range(20):
        body = mutated(sent.SerializeToString(), rng)
        count = count_canonical_spans(body)
        if count == NOT_CANONICAL:
            continue
        request = ExportTraceServiceRequest.FromString(body)
        spans = [s for r in request.resource_spans for c in r.scope_spans for s in c.spans]
        assert len(spans) == count
        for span in spans:
            check_span(span)


@settings(max_examples=60, **_LOAD)
@given(sent=requests(2), seed=st.integers(0, 2**32))
def test_damaged_requests_are_stored_as_protobuf_reads_them(
    store: Store, sent: ExportTraceServiceRequest, seed: int
) -> None:
    """Canonical or not: what is admitted is stored as protobuf's objects have it."""
    body = mutated(sent.SerializeToString(), random.Random(seed))
    try:
        admitted = admit(body, CONTENT_TYPE_PROTOBUF)
    except RequestDecodeError:
        return
    request = ExportTraceServiceRequest.FromString(admitted.body)
    insert(store, admitted.body)
    ids = {s.trace_id for r in request.resource_spans for c in r.scope_spans for s in c.spans}
    found = sorted(
        itertools.chain.from_iterable(
            contents(store.spans.request(trace_id.hex())) for trace_id in ids
        )
    )
    assert [item[-2:] for item in found] == [item[-2:] for item in normalised(request)]


def normalised(request: ExportTraceServiceRequest) -> list[tuple]:
    """What the store keeps of unusual values: an all-zero parent is none, unknown kinds are
    unspecified, of two equal keys of one type the last counts, of two equal spans one."""
    kept: dict[tuple, Span] = {}
    owner: dict[tuple, tuple[ResourceSpans, ScopeSpans]] = {}
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                if not any(span.parent_span_id):
                    span.ClearField("parent_span_id")
                if not 0 <= span.kind <= 5:
                    span.ClearField("kind")
                if not span.status.code and not span.status.message:
                    span.ClearField("status")
                key = span.trace_id, span.span_id, span.kind
                kept.setdefault(key, span)
                owner.setdefault(key, (resource, scope))
    out = ExportTraceServiceRequest()
    for key, span in kept.items():
        resource, scope = owner[key]
        copy = out.resource_spans.add(schema_url=resource.schema_url)
        copy.resource.CopyFrom(resource.resource)
        inner = copy.scope_spans.add(schema_url=scope.schema_url)
        inner.scope.CopyFrom(scope.scope)
        inner.spans.append(span)
    return contents(out)


@settings(max_examples=30, **_LOAD)
@given(wanted=SEARCHED, key=st.text(max_size=8))
def test_every_scalar_attribute_can_be_searched_for(
    store: Store, wanted: str | int | float | bool, key: str
) -> None:
    """A search by key and value finds the trace; by another value or key it does not."""
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(trace_id=TRACE_IDS[0], span_id=b"12345678")
    )
    span.attributes.add(key=key).value.CopyFrom(any_value(wanted))
    insert(store, request.SerializeToString())
    (found,) = store.spans.search(TraceQuery(attributes={key: wanted}))
    assert found.trace_id == TRACE_IDS[0].hex()
    other = {str: "other value", int: 12345, bool: not wanted, float: 0.125}[type(wanted)]
    if other != wanted:
        assert store.spans.search(TraceQuery(attributes={key: other})) == []
    assert store.spans.search(TraceQuery(attributes={key + "x": wanted})) == []
