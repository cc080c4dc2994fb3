# SPDX-License-Identifier: Apache-2.0
"""Who keeps an admitted request, and tells when it is safe."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from tracing_core.otlp import Admitted
from tracing_core.store import SpanStore, StoreClosedError, StoreError
from tracing_core.store.blocks import Batch, Record
from tracing_core.store.segments import segment_number

Done = Callable[[Exception | None], None]
"""Called once from another thread: with None when the request is safe, else with the reason."""

RETRY_AFTER_S = 1.0
"""Told to a sender that meets a service with no room; SDKs add their own back-off."""


class BusyError(RuntimeError):
    """The request was not kept and may be sent again after `retry_after_s`."""

    def __init__(
        self, message: str, *, retry_after_s: float = RETRY_AFTER_S, overloaded: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.overloaded = overloaded
        """This sender, or all of them, send too fast; else the service itself has a problem."""


class Keeper(Protocol):
    """Keeps requests; many threads may call it."""

    blocking: bool
    """Whether `keep` waits for the store: call it from a worker thread then."""

    def keep(self, admitted: Admitted, *, tenant: str, done: Done) -> None:
        """Takes a request, or raises `BusyError` at once. `tenant` is that of resources that
        name none."""

    def settle(self, timeout_s: float) -> bool:
        """Waits until what is safe by now can also be queried, if that is soon."""


class DirectKeeper:
    """Stores each request and then says that it is safe: for tests and small loads."""

    blocking = True

    def __init__(self, spans: SpanStore, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._spans = spans
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._segment = 0

    def keep(self, admitted: Admitted, *, tenant: str, done: Done) -> None:
        """Stores the request before it returns."""
        now_ns = self._now_ns()
        with self._lock:
            self._segment = segment_number(now_ns, 1, self._segment)
            segment = self._segment
        record = Record(offset=0, size=len(admitted.body), received_ns=now_ns, tenant=tenant)
        batch = Batch(np.frombuffer(admitted.body, np.uint8), [record], segment)
        try:
            if admitted.span_count:
                self._spans.insert(batch, token=str(segment))
        except (StoreError, StoreClosedError) as error:
            raise BusyError(f"the store does not take spans now: {error}") from error
        done(None)

    def settle(self, timeout_s: float) -> bool:
        """Nothing is safe that cannot be queried."""
        del timeout_s
        return True
