# SPDX-License-Identifier: Apache-2.0
"""A temporary folder that is removed at the end, or by the next one after a SIGKILL.

Its owner holds a lock on a file in it, which the kernel lets go with the process.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_FILE = "owner.lock"
UNLOCKED_AGE_S = 3_600.0
"""A folder without a lock file belongs to somebody who is just about to make it, or is this old."""


@contextlib.contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """A new folder below the system's temporary one; folders of the prefix that nobody owns any
    more go first."""
    remove_leftovers(prefix)
    path = Path(tempfile.mkdtemp(prefix=prefix))
    lock = os.open(path / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_leftovers(prefix: str) -> list[Path]:
    """Remove this user's folders whose owner was killed; those that went."""
    gone = []
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.geteuid() or _is_owned(path):
                continue
            shutil.rmtree(path)
            gone.append(path)
    return gone


def _is_owned(path: Path) -> bool:
    try:
        lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - path.stat().st_mtime < UNLOCKED_AGE_S
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)
