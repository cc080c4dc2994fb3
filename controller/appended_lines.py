# SPDX-License-Identifier: Apache-2.0
"""A file of lines that is continued: it begins with a known header and ends behind a whole line."""

import os
from pathlib import Path
from typing import BinaryIO

TAIL_BYTES = 64 << 20
"""The newest line is looked for in so much of the end."""


class ForeignFileError(ValueError):
    """The file begins with something else; nothing in it was touched."""


def open_appended(path: Path, header: bytes) -> tuple[BinaryIO, bytes]:
    """The file at its end, and its last line (the header, if there is no other).

    header: the first line, which a new file gets. A line that a killed process left unfinished is
    cut off. `OSError`, `ForeignFileError`.
    """
    file = path.open("ab+")
    try:
        return file, _last_line(file, header, path)
    except BaseException:
        file.close()
        raise


def _last_line(file: BinaryIO, header: bytes, path: Path) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    begin = file.read(len(header))
    if begin != header:
        if not header.startswith(begin):
            expected = header.decode().rstrip("\n")
            raise ForeignFileError(f"{path}: another kind of file; expected {expected} first")
        file.truncate(0)
        file.write(header)
        file.flush()
        return header
    start = max(0, size - TAIL_BYTES)
    file.seek(start)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(start + whole)
    return data[:whole].splitlines(keepends=True)[-1]
