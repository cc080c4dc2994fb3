# SPDX-License-Identifier: Apache-2.0
"""ClickHouse's Native format: a block is its columns, each with name, type and values.

What is written here is what `INSERT ... FORMAT Native` takes from any client: strings with a
varint length, arrays as end offsets followed by the values of all rows, LowCardinality as a
dictionary with additional keys and indices as narrow as the dictionary allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LOW_CARDINALITY_PREFIX = (1).to_bytes(8, "little")
"""Key version: shared dictionaries with additional keys."""
_LOW_CARDINALITY_STATE = 1 << 9 | 1 << 10
"""The keys follow, and they replace the dictionary. The two lowest bits are the index's width."""


Part = bytes | NDArray[Any]


def varint(value: int) -> bytes:
    """An unsigned LEB128 number."""
    if value < 128:
        return value.to_bytes(1, "little")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def strings(values: Sequence[bytes]) -> bytes:
    """The data of a String column."""
    return b"".join(varint(len(value)) + value for value in values)


@dataclass(frozen=True, slots=True)
class Keys:
    """The dictionary of a LowCardinality column."""

    count: int
    data: bytes

    @classmethod
    def of(cls, values: Sequence[bytes]) -> "Keys":
        """From the values themselves, in order of their index."""
        return cls(len(values), strings(values))

    def texts(self) -> dict[bytes, int]:
        """Each entry's number; for small dictionaries."""
        found: dict[bytes, int] = {}
        pos = 0
        while pos < len(self.data):
            size, shift = 0, 0
            while True:
                byte = self.data[pos]
                pos += 1
                size |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            found[self.data[pos : pos + size]] = len(found)
            pos += size
        return found


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what precedes the values of all its parts, then the values."""

    name: str
    type_name: str
    prefix: bytes
    parts: tuple[Part, ...]


def plain(name: str, type_name: str, values: NDArray[Any] | bytes) -> Column:
    """A column of numbers or fixed strings, or a String column's data."""
    return Column(name, type_name, b"", (_contiguous(values),))


def low_cardinality(name: str, keys: Keys, index: NDArray[np.uint32]) -> Column:
    """A LowCardinality(String) column."""
    return Column(name, "LowCardinality(String)", _LOW_CARDINALITY_PREFIX, _indexed(keys, index))


def array(
    name: str, type_name: str, ends: NDArray[np.uint64], values: NDArray[Any] | bytes
) -> Column:
    """An Array column: the end of each row's values, and all values."""
    return Column(
        name, f"Array({type_name})", b"", (np.ascontiguousarray(ends), _contiguous(values))
    )


def low_cardinality_array(
    name: str, ends: NDArray[np.uint64], keys: Keys, index: NDArray[np.uint32]
) -> Column:
    """An Array(LowCardinality(String)) column."""
    return Column(
        name,
        "Array(LowCardinality(String))",
        _LOW_CARDINALITY_PREFIX,
        (np.ascontiguousarray(ends), *_indexed(keys, index)),
    )


def low_cardinality_map(
    name: str,
    value_type: str,
    ends: NDArray[np.uint64],
    keys: Keys,
    index: NDArray[np.uint32],
    values: NDArray[Any] | bytes,
) -> Column:
    """A Map(LowCardinality(String), value_type) column."""
    return Column(
        name,
        f"Map(LowCardinality(String), {value_type})",
        _LOW_CARDINALITY_PREFIX,
        (np.ascontiguousarray(ends), *_indexed(keys, index), _contiguous(values)),
    )


def block(row_count: int, columns: Sequence[Column]) -> list[Part]:
    """The whole block in parts, to be written one after the other. It has at least one row."""
    parts: list[Part] = [varint(len(columns)), varint(row_count)]
    for column in columns:
        name, type_name = column.name.encode(), column.type_name.encode()
        parts += (varint(len(name)), name, varint(len(type_name)), type_name, column.prefix)
        parts += column.parts
    return parts


def _contiguous(values: Part) -> Part:
    return values if isinstance(values, bytes) else np.ascontiguousarray(values)


def _indexed(keys: Keys, index: NDArray[np.uint32]) -> tuple[Part, ...]:
    if len(index) == 0:
        return ()  # nothing follows the prefix of an empty column
    width = 0 if keys.count <= 1 << 8 else 1 if keys.count <= 1 << 16 else 2
    narrow = index.astype((np.uint8, np.uint16, np.uint32)[width], copy=False)
    return (
        (_LOW_CARDINALITY_STATE | width).to_bytes(8, "little"),
        keys.count.to_bytes(8, "little"),
        keys.data,
        len(index).to_bytes(8, "little"),
        narrow,
    )
