# SPDX-License-Identifier: Apache-2.0
"""What an attribute search asks the index for: the hash that `decode` gave the attribute."""

import struct

import numpy as np

from tracing_core.otlp.wire import hash_bytes
from tracing_core.store.blocks.index import BOOL, DOUBLE, INT, STRING
from tracing_core.store.blocks.pairs import attribute_hash

AttributeScalar = str | int | float | bool

_UINT64 = 2**64 - 1


def attribute_column(value: AttributeScalar) -> tuple[str, str]:
    """The typed column that holds such a value, and the type of a query's parameter."""
    match value:
        case bool():
            return "attributes_bool", "Bool"
        case str():
            return "attributes_string", "String"
        case int():
            return "attributes_int", "Int64"
        case _:
            return "attributes_double", "Float64"


def attribute_search_hash(key: str, value: AttributeScalar) -> int:
    """The 32-bit hash of a key with a value of this type."""
    match value:
        case bool():
            kind, code = BOOL, int(value)
        case str():
            kind, code = STRING, _hash(value)
        case int():
            kind, code = INT, value & _UINT64
        case _:
            kind, code = DOUBLE, int.from_bytes(struct.pack("<d", value), "little")
    return int(attribute_hash(np.uint64(_hash(key)), kind, np.uint64(code)))


def _hash(text: str) -> int:
    data = text.encode()
    padded = np.frombuffer(data + bytes(8), np.uint8)
    return int(hash_bytes(padded, 0, len(data), np.uint64(0))) & _UINT64
