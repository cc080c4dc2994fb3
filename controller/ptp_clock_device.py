# SPDX-License-Identifier: Apache-2.0
"""A PHC and the system clock read together by the kernel: layouts of two ioctls of /dev/ptpN.

Layouts are those of linux/ptp_clock.h. A `ptp_clock_time` is 16 bytes: seconds (s64), nanoseconds
(u32), four bytes that mean nothing. PTP_SYS_OFFSET_PRECISE answers with three of them - device,
CLOCK_REALTIME, CLOCK_MONOTONIC_RAW - and 16 bytes reserved. PTP_SYS_OFFSET_EXTENDED takes a number
of samples and a clock id (0: CLOCK_REALTIME), 8 bytes reserved, and answers with that number of
triples - system, device, system - in room for 25. All in the machine's byte order.
"""

import errno
import struct
from collections.abc import Callable
from dataclasses import dataclass

PTP_SAMPLES_MAX = 25
"""PTP_MAX_SAMPLES."""
_TIME = struct.Struct("=qI4x")
_PRECISE_BYTES = 3 * _TIME.size + 16
_EXTENDED_HEAD = struct.Struct("=Ii8x")
_EXTENDED_BYTES = _EXTENDED_HEAD.size + PTP_SAMPLES_MAX * 3 * _TIME.size
_READ_WRITE = 3 << 30
_MAGIC = ord("=") << 8
PTP_SYS_OFFSET_PRECISE = _READ_WRITE | _PRECISE_BYTES << 16 | _MAGIC | 8
PTP_SYS_OFFSET_EXTENDED = _READ_WRITE | _EXTENDED_BYTES << 16 | _MAGIC | 9
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL)

Ioctl = Callable[[int, int, bytearray], object]
"""`ioctl(fd, request, buffer)`: `fcntl.ioctl`, which fills the buffer."""


class PtpClockError(Exception):
    """A device that cannot be read, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhcReading:
    """A PHC's reading between two of CLOCK_REALTIME; both are one where hardware latched it."""

    system_before_ns: int
    phc_ns: int
    system_after_ns: int
    is_precise: bool


def read_phc(fd: int, ioctl: Ioctl, *, samples: int) -> tuple[PhcReading, ...]:
    """The cross-stamp where the device has it, else `samples` bracketed readings.

    PtpClockError for a device that can do neither.
    """
    precise = bytearray(_PRECISE_BYTES)
    try:
        ioctl(fd, PTP_SYS_OFFSET_PRECISE, precise)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise PtpClockError(f"PTP_SYS_OFFSET_PRECISE: {error.strerror}") from None
    else:
        return (parse_precise(precise),)
    extended = extended_request(samples)
    try:
        ioctl(fd, PTP_SYS_OFFSET_EXTENDED, extended)
    except OSError as error:
        raise PtpClockError(
            f"PTP_SYS_OFFSET_EXTENDED: {error.strerror}; the device gives no readings with the "
            "system clock around them (Linux 5.0 or later, and a driver with gettimex64)"
        ) from None
    return parse_extended(extended)


def extended_request(samples: int) -> bytearray:
    """The buffer that asks for so many readings."""
    if not 1 <= samples <= PTP_SAMPLES_MAX:
        raise ValueError(f"{samples} samples; expected 1 to {PTP_SAMPLES_MAX}")
    request = bytearray(_EXTENDED_BYTES)
    _EXTENDED_HEAD.pack_into(request, 0, samples, 0)
    return request


def parse_precise(answer: bytes | bytearray) -> PhcReading:
    """Device and system clock, latched together."""
    phc_ns, system_ns = (_time_ns(answer, place * _TIME.size) for place in (0, 1))
    return PhcReading(
        system_before_ns=system_ns, phc_ns=phc_ns, system_after_ns=system_ns, is_precise=True
    )


def parse_extended(answer: bytes | bytearray) -> tuple[PhcReading, ...]:
    """All readings, in order; the number of samples stands in the answer."""
    samples, _ = _EXTENDED_HEAD.unpack_from(answer)
    if not 1 <= samples <= PTP_SAMPLES_MAX:
        raise PtpClockError(f"PTP_SYS_OFFSET_EXTENDED: an answer with {samples} samples")
    found = []
    for sample in range(samples):
        first = _EXTENDED_HEAD.size + 3 * sample * _TIME.size
        before_ns, phc_ns, after_ns = (
            _time_ns(answer, first + place * _TIME.size) for place in range(3)
        )
        found.append(
            PhcReading(
                system_before_ns=before_ns,
                phc_ns=phc_ns,
                system_after_ns=after_ns,
                is_precise=False,
            )
        )
    return tuple(found)


def _time_ns(answer: bytes | bytearray, offset: int) -> int:
    seconds, nanoseconds = _TIME.unpack_from(answer, offset)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
