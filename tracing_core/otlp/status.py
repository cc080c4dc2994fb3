# SPDX-License-Identifier: Apache-2.0
"""google.rpc.Status, the body of every OTLP error, built in a private descriptor pool.

finsy registers its own copy of google/rpc/status.proto in the default pool; a second copy there
fails whichever comes first (design decision 9). A private pool cannot collide with it.
"""

import json
from enum import IntEnum, unique

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message


@unique
class StatusCode(IntEnum):
    """The google.rpc.Code values that an OTLP receiver uses."""

    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


def _status_class() -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    any_file = descriptor_pb2.FileDescriptorProto()
    any_pb2.DESCRIPTOR.CopyToProto(any_file)
    pool.Add(any_file)
    field = descriptor_pb2.FieldDescriptorProto
    status_file = descriptor_pb2.FileDescriptorProto(
        name="google/rpc/status.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=[any_file.name],
        message_type=[
            descriptor_pb2.DescriptorProto(
                name="Status",
                field=[
                    field(
                        name="code",
                        number=1,
                        type=field.TYPE_INT32,
                        label=field.LABEL_OPTIONAL,
                    ),
                    field(
                        name="message",
                        number=2,
                        type=field.TYPE_STRING,
                        label=field.LABEL_OPTIONAL,
                    ),
                    field(
                        name="details",
                        number=3,
                        type=field.TYPE_MESSAGE,
                        type_name=".google.protobuf.Any",
                        label=field.LABEL_REPEATED,
                    ),
                ],
            )
        ],
    )
    pool.Add(status_file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status"))


_STATUS = _status_class()


def encode_status(code: StatusCode, message: str, *, as_json: bool) -> bytes:
    """A google.rpc.Status in the encoding of the request it answers."""
    if as_json:
        return json.dumps({"code": int(code), "message": message}).encode()
    return _STATUS(code=int(code), message=message).SerializeToString()


def decode_status(body: bytes) -> tuple[int, str]:
    """Code and message of a protobuf google.rpc.Status."""
    status = _STATUS()
    try:
        status.ParseFromString(body)
    except DecodeError as error:
        raise ValueError(f"body is not a google.rpc.Status: {error}") from error
    return getattr(status, "code"), getattr(status, "message")  # noqa: B009 - built at run time
