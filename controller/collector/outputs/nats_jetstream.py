# SPDX-License-Identifier: Apache-2.0
"""Parts as messages of a NATS JetStream subject, each stored once and confirmed by the server.

A part counts as acknowledged when the server says that it has stored it. Until then it is kept and
sent again; the `Nats-Msg-Id` header, made from the part's content, lets the server recognise a
repetition, so that a part whose confirmation was lost is stored once. What a killed collector had
sent without hearing back is in the stream once or not at all.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from controller.collector.outputs.output import (
    PART_BYTES,
    OutputCounters,
    OutputError,
    OutputSpec,
    WhenFull,
    never,
    wait_for_room,
    whole_option,
)
from controller.collector.outputs.part import Part, encode_part

IN_FLIGHT_PARTS_MAX = 64
"""Parts sent and not confirmed, 32 MiB at most: enough for 3 GB/s at 10 ms round trip."""
DUPLICATE_WINDOW_S = 600.0
"""For how long the server remembers message ids. A server that comes back later than that may
store a part again whose confirmation was lost; its id in the part's header still tells."""
CONNECT_S = 5.0
CONFIRM_S = 5.0
"""After this long without a confirmation a part is sent again."""
RETRY_S = 0.25
"""Between an attempt that failed at once and the next."""
CLOSE_S = 15.0
"""How long closing waits for confirmations."""
MESSAGE_ID = "Nats-Msg-Id"
DEFAULT_STREAM = "TEMPOTRACE"
_HEADER_BYTES = 1024
_REFUSED_MIN, _REFUSED_MAX = 400, 499
"""JetStream error codes of a message that will never be taken."""

T = TypeVar("T")


class JetStreamOutput:
    """Publishes parts from a thread of its own."""

    def __init__(
        self,
        url: str,
        subject: str,
        *,
        stream: str = DEFAULT_STREAM,
        when_full: WhenFull = WhenFull.BLOCK,
        in_flight_max: int = IN_FLIGHT_PARTS_MAX,
        replicas: int = 1,
        credentials: str | None = None,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Connect and make sure that a stream stores the subject; `OutputError` when neither is.

        The stream is made when it does not exist: file storage, no limits. One that exists is
        taken as it is, if the subject is among its own.
        """
        parts = urlsplit(url)
        self._name = f"{parts.scheme}://{parts.hostname}:{parts.port or 4222}/{subject}"
        self._subject = subject
        self._when_full = when_full
        self._monotonic_ns = monotonic_ns
        self._room = threading.Semaphore(in_flight_max)
        self._in_flight_max = in_flight_max
        self._lock = threading.Lock()
        self._counters = OutputCounters()
        self._waiting = 0
        self._closing = threading.Event()
        self._publishing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="nats-output", daemon=True
        )
        self._thread.start()
        self._client = Client()
        try:
            self._call(self._connect(url, credentials))
            self._stream: JetStreamContext = self._client.jetstream()
            self._call(self._ensure_stream(stream, replicas))
        except BaseException:
            self._disconnect()
            raise

    @classmethod
    def from_spec(cls, spec: OutputSpec) -> "JetStreamOutput":
        """As the command line names it."""
        text = spec.options.get("when_full", WhenFull.BLOCK.value)
        try:
            when_full = WhenFull(text)
        except ValueError:
            raise OutputError(
                f"output {spec.location}: when_full={text} is neither block nor drop"
            ) from None
        return cls(
            spec.location,
            spec.subject,
            stream=spec.options.get("stream", DEFAULT_STREAM),
            when_full=when_full,
            in_flight_max=whole_option(spec, "in_flight", IN_FLIGHT_PARTS_MAX, least=1),
            replicas=whole_option(spec, "replicas", 1, least=1),
            credentials=spec.options.get("creds"),
        )

    @property
    def name(self) -> str:
        """The label of its metrics: the server and the subject, without user and password."""
        return self._name

    @property
    def part_bytes_max(self) -> int:
        """What the server takes, or less."""
        return min(PART_BYTES, self._client.max_payload - _HEADER_BYTES)

    @property
    def counters(self) -> OutputCounters:
        """Totals so far."""
        with self._lock:
            return replace(self._counters, waiting_parts=self._waiting)

    def write(self, part: Part, give_up: Callable[[], bool] = never) -> None:
        """Send a part; returns before it is confirmed."""
        if not self._room.acquire(blocking=False) and not self._wait_for_room(give_up):
            with self._lock:
                self._counters = self._counters.dropped(part)
            return
        with self._lock:
            self._waiting += 1
        data = encode_part(part)
        self._loop.call_soon_threadsafe(self._begin, part, data)

    def close(self) -> None:
        """Wait for confirmations, for `CLOSE_S` at most; the rest counts as failed."""
        deadline_ns = self._monotonic_ns() + int(CLOSE_S * 1e9)
        for _place in range(self._in_flight_max):
            left_s = (deadline_ns - self._monotonic_ns()) / 1e9
            if not self._room.acquire(timeout=max(left_s, 0.0)):
                break
        self._closing.set()
        self._disconnect()

    # ------------------------------------------------------------ the caller's thread

    def _wait_for_room(self, give_up: Callable[[], bool]) -> bool:
        if self._when_full is WhenFull.DROP:
            return False
        has_room, waited_ns = wait_for_room(self._room, give_up, self._monotonic_ns)
        with self._lock:
            self._counters = self._counters.blocked(waited_ns)
        return has_room

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _disconnect(self) -> None:
        """Give up what is unconfirmed, close the connection and end the thread."""
        self._call(self._let_go())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ------------------------------------------------------------ the loop's thread

    async def _connect(self, url: str, credentials: str | None) -> None:
        newest: list[Exception] = []

        async def remember(error: Exception) -> None:
            """Why the last attempt failed; the client's own log would print each."""
            newest[:] = [error]

        try:
            await asyncio.wait_for(
                self._client.connect(
                    url,
                    user_credentials=credentials,
                    connect_timeout=CONNECT_S,  # type: ignore[arg-type]  # any number of seconds
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RETRY_S,  # type: ignore[arg-type]
                    allow_reconnect=True,
                    error_cb=remember,
                    name="tempotrace-collector",
                ),
                CONNECT_S,
            )
        except (TimeoutError, OSError, nats.errors.Error) as error:
            why = newest[0] if newest else error
            reason = str(why) or type(why).__name__
            raise OutputError(f"output {self._name}: cannot connect: {reason}") from None

    async def _ensure_stream(self, stream: str, replicas: int) -> None:
        config = StreamConfig(
            name=stream,
            subjects=[self._subject],
            storage=StorageType.FILE,
            num_replicas=replicas,
            duplicate_window=DUPLICATE_WINDOW_S,
        )
        try:
            try:
                await self._stream.find_stream_name_by_subject(self._subject)
            except NotFoundError:
                await self._stream.add_stream(config)
        except (TimeoutError, nats.errors.Error) as error:
            reason = getattr(error, "description", None) or str(error) or type(error).__name__
            raise OutputError(
                f"output {self._name}: no JetStream stream for the subject, and {stream} cannot be "
                f"made: {reason}"
            ) from None

    def _begin(self, part: Part, data: bytes) -> None:
        task = self._loop.create_task(self._publish(part, data))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish(self, part: Part, data: bytes) -> None:
        """Send until confirmed, refused for good, or closed."""
        headers = {MESSAGE_ID: part.part_id}
        attempt = 0
        done = False
        try:
            while not done and not self._closing.is_set():
                if attempt:
                    with self._lock:
                        self._counters = replace(
                            self._counters, repeated=self._counters.repeated + 1
                        )
                attempt += 1
                try:
                    ack = await self._stream.publish(
                        self._subject, data, timeout=CONFIRM_S, headers=headers
                    )
                except APIError as error:
                    if _REFUSED_MIN <= (error.code or 0) <= _REFUSED_MAX:
                        break
                    await asyncio.sleep(RETRY_S)
                except (nats.errors.MaxPayloadError, nats.errors.ConnectionClosedError):
                    break
                except (nats.errors.Error, OSError):
                    await asyncio.sleep(RETRY_S)
                else:
                    done = True
                    with self._lock:
                        self._counters = self._counters.acknowledged(
                            part, len(data), duplicate=bool(ack.duplicate)
                        )
        finally:
            with self._lock:
                self._waiting -= 1
                if not done:
                    self._counters = self._counters.failed(part)
            self._room.release()

    async def _let_go(self) -> None:
        for task in list(self._publishing):
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)
        with suppress(TimeoutError, OSError, nats.errors.Error):
            await asyncio.wait_for(self._client.close(), CONNECT_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
