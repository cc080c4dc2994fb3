# SPDX-License-Identifier: Apache-2.0
"""Trace requests for measurements: 512 spans with 8 attributes, about 230 bytes a span.

Each is a copy of a template with fresh ids, times and numbers in places of fixed size, so that
making a request costs less than sending it. Traces have 16 spans: a step, its children and theirs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan

SPANS_PER_REQUEST = 512
SPANS_PER_TRACE = 16
TRACES_PER_REQUEST = SPANS_PER_REQUEST // SPANS_PER_TRACE
HOSTS = 16
TENANT = "alpha"
OPERATIONS = ("step", "allreduce", "rdma.send", "rdma.recv", "forward", "backward", "load", "log")

_ID_MARK = b"\xf1\xd0"
"""Begins every id of a template; random bytes take its place."""
_TIME_MARK = 0x7A6B5C4D3E2F1011
_NUMBER_MARK = 0x0DDBA11
"""A number of four bytes as a varint, as all that take its place."""
_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class _Template:
    body: NDArray[np.uint8]
    trace_id: NDArray[np.int64]
    """Where each span's trace id stands, as the others."""
    span_id: NDArray[np.int64]
    parent: NDArray[np.int64]
    """Of all spans but the roots."""
    parent_of: NDArray[np.int64]
    """The span that each of those has as parent."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    number: NDArray[np.int64]


class Load:
    """Makes requests of hosts in turn; `start_ns` is the time of the first span."""

    def __init__(
        self, rng: np.random.Generator, *, start_ns: int, span_interval_ns: int = 4000
    ) -> None:
        self._rng = rng
        self._templates = [_template(host) for host in range(HOSTS)]
        self.time_ns = start_ns
        """Of the next span."""
        self._interval_ns = span_interval_ns
        self._next = 0

    def requests(self, count: int) -> Iterator[bytes]:
        """The next `count` requests."""
        for _ in range(count):
            yield self._request(self._templates[self._next % HOSTS])
            self._next += 1

    def _request(self, template: _Template) -> bytes:
        body = template.body.copy()
        rng = self._rng
        trace_ids = rng.integers(1, 256, (TRACES_PER_REQUEST, 16), np.uint8)
        span_ids = rng.integers(1, 256, (SPANS_PER_REQUEST, 8), np.uint8)
        _put(body, template.trace_id, np.repeat(trace_ids, SPANS_PER_TRACE, axis=0))
        _put(body, template.span_id, span_ids)
        _put(body, template.parent, span_ids[template.parent_of])
        start = self.time_ns + np.arange(SPANS_PER_REQUEST, dtype=np.int64) * self._interval_ns
        duration = rng.integers(1_000, 2_000_000, SPANS_PER_REQUEST)
        _put(body, template.start, start.view(np.uint8).reshape(-1, 8))
        _put(body, template.end, (start + duration).view(np.uint8).reshape(-1, 8))
        numbers = rng.integers(1 << 21, 1 << 28, len(template.number), np.uint32)
        _put(body, template.number, _four_byte_varints(numbers))
        self.time_ns += SPANS_PER_REQUEST * self._interval_ns
        return body.tobytes()


def _put(body: NDArray[np.uint8], places: NDArray[np.int64], values: NDArray[np.uint8]) -> None:
    body[places[:, None] + np.arange(values.shape[1])] = values


def _four_byte_varints(numbers: NDArray[np.uint32]) -> NDArray[np.uint8]:
    parts = [(numbers >> np.uint32(7 * i)) & np.uint32(127) for i in range(_NUMBER_BYTES)]
    for part in parts[:-1]:
        part |= np.uint32(128)
    return np.stack(parts, axis=1).astype(np.uint8)


def _template(host: int) -> _Template:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for key, value in (
        ("service.name", f"trainer-{host % 4}"),
        ("host.name", f"h{host}"),
        ("tempotrace.clock.domain", f"h{host}"),
        ("tempotrace.tenant", TENANT),
    ):
        attribute = resource_spans.resource.attributes.add(key=key)
        attribute.value.string_value = value
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "load"
    parents = []
    for number in range(SPANS_PER_REQUEST):
        place = number % SPANS_PER_TRACE
        span = scope_spans.spans.add(
            trace_id=_mark(number, 16),
            span_id=_mark(SPANS_PER_REQUEST + number, 8),
            name=OPERATIONS[(place + place // 8) % len(OPERATIONS)],
            kind=PbSpan.SPAN_KIND_CLIENT,
            start_time_unix_nano=_TIME_MARK + 2 * number,
            end_time_unix_nano=_TIME_MARK + 2 * number + 1,
        )
        if place:
            parent = number - place + (place - 1) // 2
            span.parent_span_id = _mark(2 * SPANS_PER_REQUEST + number, 8)
            parents.append((number, parent))
        _add_attributes(span, host, number)
    data = request.SerializeToString()

    def find(mark: bytes) -> int:
        at = data.index(mark)
        assert data.find(mark, at + 1) < 0
        return at

    def times(offset: int) -> NDArray[np.int64]:
        marks = (_TIME_MARK + 2 * i + offset for i in range(SPANS_PER_REQUEST))
        return np.array([find(mark.to_bytes(8, "little")) for mark in marks])

    spans = range(SPANS_PER_REQUEST)
    numbers = np.array([_NUMBER_MARK], np.uint32)
    pattern = _four_byte_varints(numbers).tobytes()
    return _Template(
        body=np.frombuffer(data, np.uint8),
        trace_id=np.array([find(_mark(i, 16)) for i in spans]),
        span_id=np.array([find(_mark(SPANS_PER_REQUEST + i, 8)) for i in spans]),
        parent=np.array([find(_mark(2 * SPANS_PER_REQUEST + i, 8)) for i, _ in parents]),
        parent_of=np.array([parent for _, parent in parents]),
        start=times(0),
        end=times(1),
        number=np.array(_all(data, pattern)),
    )


def _mark(number: int, size: int) -> bytes:
    return _ID_MARK + number.to_bytes(size - len(_ID_MARK), "big")


def _all(data: bytes, pattern: bytes) -> list[int]:
    places: list[int] = []
    at = data.find(pattern)
    while at >= 0:
        places.append(at)
        at = data.find(pattern, at + 1)
    return places


def _add_attributes(span: PbSpan, host: int, number: int) -> None:
    """Eight: three texts, three numbers, a ratio and a flag."""
    for key, text in (
        ("rdma.src_ip", f"10.0.{host // 2}.{host % 2 + 1}"),
        ("rdma.dst_ip", f"10.0.{number % 8}.2"),
        ("collective", "allreduce"),
    ):
        span.attributes.add(key=key).value.string_value = text
    for key in ("dest_qp", "psn_first", "bytes"):
        span.attributes.add(key=key).value.int_value = _NUMBER_MARK
    span.attributes.add(key="ratio").value.double_value = number / SPANS_PER_REQUEST
    span.attributes.add(key="last").value.bool_value = bool(number % 2)
