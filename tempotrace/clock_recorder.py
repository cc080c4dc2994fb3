# SPDX-License-Identifier: Apache-2.0
"""Reads a host's clocks in pairs, again and again: what `clock record` does, with the operating
system handed in."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from controller.clock_pairs import ClockPair, PairKind, clock_pair_line, derived_clock_line
from controller.clock_reading import pair_in_parent, pair_of_phc, tightest
from controller.host_clocks import default_behaviour
from controller.ptp_clock_device import PTP_SAMPLES_MAX, Ioctl, read_phc
from tracing_core.clock_domains import ClockKind, clock_name

TRIES = 15
"""Readings in a row of which the tightest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClockSource:
    """Where readings come from."""

    host: str
    boot_id: str
    read_ns: Callable[[int], int]
    """By clock id: `time.clock_gettime_ns`."""
    ioctl: Ioctl
    phc_fd: int | None
    """An open /dev/ptpN; None: the system clock has no parent."""

    @property
    def system(self) -> str:
        """Name of CLOCK_REALTIME."""
        return clock_name(self.host, ClockKind.SYSTEM)

    @property
    def since_boot(self) -> dict[str, int]:
        """Names and ids of the clocks that are read against CLOCK_REALTIME."""
        monotonic = clock_name(self.host, ClockKind.MONOTONIC, boot_id=self.boot_id)
        return {
            monotonic: time.CLOCK_MONOTONIC,
            monotonic.replace("/monotonic/", "/monotonic_raw/"): time.CLOCK_MONOTONIC_RAW,
            f"{self.host}/tai": time.CLOCK_TAI,
        }


def declaring_lines(source: HostClockSource) -> list[str]:
    """A `derived_clock` line per pair that will be read."""
    parents = dict.fromkeys(source.since_boot, source.system)
    if source.phc_fd is not None:
        parents[source.system] = source.host
    return [
        derived_clock_line(clock, parent, default_behaviour(clock, parent))
        for clock, parent in parents.items()
    ]


def read_once(source: HostClockSource) -> Iterator[ClockPair]:
    """One pair of each kind; PtpClockError if the PHC cannot be read."""
    if source.phc_fd is not None:
        readings = read_phc(source.phc_fd, source.ioctl, samples=min(TRIES, PTP_SAMPLES_MAX))
        pair = pair_of_phc(readings, system=source.system, phc=source.host)
        if pair is not None:
            yield pair
    for clock, number in source.since_boot.items():
        bracket = tightest(
            lambda: source.read_ns(time.CLOCK_REALTIME),
            lambda number=number: source.read_ns(number),  # type: ignore[misc]  # bound now
            tries=TRIES,
        )
        if bracket is not None:
            yield pair_in_parent(
                bracket, clock=clock, parent=source.system, kind=PairKind.BRACKETED
            )


def record(
    source: HostClockSource,
    write: Callable[[str], None],
    *,
    ticks: int | None,
    wait: Callable[[], bool],
) -> int:
    """Declare, then read until `ticks` (None: for ever) or until `wait` says to end; returns the
    number of pairs."""
    for line in declaring_lines(source):
        write(line)
    pairs = 0
    tick = 0
    while True:
        for pair in read_once(source):
            write(clock_pair_line(pair))
            pairs += 1
        tick += 1
        if (ticks is not None and tick >= ticks) or wait():
            return pairs
