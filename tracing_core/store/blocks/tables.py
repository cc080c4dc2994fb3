# SPDX-License-Identifier: Apache-2.0
"""Where everything stands in a batch of requests: tables of numbers, and the memory they use."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

OF_SPANS, OF_PAIRS, OF_EVENTS, OF_LINKS, OF_RESOURCES, OF_SCOPES = 0, 1, 2, 3, 4, 5
"""Where each table's number of rows stands while they are filled, in the order of `Index`."""


class Index(NamedTuple):
    """The tables, cut to the rows that are used."""

    spans: Numbers
    pairs: Numbers
    events: Numbers
    links: Numbers
    resources: Numbers
    scopes: Numbers


class Room:
    """Memory for the tables, used again for the next requests.

    Tables are made for the most rows that so many bytes can hold. What is never written takes no
    memory, but fresh pages each time would cost as much as filling them.
    """

    def __init__(self) -> None:
        self._tables: dict[int, Numbers] = {}

    def table(self, number: int, rows: int, columns: int) -> Numbers:
        """Of at least so many elements; what it held before is lost."""
        kept = self._tables.get(number)
        if kept is None or len(kept) < rows * columns:
            kept = self._tables[number] = np.empty(rows * columns, np.int64)
        return kept
