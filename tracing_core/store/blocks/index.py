# SPDX-License-Identifier: Apache-2.0
"""One walk over checked trace requests that notes where everything stands; nothing is copied.

The requests are canonical (`otlp.wire_check`), so no bound is tested again. Field numbers are
those of opentelemetry/proto/trace/v1/trace.proto; a tag is 8 * number + wire type.
"""

import numpy as np

from correction.compiled import compiled, inlined
from tracing_core.otlp.wire import (
    Bytes,
    read_varint,
    signed,
)
from tracing_core.store.blocks.index_span import index_span, read_size, skip
from tracing_core.store.blocks.tables import (
    BODY,
    EVENT_COLUMNS,
    GROUP_COLUMNS,
    LINK_COLUMNS,
    OF_RESOURCES,
    OF_SCOPES,
    OF_SPANS,
    OWNER,
    PAIR_COLUMNS,
    SCHEMA_URL,
    SCOPE,
    SPAN_COLUMNS,
    Index,
    Numbers,
    Room,
)

_SPAN_BYTES_LEAST = 30
"""Two tags, two lengths and both ids, in a message with a tag and a length."""
_ENTRY_BYTES_LEAST = 2
"""Any other message that is a table's row has at least a tag and a length."""


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
    scope = sizes[OF_SCOPES]
    sizes[OF_SCOPES] += 1
    _begin_group(scopes, scope * GROUP_COLUMNS, resource, pos)
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 0x12:
            size, pos = read_size(buf, pos)
            row = sizes[OF_SPANS] * SPAN_COLUMNS
            index_span(buf, pos, pos + size, spans, row, pairs, events, links, sizes)
            spans[row + SCOPE] = scope
            sizes[OF_SPANS] += 1
            pos += size
        elif tag == 0x0A or tag == 0x1A:
            size, pos = read_size(buf, pos)
            _note_group(scopes, scope * GROUP_COLUMNS, tag, pos, size)
            pos += size
        else:
            pos = skip(buf, pos, signed(tag & np.uint64(7)))


@compiled
def _index_resource_spans(
    buf: Bytes, pos: int, stop: int, record: int, spans: Numbers, pairs: Numbers, events: Numbers,
    links: Numbers, resources: Numbers, scopes: Numbers, sizes: Numbers,
) -> None:  # fmt: skip
    resource = sizes[OF_RESOURCES]
    sizes[OF_RESOURCES] += 1
    _begin_group(resources, resource * GROUP_COLUMNS, record, pos)
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 0x12:
            size, pos = read_size(buf, pos)
            _index_scope_spans(
                buf, pos, pos + size, resource, spans, pairs, events, links, scopes, sizes
            )
            pos += size
        elif tag == 0x0A or tag == 0x1A:
            size, pos = read_size(buf, pos)
            _note_group(resources, resource * GROUP_COLUMNS, tag, pos, size)
            pos += size
        else:
            pos = skip(buf, pos, signed(tag & np.uint64(7)))


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
                size, pos = read_size(buf, pos)
                _index_resource_spans(
                    buf, pos, pos + size, record, spans, pairs, events, links, resources, scopes,
                    sizes,
                )  # fmt: skip
                pos += size
            else:
                pos = skip(buf, pos, signed(tag & np.uint64(7)))


_COLUMNS = (
    SPAN_COLUMNS, PAIR_COLUMNS, EVENT_COLUMNS, LINK_COLUMNS, GROUP_COLUMNS, GROUP_COLUMNS,
)  # fmt: skip


def index_requests(buf: Bytes, records: Numbers, room: Room) -> Index:
    """The tables of the requests that stand at `records` (offset, size), cut to their sizes.

    They stand in `room` and are valid until it is used again.
    """
    size = int(records[:, 1].sum())
    sizes = np.zeros(len(_COLUMNS), np.int64)
    tables = [
        room.table(
            number,
            size // (_SPAN_BYTES_LEAST if number == OF_SPANS else _ENTRY_BYTES_LEAST) + 1,
            columns,
        )
        for number, columns in enumerate(_COLUMNS)
    ]
    spans, pairs, events, links, resources, scopes = tables
    _index_records(buf, records, spans, pairs, events, links, resources, scopes, sizes)
    used = zip(tables, _COLUMNS, sizes.tolist(), strict=True)
    return Index(*(table[: rows * count].reshape(rows, count) for table, count, rows in used))
