# SPDX-License-Identifier: Apache-2.0
"""Waits until a descriptor can be read, to the microsecond."""

import select
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Readable(Protocol):
    """What has a descriptor."""

    def fileno(self) -> int:
        """It."""


Source = TypeVar("Source", bound=int | Readable)
SELECT_FD_MAX = 1023
"""FD_SETSIZE - 1: select(2) takes none beyond it."""


def readable(sources: Sequence[Source], timeout_s: float | None) -> list[Source]:
    """Those of the sources that can be read; none when `timeout_s` is over (None: never).

    With a descriptor that select does not take, poll's millisecond is the resolution: it returns
    up to one too early.
    """
    numbers = [one if isinstance(one, int) else one.fileno() for one in sources]
    if max(numbers, default=0) <= SELECT_FD_MAX:
        ready, _, _ = select.select(numbers, [], [], timeout_s)
    else:
        poll = select.poll()
        for number in numbers:
            poll.register(number, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(None if timeout_s is None else int(timeout_s * 1e3))]
    found = set(ready)
    return [one for one, number in zip(sources, numbers, strict=True) if number in found]
