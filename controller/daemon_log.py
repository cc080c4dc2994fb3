# SPDX-License-Identifier: Apache-2.0
"""What ptp4l, phc2sys, ts2phc and SPTP clients print about their clocks, line by line.

Formats as in linuxptp (clock.c, phc2sys.c, ts2phc.c, print.c, clockcheck.c; v1.8 to f98cb5d) and
facebook/time's sptp. A line starts with whatever the log adds to it: `ptp4l[12.345]:`, with a tag
behind it, `[12.345]`, or a syslog date; where ptp4l writes to a terminal and to syslog, both of its
lines are of one sample, and the second is left out. All figures are ns and ppb.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum, unique

LINE_CHARACTERS_MAX = 4_096
"""Longer ones are of no daemon."""
LINES_MAX = 10_000_000
"""Of one log; what follows is counted, not read."""


@unique
class Program(StrEnum):
    """Which daemon printed a line."""

    PTP4L = "ptp4l"
    PHC2SYS = "phc2sys"
    TS2PHC = "ts2phc"
    SPTP = "sptp"


@unique
class EventKind(StrEnum):
    """What a daemon says happened."""

    JUMPED_FORWARD = "jumped-forward"
    JUMPED_BACKWARD = "jumped-backward"
    FREQUENCY_CHANGED = "frequency-changed"
    """linuxptp's clockcheck: somebody else set the clock, or its driver did."""
    FAULT = "fault"
    """A port lost its synchronisation, or is faulty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSample:
    """One update of a servo."""

    program: Program
    clock: str
    """The clock that is steered, where the line names it (phc2sys, ts2phc)."""
    at_s: float | None
    """Monotonic time of the host, or whatever the log shows."""
    offset_ns: float
    """As printed: steered clock less its source, as the daemon sees it."""
    state: int
    """Servo: 0 unlocked, 1 jump, 2 locked, 3 locked and stable; of SPTP, 3 is filtered."""
    frequency_ppb: float
    """Adjustment of the steered clock."""
    delay_ns: float | None
    """ptp4l, SPTP: mean path delay. phc2sys: duration of a reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSummary:
    """Statistics of several updates (`summary_interval`, phc2sys -u)."""

    program: Program
    clock: str
    at_s: float | None
    rms_ns: float
    """Of the offsets."""
    max_ns: float
    """Largest of their sizes."""
    frequency_ppb: float
    frequency_sd_ppb: float
    delay_ns: float | None
    delay_sd_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonEvent:
    """Something other than an update."""

    program: Program
    at_s: float | None
    kind: EventKind
    text: str
    """As printed."""


@dataclass(slots=True, kw_only=True)
class DaemonLog:
    """All of one log, in its order."""

    samples: list[DaemonSample] = field(default_factory=list)
    summaries: list[DaemonSummary] = field(default_factory=list)
    events: list[DaemonEvent] = field(default_factory=list)
    repeated_lines: int = 0
    """Printed twice, with and without the daemon's name."""
    other_lines: int = 0
    """That say nothing of a clock's offset."""


_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_SAMPLE = re.compile(
    rf"(?P<words>.*?)\boffset\s+(?P<offset>{_NUMBER})\s+s(?P<state>[0-3])\s+freq\s+"
    rf"(?P<freq>{_NUMBER})(?:\s+(?P<path>path )?delay\s+(?P<delay>{_NUMBER}))?"
)
_SUMMARY = re.compile(
    rf"(?P<words>.*?)\brms\s+(?P<rms>{_NUMBER})\s+max\s+(?P<max>{_NUMBER})\s+freq\s+"
    rf"(?P<freq>{_NUMBER})\s+\+/-\s+(?P<freq_sd>{_NUMBER})"
    rf"(?:\s+delay\s+(?P<delay>{_NUMBER})\s+\+/-\s+(?P<delay_sd>{_NUMBER}))?"
)
_EVENTS = (
    (re.compile(r"clockcheck: clock jumped forward"), EventKind.JUMPED_FORWARD),
    (re.compile(r"clockcheck: clock jumped backward"), EventKind.JUMPED_BACKWARD),
    (re.compile(r"clockcheck: clock frequency changed"), EventKind.FREQUENCY_CHANGED),
    (re.compile(r"on (?:SYNCHRONIZATION_FAULT|FAULT_DETECTED)"), EventKind.FAULT),
)
_PROGRAM = re.compile(r"\b(ptp4l|phc2sys|ts2phc)(?:\[[\d.]+\])?:?")
_SPTP = re.compile(r"\bsptp\.go:\d+\]\s*")
_CLOCK_TIME = re.compile(r"\[(\d+\.\d+)\]")
_LEADING_TIME = re.compile(r"\s*(\d{6,}\.\d+)\s")
_TAG_END = re.compile(r".*\]:?\s*")


def parse_daemon_log(lines: Iterable[str]) -> DaemonLog:
    """Read a log; what is not understood is counted, never an error.

    >>> log = parse_daemon_log(["ptp4l[9.5]: master offset -3 s2 freq +12 path delay 7022"])
    >>> [(one.offset_ns, one.delay_ns) for one in log.samples]
    [(-3.0, 7022.0)]
    """
    log = DaemonLog()
    before: tuple[object, ...] | None = None
    for number, line in enumerate(lines):
        if number >= LINES_MAX or len(line) > LINE_CHARACTERS_MAX:
            log.other_lines += 1
            continue
        found = _parse_line(line)
        if found is None:
            log.other_lines += 1
            continue
        # of the same moment and content: only the name before it may differ
        same = (found.at_s, _content(line))
        if found.at_s is not None and same == before:
            log.repeated_lines += 1
            continue
        before = same
        match found:
            case DaemonSample():
                log.samples.append(found)
            case DaemonSummary():
                log.summaries.append(found)
            case DaemonEvent():
                log.events.append(found)
    return log


def _parse_line(line: str) -> DaemonSample | DaemonSummary | DaemonEvent | None:
    at_s = _time_of(line)
    if (match := _SAMPLE.search(line)) is not None:
        program, clock = _source(line, match["words"], path_delay=match["path"] is not None)
        return DaemonSample(
            program=program,
            clock=clock,
            at_s=at_s,
            offset_ns=float(match["offset"]),
            state=int(match["state"]),
            frequency_ppb=float(match["freq"]),
            delay_ns=_optional(match["delay"]),
        )
    if (match := _SUMMARY.search(line)) is not None:
        program, clock = _source(line, match["words"], path_delay=False)
        return DaemonSummary(
            program=program,
            clock=clock,
            at_s=at_s,
            rms_ns=float(match["rms"]),
            max_ns=float(match["max"]),
            frequency_ppb=float(match["freq"]),
            frequency_sd_ppb=float(match["freq_sd"]),
            delay_ns=_optional(match["delay"]),
            delay_sd_ns=_optional(match["delay_sd"]),
        )
    for pattern, kind in _EVENTS:
        if (match := pattern.search(line)) is not None:
            program, _ = _source(line, "", path_delay=True)
            return DaemonEvent(program=program, at_s=at_s, kind=kind, text=_content(line))
    return None


def _source(line: str, words: str, *, path_delay: bool) -> tuple[Program, str]:
    """Which daemon, and which clock it steers: the first word after the log's own ones, unless
    that is what ptp4l calls its source."""
    rest = _TAG_END.sub("", words).split()
    clock = rest[0] if rest and rest[0] not in ("master", "main") else ""
    if _SPTP.search(line) is not None:
        return Program.SPTP, ""
    if (match := _PROGRAM.search(line)) is not None:
        program = Program(match[1])
    elif path_delay or not clock:
        program = Program.PTP4L
    else:
        program = Program.PHC2SYS
    return program, "" if program is Program.PTP4L else clock


def _time_of(line: str) -> float | None:
    match = _CLOCK_TIME.search(line) or _LEADING_TIME.match(line)
    return None if match is None else float(match[1])


def _content(line: str) -> str:
    """The line without what the log adds before it."""
    return _TAG_END.sub("", line).strip()


def _optional(text: str | None) -> float | None:
    return None if text is None else float(text)
