# SPDX-License-Identifier: Apache-2.0
"""google.rpc.Status and RetryInfo, the body of OTLP errors, in a private descriptor pool.

finsy registers its own copy of google/rpc/status.proto in the default pool; a second copy there
fails whichever comes first (design decision 9). A private pool cannot collide with it.
"""

import json
from enum import IntEnum, unique

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory
from google.protobuf.message import DecodeError, Message


@unique
class StatusCode(IntEnum):
    """The google.rpc.Code values that an OTLP receiver uses."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


def _message_classes() -> dict[str, type[Message]]:
    field = descriptor_pb2.FieldDescriptorProto
    pool = descriptor_pool.DescriptorPool()
    known = (any_pb2.DESCRIPTOR, duration_pb2.DESCRIPTOR)
    for file in known:
        copy = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(copy)
        pool.Add(copy)
    any_name, duration_name = ".google.protobuf.Any", ".google.protobuf.Duration"
    messages = {
        "Status": (
            field(name="code", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL),
            field(name="message", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL),
            field(name="details", number=3, type=field.TYPE_MESSAGE, type_name=any_name,
                  label=field.LABEL_REPEATED),
        ),
        "RetryInfo": (
            field(name="retry_delay", number=1, type=field.TYPE_MESSAGE, type_name=duration_name,
                  label=field.LABEL_OPTIONAL),
        ),
    }  # fmt: skip
    pool.Add(
        descriptor_pb2.FileDescriptorProto(
            name="tempotrace/google_rpc.proto",
            package="google.rpc",
            syntax="proto3",
            dependency=[file.name for file in known],
            message_type=[
                descriptor_pb2.DescriptorProto(name=name, field=fields)
                for name, fields in messages.items()
            ],
        )
    )
    return {
        full: message_factory.GetMessageClass(pool.FindMessageTypeByName(full))
        for full in (f"google.rpc.{name}" for name in messages)
    }


_CLASSES = _message_classes()
_RETRY_INFO_URL = "type.googleapis.com/google.rpc.RetryInfo"


def encode_status(
    code: StatusCode, message: str, *, as_json: bool = False, retry_after_s: float | None = None
) -> bytes:
    """A google.rpc.Status in the encoding of the request it answers.

    With `retry_after_s` its details hold a google.rpc.RetryInfo: the sender may come again then.
    """
    if as_json:
        body: dict[str, object] = {"code": int(code), "message": message}
        if retry_after_s is not None:
            body["details"] = [{"@type": _RETRY_INFO_URL, "retryDelay": f"{retry_after_s:g}s"}]
        return json.dumps(body).encode()
    status = _CLASSES["google.rpc.Status"](code=int(code), message=message)
    if retry_after_s is not None:
        whole_s = int(retry_after_s)
        delay = {"seconds": whole_s, "nanos": round((retry_after_s - whole_s) * 1e9)}
        info = _CLASSES["google.rpc.RetryInfo"](retry_delay=delay)
        getattr(status, "details").add(  # noqa: B009 - built at run time
            type_url=_RETRY_INFO_URL, value=info.SerializeToString()
        )
    return status.SerializeToString()


def decode_status(body: bytes) -> tuple[int, str]:
    """Code and message of a protobuf google.rpc.Status."""
    status = _CLASSES["google.rpc.Status"]()
    try:
        status.ParseFromString(body)
    except DecodeError as error:
        raise ValueError(f"body is not a google.rpc.Status: {error}") from error
    return getattr(status, "code"), getattr(status, "message")  # noqa: B009 - built at run time
