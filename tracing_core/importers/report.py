# SPDX-License-Identifier: Apache-2.0
"""What became of one file: what was taken, what was refused and why, and which clocks it used."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tracing_core.clock_domains import ClockKind
from tracing_core.importers.values import text
from tracing_core.model import DEFAULT_TENANT, Span

NOTES_MAX = 50
"""Notes kept of one file; they are for reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the user knows about the files and they themselves may not say."""

    tenant: str = DEFAULT_TENANT
    host: str = ""
    """Where the files were taken; wins over what they say."""
    job: str = ""
    """Ranks of one job share a trace per step."""
    clock: str = ""
    """Name of the clock that the host stamps of the files are on."""
    clocks: Mapping[str, str] = field(default_factory=dict)
    """Other names for clocks, by the name that they would have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileClock:
    """One clock that stamps of a file are on."""

    name: str
    """As corrections name it; empty if the clock is not known."""
    kind: ClockKind
    alignment: str
    """How the file's numbers become instants of the clock, in words."""
    quantum_ns: int = 1
    """Resolution of the stamps."""
    base_ns: int | None = None
    """What the file's numbers are relative to, where it says so."""
    reason: str = ""
    """Why the name is empty."""


@dataclass(slots=True, kw_only=True)
class ClockUse:
    """A clock with the spans that were taken on it."""

    clock: FileClock
    span_count: int = 0
    first_local_ns: int = 0
    last_local_ns: int = 0
    against_host: tuple[int | None, int | None] | None = None
    """Lowest and highest offset of this clock to the host's that launches, kernels and
    synchronising calls allow, in ns; None where nothing limits it."""


@dataclass(slots=True, kw_only=True)
class FileReport:
    """The account of one file. Every span or event of it is counted once."""

    name: str
    format: str = "unknown"
    span_count: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Spans and events that cannot be used, by reason."""
    examples: dict[str, str] = field(default_factory=dict)
    """The first one of each reason."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Records that are no spans, by kind."""
    flagged: Counter[str] = field(default_factory=Counter)
    """Spans taken whose own stamps contradict something, by TimeFlag."""
    counts: dict[str, int] = field(default_factory=dict)
    """Further figures of the format, such as kernels with a launch."""
    clocks: dict[tuple[str, ClockKind], ClockUse] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    """Why the file, or the rest of it, could not be read."""

    def take(self, span: Span, clock: FileClock) -> Span:
        """Counts a span that goes into the store."""
        self.span_count += 1
        use = self.clocks.get((clock.name, clock.kind))
        if use is None:
            use = self.clocks[clock.name, clock.kind] = ClockUse(
                clock=clock,
                first_local_ns=span.start_local_ns,
                last_local_ns=span.end_local_ns,
            )
        use.span_count += 1
        use.first_local_ns = min(use.first_local_ns, span.start_local_ns)
        use.last_local_ns = max(use.last_local_ns, span.end_local_ns)
        return span

    def refuse(self, reason: str, example: object = "", *, count: int = 1) -> None:
        """Counts a span that does not."""
        self.refused[reason] += count
        self.examples.setdefault(reason, text(str(example))[:80])

    def note(self, message: str) -> None:
        """Something that the reader should know."""
        if len(self.notes) < NOTES_MAX and message not in self.notes:
            self.notes.append(message)
