# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and a closed terminal as a request that is looked at between steps.

An exception raised by a signal handler can strike anywhere, in a destructor or a library's callback
for example, where it is swallowed and the run goes on. Here the handler only notes the request;
long work asks `check` at each step, and waiting ends at once. A second signal stops the hard way.
"""

import signal
import threading
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED = 130


class Interrupts:
    """Installs the handlers while the context lasts; use it in the main thread."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._previous = {number: signal.getsignal(number) for number in SIGNALS}

    def __enter__(self) -> "Interrupts":
        for number in SIGNALS:
            signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt here if an end was asked for."""
        if self._requested.is_set():
            raise KeyboardInterrupt

    @property
    def is_requested(self) -> bool:
        """Whether an end was asked for."""
        return self._requested.is_set()

    def wait(self) -> None:
        """Return when an end is asked for."""
        self._requested.wait()

    def wait_for(self, seconds: float) -> bool:
        """Return after so long, or at once when an end is asked for; whether it was."""
        return self._requested.wait(seconds)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._requested.is_set():
            raise KeyboardInterrupt
        self._requested.set()
