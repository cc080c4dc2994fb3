# SPDX-License-Identifier: Apache-2.0
"""Controller headers: P4Runtime packet metadata as the bytes in front of a CPU-port frame."""

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.bytestrings import decode_value, encode_value
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.pipeline_info import PacketMetadata


def encode_header(metadata: PacketMetadata | None, values: list[p4r.PacketMetadata]) -> bytes:
    """The controller header in front of a packet-out."""
    if metadata is None:
        if values:
            raise StateError(errors.INVALID_ARGUMENT, "the program has no packet_out header")
        return b""
    given = {item.metadata_id: item.value for item in values}
    if len(given) != len(values):
        raise StateError(errors.INVALID_ARGUMENT, "packet_out metadata stand twice")
    header = 0
    for number, name, bits in metadata.fields:
        if number not in given:
            raise StateError(errors.INVALID_ARGUMENT, f"packet_out.{name} is missing")
        header = header << bits | decode_value(given.pop(number), bits, f"packet_out.{name}")
    if given:
        raise StateError(errors.INVALID_ARGUMENT, f"no packet_out metadata {next(iter(given))}")
    return header.to_bytes(metadata.bits // 8, "big")


def decode_header(
    metadata: PacketMetadata | None, frame: bytes
) -> tuple[list[p4r.PacketMetadata], bytes]:
    """The controller header of a packet-in as metadata, and the packet behind it.

    INVALID_ARGUMENT if the frame is shorter than the header.
    """
    if metadata is None:
        return [], frame
    if len(frame) * 8 < metadata.bits:
        raise StateError(errors.INVALID_ARGUMENT, "the frame is shorter than its packet_in header")
    length = metadata.bits // 8
    header, position, values = int.from_bytes(frame[:length], "big"), metadata.bits, []
    for number, _, bits in metadata.fields:
        position -= bits
        value = header >> position & (1 << bits) - 1
        values.append(p4r.PacketMetadata(metadata_id=number, value=encode_value(value)))
    return values, frame[length:]
