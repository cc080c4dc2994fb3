# SPDX-License-Identifier: Apache-2.0
"""Parts appended to files of one folder; a full file is followed by the next.

A file is only ever appended to, one part with one write, so that a collector that is killed leaves
whole parts and at most one cut part at the end. After a restart a new file begins: nothing is
written behind a cut part.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from controller.collector.outputs.output import (
    PART_BYTES,
    OutputCounters,
    OutputError,
    OutputSpec,
    never,
    whole_option,
)
from controller.collector.outputs.part import Part, encode_part, read_parts

SUFFIX = ".parts"
WORKER_FOLDERS = "worker-*"
"""Where the workers of one collector write, each on its own."""
ROTATE_BYTES = 256 << 20
_MIB = 1 << 20
_NAME = re.compile(r"collected-(\d{8})\.parts")
_NUMBER_MAX = 10**8 - 1


class FileOutput:
    """Writes `collected-00000001.parts`, `collected-00000002.parts`, ... in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        rotate_bytes: int = ROTATE_BYTES,
        keep: int = 0,
        sync: bool = False,
    ) -> None:
        """`keep`: how many files to keep, the newest (0: all). `sync`: onto the disk each part.

        Without `sync` a part survives the end of the process, not that of the machine.
        """
        self._folder = folder
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        self._sync = sync
        self._counters = OutputCounters()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            numbers = [number for number, _path in numbered_files(folder)]
            self._number = max(numbers, default=0)
            self._stream = self._next()
        except OSError as error:
            raise OutputError(f"output file:{folder}: {error.strerror}") from None

    @classmethod
    def from_spec(cls, spec: OutputSpec) -> "FileOutput":
        """As the command line names it."""
        rotate_mib = whole_option(spec, "rotate_mib", ROTATE_BYTES // _MIB, least=1)
        return cls(
            Path(spec.location),
            rotate_bytes=rotate_mib * _MIB,
            keep=whole_option(spec, "keep", 0, least=0),
            sync=bool(whole_option(spec, "sync", 0, least=0)),
        )

    @classmethod
    def check(cls, spec: OutputSpec) -> None:
        """Whether the options are right and the folder can be written to; writes nothing."""
        for key in ("rotate_mib", "keep", "sync"):
            whole_option(spec, key, 1, least=int(key == "rotate_mib"))
        folder = Path(spec.location)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"output file:{folder}: {error.strerror}") from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"output file:{folder}: may not be written to")

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    @property
    def name(self) -> str:
        """The label of its metrics."""
        return f"file:{self._folder}"

    @property
    def part_bytes_max(self) -> int:
        """Small parts lose little when the writer is killed."""
        return PART_BYTES

    @property
    def counters(self) -> OutputCounters:
        """Totals so far; a part is acknowledged when the kernel has it (the disk, with `sync`)."""
        return self._counters

    def write(self, part: Part, give_up: Callable[[], bool] = never) -> None:
        """Append a part. A folder that cannot be written any more raises OSError."""
        data = encode_part(part)
        if self._written and self._written + len(data) > self._rotate_bytes:
            os.close(self._stream)
            self._stream = self._next()
        _write_all(self._stream, data)
        if self._sync:
            os.fdatasync(self._stream)
        self._written += len(data)
        self._counters = self._counters.acknowledged(part, len(data))

    def close(self) -> None:
        """Everything is in the files already."""
        os.close(self._stream)

    def _next(self) -> int:
        """Open the next file; forget the oldest ones."""
        self._number = min(self._number + 1, _NUMBER_MAX)
        self._written = 0
        path = self._folder / f"collected-{self._number:08d}{SUFFIX}"
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o644)
        if self._keep:
            for _number, old in numbered_files(self._folder)[: -self._keep]:
                old.unlink()
        return stream


def read_folder(folder: Path) -> Iterator[Part]:
    """The whole parts of all files of a folder, oldest first; then those of its workers' folders.

    Order holds within a run: collectors that share the work write side by side.
    """
    for own in (folder, *sorted(folder.glob(WORKER_FOLDERS))):
        for _number, path in numbered_files(own):
            yield from read_file(path)


def read_file(path: Path) -> Iterator[Part]:
    """The whole parts of one file."""
    with path.open("rb") as stream:
        yield from read_parts(stream, str(path))


def newest_parts(folder: Path) -> list[Part]:
    """The parts of the newest files, so many that there is one, if there is any."""
    for _number, path in reversed(numbered_files(folder)):
        if parts := list(read_file(path)):
            return parts
    return []


def numbered_files(folder: Path) -> list[tuple[int, Path]]:
    """(number, path) of a folder's files of parts, in order."""
    found = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in found if match)


def _write_all(stream: int, data: bytes) -> None:
    """One write for the whole part; more only where the kernel takes less than that."""
    view = memoryview(data)
    while view:
        view = view[os.write(stream, view) :]
