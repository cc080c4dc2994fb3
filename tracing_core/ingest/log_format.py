# SPDX-License-Identifier: Apache-2.0
"""The bytes of a write-ahead segment: a header, then one record a request.

    segment   magic 8 | number 8 | writer 8 | checksum 8
    record    magic 4 | body size 4 | tenant size 4 | zero 4 | received_ns 8 | checksum 8
              | tenant | body

Numbers are little-endian. A record's checksum covers its own header, tenant and body, so that a
record that was torn by a power failure, or never overwritten zeros, are not taken for one.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracing_core.otlp.wire import Bytes, checksum64

SEGMENT_MAGIC = b"TTWAL\x001\n"
_SEGMENT = struct.Struct("<8sQQQ")
SEGMENT_HEADER_SIZE = _SEGMENT.size

RECORD_MAGIC = b"ttr1"
_RECORD = struct.Struct("<4sIIIqQ")
RECORD_HEADER_SIZE = _RECORD.size

_UINT64 = 2**64 - 1


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One request as it is logged."""

    body: bytes
    tenant: str
    received_ns: int
    span_count: int = 0
    """Not logged: what the batching of inserts goes by."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A whole record in a segment: where it begins, and where its body stands."""

    start: int
    offset: int
    size: int
    tenant: str
    received_ns: int


def segment_header(number: int, writer: int) -> bytes:
    """The first bytes of a segment."""
    return _SEGMENT.pack(
        SEGMENT_MAGIC, number, writer, _checksum(number.to_bytes(8, "little"), writer)
    )


def read_segment_header(data: bytes) -> tuple[int, int] | None:
    """Number and writer; None if the header is not whole."""
    if len(data) < SEGMENT_HEADER_SIZE:
        return None
    magic, number, writer, checksum = _SEGMENT.unpack_from(data)
    whole = magic == SEGMENT_MAGIC and checksum == _checksum(number.to_bytes(8, "little"), writer)
    return (number, writer) if whole else None


def encode_record(record: LogRecord) -> bytes:
    """A record's bytes before its body."""
    tenant = record.tenant.encode()
    checksum = _record_checksum(np.frombuffer(record.body, np.uint8), tenant, record.received_ns)
    header = _RECORD.pack(
        RECORD_MAGIC, len(record.body), len(tenant), 0, record.received_ns, checksum
    )
    return header + tenant


def find_records(data: Bytes) -> Iterator[FoundRecord]:
    """All whole records of a segment, also those behind a damaged one."""
    view = data.data
    pos = SEGMENT_HEADER_SIZE
    while True:
        record = _record_at(data, view, pos)
        if record is None:
            pos = _next_magic(data, pos + 1)
            if pos < 0:
                return
            continue
        yield record
        pos = record.offset + record.size


def _record_at(data: Bytes, view: memoryview, pos: int) -> FoundRecord | None:
    if pos + RECORD_HEADER_SIZE > len(data):
        return None
    magic, size, tenant_size, _, received_ns, checksum = _RECORD.unpack_from(view, pos)
    tenant_at = pos + RECORD_HEADER_SIZE
    body_at = tenant_at + tenant_size
    if magic != RECORD_MAGIC or body_at + size > len(data):
        return None
    tenant = data[tenant_at:body_at].tobytes()
    if checksum != _record_checksum(data[body_at : body_at + size], tenant, received_ns):
        return None
    return FoundRecord(pos, body_at, size, tenant.decode(), received_ns)


def _next_magic(data: Bytes, pos: int) -> int:
    """Where the magic number stands next at or behind `pos`; -1 if nowhere."""
    rest = data[pos:]
    if len(rest) < len(RECORD_MAGIC):
        return -1
    at = rest.tobytes().find(RECORD_MAGIC)
    return -1 if at < 0 else pos + at


def _record_checksum(body: Bytes, tenant: bytes, received_ns: int) -> int:
    head = struct.pack("<II", len(body), len(tenant)) + tenant
    return int(checksum64(body, np.uint64(_checksum(head, received_ns & _UINT64)))) & _UINT64


def _checksum(data: bytes, seed: int) -> int:
    return int(checksum64(np.frombuffer(data, np.uint8), np.uint64(seed))) & _UINT64
