# SPDX-License-Identifier: Apache-2.0
"""One walk over checked trace requests that notes where everything stands; nothing is copied.

The requests are canonical (`otlp.wire_check`), so no bound is tested again. Field numbers are
those of opentelemetry/proto/trace/v1/trace.proto; a tag is 8 * number + wire type.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from correction.compiled import compiled, inlined
from tracing_core.otlp.wire import (
    WIRE_BYTES,
    WIRE_FIXED64,
    WIRE_VARINT,
    Bytes,
    load32,
    load64,
    read_varint,
    signed,
)

Numbers = NDArray[np.int64]

# Columns of `Index.spans`, one row a span. An offset comes with the size behind it.
SCOPE, KIND, START, END, STATUS_CODE, FLAGS = 0, 1, 2, 3, 4, 5
DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS = 6, 7, 8
NAME, TRACE_STATE, STATUS_MESSAGE = 9, 11, 13
TRACE_ID, SPAN_ID, PARENT_SPAN_ID = 15, 16, 17
PAIRS_END, EVENTS_END, LINKS_END = 18, 19, 20
SPAN_COLUMNS = 21

# Columns of `Index.pairs`, one row an attribute: the type, where the key stands, and the value:
# a number, or for text and raw values where it stands.
PAIR_TYPE, PAIR_KEY, PAIR_VALUE = 0, 1, 3
PAIR_COLUMNS = 5
STRING, INT, DOUBLE, BOOL, OTHER = 0, 1, 2, 3, 4
"""Types of attributes; arrays, lists of pairs, bytes and nothing at all are OTHER."""
PAIR_TYPES = 5

# Columns of `Index.events`; the body is empty if it says no more than name and time.
EVENT_TIME, EVENT_NAME, EVENT_BODY = 0, 1, 3
EVENT_COLUMNS = 5
LINK_COLUMNS = 2

# Columns of `Index.resources` and `Index.scopes`: the record or resource that it is in, where its
# message stands, and its schema URL.
OWNER, BODY, SCHEMA_URL = 0, 1, 3
GROUP_COLUMNS = 5

NO_OFFSET = -1


class Index(NamedTuple):
    """The tables, cut to the rows that are used."""

    spans: Numbers
    pairs: Numbers
    events: Numbers
    links: Numbers
    resources: Numbers
    scopes: Numbers


_SPANS, _PAIRS, _EVENTS, _LINKS, _RESOURCES, _SCOPES = 0, 1, 2, 3, 4, 5

_SPAN_BYTES_LEAST = 30
"""Two tags, two lengths and both ids, in a message with a tag and a length."""
_ENTRY_BYTES_LEAST = 2
"""Any other message that is a table's row has at least a tag and a length."""


@inlined
def _skip(buf: Bytes, pos: int, wire: int) -> int:
    """The position behind a field's value."""
    if wire == WIRE_VARINT:
        while buf[pos] >= 128:
            pos += 1
        return pos + 1
    if wire == WIRE_BYTES:
        size, pos = read_varint(buf, pos)
        return pos + signed(size)
    return pos + (8 if wire == WIRE_FIXED64 else 4)


@inlined
def _read_size(buf: Bytes, pos: int) -> tuple[int, int]:
    """A length and the position behind it."""
    size, pos = read_varint(buf, pos)
    return signed(size), pos


@inlined
def _index_pair(buf: Bytes, pos: int, stop: int, pairs: Numbers, row: int) -> None:
    """One KeyValue. Tables are flat here: a view of each row would cost more than filling it."""
    pairs[row + PAIR_KEY], pairs[row + PAIR_KEY + 1] = pos, 0
    value, value_stop = pos, pos
    while pos < stop:
        tag = buf[pos]
        if tag == 0x0A:
            pairs[row + PAIR_KEY + 1], pos = _read_size(buf, pos + 1)
            pairs[row + PAIR_KEY] = pos
            pos += pairs[row + PAIR_KEY + 1]
        elif tag == 0x12:
            size, value = _read_size(buf, pos + 1)
            value_stop = value + size
            pos = value_stop
        else:
            long_tag, pos = read_varint(buf, pos)
            pos = _skip(buf, pos, signed(long_tag & np.uint64(7)))
    member = buf[value] if value < value_stop else np.uint8(0)
    if member == 0x0A:
        pairs[row + PAIR_TYPE] = STRING
        pairs[row + PAIR_VALUE + 1], pairs[row + PAIR_VALUE] = _read_size(buf, value + 1)
    elif member == 0x18 or member == 0x10:
        pairs[row + PAIR_TYPE] = INT if member == 0x18 else BOOL
        number, _ = read_varint(buf, value + 1)
        pairs[row + PAIR_VALUE] = signed(number)
    elif member == 0x21:
        pairs[row + PAIR_TYPE] = DOUBLE
        pairs[row + PAIR_VALUE] = signed(load64(buf, value + 1))
    else:
        pairs[row + PAIR_TYPE] = OTHER
        pairs[row + PAIR_VALUE], pairs[row + PAIR_VALUE + 1] = value, value_stop - value


@compiled
def _index_event(buf: Bytes, pos: int, stop: int, events: Numbers, row: int) -> None:
    events[row + EVENT_TIME] = 0
    events[row + EVENT_NAME], events[row + EVENT_NAME + 1] = pos, 0
    events[row + EVENT_BODY], events[row + EVENT_BODY + 1] = pos, 0
    body_size = stop - pos
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 0x09:
            events[row + EVENT_TIME] = signed(load64(buf, pos))
            pos += 8
        elif tag == 0x12:
            events[row + EVENT_NAME + 1], pos = _read_size(buf, pos)
            events[row + EVENT_NAME] = pos
            pos += events[row + EVENT_NAME + 1]
        else:
            events[row + EVENT_BODY + 1] = body_size
            pos = _skip(buf, pos, signed(tag & np.uint64(7)))


@compiled
def _index_status(buf: Bytes, pos: int, stop: int, spans: Numbers, row: int) -> None:
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 0x12:
            spans[row + STATUS_MESSAGE + 1], pos = _read_size(buf, pos)
            spans[row + STATUS_MESSAGE] = pos
            pos += spans[row + STATUS_MESSAGE + 1]
        elif tag == 0x18:
            code, pos = read_varint(buf, pos)
            spans[row + STATUS_CODE] = signed(min(code, np.uint64(255)))
        else:
            pos = _skip(buf, pos, signed(tag & np.uint64(7)))


@compiled
def _index_span(
    buf: Bytes, pos: int, stop: int, spans: Numbers, row: int, pairs: Numbers, events: Numbers,
    links: Numbers, sizes: Numbers,
) -> None:  # fmt: skip
    for column in range(row, row + SPAN_COLUMNS):
        spans[column] = 0
    spans[row + PARENT_SPAN_ID] = NO_OFFSET
    pair_count = sizes[_PAIRS]
    while pos < stop:
        tag = signed(buf[pos])
        pos += 1
        if tag >= 128:
            long_tag, pos = read_varint(buf, pos - 1)
            tag = signed(long_tag)
        if tag == 0x4A:
            size, pos = _read_size(buf, pos)
            _index_pair(buf, pos, pos + size, pairs, pair_count * PAIR_COLUMNS)
            pair_count += 1
            pos += size
        elif tag == 0x0A:
            spans[row + TRACE_ID] = pos + 1
            pos += 17
        elif tag == 0x12:
            spans[row + SPAN_ID] = pos + 1
            pos += 9
        elif tag == 0x22:
            size, pos = _read_size(buf, pos)
            if size:
                spans[row + PARENT_SPAN_ID] = pos
            pos += size
        elif tag == 0x2A or tag == 0x1A:
            column = NAME if tag == 0x2A else TRACE_STATE
            size, pos = _read_size(buf, pos)
            spans[row + column], spans[row + column + 1] = pos, size
            pos += size
        elif tag == 0x30:
            number, pos = read_varint(buf, pos)
            spans[row + KIND] = signed(number) if number <= 5 else 0
        elif tag == 0x39 or tag == 0x41:
            spans[row + (START if tag == 0x39 else END)] = signed(load64(buf, pos))
            pos += 8
        elif tag == 0x5A:
            size, pos = _read_size(buf, pos)
            _index_event(buf, pos, pos + size, events, sizes[_EVENTS] * EVENT_COLUMNS)
            sizes[_EVENTS] += 1
            pos += size
        elif tag == 0x6A:
            size, pos = _read_size(buf, pos)
            link = sizes[_LINKS] * LINK_COLUMNS
            links[link], links[link + 1] = pos, size
            sizes[_LINKS] += 1
            pos += size
        elif tag == 0x7A:
            size, pos = _read_size(buf, pos)
            _index_status(buf, pos, pos + size, spans, row)
            pos += size
        elif tag == 0x85:  # field 16: the two-byte tag 0x85 0x01
            spans[row + FLAGS] = signed(load32(buf, pos))
            pos += 4
        elif tag == 0x50 or tag == 0x60 or tag == 0x70:
            number, pos = read_varint(buf, pos)
            column = DROPPED_ATTRIBUTES + (tag - 0x50 >> 4)
            spans[row + column] = signed(number & np.uint64(0xFFFFFFFF))
        else:
            pos = _skip(buf, pos, tag & 7)
    sizes[_PAIRS] = pair_count
    spans[row + PAIRS_END], spans[row + EVENTS_END], spans[row + LINKS_END] = (
        pair_count,
        sizes[_EVENTS],
        sizes[_LINKS],
    )


@inlined
def _begin_group(groups: Numbers, row: int, owner: int, pos: int) -> None:
    groups[row + OWNER] = owner
    groups[row + BODY], groups[row + BODY + 1] = pos, 0
    groups[row + SCHEMA_URL], groups[row + SCHEMA_URL + 1] = pos, 0


@inlined
def _note_group(groups: Numbers, row: int, tag: np.uint64, pos: int, size: int) -> None:
    """Field 1 is the resource's or scope's message, field 3 the URL."""
    column = BODY if tag == 0x0A else SCHEMA_URL
    groups[row + column], groups[row + column + 1] = pos, size


@compiled
def _index_scope_spans(
    buf: Bytes, pos: int, stop: int, resource: int, spans: Numbers, pairs: Numbers,
    events: Numbers, links: Numbers, scopes: Numbers, sizes: Numbers,
) -> None:  # fmt: skip
    scope = sizes[_SCOPES]
    sizes[_SCOPES] += 1
    _begin_group(scopes, scope * GROUP_COLUMNS, resource, pos)
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 0x12:
            size, pos = _read_size(buf, pos)
            row = sizes[_SPANS] * SPAN_COLUMNS
            _index_span(buf, pos, pos + size, spans, row, pairs, events, links, sizes)
            spans[row + SCOPE] = scope
            sizes[_SPANS] += 1
            pos += size
        elif tag == 0x0A or tag == 0x1A:
            size, pos = _read_size(buf, pos)
            _note_group(scopes, scope * GROUP_COLUMNS, tag, pos, size)
            pos += size
        else:
            pos = _skip(buf, pos, signed(tag & np.uint64(7)))


@compiled
def _index_resource_spans(
    buf: Bytes, pos: int, stop: int, record: int, spans: Numbers, pairs: Numbers, events: Numbers,
    links: Numbers, resources: Numbers, scopes: Numbers, sizes: Numbers,
) -> None:  # fmt: skip
    resource = sizes[_RESOURCES]
    sizes[_RESOURCES] += 1
    _begin_group(resources, resource * GROUP_COLUMNS, record, pos)
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 0x12:
            size, pos = _read_size(buf, pos)
            _index_scope_spans(
                buf, pos, pos + size, resource, spans, pairs, events, links, scopes, sizes
            )
            pos += size
        elif tag == 0x0A or tag == 0x1A:
            size, pos = _read_size(buf, pos)
            _note_group(resources, resource * GROUP_COLUMNS, tag, pos, size)
            pos += size
        else:
            pos = _skip(buf, pos, signed(tag & np.uint64(7)))


@compiled
def _index_records(
    buf: Bytes, records: Numbers, spans: Numbers, pairs: Numbers, events: Numbers,
    links: Numbers, resources: Numbers, scopes: Numbers, sizes: Numbers,
) -> None:  # fmt: skip
    for record in range(len(records)):
        pos = records[record, 0]
        stop = pos + records[record, 1]
        while pos < stop:
            tag, pos = read_varint(buf, pos)
            if tag == 0x0A:
                size, pos = _read_size(buf, pos)
                _index_resource_spans(
                    buf, pos, pos + size, record, spans, pairs, events, links, resources, scopes,
                    sizes,
                )  # fmt: skip
                pos += size
            else:
                pos = _skip(buf, pos, signed(tag & np.uint64(7)))


def index_requests(buf: Bytes, records: Numbers) -> Index:
    """The tables of the requests that stand at `records` (offset, size), cut to their sizes.

    They are allocated for the most rows that so many bytes can hold: memory that is never written
    takes no room.
    """
    size = int(records[:, 1].sum())

    def room(bytes_least: int, columns: int) -> Numbers:
        return np.empty((size // bytes_least + 1) * columns, np.int64)

    sizes = np.zeros(6, np.int64)
    columns = (
        SPAN_COLUMNS,
        PAIR_COLUMNS,
        EVENT_COLUMNS,
        LINK_COLUMNS,
        GROUP_COLUMNS,
        GROUP_COLUMNS,
    )
    spans = room(_SPAN_BYTES_LEAST, SPAN_COLUMNS)
    pairs, events, links, resources, scopes = (
        room(_ENTRY_BYTES_LEAST, count) for count in columns[1:]
    )
    _index_records(buf, records, spans, pairs, events, links, resources, scopes, sizes)
    tables = (spans, pairs, events, links, resources, scopes)
    used = zip(tables, columns, sizes.tolist(), strict=True)
    return Index(*(table[: rows * count].reshape(rows, count) for table, count, rows in used))
