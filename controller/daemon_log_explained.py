# SPDX-License-Identifier: Apache-2.0
"""What a PTP daemon's figures mean, and what the true error of its clock was.

    printed offset     = theta + A - A_configured          theta = clock - reference
    printed path delay = (d_ms + d_sm) / 2                  whatever A is configured

A servo drives the printed offset to zero: where it stands near zero, theta is A_configured - A, of
which the daemon can know nothing (clocks.md 1.1). What its own figures do bound is |A|, by the path
delay, since no delay is negative. Who knows the delays of both ways, or the clock's correction,
knows the true error.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

import numpy as np

from controller.daemon_log import DaemonLog, DaemonSample, DaemonSummary, EventKind, Program
from correction.exchange import half_difference_ns
from correction.jumps import JUMP_NS, Jump, jump_kinds

LOCKED_STATES = (2, 3)
FREQUENCY_PPB_MAX = 500_000
"""Quartz oscillators are off by less than 100 ppm: a larger adjustment is a servo at its stop, or
one that follows nonsense."""
SPIKE_SPREADS = 20.0
SPIKE_NS = 1_000.0
"""An offset so many spreads (median of distances from the median), and at least so far, from the
others is of no normal sample."""
SETTLED_SHARE = 0.5
"""Of the samples at the log's end: a servo has converged by then."""
SETTLED_MIN = 10
"""Fewer samples say nothing of a mean."""
GROWING_SHARE = 0.8
"""Of the steps of a locked servo's offset that go one way: it does not follow."""


@unique
class LeftOut(StrEnum):
    """Why a sample is in no mean."""

    NOT_LOCKED = "not-locked"
    NEGATIVE_DELAY = "negative-path-delay"
    FREQUENCY_SATURATED = "frequency-saturated"
    JUMP_2_32 = "jump-2-32"
    JUMP_UTC_TAI = "jump-utc-tai"
    JUMP = "jump"
    FILTERED = "filtered"
    """By an SPTP client itself."""
    SPIKE = "spike"
    CONVERGING = "converging"


_LEFT_OUT_OF_JUMP = {
    Jump.OTHER: LeftOut.JUMP,
    Jump.FROM_1970: LeftOut.JUMP,
    Jump.WRAP_32: LeftOut.JUMP_2_32,
    Jump.UTC_TAI: LeftOut.JUMP_UTC_TAI,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownError:
    """What somebody else knows of the path or of the clock."""

    asymmetry_ns: float | None = None
    """A: half of (reference -> client less client -> reference)."""
    asymmetry_bound_ns: float = 0.0
    offset_ns: float | None = None
    """theta, as corrections have it."""
    offset_bound_ns: float = 0.0
    configured_ns: float = 0.0
    """`delayAsymmetry` of the client's port."""

    @classmethod
    def of_delays(cls, d_ms_ns: float, d_sm_ns: float, configured_ns: float = 0.0) -> "KnownError":
        """From both one-way delays, residence aside."""
        return cls(asymmetry_ns=half_difference_ns(d_ms_ns, d_sm_ns), configured_ns=configured_ns)


NOTHING_KNOWN = KnownError()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """Of the samples that count."""

    mean: float
    sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStory:
    """One steered clock of one daemon."""

    program: Program
    clock: str
    samples: int
    used: int
    left_out: dict[LeftOut, int]
    printed_offset_ns: Statistic | None
    """None: too few samples that count."""
    printed_delay_ns: Statistic | None
    frequency_ppb: Statistic | None
    asymmetry_ns: float | None
    """Given, or what a given correction and the printed offset imply."""
    true_error_ns: float | None
    """theta of the samples that count; None without outside knowledge."""
    true_error_bound_ns: float | None
    """Half-width around `true_error_ns`: what was given, and the noise of one printed offset.
    Without outside knowledge, around the printed offset plus what is configured: causality alone.
    """
    findings: tuple[str, ...]
    """What an operator should look at."""


def explain(log: DaemonLog, known: KnownError = NOTHING_KNOWN) -> tuple[ClockStory, ...]:
    """One story per daemon and clock, in order of appearance.

    `known` is of what ptp4l or an SPTP client steers; phc2sys and ts2phc compare two clocks of one
    machine.
    """
    keys = dict.fromkeys((one.program, one.clock) for one in log.samples)
    keys |= dict.fromkeys((one.program, one.clock) for one in log.summaries)
    return tuple(_story(log, *key, known) for key in keys)


def _story(log: DaemonLog, program: Program, clock: str, known: KnownError) -> ClockStory:
    samples = [one for one in log.samples if (one.program, one.clock) == (program, clock)]
    summaries = [one for one in log.summaries if (one.program, one.clock) == (program, clock)]
    reasons = _reasons(samples)
    used = [one for one, why in zip(samples, reasons, strict=True) if why is None]
    left_out = Counter(why for why in reasons if why is not None)
    events = Counter(one.kind for one in log.events if one.program is program)
    offset = delay = frequency = None
    if len(used) >= SETTLED_MIN:
        offset = _statistic(one.offset_ns for one in used)
        delay = _statistic(one.delay_ns for one in used if one.delay_ns is not None)
        frequency = _statistic(one.frequency_ppb for one in used)
    over_network = program in (Program.PTP4L, Program.SPTP)
    asymmetry, error, bound = _true_error(offset, delay, known, over_network=over_network)
    return ClockStory(
        program=program,
        clock=clock,
        samples=len(samples),
        used=len(used),
        left_out=dict(left_out),
        printed_offset_ns=offset,
        printed_delay_ns=delay,
        frequency_ppb=frequency,
        asymmetry_ns=asymmetry,
        true_error_ns=error,
        true_error_bound_ns=bound,
        findings=(*_findings(samples, left_out, events), *_of_summaries(summaries)),
    )


def _reasons(samples: Sequence[DaemonSample]) -> list[LeftOut | None]:
    """Why each sample is left out; None where it counts."""
    reasons: list[LeftOut | None] = [_by_itself(one) for one in samples]
    left = [n for n, why in enumerate(reasons) if why is None]
    if left:
        offset = np.array([samples[n].offset_ns for n in left])
        middle = float(np.median(offset))
        spread = float(np.median(np.abs(offset - middle)))
        limit = max(SPIKE_NS, SPIKE_SPREADS * spread)
        for n, value in zip(left, offset.tolist(), strict=True):
            if abs(value - middle) > limit:
                reasons[n] = LeftOut.SPIKE
    counted = [n for n, why in enumerate(reasons) if why is None]
    # what an unlocked start is followed by has not converged; a log that begins locked has
    first = next((n for n, one in enumerate(samples) if one.state in LOCKED_STATES), 0)
    if any(one.state not in LOCKED_STATES for one in samples[:first]):
        for n in counted[: int(len(counted) * (1.0 - SETTLED_SHARE))]:
            reasons[n] = LeftOut.CONVERGING
    return reasons


def _by_itself(sample: DaemonSample) -> LeftOut | None:
    if sample.program is Program.SPTP and sample.state == 3:
        return LeftOut.FILTERED
    if sample.delay_ns is not None and sample.delay_ns < 0:
        return LeftOut.NEGATIVE_DELAY
    if abs(sample.frequency_ppb) >= FREQUENCY_PPB_MAX:
        return LeftOut.FREQUENCY_SATURATED
    if sample.state not in LOCKED_STATES:
        return LeftOut.NOT_LOCKED
    if abs(sample.offset_ns) > JUMP_NS:
        return _LEFT_OUT_OF_JUMP[_jump(sample.offset_ns)]
    return None


def _jump(offset_ns: float) -> Jump:
    size = np.array([round(offset_ns)], np.int64)
    return Jump(int(jump_kinds(size, np.full(1, np.iinfo(np.int64).max))[0]))


def _statistic(values: Iterable[float]) -> Statistic | None:
    array = np.array(list(values))
    if not len(array):
        return None
    return Statistic(mean=float(array.mean()), sd=float(array.std()))


def _true_error(
    offset: Statistic | None, delay: Statistic | None, known: KnownError, *, over_network: bool
) -> tuple[float | None, float | None, float | None]:
    """(A, theta, bound)."""
    if offset is None:
        return known.asymmetry_ns if over_network else None, None, None
    if not over_network:
        # the reading lies somewhere within its own duration
        return None, offset.mean, None if delay is None else delay.mean / 2
    if known.offset_ns is not None:
        implied = offset.mean + known.configured_ns - known.offset_ns
        return implied, known.offset_ns, known.offset_bound_ns
    if known.asymmetry_ns is not None:
        error = offset.mean + known.configured_ns - known.asymmetry_ns
        return known.asymmetry_ns, error, known.asymmetry_bound_ns + offset.sd
    return None, None, None if delay is None else delay.mean


def _findings(
    samples: Sequence[DaemonSample],
    left_out: Counter[LeftOut],
    events: Counter[EventKind],
) -> Iterable[str]:
    if count := left_out[LeftOut.NEGATIVE_DELAY]:
        yield (
            f"{count} negative path delays: stamps of one side are wrong, or a clock is not "
            "steerable; nothing it prints can be believed"
        )
    if count := left_out[LeftOut.FREQUENCY_SATURATED]:
        yield f"{count} updates with the frequency at its stop: the clock is not followed"
    for reason, what in (
        (LeftOut.JUMP_2_32, "a multiple of 2^32 ns: driver or device, not time"),
        (LeftOut.JUMP_UTC_TAI, "37 s: UTC against TAI"),
        (LeftOut.JUMP, f"more than {JUMP_NS // 1_000_000} ms"),
    ):
        if count := left_out[reason]:
            yield f"{count} offsets of {what}"
    if count := events[EventKind.JUMPED_FORWARD] + events[EventKind.JUMPED_BACKWARD]:
        yield f"{count} times the clock jumped: set by another program, or by its driver"
    if count := events[EventKind.FREQUENCY_CHANGED]:
        yield f"{count} times the clock's frequency was changed by another program"
    if count := events[EventKind.FAULT]:
        yield f"{count} times a port lost its synchronisation"
    locked = np.array([one.offset_ns for one in samples if one.state in LOCKED_STATES])
    if len(locked) >= SETTLED_MIN:
        size = np.abs(locked)
        grows = float(np.mean(np.diff(size) > 0))
        if grows > GROWING_SHARE and size[-1] > SPIKE_NS:
            yield "locked, and yet the offset grows: the state letter means nothing here"


def _of_summaries(summaries: Sequence[DaemonSummary]) -> Iterable[str]:
    """A summary has no single samples; its largest offset still tells of jumps."""
    for one in summaries:
        if one.max_ns <= JUMP_NS:
            continue
        kind = _jump(one.max_ns)
        look = f": {round(one.max_ns / 2**32)} x 2^32 ns" if kind is Jump.WRAP_32 else ""
        look = ": UTC against TAI" if kind is Jump.UTC_TAI else look
        yield f"a summary with an offset of {one.max_ns:.0f} ns{look}; its mean is of no use"
