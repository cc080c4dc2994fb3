# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages with something wrong: other numbers, missing parts, repeated parts, bytes."""

from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

NUMBERS = (0, 1, 2, 3, 7, 255, 256, 511, 512, 32767, 32768, 65535, 1 << 24, (1 << 31) - 1)
BYTES = (b"", b"\0", b"\1", b"\xff", b"\0\0\1", b"\x01\x00", b"\xff" * 9, bytes(40))
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
REPEATED_MAX = 4


def mutate(message: Message, random: Random, ids: tuple[int, ...], *, changes: int = 3) -> None:
    """Make some changes anywhere in a message. `ids`: numbers that mean something."""
    for _ in range(random.randint(1, changes)):
        _change(message, random, ids)


def _change(message: Message, random: Random, ids: tuple[int, ...]) -> None:
    fields = list(message.DESCRIPTOR.fields)
    present = [field for field, _ in message.ListFields()]
    if present and random.random() < 0.9:  # go on where something is
        deep = [field for field in present if field.message_type is not None]
        field = random.choice(deep if deep and random.random() < 0.85 else present)
    elif fields:
        field = random.choice(fields)
    else:
        return
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        message.ClearField(field.name)
        return
    if field.is_repeated:
        _change_repeated(message, field, random, ids)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if random.random() < 0.15:
            message.ClearField(field.name)
        else:
            child: Message = getattr(message, field.name)
            child.SetInParent()
            _change(child, random, ids)
    elif random.random() < 0.1:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(field, random, ids))


def _change_repeated(
    message: Message, field: FieldDescriptor, random: Random, ids: tuple[int, ...]
) -> None:
    items: Any = getattr(message, field.name)
    choice = random.random()
    if items and choice < 0.15:
        del items[random.randrange(len(items))]
    elif items and choice < 0.3 and len(items) < REPEATED_MAX:
        items.append(items[random.randrange(len(items))])
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if not items or (choice < 0.4 and len(items) < REPEATED_MAX):
            items.add()
        _change(items[random.randrange(len(items))], random, ids)
    elif items:
        items[random.randrange(len(items))] = _scalar(field, random, ids)
    else:
        items.append(_scalar(field, random, ids))


def _scalar(field: FieldDescriptor, random: Random, ids: tuple[int, ...]) -> object:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return random.random() < 0.5
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return random.choice(BYTES)
            return random.choice(("", "x", "packet_in", "\N{SNOWMAN}" * 3))
        case FieldDescriptor.CPPTYPE_ENUM:
            return random.choice((*field.enum_type.values_by_number, 99))
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return random.choice((0.0, -1.0, 1e30))
    low, high = INTEGERS[field.cpp_type]
    number = random.choice((*NUMBERS, *ids, low, high, -1))
    return min(max(number, low), high)


def damage(data: bytes, random: Random) -> bytes:
    """Bytes with some of them changed, taken away, doubled or put in."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0:
                changed[place : place + 1] = bytes([random.randrange(256)])
            case 1:
                del changed[place : place + random.randint(1, 8)]
            case 2:
                changed[place:place] = random.randbytes(random.randint(1, 8))
            case 3:
                changed[place:place] = changed[place : place + random.randint(1, 40)]
            case 4:
                del changed[place:]
    return bytes(changed)
