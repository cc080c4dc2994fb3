# SPDX-License-Identifier: Apache-2.0
"""What a process does once before it takes requests."""

import ctypes

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracing_core.model import DEFAULT_TENANT
from tracing_core.otlp import CONTENT_TYPE_PROTOBUF, admit, only_of_tenant
from tracing_core.store.blocks import Batch, Record, build_blocks

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MMAP_BYTES = 1 << 30
_TRIM_BYTES = 256 << 20


def warm_up() -> None:
    """Compiles what has not been compiled yet: seconds, the first time on a machine."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id = b"t" * 16, b"s" * 8
    admitted = admit(request.SerializeToString(), CONTENT_TYPE_PROTOBUF)
    body = only_of_tenant(admitted, DEFAULT_TENANT).body
    record = Record(offset=0, size=len(body), received_ns=0, tenant=DEFAULT_TENANT)
    list(build_blocks(Batch(np.frombuffer(body, np.uint8), [record], 1)))


def keep_freed_memory() -> None:
    """Lets glibc keep freed memory for the next batch instead of giving it back at once.

    Each batch allocates and frees the same tens of megabytes; asking the kernel for fresh pages
    every time cost as much as filling them. Without glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    for option, value in (
        (_M_ARENA_MAX, 1),
        (_M_MMAP_THRESHOLD, _MMAP_BYTES),
        (_M_TRIM_THRESHOLD, _TRIM_BYTES),
    ):
        mallopt(option, value)
