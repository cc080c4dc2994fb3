# SPDX-License-Identifier: Apache-2.0
"""One batch of report datagrams in one flat buffer: what receivers hand to the decoder.

The receiver writes datagrams straight into the buffer and their places into the arrays; nothing is
copied and no object is made per datagram. The arrays are as long as the batch may become, `count`
says how many rows are in use, so that one batch can be filled again and again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.telemetry.codec import Buffer
from controller.telemetry.collector import UNKNOWN_DESTINATION, Destination


@dataclass(slots=True)
class ReportBatch:
    """Report datagrams (UDP payloads) in one buffer, in the order in which they arrived."""

    buffer: NDArray[np.uint8]
    """Flat; payloads may lie anywhere in it, with gaps."""
    start: NDArray[np.int64]
    """Offset of each UDP payload."""
    byte_count: NDArray[np.int32]
    """Its length."""
    capture_collector_ns: NDArray[np.int64]
    destination: NDArray[np.int32]
    """Row in `destinations`."""
    count: int = 0
    """Rows in use."""
    destinations: list[Destination] = field(default_factory=lambda: [UNKNOWN_DESTINATION])
    _arrays: tuple[NDArray[Any] | None, ...] = field(
        default=(None, None, None, None, None), repr=False, compare=False
    )
    _addresses: tuple[int, int, int, int, int] = field(
        default=(0, 0, 0, 0, 0), repr=False, compare=False
    )

    @classmethod
    def empty(cls, *, rows: int, buffer_bytes: int) -> "ReportBatch":
        """Room for `rows` datagrams of `buffer_bytes` together."""
        return cls(
            buffer=np.zeros(buffer_bytes, np.uint8),
            start=np.zeros(rows, np.int64),
            byte_count=np.zeros(rows, np.int32),
            capture_collector_ns=np.zeros(rows, np.int64),
            destination=np.zeros(rows, np.int32),
        )

    def addresses(self) -> tuple[int, int, int, int, int]:
        """Where buffer, start, byte_count, capture_collector_ns and destination lie.

        Asking numpy takes a microsecond each, so that a batch that is filled again remembers.
        """
        arrays = (
            self.buffer,
            self.start,
            self.byte_count,
            self.capture_collector_ns,
            self.destination,
        )
        if any(now is not then for now, then in zip(arrays, self._arrays, strict=True)):
            self._arrays = arrays
            self._addresses = (
                _address(self.buffer, np.uint8),
                _address(self.start, np.int64),
                _address(self.byte_count, np.int32),
                _address(self.capture_collector_ns, np.int64),
                _address(self.destination, np.int32),
            )
        return self._addresses

    def payload(self, row: int) -> memoryview:
        """The datagram of one row."""
        start = int(self.start[row])
        return self.buffer.data[start : start + int(self.byte_count[row])]


def _address(array: NDArray[Any], kind: type[np.generic]) -> int:
    """Where an array lies that compiled loops will read as elements of a kind."""
    if array.dtype != kind or not array.flags.c_contiguous:
        raise TypeError(f"a contiguous array of {kind.__name__} is needed, got {array.dtype}")
    return int(array.ctypes.data)


def batch_of_payloads(
    payloads: Sequence[Buffer],
    capture_collector_ns: Sequence[int] | NDArray[np.int64],
    destinations: Sequence[Destination] | None = None,
) -> ReportBatch:
    """A batch of payloads that are at hand one by one: tests, captures, rare paths."""
    byte_count = np.fromiter((len(payload) for payload in payloads), np.int32, len(payloads))
    start = np.zeros(len(payloads), np.int64)
    np.cumsum(byte_count[:-1], dtype=np.int64, out=start[1:])
    rows: dict[Destination, int] = {}
    if destinations is None:
        rows[UNKNOWN_DESTINATION] = 0
        destination = np.zeros(len(payloads), np.int32)
    else:
        destination = np.fromiter(
            (rows.setdefault(item, len(rows)) for item in destinations), np.int32, len(payloads)
        )
    return ReportBatch(
        buffer=np.frombuffer(bytearray(b"".join(payloads)), np.uint8),
        start=start,
        byte_count=byte_count,
        capture_collector_ns=np.asarray(capture_collector_ns, np.int64),
        destination=destination,
        count=len(payloads),
        destinations=list(rows),
    )
