# SPDX-License-Identifier: Apache-2.0
"""Pages of lists: opaque cursors that name the last item shown, not a number of items.

A list has one documented order. A page begins behind the item that the cursor names, so items that
arrive meanwhile are shown once or not yet, and none is shown twice. `next_cursor` stands in the
answer and in a `Link` header (RFC 8288); it is null on the last page.
"""

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Generic, TypeVar

from fastapi import HTTPException, Query, Request, Response

from tracing_core.service.json_text import read_json

T = TypeVar("T")
Key = tuple[str | int | float, ...]
"""What items are ordered by, unique to each."""

CURSOR_CHARS_MAX = 4096
_VERSION = 1

Cursor = Annotated[
    str,
    Query(
        max_length=CURSOR_CHARS_MAX,
        description="`next_cursor` of the page before, of the same list; the other parameters stay"
        " as they were. 400 for one that is not.",
    ),
]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items of one page, and the cursor of the next one."""

    items: Sequence[T]
    next_cursor: str | None


def encode_cursor(kind: str, key: Key) -> str:
    """A cursor behind the item with this key in the list `kind`."""
    text = json.dumps([_VERSION, kind, *key], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, kind: str, types: Sequence[type]) -> Key | None:
    """The key in a cursor of the list `kind`, None for the first page; else 400."""
    if not cursor:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        body = base64.b64decode(padded, altchars=b"-_", validate=True)
        values = read_json(body.decode())
    except (binascii.Error, ValueError) as error:
        raise _bad("it is not a cursor") from error
    if not isinstance(values, list) or len(values) != 2 + len(types):
        raise _bad("it is not a cursor of this list")
    if values[0] != _VERSION or values[1] != kind:
        raise _bad("it is not a cursor of this list")
    key = values[2:]
    for value, wanted in zip(key, types, strict=True):
        beyond = isinstance(value, int) and not -(2**63) <= value < 2**63
        if type(value) is not wanted or beyond:
            raise _bad("it is not a cursor of this list")
    return tuple(key)


def _bad(reason: str) -> HTTPException:
    return HTTPException(
        HTTPStatus.BAD_REQUEST, f"cursor: expected next_cursor of this list; {reason}"
    )


def page_of(
    items: Sequence[T], *, kind: str, key: Callable[[T], Key], after: Key | None, limit: int
) -> Page[T]:
    """A page of a list that is all there, ordered by `key`."""
    first = 0 if after is None else bisect_right(items, after, key=key)
    return page_of_more(items[first : first + limit + 1], kind=kind, key=key, limit=limit)


def page_of_more(items: Sequence[T], *, kind: str, key: Callable[[T], Key], limit: int) -> Page[T]:
    """A page of items that were read behind its cursor, one more than `limit` if there are."""
    shown = items[:limit]
    more = len(items) > limit
    return Page(shown, encode_cursor(kind, key(shown[-1])) if more and shown else None)


def link_next(request: Request, response: Response, next_cursor: str | None) -> str | None:
    """Names the next page in a Link header; returns the cursor for the answer's body."""
    if next_cursor is not None:
        query = request.url.include_query_params(cursor=next_cursor).query
        path = request.scope.get("raw_path", b"").decode("ascii").partition("?")[0]
        response.headers["Link"] = f'<{path or request.url.path}?{query}>; rel="next"'
    return next_cursor
