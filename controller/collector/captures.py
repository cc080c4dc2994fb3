# SPDX-License-Identifier: Apache-2.0
"""Captures of any size to batches of reports, a piece of the file at a time.

The same files as `controller.telemetry.pcap` reads, and the same judgement of every frame; only
the packets' places are found by compiled code. Memory is one piece of the file, whatever its size.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from controller.collector.batch import ReportBatch
from controller.collector.capture_frames import (
    DESTINATION_DTYPE,
    DESTINATIONS_MAX,
    FRAME_REASONS,
    unwrap_frames,
)
from controller.collector.capture_records import (
    FRAME_DTYPE,
    Stop,
    interface_rows,
    walk_pcap,
    walk_pcapng,
)
from controller.collector.loads import address_of
from controller.telemetry.capture_error import PcapError
from controller.telemetry.codec import DecodeReason
from controller.telemetry.collector import Destination
from controller.telemetry.pcap import (
    FILE_HEADER_BYTES,
    FileHeader,
    decode_records,
    file_header,
)
from controller.telemetry.pcapng import (
    PREFIX_BYTES,
    SECTION_HEADER,
    Section,
    block_length,
    check_trailer,
    check_version,
    decode_pcapng,
    interface,
    section_byte_order,
)
from controller.telemetry.topology import TelemetryFabric

PIECE_BYTES = 8 << 20
"""Of the file in memory at a time; longer than any record."""
FRAMES_PER_BATCH_MAX = 1 << 16
"""8 MiB hold 50,000 reports of 150 bytes."""
STANDARD_INPUT = Path("-")
_WORD = (1 << 64) - 1
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class CaptureBatch:
    """Reports of a piece of a capture; its buffer is used again for the next piece."""

    batch: ReportBatch
    refused: Mapping[DecodeReason, int]
    """Frames that do not hold a report datagram, by reason."""


def read_capture(
    path: Path,
    fabric: TelemetryFabric,
    *,
    progress: Callable[[float], None] = lambda _share: None,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[CaptureBatch]:
    """The batches of a capture file, of one that gzip packed, or of standard input (`-`).

    `progress` hears which share of the file has been read.
    """
    if path == STANDARD_INPUT:
        reader = CaptureReader(sys.stdin.buffer, "standard input", fabric, piece_bytes=piece_bytes)
        yield from reader.batches()
        return
    is_file = path.is_file()
    size = path.stat().st_size if is_file else 0
    with path.open("rb") as file:
        stream: BinaryIO | gzip.GzipFile = file
        if is_file:
            if file.read(2) == _GZIP_MAGIC:
                stream = gzip.GzipFile(fileobj=file)
            file.seek(0)
        reader = CaptureReader(stream, str(path), fabric, piece_bytes=piece_bytes)
        for batch in reader.batches():
            yield batch
            if size:
                progress(file.tell() / size)


class CaptureReader:
    """Reads one stream once."""

    def __init__(
        self,
        stream: BinaryIO | gzip.GzipFile,
        name: str,
        fabric: TelemetryFabric,
        *,
        piece_bytes: int = PIECE_BYTES,
        frames_max: int = FRAMES_PER_BATCH_MAX,
    ) -> None:
        self._stream = stream
        self._name = name
        self._ports = np.array(sorted(fabric.report_udp_ports), np.int64)
        self._beyond_nodes = np.array(
            [
                node.node_id
                for node in fabric.nodes.values()
                if node.dialect.payload_beyond_ip_length
            ],
            np.int64,
        )
        self._buffer = np.zeros(piece_bytes, np.uint8)
        self._address = address_of(self._buffer)
        self._begin = self._end = 0
        """Of what has been read and not used."""
        self._offset = 0
        """In the stream, of the buffer's first byte."""
        self._skip = 0
        """Bytes of a block of no interest still to come."""
        self._at_end = False
        self._frames = np.zeros(frames_max, FRAME_DTYPE)
        self._time_ns = 0
        self._batch = ReportBatch.empty(rows=frames_max, buffer_bytes=0)
        self._batch.buffer = self._buffer
        self._destinations = np.zeros(DESTINATIONS_MAX, DESTINATION_DTYPE)
        self._section = Section("<")
        self._interfaces = interface_rows([])

    def batches(self) -> Iterator[CaptureBatch]:
        """Every frame of the stream, as a row of a batch or among the refused ones."""
        self._fill()
        if self._bytes(4) == SECTION_HEADER.to_bytes(4, "big"):
            yield from self._pcapng()
        else:
            header = file_header(self._bytes(FILE_HEADER_BYTES), self._name)
            self._begin += FILE_HEADER_BYTES
            yield from self._pcap(header)

    # ------------------------------------------------------------ the two formats

    def _pcap(self, header: FileHeader) -> Iterator[CaptureBatch]:
        known = (header.byte_order == ">", header.ns_per_fraction, header.link_type)
        while True:
            count, self._begin, stop = walk_pcap(
                self._address, self._begin, self._end, known, self._frames
            )
            yield from self._unwrapped(count)
            if stop == Stop.FULL:
                continue
            if stop == Stop.DAMAGED or (stop == Stop.INCOMPLETE and self._at_end):
                rest = decode_records(
                    self._rest(),
                    self._name,
                    header,
                    offset=self._position,
                    capture_collector_ns=self._time_ns,
                )
                yield from self._cut(((time, header.link_type, data) for time, data in rest), stop)
                return
            self._fill()

    def _pcapng(self) -> Iterator[CaptureBatch]:
        while True:
            state = (self._section.byte_order == ">", self._time_ns)
            count, self._begin, stop = walk_pcapng(
                self._address, self._begin, self._end, state, self._interfaces, self._frames
            )
            yield from self._unwrapped(count)
            if stop == Stop.FULL or (stop == Stop.DESCRIPTION and self._describe()):
                continue
            if stop == Stop.SKIP and self._block_bytes() > len(self._buffer):
                self._skip = self._block_bytes() - (self._end - self._begin)
                self._begin = self._end
            elif stop == Stop.DAMAGED or self._at_end:
                yield from self._cut(
                    decode_pcapng(
                        self._rest(),
                        self._name,
                        section=self._section,
                        offset=self._position,
                        time_ns=self._time_ns,
                    ),
                    stop,
                )
                return
            self._fill()

    def _describe(self) -> bool:
        """Take a section header or interface description; False when it is not whole yet."""
        prefix, offset = self._bytes(PREFIX_BYTES), self._position
        section = self._section
        is_section = prefix[:4] == SECTION_HEADER.to_bytes(4, "big")
        if is_section:
            if self._end - self._begin < PREFIX_BYTES + 4:
                return False
            magic = self._bytes(PREFIX_BYTES + 4)[PREFIX_BYTES:]
            section = Section(section_byte_order(magic, self._name, offset))
        block_bytes = block_length(prefix, section, self._name, offset)
        if self._end - self._begin < block_bytes:
            return False
        block = self._bytes(block_bytes)
        body = block[PREFIX_BYTES:-4]
        check_trailer(block[-4:], block_bytes, section, self._name, offset)
        if is_section:
            check_version(body, section, self._name, offset)
            self._section = section
        else:
            section.interfaces.append(interface(body, section, self._name, offset))
        self._interfaces = interface_rows(section.interfaces)
        self._begin += block_bytes
        return True

    def _block_bytes(self) -> int:
        return block_length(self._bytes(PREFIX_BYTES), self._section, self._name, self._position)

    def _cut(self, rest: Iterable[tuple[int, int, bytes]], stop: int) -> Iterator[CaptureBatch]:
        """What the plain reader makes of the rest: damage, or the frame in which the file ends."""
        position = self._position
        for time_ns, link_type, data in rest:
            self._buffer[: len(data)] = np.frombuffer(data, np.uint8)
            self._frames[0] = (0, len(data), time_ns, link_type)
            yield from self._unwrapped(1)
        if stop == Stop.DAMAGED:  # the plain reader has said so more exactly
            raise PcapError(self._name, position, "a record or block")

    # ------------------------------------------------------------ frames and bytes

    def _unwrapped(self, count: int) -> Iterator[CaptureBatch]:
        """The first `count` frames as batches."""
        if count:
            self._time_ns = int(self._frames[count - 1]["capture_collector_ns"])
        first = 0
        batch = self._batch
        while first < count:
            refused = np.zeros(len(FRAME_REASONS), np.int64)
            used, batch.count, destination_count = unwrap_frames(
                self._address,
                self._frames[first:count],
                (self._ports, self._beyond_nodes),
                (self._destinations, refused),
                (batch.start, batch.byte_count, batch.capture_collector_ns, batch.destination),
            )
            first += used
            batch.destinations = _destinations(self._destinations[:destination_count])
            yield CaptureBatch(
                batch,
                {FRAME_REASONS[row]: int(refused[row]) for row in np.flatnonzero(refused)},
            )

    def _fill(self) -> None:
        """Move what is left to the front and read on, until the buffer is full or at the end."""
        left = self._end - self._begin
        self._buffer[:left] = self._buffer[self._begin : self._end].copy()
        self._offset += self._begin
        self._begin, self._end = 0, left
        view = self._buffer.data
        while self._end < len(self._buffer):
            got = self._read_into(view[self._end :])
            if got == 0:
                self._at_end = True
                return
            skipped = min(got, self._skip)
            if skipped:  # nothing else is in the buffer then
                self._skip -= skipped
                self._offset += skipped
                self._buffer[: got - skipped] = self._buffer[skipped:got].copy()
            self._end += got - skipped

    def _read_into(self, view: memoryview) -> int:
        try:
            return self._stream.readinto(view)  # type: ignore[union-attr]  # a file has it
        except EOFError:  # a gzip file that is cut, as is what it holds
            return 0
        except (gzip.BadGzipFile, zlib.error) as error:
            where = self._offset + self._end
            raise PcapError(self._name, where, f"intact gzip data ({error})") from None

    @property
    def _position(self) -> int:
        return self._offset + self._begin

    def _bytes(self, count: int) -> bytes:
        return self._buffer[self._begin : min(self._begin + count, self._end)].tobytes()

    def _rest(self) -> io.BytesIO:
        return io.BytesIO(self._bytes(len(self._buffer)))


def _destinations(rows: NDArray[np.void]) -> list[Destination]:
    return [
        Destination(
            (int(row["high"]) & _WORD) << 64 | int(row["low"]) & _WORD, int(row["udp_port"])
        )
        for row in rows
    ]
