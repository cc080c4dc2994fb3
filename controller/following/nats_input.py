# SPDX-License-Identifier: Apache-2.0
"""Parts of a JetStream subject, in order, as they are stored."""

import asyncio
import queue
import threading
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import Error as JetStreamError

from controller.collector.outputs.output import OutputError, OutputSpec
from controller.collector.outputs.part import Part, decode_part

CONNECT_S = 5.0
WAITING_MAX = 256
"""Messages taken from the server and not yet read: 128 MiB at most."""


class JetStreamSource:
    """Reads in a thread of its own; its consumer begins anew where a message is missing."""

    def __init__(self, spec: OutputSpec, position: tuple[int, int] = (0, 0)) -> None:
        """position: (sequence number of the stream to begin at, 0)."""
        self._subject, self._name = spec.subject, f"{spec.location}/{spec.subject}"
        self._waiting: queue.Queue[tuple[int, bytes]] = queue.Queue(WAITING_MAX)
        self._closing = threading.Event()
        self._client = Client()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="nats-input", daemon=True
        )
        self._thread.start()
        try:
            self._run(self._connect(spec.location, spec.options.get("creds"), position[0]))
        except (TimeoutError, OSError, nats.errors.Error, JetStreamError) as error:
            self.close()
            reason = getattr(error, "description", None) or str(error) or type(error).__name__
            raise OutputError(f"input {self._name}: {reason}") from None

    def take(self) -> Iterator[tuple[tuple[int, int], Part]]:
        """The parts that wait now."""
        for _ in range(WAITING_MAX):
            try:
                number, data = self._waiting.get_nowait()
            except queue.Empty:
                return
            yield (number, 0), decode_part(data, f"{self._name} message {number}")

    def close(self) -> None:
        """End the connection and the thread."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._run(self._let_go())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * CONNECT_S)

    async def _connect(self, url: str, credentials: str | None, first: int) -> None:
        await asyncio.wait_for(
            self._client.connect(
                url,
                user_credentials=credentials,
                max_reconnect_attempts=-1,
                name="tempotrace-follow",
            ),
            CONNECT_S,
        )
        config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
        if first > 0:
            config = ConsumerConfig(
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first
            )
        stream = self._client.jetstream()
        await stream.subscribe(
            self._subject, cb=self._received, ordered_consumer=True, config=config
        )

    async def _let_go(self) -> None:
        with suppress(TimeoutError, OSError, nats.errors.Error):
            await asyncio.wait_for(self._client.close(), CONNECT_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _received(self, message: Msg) -> None:
        number = message.metadata.sequence.stream
        while not self._closing.is_set():
            try:
                self._waiting.put_nowait((number, message.data))
            except queue.Full:
                await asyncio.sleep(0.01)
            else:
                return
