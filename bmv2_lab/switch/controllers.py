# SPDX-License-Identifier: Apache-2.0
"""The open streams of a switch: arbitration, and what is sent to which controller."""

import asyncio
from collections.abc import Callable, Iterable

from finsy.proto import U128, p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.arbitration import Arbitration, ArbitrationUpdate
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.roles import RoleConfig, role_key, role_message

# Messages waiting for one slow controller; further ones are dropped and counted.
STREAM_QUEUE_LIMIT = 1024
# Streams of one switch, announced or not.
STREAM_TOTAL_LIMIT = 256

_TEXTS = {
    errors.OK: "Is primary",
    errors.ALREADY_EXISTS: "Is backup",
    errors.NOT_FOUND: "There is no primary",
}

# A message, an error that ends the stream, or None for its regular end.
StreamItem = p4r.StreamMessageResponse | StateError | None


class Controllers:
    """Streams by number, each with a queue of what is to be sent."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.arbitration = Arbitration()
        self.dropped_messages = 0
        self.on_new_primary: Callable[[], None] | None = None
        self._queues: dict[int, asyncio.Queue[StreamItem]] = {}
        self._next = 1

    def open(self) -> tuple[int, "asyncio.Queue[StreamItem]"]:
        """A stream begins; RESOURCE_EXHAUSTED if there are too many."""
        if len(self._queues) >= STREAM_TOTAL_LIMIT:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"More than {STREAM_TOTAL_LIMIT} streams")
        number = self._next
        self._next += 1
        queue = self._queues[number] = asyncio.Queue()
        return number, queue

    def close(self, stream: int) -> None:
        """A stream has ended."""
        del self._queues[stream]
        self._send_updates(self.arbitration.close(stream))

    def arbitrate(self, stream: int, message: p4r.MasterArbitrationUpdate) -> None:
        """A controller announces itself, or announces itself anew."""
        if message.device_id != self.device_id:
            known = self.arbitration.is_announced(stream)
            code = errors.FAILED_PRECONDITION if known else errors.NOT_FOUND
            raise StateError(code, f"Unknown device id {message.device_id}")
        name = role_key(message.role.name, message.role.id)
        config = message.role.config if message.role.HasField("config") else None
        election_id = U128.decode(message.election_id) if message.HasField("election_id") else None
        was_primary = self.arbitration.is_primary(stream)
        updates = self.arbitration.request(stream, name, election_id, config)
        self._send_updates(updates)
        if self.arbitration.is_primary(stream) and not was_primary and self.on_new_primary:
            self.on_new_primary()

    def send(self, stream: int, message: p4r.StreamMessageResponse) -> None:
        """Queue a message; it is dropped where too many wait."""
        queue = self._queues.get(stream)
        if queue is None:
            return
        if queue.qsize() >= STREAM_QUEUE_LIMIT:
            self.dropped_messages += 1
            return
        queue.put_nowait(message)

    def send_to_primaries(
        self, message: p4r.StreamMessageResponse, wants: Callable[[RoleConfig], bool]
    ) -> None:
        """Queue a message for the primary of each role whose configuration wants it."""
        for stream, rights in self.arbitration.primaries():
            if rights is None or wants(rights):
                self.send(stream, message)

    def send_error(self, stream: int, error: StateError, request: p4r.StreamMessageRequest) -> None:
        """Tell a controller that one of its messages was not carried out."""
        message = p4r.StreamMessageResponse()
        message.error.canonical_code = error.code
        message.error.message = error.message
        match request.WhichOneof("update"):
            case "packet":
                message.error.packet_out.packet_out.CopyFrom(request.packet)
            case "digest_ack":
                message.error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
            case "other":
                message.error.other.other.CopyFrom(request.other)
        self.send(stream, message)

    def _send_updates(self, updates: Iterable[ArbitrationUpdate]) -> None:
        for update in updates:
            message = p4r.StreamMessageResponse()
            arbitration = message.arbitration
            arbitration.device_id = self.device_id
            role = role_message(update.role)
            if role is not None:
                arbitration.role.CopyFrom(role)
            if update.config is not None:
                arbitration.role.config.CopyFrom(update.config)
            if update.election_id is not None:
                arbitration.election_id.CopyFrom(U128.encode(update.election_id))
            arbitration.status.code = update.code
            arbitration.status.message = _TEXTS[update.code]
            self.send(update.stream, message)
