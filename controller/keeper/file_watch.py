# SPDX-License-Identifier: Apache-2.0
"""Whether files have changed since they were looked at last."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

Print: TypeAlias = tuple[tuple[int, int, int] | None, ...]


def fingerprint(paths: Iterable[Path]) -> Print:
    """Time of the last change, size and inode of each file; None where there is none.

    An editor that writes another file in its place changes the inode, so a second write within the
    clock's resolution is seen as well.
    """
    return tuple(map(_print_of, paths))


def _print_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
