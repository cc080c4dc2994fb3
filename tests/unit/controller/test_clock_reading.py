# SPDX-License-Identifier: Apache-2.0
"""Readings of two clocks: which one counts, what it says, and the kernel's layouts."""

import errno
import struct
from collections.abc import Iterator

import pytest

from controller.clock_pairs import PairKind
from controller.clock_reading import (
    Bracket,
    pair_in_parent,
    pair_of_phc,
    pairs_of_phc2sys,
    tightest,
)
from controller.daemon_log import parse_daemon_log
from controller.ptp_clock_device import (
    PTP_SYS_OFFSET_EXTENDED,
    PTP_SYS_OFFSET_PRECISE,
    PhcReading,
    PtpClockError,
    extended_request,
    parse_extended,
    read_phc,
)

S = 1_000_000_000


def instant(seconds: int, nanoseconds: int) -> bytes:
    """A `ptp_clock_time`: s64, u32, four bytes reserved."""
    return struct.pack("=qII", seconds, nanoseconds, 0xDEADBEEF)


PRECISE = instant(1_790_000_037, 5) + instant(1_790_000_000, 7) + instant(99, 1) + bytes(16)
EXTENDED = (
    struct.pack("=IiII", 2, 0, 0, 0)
    + instant(100, 0)
    + instant(137, 999_999_999)
    + instant(100, 3_000)
    + instant(101, 0)
    + instant(139, 0)
    + instant(101, 1_000)
).ljust(1_216, b"\0")


class FakeDevice:
    """Stands for a PTP clock device that answers some requests."""

    def __init__(self, answers: dict[int, bytes | int]) -> None:
        self._answers = answers
        self.asked: list[tuple[int, int, bytes]] = []

    def ioctl(self, fd: int, request: int, buffer: bytearray) -> int:
        """Fill the buffer, or raise OSError."""
        self.asked.append((fd, request, bytes(buffer)))
        answer = self._answers.get(request, errno.EOPNOTSUPP)
        if isinstance(answer, int):
            raise OSError(answer, "no")
        assert len(answer) == len(buffer)
        buffer[:] = answer
        return 0


def test_request_numbers_are_those_of_the_kernel_header() -> None:
    """_IOWR('=', 8, 64 bytes) and _IOWR('=', 9, 1216 bytes) of linux/ptp_clock.h."""
    assert PTP_SYS_OFFSET_PRECISE == 0xC0403D08
    assert PTP_SYS_OFFSET_EXTENDED == 0xC4C03D09


def test_a_cross_stamp_is_preferred_to_a_bracketed_reading() -> None:
    """PTP_SYS_OFFSET_PRECISE answers device, then system clock; nothing else is asked."""
    device = FakeDevice({PTP_SYS_OFFSET_PRECISE: PRECISE, PTP_SYS_OFFSET_EXTENDED: EXTENDED})
    (reading,) = read_phc(3, device.ioctl, samples=5)
    system_ns = 1_790_000_000 * S + 7
    assert reading == PhcReading(
        system_before_ns=system_ns,
        phc_ns=1_790_000_037 * S + 5,
        system_after_ns=system_ns,
        is_precise=True,
    )
    assert [(fd, request) for fd, request, _ in device.asked] == [(3, PTP_SYS_OFFSET_PRECISE)]


def test_without_cross_stamps_readings_are_bracketed() -> None:
    """System, device, system, as many triples as were asked for."""
    device = FakeDevice({PTP_SYS_OFFSET_EXTENDED: EXTENDED})
    readings = read_phc(3, device.ioctl, samples=2)
    assert device.asked[1][2][:16] == struct.pack("=IiII", 2, 0, 0, 0)
    assert [(r.system_before_ns, r.phc_ns, r.system_after_ns) for r in readings] == [
        (100 * S, 137 * S + 999_999_999, 100 * S + 3_000),
        (101 * S, 139 * S, 101 * S + 1_000),
    ]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({}, "PTP_SYS_OFFSET_EXTENDED: no; the device gives no readings"),
        ({PTP_SYS_OFFSET_PRECISE: errno.ENODEV}, "PTP_SYS_OFFSET_PRECISE: no"),
        ({PTP_SYS_OFFSET_EXTENDED: bytes(1_216)}, "an answer with 0 samples"),
    ],
)
def test_a_device_that_cannot_be_read_says_so(answers: dict[int, bytes | int], words: str) -> None:
    """One line that names the request."""
    with pytest.raises(PtpClockError, match=words):
        read_phc(3, FakeDevice(answers).ioctl, samples=2)


@pytest.mark.parametrize("samples", [0, 26])
def test_the_kernel_takes_1_to_25_samples(samples: int) -> None:
    """More do not fit into the structure."""
    with pytest.raises(ValueError, match="1 to 25"):
        extended_request(samples)


def test_the_shortest_of_the_phcs_readings_counts() -> None:
    """System clock in the middle of 1 us, PHC 38 s ahead of it: offset -38 s, right to 500 ns."""
    pair = pair_of_phc(parse_extended(EXTENDED), system="h3/system", phc="h3")
    assert pair is not None
    assert pair.kind is PairKind.PTP_EXTENDED
    assert (pair.clock, pair.parent) == ("h3/system", "h3")
    assert pair.clock_local_ns - pair.parent_local_ns == -38 * S + 500
    assert pair.uncertainty_ns == 500


def test_an_odd_window_is_rounded_up() -> None:
    """A window of 5 ns: its middle is 2 ns in, right to 3 ns; a coarse clock's tick is added."""
    bracket = Bracket(before_ns=100, middle_ns=7_168, after_ns=105)
    pair = pair_in_parent(
        bracket, clock="h3/gpu0", parent="h3/system", kind=PairKind.CUPTI, tick_ns=1_024
    )
    assert (pair.clock_local_ns, pair.parent_local_ns, pair.uncertainty_ns) == (7_168, 102, 1_027)


def clock(*readings: int) -> Iterator[int]:
    """A clock that shows these one after the other."""
    return iter(readings)


def test_the_tightest_of_several_readings_counts_and_none_that_goes_back() -> None:
    """Windows of 30, -50 (the clock was set) and 20: the last one."""
    outer, inner = clock(0, 30, -20, 0), clock(1, 2, 3)
    found = tightest(lambda: next(outer), lambda: next(inner), tries=3)
    assert found == Bracket(before_ns=-20, middle_ns=3, after_ns=0)
    outer, inner = clock(9, 5), clock(1)
    assert tightest(lambda: next(outer), lambda: next(inner), tries=1) is None


def test_phc2sys_prints_the_system_clock_less_the_phc() -> None:
    """`offset 800 delay 500`: system 800 ns ahead of the PHC less 37 s; right to 250 ns and what
    the kernel may steer in 2 ms; other lines are counted."""
    log = parse_daemon_log(
        [
            "phc2sys[12.345]: CLOCK_REALTIME phc offset 800 s2 freq +10 delay 500",
            "phc2sys[13.345]: CLOCK_REALTIME phc offset 900 s2 freq +10",
            "phc2sys[14.345]: eth1 phc offset 900 s2 freq +10 delay 500",
            "ptp4l[14.5]: master offset -3 s2 freq +12 path delay 7022",
        ]
    )
    pairs, left_out = pairs_of_phc2sys(
        log, system="h3/system", phc="h3", system_less_monotonic_ns=1_000 * S, tai_utc_s=37
    )
    (pair,) = pairs
    assert pair.clock_local_ns == 1_012 * S + 345_000_000
    assert pair.clock_local_ns - pair.parent_local_ns == 800 - 37 * S
    assert pair.uncertainty_ns == 250 + 1_000
    assert left_out == {"of another clock": 2, "no time or no delay": 1}
