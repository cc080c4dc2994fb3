# SPDX-License-Identifier: Apache-2.0
"""Files that are read again and again must be files: a FIFO or a device is waited for for ever."""

import errno
import stat
from pathlib import Path


def require_plain_file(path: Path) -> None:
    """OSError where there is something else than a file, a link to one included, or nothing."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
