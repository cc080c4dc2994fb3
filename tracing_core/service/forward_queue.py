# SPDX-License-Identifier: Apache-2.0
"""Requests that wait to be passed on. Pure: time is an argument, nothing is sent here."""

from collections import deque
from dataclasses import dataclass

QUEUE_BYTES_MAX = 64 * 2**20
"""As much as one request may have at most. Beyond it senders are asked to come again later."""


@dataclass(slots=True, kw_only=True)
class ForwardCounters:
    """What became of requests and spans since the start."""

    request_count: int = 0
    """Delivered requests."""
    span_count: int = 0
    """Spans in them."""
    rejected_span_count: int = 0
    """Spans that the receiver refused, by its partial success."""
    refused_request_count: int = 0
    """Requests that the receiver will never take, and that were dropped."""
    repetition_count: int = 0
    full_count: int = 0
    """Requests that senders were asked to repeat, since the queue was full."""
    lost_request_count: int = 0
    """Still waiting when the service ended."""
    last_error: str = ""


class ForwardQueue:
    """First in, first out; each request waits `hold_s` for corrections, and for its turn."""

    def __init__(self, *, hold_s: float = 0.0, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._hold_s = hold_s
        self._bytes_max = bytes_max
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether another request may come; one that is longer than the room left still may."""
        return self.size_bytes < self._bytes_max

    def put(self, body: bytes, now_s: float) -> None:
        """Appends a request."""
        self._waiting.append((now_s + self._hold_s, body))
        self.size_bytes += len(body)

    def due(self, now_s: float) -> tuple[bytes | None, float | None]:
        """The request whose turn it is, or None and how long that takes; None: nothing waits."""
        if not self._waiting:
            return None, None
        due_s, body = self._waiting[0]
        return (body, 0.0) if due_s <= now_s else (None, due_s - now_s)

    def remove(self) -> None:
        """Takes out the first request, delivered or not."""
        _, body = self._waiting.popleft()
        self.size_bytes -= len(body)
