# SPDX-License-Identifier: Apache-2.0
"""Trace and span ids of a large run: a hash of what the span is, so that they need no storage."""

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Uint64s = NDArray[np.uint64]

_KINDS = {"step": 1, "allreduce": 2, "send": 3, "recv": 4}
_INDEX_BITS = 40
_STEP_BITS = 20


def _splitmix(value: Uint64s) -> Uint64s:
    """The output function of SplitMix64: a bijection, so that distinct spans differ."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def span_ids(seed: int, step: int, kind: str, index: Int64s) -> Uint64s:
    """Ids of spans: `index` is the flow of a transfer, the NIC of a rank, the job of a step."""
    assert 0 <= step < 1 << _STEP_BITS, "the step has its own bits"
    value = index.astype(np.uint64) | np.uint64(step << _INDEX_BITS)
    value |= np.uint64(_KINDS[kind] << (_INDEX_BITS + _STEP_BITS))
    start = _splitmix(np.array([(seed * 0x9E3779B97F4A7C15 + 1) % (1 << 64)], np.uint64))
    ids = _splitmix(value ^ start[0])
    return np.where(ids == 0, np.uint64(1), ids)


def trace_ids(seed: int, jobs: Int64s, step: int) -> list[str]:
    """32 hex digits per job: one trace per job and step."""
    high = span_ids(seed, step, "step", jobs + (1 << 30))
    low = span_ids(seed, step, "step", jobs + (1 << 31))
    return [f"{a:016x}{b:016x}" for a, b in zip(high.tolist(), low.tolist(), strict=True)]
