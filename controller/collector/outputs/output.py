# SPDX-License-Identifier: Apache-2.0
"""What every output does, and how the command line names one."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from controller.collector.outputs.part import Part

GIVE_UP_S = 0.1
"""How often a waiting output asks whether to give up."""
PART_BYTES = 512 * 1024
"""Size that parts are split to: half of what a NATS server takes by default."""


class OutputError(Exception):
    """An output that cannot be opened or named wrongly, in one line."""


@unique
class WhenFull(Enum):
    """What an output does with a part for which it has no room."""

    BLOCK = "block"
    """Wait: the collector stops reading, the kernel's buffer fills, and the kernel counts drops."""
    DROP = "drop"
    """Drop the part and count it: receiving goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCounters:
    """Totals of one output since it was opened.

    Parts offered = acknowledged + dropped + waiting + failed.
    """

    acknowledged_parts: int = 0
    """Where they belong: taken by a reader, in the file, or confirmed by the server."""
    acknowledged_packets: int = 0
    acknowledged_bytes: int = 0
    dropped_parts: int = 0
    """For want of room."""
    dropped_packets: int = 0
    failed_parts: int = 0
    """Refused for good, or still unconfirmed when the output was closed."""
    failed_packets: int = 0
    waiting_parts: int = 0
    """Accepted, not acknowledged."""
    repeated: int = 0
    """Attempts beyond the first."""
    duplicates: int = 0
    """Parts that the server had already: it kept them once."""
    blocked_ns: int = 0
    """How long the collector has waited for room."""

    def acknowledged(
        self, part: Part, byte_count: int, *, duplicate: bool = False
    ) -> "OutputCounters":
        """With one more part where it belongs."""
        return replace(
            self,
            acknowledged_parts=self.acknowledged_parts + 1,
            acknowledged_packets=self.acknowledged_packets + part.packet_count,
            acknowledged_bytes=self.acknowledged_bytes + byte_count,
            duplicates=self.duplicates + duplicate,
        )

    def blocked(self, waited_ns: int) -> "OutputCounters":
        """With more time spent waiting for room."""
        return replace(self, blocked_ns=self.blocked_ns + waited_ns)

    def dropped(self, part: Part) -> "OutputCounters":
        """With one more part dropped."""
        return replace(
            self,
            dropped_parts=self.dropped_parts + 1,
            dropped_packets=self.dropped_packets + part.packet_count,
        )

    def failed(self, part: Part) -> "OutputCounters":
        """With one more part given up."""
        return replace(
            self,
            failed_parts=self.failed_parts + 1,
            failed_packets=self.failed_packets + part.packet_count,
        )


def never() -> bool:
    """For writers that wait as long as it takes."""
    return False


class Output(Protocol):
    """Takes parts. `write` is called from one thread; `counters` from any."""

    @property
    def name(self) -> str:
        """As the operator named it, without secrets: the label of its metrics."""

    @property
    def part_bytes_max(self) -> int:
        """Longest part that it takes."""

    @property
    def counters(self) -> OutputCounters:
        """Totals so far."""

    def write(self, part: Part, give_up: Callable[[], bool] = never) -> None:
        """Take a part; waits or drops when there is no room, as the output was told.

        `give_up` is asked while waiting: when it says so, the part is dropped and counted.
        """

    def close(self) -> None:
        """Bring what waits to its place, within a time limit, and let go."""


def wait_for_room(
    room: threading.Semaphore, give_up: Callable[[], bool], monotonic_ns: Callable[[], int]
) -> tuple[bool, int]:
    """(whether there is a place, ns waited); no place when told to give up before there is one."""
    before_ns = monotonic_ns()
    has_room = True
    while has_room and not room.acquire(timeout=GIVE_UP_S):
        has_room = not give_up()
    return has_room, monotonic_ns() - before_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """An output as the command line names it: `file:DIR?...` or `nats://HOST:PORT/SUBJECT?...`."""

    kind: str
    """`file` or `nats`."""
    location: str
    """The folder, or the server's URL."""
    subject: str
    """NATS only."""
    options: dict[str, str]


_OPTIONS = {
    "file": {"rotate_mib", "keep", "sync"},
    "nats": {"stream", "when_full", "in_flight", "replicas", "creds"},
}


def parse_output(text: str) -> OutputSpec:
    """The output that a text names; `OutputError` says what is wrong with it.

    >>> parse_output("file:/var/lib/tempotrace?keep=8").options
    {'keep': '8'}
    >>> parse_output("nats://localhost:4222/fabric.packets").subject
    'fabric.packets'
    """
    url = urlsplit(text)
    kind = "nats" if url.scheme in ("nats", "tls") else url.scheme
    if kind not in _OPTIONS:
        raise OutputError(
            f"output {text!r}: expected file:DIR or nats://HOST:PORT/SUBJECT, got {url.scheme!r}"
        )
    options: dict[str, str] = {}
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        if key not in _OPTIONS[kind]:
            known = ", ".join(sorted(_OPTIONS[kind]))
            raise OutputError(f"output {text!r}: {key} is not one of {known}")
        options[key] = value
    subject = ""
    if kind == "file":
        location = url.netloc + url.path
    else:
        location = f"{url.scheme}://{url.netloc}"
        subject = url.path.strip("/")
        if not url.hostname or not subject or set(subject) & set("*> /\t"):
            raise OutputError(f"output {text!r}: expected nats://HOST:PORT/SUBJECT")
    if not location:
        raise OutputError(f"output {text!r}: expected file:DIR")
    return OutputSpec(kind=kind, location=location, subject=subject, options=options)


def whole_option(spec: OutputSpec, key: str, default: int, *, least: int) -> int:
    """A whole number of an output's options."""
    text = spec.options.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise OutputError(f"output {spec.location}: {key}={text} is not a number from {least}")
    return int(text)
