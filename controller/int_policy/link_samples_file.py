# SPDX-License-Identifier: Apache-2.0
"""`link_samples.json`: how many samples traffic gives of each link, replaced with every window.

The engine writes it, whoever sends probes reads it; docs/deployment.md has its form.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.int_policy.quiet_links import QuietLinks
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.file_watch import Print, fingerprint
from controller.plain_file import require_plain_file

VERSION = 1
STALE_NS = 10_000_000_000
"""Older counts, and those of so far ahead, say nothing: all links are quiet."""
TEXT_BYTES_MAX = 64 << 20


class LinkSamplesError(Exception):
    """The file does not say what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSamples:
    """The file's content."""

    window_end_collector_ns: int
    pairs: Mapping[str, int]
    """By link name: samples in both directions, of equal queue and length class."""


def link_samples_text(samples: LinkSamples) -> bytes:
    """The file's content."""
    document = {
        "version": VERSION,
        "window_end_collector_ns": str(samples.window_end_collector_ns),
        "pairs": dict(samples.pairs),
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def read_link_samples(path: Path) -> LinkSamples:
    """LinkSamplesError or OSError where that is not possible."""
    with path.open("rb") as file:
        text = file.read(TEXT_BYTES_MAX + 1)
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise LinkSamplesError(f"{path}: version: expected {VERSION}")
        pairs = {str(name): int(count) for name, count in document["pairs"].items()}
        end_ns = int(document["window_end_collector_ns"])
    except (
        *(ValueError, KeyError, TypeError, AttributeError),
        *(OverflowError, RecursionError),  # Infinity, and thousands of brackets
    ) as error:
        expected = "version, window_end_collector_ns and pairs"
        raise LinkSamplesError(f"{path}: expected {expected}") from error
    return LinkSamples(window_end_collector_ns=end_ns, pairs=pairs)


class QuietLinksFile:
    """Gives `ProbeSender` what the file says; without one that can be used, all links are quiet."""

    def __init__(
        self, path: Path, on_event: OnEvent, *, now_collector_ns: Callable[[], int]
    ) -> None:
        self._path = path
        self._on_event = on_event
        self._now_ns = now_collector_ns
        self._quiet = QuietLinks()
        self._seen: Print | None = None
        self._end_ns = 0
        self._pairs: dict[str, int] = {}
        self._problem = ""
        self.windows_seen = 0
        """Since the start."""

    @property
    def busy_count(self) -> int:
        """Links that get no probes."""
        return len(self._quiet.busy)

    def __call__(self) -> Mapping[str, int]:
        """Samples by link, as `ProbePlanner.plan` takes them."""
        seen = fingerprint((self._path,))
        if seen != self._seen:
            self._seen = seen
            self._load()
        if self._pairs and abs(self._now_ns() - self._end_ns) > STALE_NS:
            self._pairs = self._quiet.step({})
        return self._pairs

    def _load(self) -> None:
        problem = ""
        try:
            require_plain_file(self._path)
            found = read_link_samples(self._path)
        except FileNotFoundError:
            self._pairs = self._quiet.step({})
        except (OSError, LinkSamplesError) as error:
            problem = str(error)
        else:
            self.windows_seen += 1
            self._end_ns = found.window_end_collector_ns
            self._pairs = self._quiet.step(found.pairs)
        if problem and problem != self._problem:
            self._on_event(Event(kind=EventKind.LINK_SAMPLES_REFUSED, message=problem))
        self._problem = problem
