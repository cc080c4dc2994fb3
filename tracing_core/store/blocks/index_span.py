# SPDX-License-Identifier: Apache-2.0
"""One span's row of the index, with its attributes, events and links."""

import numpy as np

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
from tracing_core.store.blocks.tables import (
    BOOL,
    DOUBLE,
    DROPPED_ATTRIBUTES,
    END,
    EVENT_BODY,
    EVENT_COLUMNS,
    EVENT_NAME,
    EVENT_TIME,
    EVENTS_END,
    FLAGS,
    INT,
    KIND,
    LINK_COLUMNS,
    LINKS_END,
    NAME,
    NO_OFFSET,
    OF_EVENTS,
    OF_LINKS,
    OF_PAIRS,
    OTHER,
    PAIR_COLUMNS,
    PAIR_KEY,
    PAIR_TYPE,
    PAIR_VALUE,
    PAIRS_END,
    PARENT_SPAN_ID,
    SPAN_COLUMNS,
    SPAN_ID,
    START,
    STATUS_CODE,
    STATUS_MESSAGE,
    STRING,
    TRACE_ID,
    TRACE_STATE,
    Numbers,
)


@inlined
def skip(buf: Bytes, pos: int, wire: int) -> int:
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
def read_size(buf: Bytes, pos: int) -> tuple[int, int]:
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
            pairs[row + PAIR_KEY + 1], pos = read_size(buf, pos + 1)
            pairs[row + PAIR_KEY] = pos
            pos += pairs[row + PAIR_KEY + 1]
        elif tag == 0x12:
            size, value = read_size(buf, pos + 1)
            value_stop = value + size
            pos = value_stop
        else:
            long_tag, pos = read_varint(buf, pos)
            pos = skip(buf, pos, signed(long_tag & np.uint64(7)))
    member = buf[value] if value < value_stop else np.uint8(0)
    if member == 0x0A:
        pairs[row + PAIR_TYPE] = STRING
        pairs[row + PAIR_VALUE + 1], pairs[row + PAIR_VALUE] = read_size(buf, value + 1)
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
            events[row + EVENT_NAME + 1], pos = read_size(buf, pos)
            events[row + EVENT_NAME] = pos
            pos += events[row + EVENT_NAME + 1]
        else:
            events[row + EVENT_BODY + 1] = body_size
            pos = skip(buf, pos, signed(tag & np.uint64(7)))


@compiled
def _index_status(buf: Bytes, pos: int, stop: int, spans: Numbers, row: int) -> None:
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 0x12:
            spans[row + STATUS_MESSAGE + 1], pos = read_size(buf, pos)
            spans[row + STATUS_MESSAGE] = pos
            pos += spans[row + STATUS_MESSAGE + 1]
        elif tag == 0x18:
            code, pos = read_varint(buf, pos)
            spans[row + STATUS_CODE] = signed(min(code, np.uint64(255)))
        else:
            pos = skip(buf, pos, signed(tag & np.uint64(7)))


@compiled
def index_span(
    buf: Bytes, pos: int, stop: int, spans: Numbers, row: int, pairs: Numbers, events: Numbers,
    links: Numbers, sizes: Numbers,
) -> None:  # fmt: skip
    for column in range(row, row + SPAN_COLUMNS):
        spans[column] = 0
    spans[row + PARENT_SPAN_ID] = NO_OFFSET
    pair_count = sizes[OF_PAIRS]
    while pos < stop:
        tag = signed(buf[pos])
        pos += 1
        if tag >= 128:
            long_tag, pos = read_varint(buf, pos - 1)
            tag = signed(long_tag)
        if tag == 0x4A:
            size, pos = read_size(buf, pos)
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
            size, pos = read_size(buf, pos)
            if size:
                spans[row + PARENT_SPAN_ID] = pos
            pos += size
        elif tag == 0x2A or tag == 0x1A:
            column = NAME if tag == 0x2A else TRACE_STATE
            size, pos = read_size(buf, pos)
            spans[row + column], spans[row + column + 1] = pos, size
            pos += size
        elif tag == 0x30:
            number, pos = read_varint(buf, pos)
            spans[row + KIND] = signed(number) if number <= 5 else 0
        elif tag == 0x39 or tag == 0x41:
            spans[row + (START if tag == 0x39 else END)] = signed(load64(buf, pos))
            pos += 8
        elif tag == 0x5A:
            size, pos = read_size(buf, pos)
            _index_event(buf, pos, pos + size, events, sizes[OF_EVENTS] * EVENT_COLUMNS)
            sizes[OF_EVENTS] += 1
            pos += size
        elif tag == 0x6A:
            size, pos = read_size(buf, pos)
            link = sizes[OF_LINKS] * LINK_COLUMNS
            links[link], links[link + 1] = pos, size
            sizes[OF_LINKS] += 1
            pos += size
        elif tag == 0x7A:
            size, pos = read_size(buf, pos)
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
            pos = skip(buf, pos, tag & 7)
    sizes[OF_PAIRS] = pair_count
    spans[row + PAIRS_END], spans[row + EVENTS_END], spans[row + LINKS_END] = (
        pair_count,
        sizes[OF_EVENTS],
        sizes[OF_LINKS],
    )
