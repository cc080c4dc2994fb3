# SPDX-License-Identifier: Apache-2.0
"""An OTLP request with what is known of each span's time added as attributes.

Everything else passes unchanged, fields that this version does not know included: raw stamps stay
the span's start and end, so whoever receives it may use either.
"""

from collections.abc import Iterable

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan

from tracing_core.clock_domains import RESOURCE_CLOCK_QUANTUM_NS
from tracing_core.corrections import CorrectionTable
from tracing_core.export.placement import TIME_KEYS, correct_all, known_time
from tracing_core.model import RESOURCE_CLOCK_DOMAIN, AttributeValue, CorrectedInstant
from tracing_core.otlp.assemble import TSTAMP_MAX_NS
from tracing_core.otlp.errors import RequestDecodeError


def annotate_request(body: bytes, table: CorrectionTable) -> tuple[bytes, int]:
    """The request with times as `table` knows them, and its number of spans."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise RequestDecodeError(f"body is not an ExportTraceServiceRequest: {error}") from error
    count = 0
    for resource_spans in request.resource_spans:
        attributes = resource_spans.resource.attributes
        clock = _text(attributes, RESOURCE_CLOCK_DOMAIN)
        quantum_ns = _integer(attributes, RESOURCE_CLOCK_QUANTUM_NS)
        spans = [
            span
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
            if max(span.start_time_unix_nano, span.end_time_unix_nano) <= TSTAMP_MAX_NS
        ]
        starts = correct_all(table, clock, [span.start_time_unix_nano for span in spans])
        ends = correct_all(table, clock, [span.end_time_unix_nano for span in spans])
        for span, start, end in zip(spans, starts, ends, strict=True):
            _annotate(span, start, end, quantum_ns, table.version)
        count += sum(len(scope_spans.spans) for scope_spans in resource_spans.scope_spans)
    return request.SerializeToString(), count


def _annotate(
    span: PbSpan, start: CorrectedInstant, end: CorrectedInstant, quantum_ns: int, version: int
) -> None:
    found = known_time(start, end, quantum_ns=quantum_ns, correction_version=version)
    stale = [i for i, pair in enumerate(span.attributes) if pair.key in TIME_KEYS]
    for index in reversed(stale):  # of another service on the way, or of an earlier version
        del span.attributes[index]
    span.attributes.extend(KeyValue(key=key, value=_value(value)) for key, value in found.items())


def _value(value: AttributeValue) -> AnyValue:
    return (
        AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=str(value))
    )


def _text(attributes: Iterable[KeyValue], key: str) -> str:
    return next((pair.value.string_value for pair in attributes if pair.key == key), "")


def _integer(attributes: Iterable[KeyValue], key: str) -> int:
    return next((pair.value.int_value for pair in attributes if pair.key == key), 0)
