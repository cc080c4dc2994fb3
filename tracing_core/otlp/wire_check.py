# SPDX-License-Identifier: Apache-2.0
"""Whether a protobuf trace request is canonical and all its spans are valid, without objects.

One walk over the bytes, driven by a table of OTLP's messages. It says yes only to what the
store's decoder reads exactly as protobuf would: fields with their own wire type, singular fields
at most once, one member per AnyValue, text in UTF-8, ids and stamps in range. Everything else -
unusual as well as wrong - takes the slow path through protobuf objects (`admit`), so a "no" costs
time and nothing more.
"""

from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

from correction.compiled import compiled, inlined
from tracing_core.otlp.wire import (
    WIRE_BYTES,
    WIRE_FIXED32,
    WIRE_FIXED64,
    WIRE_VARINT,
    Bytes,
    load64,
    signed,
)

DEPTH_MAX = 90
"""Nesting of messages. Protobuf's own parser stops at 100, and what is kept must be read again."""

NOT_CANONICAL = -1

_FIELDS_MAX = 17  # one more than the highest field number of any OTLP trace message


@unique
class _Kind(IntEnum):
    """What a field's bytes must be."""

    UNKNOWN = 0
    VARINT = 1
    FIXED64 = 2
    FIXED32 = 3
    TIME = 4
    BYTES = 5
    TEXT = 6
    TRACE_ID = 7
    SPAN_ID = 8
    PARENT_ID = 9
    MESSAGE = 10  # + the child's message number


@unique
class _Message(IntEnum):
    REQUEST = 0
    RESOURCE_SPANS = 1
    RESOURCE = 2
    KEY_VALUE = 3
    ANY_VALUE = 4
    ARRAY = 5
    KEY_VALUES = 6
    SCOPE_SPANS = 7
    SCOPE = 8
    SPAN = 9
    EVENT = 10
    LINK = 11
    STATUS = 12


_REPEATED = 64
_M, _K = _Message, _Kind


def _child(message: _Message, *, repeated: bool = False) -> int:
    return _K.MESSAGE + message + (_REPEATED if repeated else 0)


_FIELDS: dict[_Message, dict[int, int]] = {
    _M.REQUEST: {1: _child(_M.RESOURCE_SPANS, repeated=True)},
    _M.RESOURCE_SPANS: {
        1: _child(_M.RESOURCE),
        2: _child(_M.SCOPE_SPANS, repeated=True),
        3: _K.TEXT,
    },
    _M.RESOURCE: {1: _child(_M.KEY_VALUE, repeated=True), 2: _K.VARINT},
    _M.KEY_VALUE: {1: _K.TEXT, 2: _child(_M.ANY_VALUE)},
    _M.ANY_VALUE: {
        1: _K.TEXT,
        2: _K.VARINT,
        3: _K.VARINT,
        4: _K.FIXED64,
        5: _child(_M.ARRAY),
        6: _child(_M.KEY_VALUES),
        7: _K.BYTES,
    },
    _M.ARRAY: {1: _child(_M.ANY_VALUE, repeated=True)},
    _M.KEY_VALUES: {1: _child(_M.KEY_VALUE, repeated=True)},
    _M.SCOPE_SPANS: {1: _child(_M.SCOPE), 2: _child(_M.SPAN, repeated=True), 3: _K.TEXT},
    _M.SCOPE: {1: _K.TEXT, 2: _K.TEXT, 3: _child(_M.KEY_VALUE, repeated=True), 4: _K.VARINT},
    _M.SPAN: {
        1: _K.TRACE_ID,
        2: _K.SPAN_ID,
        3: _K.TEXT,
        4: _K.PARENT_ID,
        5: _K.TEXT,
        6: _K.VARINT,
        7: _K.TIME,
        8: _K.TIME,
        9: _child(_M.KEY_VALUE, repeated=True),
        10: _K.VARINT,
        11: _child(_M.EVENT, repeated=True),
        12: _K.VARINT,
        13: _child(_M.LINK, repeated=True),
        14: _K.VARINT,
        15: _child(_M.STATUS),
        16: _K.FIXED32,
    },
    _M.EVENT: {1: _K.TIME, 2: _K.TEXT, 3: _child(_M.KEY_VALUE, repeated=True), 4: _K.VARINT},
    _M.LINK: {
        1: _K.TRACE_ID,
        2: _K.SPAN_ID,
        3: _K.TEXT,
        4: _child(_M.KEY_VALUE, repeated=True),
        5: _K.VARINT,
        6: _K.FIXED32,
    },
    _M.STATUS: {2: _K.TEXT, 3: _K.VARINT},
}


def _table() -> NDArray[np.uint8]:
    table = np.zeros(len(_Message) * _FIELDS_MAX, np.uint8)
    for message, fields in _FIELDS.items():
        for number, kind in fields.items():
            table[message * _FIELDS_MAX + number] = kind
    return table


_TABLE = _table()

# The members of the enums as plain numbers, for the compiler.
_ANY_VALUE, _SPAN, _LINK = int(_M.ANY_VALUE), int(_M.SPAN), int(_M.LINK)
_VARINT, _FIXED64, _FIXED32, _TIME = (
    int(_K.VARINT),
    int(_K.FIXED64),
    int(_K.FIXED32),
    int(_K.TIME),
)
_TEXT, _TRACE_ID, _SPAN_ID, _PARENT_ID = (
    int(_K.TEXT),
    int(_K.TRACE_ID),
    int(_K.SPAN_ID),
    int(_K.PARENT_ID),
)
_MESSAGE = int(_K.MESSAGE)
_PAIR = _MESSAGE + int(_M.KEY_VALUE)
_IDS = 0b110
"""Fields 1 and 2: both ids of a span or a link."""


_HIGH_BITS = np.uint64(0x8080808080808080)


@compiled
def is_utf8(buf: Bytes, start: int, end: int) -> bool:
    """Whether buf[start:end] is UTF-8 (RFC 3629: shortest form, no surrogates)."""
    pos = start
    while pos + 8 <= end and load64(buf, pos) & _HIGH_BITS == 0:
        pos += 8
    while pos < end and buf[pos] < 128:
        pos += 1
    while pos < end:
        lead = buf[pos]
        pos += 1
        if lead < 0x80:
            continue
        low, top = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                top = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                top = 0x8F
        else:
            return False
        if pos + more > end or not low <= buf[pos] <= top:
            return False
        for i in range(pos + 1, pos + more):
            if buf[i] & 0xC0 != 0x80:
                return False
        pos += more
    return True


@inlined
def _checked_varint(buf: Bytes, pos: int, end: int) -> tuple[np.uint64, int]:
    """A varint within bounds; position -1 when it is cut off, too long or beyond 64 bits."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while pos < end:
        byte = buf[pos]
        pos += 1
        if shift == np.uint64(63) and byte > 1:
            return value, -1
        value |= np.uint64(byte & 127) << shift
        if byte < 128:
            return value, pos
        shift += np.uint64(7)
    return value, -1


@inlined
def _any_set(buf: Bytes, start: int, end: int) -> bool:
    bits = np.uint8(0)
    for pos in range(start, end):
        bits |= buf[pos]
    return bool(bits != 0)


@compiled
def _bytes_fit(buf: Bytes, kind: int, pos: int, stop: int) -> bool:
    """Whether the bytes of a length-delimited scalar are what its field holds."""
    size = stop - pos
    if kind == _TEXT:
        return is_utf8(buf, pos, stop)
    if kind == _TRACE_ID:
        return bool(size == 16 and _any_set(buf, pos, stop))
    if kind == _SPAN_ID:
        return bool(size == 8 and _any_set(buf, pos, stop))
    if kind == _PARENT_ID:
        return bool(size == 0 or size == 8)
    return True


@inlined
def _is_ascii(buf: Bytes, pos: int, end: int) -> bool:
    while pos + 8 <= end:
        if load64(buf, pos) & _HIGH_BITS:
            return False
        pos += 8
    while pos < end:
        if buf[pos] >= 128:
            return False
        pos += 1
    return True


@inlined
def _is_plain_pair(buf: Bytes, pos: int, stop: int) -> bool:
    """Whether buf[pos:stop] is the usual KeyValue: short ASCII key, then one scalar member.

    A shortcut for what most of a request consists of; the table decides about all others.
    """
    if stop - pos < 6 or buf[pos] != 0x0A or buf[pos + 1] >= 128:
        return False
    value = pos + 2 + signed(buf[pos + 1])
    if value + 4 > stop or not _is_ascii(buf, pos + 2, value):
        return False
    if buf[value] != 0x12 or buf[value + 1] >= 128 or value + 2 + signed(buf[value + 1]) != stop:
        return False
    member = buf[value + 2]
    if member == 0x0A:  # string_value
        size = signed(buf[value + 3])
        return bool(size < 128 and value + 4 + size == stop and _is_ascii(buf, value + 4, stop))
    if member == 0x18 or member == 0x10:  # int_value, bool_value
        if stop - value > 12:  # the tenth byte of a varint takes the table's checks
            return False
        for i in range(value + 3, stop - 1):
            if buf[i] < 128:
                return False
        return bool(buf[stop - 1] < 128)
    return bool(member == 0x21 and value + 11 == stop)  # double_value


@compiled
def _check(buf: Bytes, start: int, stop: int, table: NDArray[np.uint8]) -> int:
    ends = np.empty(DEPTH_MAX, np.int64)
    kinds = np.empty(DEPTH_MAX, np.int64)
    seen = np.empty(DEPTH_MAX, np.uint32)
    depth = 0
    ends[0], kinds[0], seen[0] = stop, 0, 0
    span_count = 0
    pos = start
    while True:
        while pos == ends[depth]:
            if kinds[depth] == _SPAN:
                span_count += 1
                if seen[depth] & _IDS != _IDS:
                    return NOT_CANONICAL
            elif kinds[depth] == _LINK and seen[depth] & _IDS != _IDS:
                return NOT_CANONICAL
            if depth == 0:
                return span_count
            depth -= 1
        end = ends[depth]
        message = kinds[depth]
        tag = signed(buf[pos])
        pos += 1
        if tag >= 128:
            long_tag, pos = _checked_varint(buf, pos - 1, end)
            if pos < 0 or long_tag >> np.uint64(32):
                return NOT_CANONICAL
            tag = signed(long_tag)
        number = tag >> 3
        wire = tag & 7
        if number == 0:
            return NOT_CANONICAL
        code = signed(table[message * _FIELDS_MAX + number]) if number < _FIELDS_MAX else 0
        if code == 0 and message == _ANY_VALUE:
            return NOT_CANONICAL
        if code and code < _REPEATED:
            # An AnyValue is a oneof: its members share one bit.
            bit = np.uint32(1) if message == _ANY_VALUE else np.uint32(1) << np.uint32(number)
            if seen[depth] & bit:
                return NOT_CANONICAL
            seen[depth] |= bit
        kind = code & (_REPEATED - 1)
        if wire == WIRE_VARINT:
            if kind not in (0, _VARINT):
                return NOT_CANONICAL
            _, pos = _checked_varint(buf, pos, end)
            if pos < 0:
                return NOT_CANONICAL
        elif wire == WIRE_BYTES:
            if pos < end and buf[pos] < 128:
                size = signed(buf[pos])
                pos += 1
            else:
                long_size, pos = _checked_varint(buf, pos, end)
                if pos < 0 or long_size >> np.uint64(62):
                    return NOT_CANONICAL
                size = signed(long_size)
            inner_stop = pos + size
            if inner_stop > end:
                return NOT_CANONICAL
            if kind >= _MESSAGE:
                if kind == _PAIR and _is_plain_pair(buf, pos, inner_stop):
                    pos = inner_stop
                    continue
                depth += 1
                if depth == DEPTH_MAX:
                    return NOT_CANONICAL
                ends[depth], kinds[depth], seen[depth] = inner_stop, kind - _MESSAGE, 0
                continue
            if kind and (kind < 5 or not _bytes_fit(buf, kind, pos, inner_stop)):
                return NOT_CANONICAL
            pos = inner_stop
        elif wire == WIRE_FIXED64:
            if kind not in (0, _FIXED64, _TIME) or end - pos < 8:
                return NOT_CANONICAL
            if kind == _TIME and buf[pos + 7] >= 128:
                return NOT_CANONICAL
            pos += 8
        elif wire == WIRE_FIXED32:
            if kind not in (0, _FIXED32) or end - pos < 4:
                return NOT_CANONICAL
            pos += 4
        else:
            return NOT_CANONICAL


def count_canonical_spans(body: bytes) -> int:
    """Number of spans of a canonical request with valid spans only, else `NOT_CANONICAL`."""
    return int(_check(np.frombuffer(body, np.uint8), 0, len(body), _TABLE))
