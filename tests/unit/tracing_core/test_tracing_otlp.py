# SPDX-License-Identifier: Apache-2.0
"""OTLP bodies: both encodings, ids, limits, rejections."""

import gzip
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from tracing_core.model import Attributes, AttributeValue, SpanKind
from tracing_core.otlp import (
    CONTENT_TYPE_JSON,
    CONTENT_TYPE_PROTOBUF,
    Decoded,
    RejectReason,
    RequestDecodeError,
    RequestTooLargeError,
    StatusCode,
    UnsupportedEncodingError,
    UnsupportedTypeError,
    decode_request,
    decode_status,
    decompress,
    encode_response,
    encode_status,
    request_to_json,
)

EPOCH_NS = 1_800_000_000_000_000_000
TRACE_ID = "5b8efff798038103d269b633813fc60c"
SPAN_ID = "eee19b7ec3c1b174"


def span(**changes: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE_ID,
        "spanId": SPAN_ID,
        "name": "step",
        "kind": 2,
        "startTimeUnixNano": str(EPOCH_NS),
        "endTimeUnixNano": EPOCH_NS + 5,
        **changes,
    }


def decode_spans(*spans: Any) -> Decoded:
    body = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}
    return decode_request(json.dumps(body).encode(), CONTENT_TYPE_JSON)


def test_json_follows_the_otlp_mapping() -> None:
    """Hex ids in any case, 64-bit integers as text or number, unknown fields ignored."""
    (decoded,) = decode_spans(
        span(
            traceId=TRACE_ID.upper(),
            futureField={"a": 1},
            flags=0x301,
            events=[{"timeUnixNano": str(EPOCH_NS + 1), "name": "nic.tx_first"}],
            attributes=[
                {"key": "big", "value": {"intValue": str(2**63 - 1)}},
                {"key": "small", "value": {"intValue": -5}},
                {"key": "raw", "value": {"bytesValue": "AQI="}},
                {"key": "nan", "value": {"doubleValue": "NaN"}},
                {"key": "none", "value": {}},
            ],
        )
    ).spans
    assert (decoded.trace_id, decoded.span_id, decoded.kind) == (TRACE_ID, SPAN_ID, SpanKind.SERVER)
    assert (decoded.start_local_ns, decoded.end_local_ns) == (EPOCH_NS, EPOCH_NS + 5)
    assert decoded.events[0].time_local_ns == EPOCH_NS + 1
    assert decoded.flags == 0x301
    assert math.isnan(decoded.attributes["nan"])  # type: ignore[arg-type]
    rest = {key: value for key, value in decoded.attributes.items() if key != "nan"}
    assert rest == {"big": 2**63 - 1, "small": -5, "raw": b"\1\2", "none": None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"traceId": "0" * 32}, RejectReason.TRACE_ID_INVALID),
        ({"traceId": TRACE_ID[:-2]}, RejectReason.TRACE_ID_INVALID),
        ({"traceId": "W47/95gDgQPSabYzgT/GDA=="}, RejectReason.TRACE_ID_INVALID),  # base64
        ({"traceId": None}, RejectReason.TRACE_ID_INVALID),
        ({"traceId": 5}, RejectReason.TRACE_ID_INVALID),
        ({"spanId": "0" * 16}, RejectReason.SPAN_ID_INVALID),
        ({"spanId": "ee e19b7ec3c1b174"}, RejectReason.SPAN_ID_INVALID),
        ({"parentSpanId": "abcd"}, RejectReason.PARENT_SPAN_ID_INVALID),
        ({"links": [{"traceId": TRACE_ID, "spanId": ""}]}, RejectReason.LINK_ID_INVALID),
        ({"startTimeUnixNano": str(2**63)}, RejectReason.TIME_OUT_OF_RANGE),
        ({"startTimeUnixNano": str(2**64)}, RejectReason.MALFORMED),
        ({"startTimeUnixNano": -1}, RejectReason.MALFORMED),
        ({"startTimeUnixNano": 1.5}, RejectReason.MALFORMED),
        ({"endTimeUnixNano": True}, RejectReason.MALFORMED),
        ({"kind": "SPAN_KIND_SERVER"}, RejectReason.MALFORMED),  # integers only
        ({"name": 7}, RejectReason.MALFORMED),
        ({"name": "\ud800"}, RejectReason.MALFORMED),
        ({"attributes": {"a": 1}}, RejectReason.MALFORMED),
        ({"attributes": [{"key": "a", "value": {"intValue": "x"}}]}, RejectReason.MALFORMED),
        ({"attributes": [{"key": "a", "value": {"doubleValue": "x"}}]}, RejectReason.MALFORMED),
        ({"attributes": [{"key": "a", "value": {"bytesValue": "!"}}]}, RejectReason.MALFORMED),
        ({"attributes": [{"key": "a", "value": {"boolValue": 1}}]}, RejectReason.MALFORMED),
        ({"events": [5]}, RejectReason.MALFORMED),
    ],
)
def test_a_bad_json_span_is_refused_alone(changes: dict[str, Any], reason: RejectReason) -> None:
    """Its neighbour is kept, and the reason is counted."""
    decoded = decode_spans(span(**changes), span())
    assert len(decoded.spans) == 1
    assert decoded.rejections.counts == {reason: 1}


def test_an_item_that_is_no_object_is_a_rejected_span() -> None:
    """Even a number in the list of spans costs only itself."""
    decoded = decode_spans(5, span())
    assert (len(decoded.spans), decoded.rejections.total_count) == (1, 1)


def test_an_all_zero_parent_means_root() -> None:
    """Some exporters write zeros for "no parent"."""
    (decoded,) = decode_spans(span(parentSpanId="0" * 16)).spans
    assert decoded.parent_span_id == ""


def test_an_unknown_kind_reads_as_unspecified() -> None:
    """Enums are open: a newer kind is not an error."""
    (decoded,) = decode_spans(span(kind=77)).spans
    assert decoded.kind is SpanKind.UNSPECIFIED


def test_deeply_nested_values_are_refused_not_a_crash() -> None:
    """Nesting beyond the limit rejects the span; beyond the parser's limit, the request."""
    value: dict[str, Any] = {"intValue": 1}
    for _ in range(80):
        value = {"arrayValue": {"values": [value]}}
    decoded = decode_spans(span(attributes=[{"key": "a", "value": value}]), span())
    assert (len(decoded.spans), decoded.rejections.total_count) == (1, 1)
    with pytest.raises(RequestDecodeError):
        decode_request(b"[" * 100_000, CONTENT_TYPE_JSON)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"5", b"{", b'{"resourceSpans":5}', b"\xff", b'{"a":NaN}']
)
def test_a_body_that_is_no_request_is_a_decode_error(body: bytes) -> None:
    """One error type, whatever is wrong."""
    with pytest.raises(RequestDecodeError):
        decode_request(body, CONTENT_TYPE_JSON)


values: st.SearchStrategy[AttributeValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def pb_value(value: AttributeValue) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case tuple():
            return AnyValue(array_value=ArrayValue(values=[pb_value(item) for item in value]))
        case _:
            return AnyValue(kvlist_value=KeyValueList(values=pb_pairs(value)))


def pb_pairs(attributes: Attributes) -> list[KeyValue]:
    return [KeyValue(key=key, value=pb_value(value)) for key, value in attributes.items()]


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6), values, max_size=4
    )
)
def test_both_encodings_decode_to_the_same_span(attributes: dict[str, AttributeValue]) -> None:
    """Every kind of attribute, through protobuf and through our JSON of the same request."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(pb_pairs({"tempotrace.tenant": "beta", **attributes}))
    message = resource_spans.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(TRACE_ID),
        span_id=bytes.fromhex(SPAN_ID),
        name="x",
        kind=3,
        start_time_unix_nano=EPOCH_NS,
        end_time_unix_nano=EPOCH_NS - 1,
        attributes=pb_pairs(attributes),
        trace_state="a=b",
        flags=0x300,
    )
    message.events.add(name="e", time_unix_nano=3, attributes=pb_pairs(attributes))
    message.links.add(trace_id=b"t" * 16, span_id=b"s" * 8, attributes=pb_pairs(attributes))
    message.status.code, message.status.message = 2, "late"
    binary = decode_request(request.SerializeToString(), CONTENT_TYPE_PROTOBUF)
    text = decode_request(request_to_json(request).encode(), CONTENT_TYPE_JSON)
    assert binary.spans == text.spans
    assert binary.spans[0].attributes == attributes


@given(st.binary(max_size=200))
def test_random_bytes_never_crash_the_decoder(body: bytes) -> None:
    """Anything but a decode error is a bug, in either encoding."""
    for content_type in (CONTENT_TYPE_JSON, CONTENT_TYPE_PROTOBUF):
        try:
            decode_request(body, content_type)
        except RequestDecodeError:
            continue


def test_a_request_cut_at_any_length_is_an_error_or_fewer_spans() -> None:
    """Truncation gives a decode error or a valid shorter message, never another exception."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=b"t" * 16, span_id=b"s" * 8, name="x", start_time_unix_nano=1
    )
    body = request.SerializeToString()
    for length in range(len(body)):
        try:
            decoded = decode_request(body[:length], CONTENT_TYPE_PROTOBUF)
        except RequestDecodeError:
            continue
        assert len(decoded.spans) <= 1


def test_gzip_is_limited_after_decompression() -> None:
    """A small bomb stops at the limit; several members count together."""
    assert decompress(gzip.compress(b"a" * 100), "gzip", limit_bytes=100) == b"a" * 100
    with pytest.raises(RequestTooLargeError):
        decompress(gzip.compress(b"a" * 101), "gzip", limit_bytes=100)
    with pytest.raises(RequestTooLargeError):
        decompress(gzip.compress(b"a" * 60) * 2, "gzip", limit_bytes=100)
    with pytest.raises(RequestTooLargeError):
        decompress(b"a" * 101, "", limit_bytes=100)


def test_gzip_cut_at_any_length_is_a_decode_error() -> None:
    """A truncated gzip body is never taken for a shorter request."""
    body = gzip.compress(b"hello world")
    for length in range(1, len(body)):
        with pytest.raises(RequestDecodeError):
            decompress(body[:length], "gzip")


def test_unsupported_types_are_named() -> None:
    """The error says what to use instead."""
    with pytest.raises(UnsupportedTypeError, match="application/json"):
        decode_request(b"", "text/plain")
    with pytest.raises(UnsupportedEncodingError, match="gzip"):
        decompress(b"", "br")


def test_partial_success_counts_and_names_reasons() -> None:
    """rejectedSpans is text in JSON and int64 in protobuf; the message names each reason."""
    rejections = decode_spans(span(spanId=""), span(name=7), span(name=8)).rejections
    answer = json.loads(encode_response(rejections, CONTENT_TYPE_JSON))["partialSuccess"]
    assert answer["rejectedSpans"] == "3"
    assert "1 x span_id" in answer["errorMessage"]
    assert "2 x malformed" in answer["errorMessage"]
    message = ExportTraceServiceResponse.FromString(
        encode_response(rejections, CONTENT_TYPE_PROTOBUF)
    )
    assert message.partial_success.rejected_spans == 3


def test_status_survives_a_round_trip() -> None:
    """google.rpc.Status in a private pool: same bytes as the public message's wire format."""
    body = encode_status(StatusCode.INVALID_ARGUMENT, "bad", as_json=False)
    assert body == b"\x08\x03\x12\x03bad"
    assert decode_status(body) == (3, "bad")
    assert json.loads(encode_status(StatusCode.UNAVAILABLE, "full", as_json=True)) == {
        "code": 14,
        "message": "full",
    }
    with pytest.raises(ValueError, match="Status"):
        decode_status(b"\xff")
