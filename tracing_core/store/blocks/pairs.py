# SPDX-License-Identifier: Apache-2.0
"""The attributes of all spans, filed into one map column per type."""

import numpy as np
from numpy.typing import NDArray

from correction.compiled import compiled
from tracing_core.otlp.wire import Bytes, signed
from tracing_core.store.blocks import native
from tracing_core.store.blocks.intern import Numbered, number_texts, text_column
from tracing_core.store.blocks.native import Column
from tracing_core.store.blocks.tables import (
    BOOL,
    DOUBLE,
    INT,
    OTHER,
    PAIR_KEY,
    PAIR_TYPE,
    PAIR_TYPES,
    PAIR_VALUE,
    STRING,
    Numbers,
)

_COLUMNS = (
    (STRING, "attributes_string", "String"),
    (INT, "attributes_int", "Int64"),
    (DOUBLE, "attributes_double", "Float64"),
    (BOOL, "attributes_bool", "Bool"),
    (OTHER, "attributes_other", "String"),
)


@compiled
def _file_pairs(
    pairs: Numbers, ends: Numbers, keys: NDArray[np.uint32], starts: Numbers,
    type_ends: NDArray[np.uint64], key_out: NDArray[np.uint32], value_out: Numbers,
    size_out: Numbers,
) -> None:  # fmt: skip
    """A counting sort by type that keeps the order, and the row ends of each type."""
    at = starts.copy()
    pair = 0
    for row in range(len(ends)):
        while pair < ends[row]:
            kind = pairs[pair, PAIR_TYPE]
            number = pairs[pair, PAIR_VALUE]
            if kind == BOOL and number:
                number = 1
            place = at[kind]
            key_out[place] = keys[pair]
            value_out[place], size_out[place] = number, pairs[pair, PAIR_VALUE + 1]
            at[kind] = place + 1
            pair += 1
        for kind in range(PAIR_TYPES):
            type_ends[kind, row] = np.uint64(at[kind] - starts[kind])


@compiled
def _find_marks(
    pairs: Numbers, ends: Numbers, keys: NDArray[np.uint32], job: int, step: int,
    job_pair: Numbers, step_value: Numbers,
) -> None:  # fmt: skip
    """The attributes that the trace list knows: a span's job (its pair) and step."""
    pair = 0
    for row in range(len(ends)):
        job_pair[row], step_value[row] = -1, -1
        while pair < ends[row]:
            key = signed(keys[pair])
            if key == job and pairs[pair, PAIR_TYPE] == STRING:
                job_pair[row] = pair
            elif key == step and pairs[pair, PAIR_TYPE] == INT:
                step_value[row] = pairs[pair, PAIR_VALUE]
            pair += 1


class Attributes:
    """All attributes of a batch; `ends` holds the number of pairs up to each row's end."""

    def __init__(self, buf: Bytes, pairs: Numbers, ends: Numbers) -> None:
        self._buf = buf
        self._pairs = pairs
        self._ends = np.ascontiguousarray(ends)
        self._keys: Numbered = number_texts(buf, pairs, PAIR_KEY)

    def columns(self) -> list[Column]:
        """A map column per type."""
        counts = np.bincount(self._pairs[:, PAIR_TYPE], minlength=PAIR_TYPES)
        starts = np.cumsum(counts) - counts
        ends = np.empty((PAIR_TYPES, len(self._ends)), np.uint64)
        count = len(self._pairs)
        key, value, size = (
            np.empty(count, np.uint32),
            np.empty(count, np.int64),
            np.empty(count, np.int64),
        )
        _file_pairs(
            self._pairs, self._ends, self._keys.index, starts, ends, key, value, size,
        )  # fmt: skip
        columns = []
        for kind, name, type_name in _COLUMNS:
            chosen = slice(starts[kind], starts[kind] + counts[kind])
            data: NDArray[np.generic] = value[chosen]
            if kind in (STRING, OTHER):
                data = text_column(self._buf, value[chosen], size[chosen])
            elif kind == BOOL:
                data = value[chosen].astype(np.uint8)
            columns.append(
                native.low_cardinality_map(
                    name, type_name, ends[kind], self._keys.keys, key[chosen], data
                )
            )
        return columns

    def marks(self, job_key: bytes, step_key: bytes) -> tuple[Numbered, Numbers, Numbers]:
        """The jobs' names, and per span the number of its name and its step, -1 without one."""
        rows = len(self._ends)
        job_pair, step = np.empty(rows, np.int64), np.empty(rows, np.int64)
        texts = self._keys.keys.texts()
        _find_marks(
            self._pairs, self._ends, self._keys.index, texts.get(job_key, -1),
            texts.get(step_key, -1), job_pair, step,
        )  # fmt: skip
        with_job = np.flatnonzero(job_pair >= 0)
        values = self._pairs[job_pair[with_job]]
        names = number_texts(self._buf, values, PAIR_VALUE)
        job = np.full(rows, -1, np.int64)
        job[with_job] = names.index
        return names, job, step
