# SPDX-License-Identifier: Apache-2.0
"""Whose spans a request holds, told from its resources' bytes."""

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from correction.compiled import compiled, inlined
from tracing_core.model import RESOURCE_TENANT
from tracing_core.otlp.admit import Admitted, rewritten
from tracing_core.otlp.assemble import RejectReason, SpanRejectedError, tenant_of_resource
from tracing_core.otlp.wire import (
    WIRE_BYTES,
    WIRE_FIXED64,
    WIRE_VARINT,
    Bytes,
    read_varint,
    signed,
)

_KEY = np.frombuffer(RESOURCE_TENANT.encode(), np.uint8)
_FIRST, _SECOND = 1, 2
"""Field numbers: resource_spans, resource, attributes, key and string_value are 1; value is 2."""


def only_of_tenant(admitted: Admitted, tenant: str) -> Admitted:
    """The request without the spans whose resource names another tenant; those are refused."""
    wanted = np.frombuffer(tenant.encode(), np.uint8)
    if not _names_another(np.frombuffer(admitted.body, np.uint8), _KEY, wanted):
        return admitted
    request = ExportTraceServiceRequest.FromString(admitted.body)
    rejections = admitted.rejections
    error = SpanRejectedError(RejectReason.OTHER_TENANT)
    for number in reversed(range(len(request.resource_spans))):
        resource_spans = request.resource_spans[number]
        if tenant_of_resource(resource_spans.resource) in ("", tenant):
            continue
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                rejections.add(error, span.name)
        del request.resource_spans[number]
    return rewritten(request, rejections)


@inlined
def _equal(buf: Bytes, start: int, stop: int, wanted: Bytes) -> bool:
    if stop - start != len(wanted):
        return False
    for i in range(len(wanted)):  # noqa: SIM110 - compiled
        if buf[start + i] != wanted[i]:
            return False
    return True


@inlined
def _next_field(buf: Bytes, pos: int) -> tuple[int, int, int]:
    """Number, start and stop of a field's value; the number is 0 if it is not a message or text."""
    tag, pos = read_varint(buf, pos)
    wire = signed(tag & np.uint64(7))
    if wire == WIRE_BYTES:
        size, pos = read_varint(buf, pos)
        return signed(tag >> np.uint64(3)), pos, pos + signed(size)
    if wire == WIRE_VARINT:
        _, stop = read_varint(buf, pos)
        return 0, pos, stop
    return 0, pos, pos + (8 if wire == WIRE_FIXED64 else 4)


@compiled
def _resource_names_another(buf: Bytes, pos: int, end: int, key: Bytes, wanted: Bytes) -> bool:
    """Whether the last text among a resource's attributes of that key is another tenant's name."""
    another = False
    while pos < end:
        field, pair, pair_end = _next_field(buf, pos)
        pos = pair_end
        if field != _FIRST:
            continue
        is_tenant = False
        value, value_end = 0, 0
        while pair < pair_end:
            part, start, stop = _next_field(buf, pair)
            if part == _FIRST:
                is_tenant = _equal(buf, start, stop, key)
            elif part == _SECOND:
                value, value_end = start, stop
            pair = stop
        if not is_tenant:
            continue
        while value < value_end:
            member, start, stop = _next_field(buf, value)
            if member == _FIRST:
                another = stop > start and not _equal(buf, start, stop, wanted)
            value = stop
    return another


@compiled
def _names_another(buf: Bytes, key: Bytes, wanted: Bytes) -> bool:
    """Whether any resource of a canonical request names another tenant than the wanted one."""
    pos = 0
    while pos < len(buf):
        field, part, group_end = _next_field(buf, pos)
        pos = group_end
        if field != _FIRST:
            continue
        while part < group_end:
            member, start, stop = _next_field(buf, part)
            if member == _FIRST and _resource_names_another(buf, start, stop, key, wanted):
                return True
            part = stop
    return False
