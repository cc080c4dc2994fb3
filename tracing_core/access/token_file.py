# SPDX-License-Identifier: Apache-2.0
"""The file of tokens: readable by its owner only, replaced as a whole, re-read when it changes."""

import fcntl
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tracing_core.access.book import BookError, TokenBook, decode, encode

TOKENS_FILE = "tokens.json"
"""Inside the folder of an embedded store."""
FILE_BYTES_MAX = 16 * 2**20
_OTHERS_WRITE = 0o022

_Version = tuple[int, ...] | None
"""What tells one state of the file from another; None: there is no file."""


class TokenFileError(Exception):
    """The file cannot be used; the text names file and key."""


class TokenFile:
    """Tokens on disk; many threads may ask for them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._known: tuple[_Version, TokenBook | TokenFileError] | None = None

    def current(self) -> TokenBook:
        """The tokens as of now; the file is read again only when it has changed. Without a file
        there are none."""
        version = self._version()
        known = self._known
        if known is None or known[0] != version:
            with self._lock:
                known = self._known
                if known is None or known[0] != version:
                    known = self._known = (version, self._read())
        if isinstance(known[1], TokenFileError):
            raise TokenFileError(*known[1].args)
        return known[1]

    def update(self, change: Callable[[TokenBook], TokenBook]) -> TokenBook:
        """Changes the file as a whole; two processes that do so come one after the other."""
        with self._owned_folder():
            book = self._read()
            if isinstance(book, TokenFileError):
                raise book
            changed = change(book)
            self._write(encode(changed))
        return changed

    def _version(self) -> _Version:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TokenFileError(f"{self.path}: {error.strerror}") from None
        return (
            found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        )  # fmt: skip

    def _read(self) -> TokenBook | TokenFileError:
        try:
            with open(self.path, "rb", opener=_at_once) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return TokenFileError(f"{self.path}: is not a file")
                if status.st_mode & _OTHERS_WRITE:
                    return TokenFileError(f"{self.path}: others can write it; chmod 600 it")
                data = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return TokenBook({})
        except OSError as error:
            return TokenFileError(f"{self.path}: {error.strerror}")
        if len(data) > FILE_BYTES_MAX:
            return TokenFileError(f"{self.path}: longer than {FILE_BYTES_MAX} bytes")
        try:
            return decode(data.decode())
        except (BookError, UnicodeDecodeError) as error:
            return TokenFileError(f"{self.path}: {error}")

    def _write(self, text: str) -> None:
        target = self.path.resolve()
        temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise TokenFileError(f"{self.path}: {error.strerror}") from None

    @contextmanager
    def _owned_folder(self) -> Iterator[None]:
        """One writer at a time; afterwards the file's new name is on the disk."""
        folder = self.path.resolve().parent
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise TokenFileError(f"{folder}: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _at_once(path: str, flags: int) -> int:
    """Opens a file; of a pipe it does not wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
