# SPDX-License-Identifier: Apache-2.0
"""A word to who waits: only if something takes long."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 2.0


@contextmanager
def told_if_long(text: str, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Write one line to standard error if the body is not done by then."""
    timer = threading.Timer(patience_s, lambda: sys.stderr.write(f"{text}\n"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


COMPILING = "compiling the decoder: once after an installation, about half a minute"
"""What `controller.collector.cores.make_core` does when it takes long."""
