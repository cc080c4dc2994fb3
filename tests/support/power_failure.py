# SPDX-License-Identifier: Apache-2.0
"""A power failure of the write-ahead log's disk: whatever was not synced may be lost or garbled.

In the service's process a journal notes what is safe: bytes once `fdatasync` has returned, names
once their folder was synced. After the process was killed, `fail_power` takes from the rest what a
disk may lose. The store's own files are left alone: the database syncs them itself.
"""

import os
import random
from pathlib import Path
from typing import Any

TAIL_BYTES = 64 * 2**10
"""Behind the last synced byte this much is cut, zeroed or garbled, in part."""
SECTOR_BYTES = 512


class DiskJournal:
    """Watches this process's calls; the file survives it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._file = os.open(folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._written: dict[int, int] = {}
        self._pwritev, self._fdatasync, self._fsync, self._unlink = (
            os.pwritev, os.fdatasync, os.fsync, os.unlink,
        )  # fmt: skip
        os.pwritev, os.fdatasync = self.pwritev, self.fdatasync  # type: ignore[assignment]
        os.fsync, os.unlink = self.fsync, self.unlink  # type: ignore[assignment]

    def pwritev(self, file: int, buffers: Any, offset: int) -> int:
        """Remembers how far a file was written."""
        written = self._pwritev(file, buffers, offset)
        inode = os.fstat(file).st_ino
        self._written[inode] = max(self._written.get(inode, 0), offset + written)
        return written

    def fdatasync(self, file: int) -> None:
        """What was written before is safe afterwards."""
        inode = os.fstat(file).st_ino
        size = self._written.get(inode, 0)
        self._fdatasync(file)
        self._note("bytes", inode, size)

    def fsync(self, file: int) -> None:
        """A folder's names are safe afterwards."""
        place = Path(f"/proc/self/fd/{file}").readlink()
        names = [path.name for path in place.iterdir()] if place.is_dir() else None
        self._fsync(file)
        if names is not None:
            self._note("names", place.name, *names)

    def unlink(self, path: Any, **options: Any) -> None:
        """Keeps a removed segment under another name: it may come back."""
        path = Path(path)
        grave = self._folder / f"{path.parent.name}+{path.name}"
        if path.suffix == ".wal" and path.exists() and not grave.exists():
            os.link(path, grave)
        self._unlink(path, **options)

    def _note(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def fail_power(log_folder: Path, journal: Path, rng: random.Random) -> None:
    """Takes from the log what was not safe when its process was killed."""
    sizes: dict[int, int] = {}
    names: dict[str, set[str]] = {}
    notes = journal / "journal"
    for line in notes.read_text().splitlines() if notes.exists() else ():
        kind, where, *rest = line.split()
        if kind == "bytes":
            sizes[int(where)] = int(rest[0])
        else:
            names[where] = set(rest)
    for folder in (log_folder, log_folder / "forward"):
        _lose_names(folder, names.get(folder.name), journal, rng)
        for path in folder.glob("*.wal"):
            inode = path.stat().st_ino
            if inode in sizes:
                _lose_tail(path, sizes.pop(inode), rng)  # a link has the same bytes
    position = log_folder / "forward" / "position"
    if position.exists() and rng.random() < 0.3:
        position.write_bytes(rng.randbytes(rng.randrange(30)))
    for path in journal.iterdir():
        path.unlink()


def _lose_names(folder: Path, safe: set[str] | None, journal: Path, rng: random.Random) -> None:
    if safe is None:
        return
    for path in folder.glob("*.wal"):
        if path.name not in safe and rng.random() < 0.5:
            path.unlink()
    for name in safe:
        grave = journal / f"{folder.name}+{name}"
        if grave.exists() and not (folder / name).exists() and rng.random() < 0.5:
            os.link(grave, folder / name)


def _lose_tail(path: Path, safe_bytes: int, rng: random.Random) -> None:
    size = path.stat().st_size
    end = min(size, safe_bytes + TAIL_BYTES)
    match rng.choice(("nothing", "cut", "longer", "zeros", "garbled")):
        case "cut":
            os.truncate(path, rng.randint(safe_bytes, max(safe_bytes, end)))
        case "longer":
            os.truncate(path, size + rng.randrange(2**20))
        case ("zeros" | "garbled") as how:
            with path.open("r+b") as file:
                for at in range(safe_bytes, end, SECTOR_BYTES):
                    if rng.random() < 0.5:
                        file.seek(at)
                        part = min(SECTOR_BYTES, end - at)
                        file.write(bytes(part) if how == "zeros" else rng.randbytes(part))
