# SPDX-License-Identifier: Apache-2.0
"""Frames in and out of simple_switch_grpc through its data plane service, without interfaces.

The switch serves it where it is started with `--dp-grpc-server-addr`. Its end of a stream comes
only when no packet is left inside the switch: one stream per frame tells exactly which frames that
one caused, and that there are no more.
"""

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "p4.bm"
METHOD = f"/{PACKAGE}.DataplaneInterface/PacketStream"
DEADLINE_S = 20.0

_FIELDS = (
    ("id", 1, "uint64"),
    ("device_id", 2, "uint64"),
    ("port", 3, "uint32"),
    ("packet", 4, "bytes"),
)


def _message_class(name: str) -> Any:
    """The message of BMv2's service; a pool of its own keeps it apart from all other messages."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=f"bmv2_{name}.proto", package=PACKAGE, syntax="proto3"
    )
    message = file.message_type.add(name=name)
    for field_name, number, kind in _FIELDS:
        message.field.add(
            name=field_name,
            number=number,
            type=getattr(field, f"TYPE_{kind.upper()}"),
            label=field.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


_REQUEST = _message_class("PacketStreamRequest")
_RESPONSE = _message_class("PacketStreamResponse")


class Dataplane:
    """The data plane of one running switch."""

    def __init__(self, address: str, device_id: int) -> None:
        self._device_id = device_id
        self._channel = grpc.insecure_channel(address)
        self._stream = self._channel.stream_stream(
            METHOD,
            request_serializer=_REQUEST.SerializeToString,
            response_deserializer=_RESPONSE.FromString,
        )

    def send(self, frames: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Put (port, frame) rows in and wait for everything that comes out, as (port, frame)."""
        requests: Iterator[Any] = iter(
            [_REQUEST(device_id=self._device_id, port=port, packet=frame) for port, frame in frames]
        )
        answers = self._stream(requests, timeout=DEADLINE_S)
        return [(answer.port, bytes(answer.packet)) for answer in answers]

    def close(self) -> None:
        """End the connection."""
        self._channel.close()
