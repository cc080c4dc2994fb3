# SPDX-License-Identifier: Apache-2.0
"""Lets a process kill itself at a chosen point of ingest: SIGKILL, as from outside.

A point is a call; the process dies in it, before it or after it, at its n-th time. A point that
ends in `...` lets the call go on in its own thread and kills `delay_s` later: somewhere within.
"""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracing_core.ingest.log import WriteAheadLog
from tracing_core.service.forward_spool import ForwardSpool
from tracing_core.store.engine import Engine
from tracing_core.store.spans import SpanStore


@dataclass(frozen=True, slots=True)
class Death:
    """Where, at which time of that, and how long after."""

    point: str
    count: int
    delay_s: float = 0.0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # the signal comes at once, but to any thread


def _torn_write(file: int, buffers: list[bytes], offset: int) -> None:
    """Half of what is to be written."""
    data = b"".join(bytes(part) for part in buffers)
    os.pwrite(file, data[: len(data) // 2], offset)


_OWNERS: dict[str, tuple[Any, str]] = {
    "write": (os, "pwritev"),
    "sync": (os, "fdatasync"),
    "segment": (WriteAheadLog, "_begin_segment"),
    "hand-over": (ForwardSpool, "hand_over"),
    "block": (Engine, "insert_blocks"),
    "insert": (SpanStore, "insert"),
    "remove": (WriteAheadLog, "remove"),
    "statement": (Engine, "command"),
    "retention": (SpanStore, "set_retention"),
}
POINTS = (
    "torn write", "before sync", "after sync", "after segment", "before insert", "before block",
    "block ...", "after block", "after insert", "before remove", "after remove",
)  # fmt: skip
"""Points of taking requests and storing them."""
FORWARD_POINTS = ("before hand-over", "after hand-over")


def install(death: Death) -> None:
    """Changes this process so that it dies there."""
    when, _, name = death.point.partition(" ")
    if name == "...":
        when, name = name, when
    owner, attribute = _OWNERS[name]
    real: Callable[..., Any] = getattr(owner, attribute)
    lock = threading.Lock()
    calls = 0

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        with lock:
            calls += 1
            is_due = calls == death.count
        if not is_due:
            return real(*arguments, **named)
        match when:
            case "torn":
                _torn_write(*arguments)
                _die()
            case "before":
                _die()
            case "...":
                timer = threading.Timer(death.delay_s, _die)
                timer.daemon = True
                timer.start()
        result = real(*arguments, **named)
        if when == "after":
            _die()
        return result

    setattr(owner, attribute, dying)


def die_within(delay_s: float) -> None:
    """Dies after a time, wherever the process is then."""
    timer = threading.Timer(delay_s, _die)
    timer.daemon = True
    timer.start()
