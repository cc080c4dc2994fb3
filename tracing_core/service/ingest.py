# SPDX-License-Identifier: Apache-2.0
"""Takes OTLP requests of any transport: checked, kept, and only then acknowledged."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from tracing_core import otlp
from tracing_core.ingest import BusyError, Keeper
from tracing_core.model import DEFAULT_TENANT
from tracing_core.otlp.assemble import Rejections
from tracing_core.service.gate import Gate

IN_FLIGHT_BYTES_MAX = 256 * 2**20
"""Bodies held at a time, by their declared size; beyond it senders are told to slow down."""
IN_FLIGHT_REQUESTS_MAX = 512
INLINE_BYTES_MAX = 2**20
"""Smaller protobuf bodies are checked where they arrive: a fraction of a millisecond."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class IngestCounters:
    """What came in since the service started."""

    request_count: int = 0
    accepted_count: int = 0
    rejected_count: int = 0
    busy_count: int = 0
    """Requests that senders were asked to repeat."""


class Ingest:
    """What OTLP/HTTP and OTLP/gRPC have in common."""

    def __init__(
        self,
        keeper: Keeper,
        *,
        limit_bytes: int = otlp.REQUEST_LIMIT_BYTES,
        gate: Gate | None = None,
    ) -> None:
        self.keeper = keeper
        self.limit_bytes = limit_bytes
        self.gate = gate or Gate()
        self.counters = IngestCounters()
        self._in_flight_bytes = 0
        self._in_flight_count = 0

    @contextmanager
    def room(self, size_bytes: int) -> Iterator[None]:
        """Counts a request while its body is held; `BusyError` if there are too many."""
        if self._in_flight_count >= IN_FLIGHT_REQUESTS_MAX or (
            self._in_flight_count and self._in_flight_bytes + size_bytes > IN_FLIGHT_BYTES_MAX
        ):
            self.counters.busy_count += 1
            raise BusyError("too many requests at a time", overloaded=True)
        self._in_flight_count += 1
        self._in_flight_bytes += size_bytes
        try:
            yield
        finally:
            self._in_flight_count -= 1
            self._in_flight_bytes -= size_bytes

    async def take(
        self, body: bytes, content_type: str, encoding: str = "", *, tenant: str = ""
    ) -> Rejections:
        """Returns when the request's valid spans are safe; the refused ones with their reasons.

        With a `tenant` the spans are that tenant's: where a resource names another one they are
        refused.

        Raises `RequestDecodeError` for what is no trace request and `BusyError` for what was not
        kept and may come again.
        """
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[None] = loop.create_future()

        def resolve(error: Exception | None) -> None:
            if kept.done():  # the request was given up
                return
            if error is None:
                kept.set_result(None)
            else:
                kept.set_exception(error)

        def done(error: Exception | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(resolve, error)

        def keep() -> otlp.Admitted:
            plain = otlp.decompress(body, encoding, limit_bytes=self.limit_bytes)
            admitted = otlp.admit(plain, content_type)
            if tenant:
                admitted = otlp.only_of_tenant(admitted, tenant)
            self.keeper.keep(admitted, tenant=tenant or DEFAULT_TENANT, done=done)
            return admitted

        is_quick = (
            len(body) <= INLINE_BYTES_MAX
            and not encoding
            and not self.keeper.blocking
            and otlp.media_type(content_type) == otlp.CONTENT_TYPE_PROTOBUF
        )
        try:
            admitted = keep() if is_quick else await loop.run_in_executor(None, keep)
            await kept
        except BusyError as error:
            self.counters.busy_count += 1
            _log.warning("otlp_request_not_kept", reason=str(error))
            raise
        self.counters.request_count += 1
        self.counters.accepted_count += admitted.span_count
        rejections = admitted.rejections
        if rejections.total_count:
            self.counters.rejected_count += rejections.total_count
            _log.warning("otlp_spans_rejected", message=rejections.message())
        return rejections
