# SPDX-License-Identifier: Apache-2.0
"""Which clock took a stamp: its kind, its name, and what is said when that is not known.

A clock's name is what corrections go by. The PHC of host `h3` is `h3`, as in `fabric.yaml`; other
clocks of a host stand beside it: `h3/system`, `h3/gpu0`, `h3/monotonic/BOOT`. An empty name means
that the clock is not known: such a stamp is never corrected and never ordered against others.

Time since boot begins anew with each boot, so the boot's id is part of the name: readings of one
boot never correct spans of another. `h3/gpu0` is the GPU's time as its driver converts it to host
time, which CUPTI and so Kineto give; the timer itself, %globaltimer, counts from another instant
and at another rate, and is `h3/gpu0/globaltimer`.
"""

from enum import StrEnum, unique

RESOURCE_CLOCK_KIND = "tempotrace.clock.kind"
"""Resource attribute: a ClockKind."""
RESOURCE_CLOCK_QUANTUM_NS = "tempotrace.clock.quantum_ns"
"""Resource attribute: all stamps are multiples of this, so each may be off by as much."""
RESOURCE_CLOCK_REASON = "tempotrace.clock.reason"
"""Resource attribute: why no clock is named."""
RESOURCE_HOST_IP = "host.ip"
RESOURCE_HOST_ID = "host.id"

SPAN_RANK = "tempotrace.rank"
SPAN_COMMUNICATOR = "tempotrace.communicator"
SPAN_SEQUENCE = "tempotrace.sequence"
"""Span attribute of a collective: its number within its communicator. Spans of all ranks with the
same communicator and number are one operation; order of appearance never joins any."""
SPAN_TIME_FLAG = "tempotrace.time.flag"
"""Span attribute: a TimeFlag, where a span's own stamps contradict each other or other events."""


@unique
class ClockKind(StrEnum):
    """What kind of clock took a stamp."""

    SYSTEM = "system"
    """The host's system clock (CLOCK_REALTIME), steered by NTP, phc2sys or nobody."""
    PHC = "phc"
    """The hardware clock of a NIC."""
    GPU = "gpu"
    """A GPU's timer, as its driver converted it."""
    MONOTONIC = "monotonic"
    """Time since some start of the host or process; says nothing about other hosts."""
    TAI = "tai"
    """The host's CLOCK_TAI: its system clock and a whole number of seconds."""
    UNKNOWN = "unknown"


@unique
class TimeFlag(StrEnum):
    """What is wrong with the stamps of one span. Raw stamps are kept all the same."""

    END_BEFORE_START = "end_before_start"
    """Two clocks in one span, or one that was set back: the duration is unknown."""
    BEFORE_LAUNCH = "before_launch"
    """A GPU activity starts before the call that launched it: the offset between GPU and host
    clock exceeds the launch latency."""
    IMPOSSIBLE_START = "impossible_start"
    """The same by more than clocks explain: the stamp itself is wrong."""
    OUT_OF_SEQUENCE = "out_of_sequence"
    """Sequence numbers and stamps contradict each other."""
    NOT_COMPLETED = "not_completed"
    """The operation had not ended when it was recorded: the end is not known."""


GLOBALTIMER = "globaltimer"
"""Last part of the name of a GPU's own timer."""


def clock_name(host: str, kind: ClockKind, index: int | None = None, *, boot_id: str = "") -> str:
    """Name of a host's clock; empty if the host or the kind is not known.

    >>> clock_name("h3", ClockKind.PHC), clock_name("h3", ClockKind.GPU, 1)
    ('h3', 'h3/gpu1')
    >>> clock_name("h3", ClockKind.MONOTONIC, boot_id="0f9c")
    'h3/monotonic/0f9c'
    """
    if not host or kind is ClockKind.UNKNOWN:
        return ""
    if kind is ClockKind.PHC:
        return host
    name = f"{host}/{kind.value}{'' if index is None else index}"
    return f"{name}/{boot_id}" if boot_id else name


def derived_kind(name: str) -> str:
    """Kind of a clock that only readings of clock pairs correct; empty for all others.

    >>> [derived_kind(name) for name in ("h3/gpu0", "h3/system", "h3", "leaf1/ptp")]
    ['gpu', 'system', '', '']
    """
    kind = kind_of_name(name)
    return "" if kind in (ClockKind.PHC, ClockKind.UNKNOWN) else kind.value


def kind_of_name(name: str) -> ClockKind:
    """What kind of clock a name stands for.

    >>> [kind_of_name(name).value for name in ("h3", "h3/gpu12", "h3/monotonic/0f9c", "h3/ptp")]
    ['phc', 'gpu', 'monotonic', 'unknown']
    """
    host, _, rest = name.partition("/")
    if not host:
        return ClockKind.UNKNOWN
    if not rest:
        return ClockKind.PHC
    kind = rest.partition("/")[0].rstrip("0123456789").removesuffix("_raw")
    found = next((one for one in ClockKind if one.value == kind), ClockKind.UNKNOWN)
    return ClockKind.UNKNOWN if found is ClockKind.PHC else found
