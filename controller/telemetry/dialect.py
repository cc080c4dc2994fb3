# SPDX-License-Identifier: Apache-2.0
"""How a sender's reports deviate from the standard, and how its stamps become nanoseconds.

Public emitters differ in layout, counting and units; a decoder that guesses is wrong silently.
So every device model names one profile of this table, and its stamp unit and width are declared
in fabric.yaml: there is no default unit (INT v2.1 leaves units to the device).
"""

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from correction.records import NO_TSTAMP_NS

SEQUENCE_BITS = 22
"""Width of the report sequence number (TR 3.2)."""
UNWRAP_WIDTH_BITS_MAX = 62
"""Wider stamps are taken as they are: in any unit they do not wrap in a device's lifetime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A named profile of report and stack encoding; the defaults are the standard's."""

    name: str
    doc: str
    report_version: int = 2
    """First nibble of the report."""
    hw_id_shift: int = 0
    """hw_id's true width is smaller by this; the sequence number's spare high bits are 0."""
    sequence_constant: bool = False
    """The sender never advances the sequence number: loss does not show."""
    shim_length_counts_shim: bool = False
    """The shim's length includes its own word, as in INT v1.x."""


_PROFILES = (
    Dialect(name="tempotrace-v2", doc="Telemetry Report v2.0 and INT-MD v2.1 as specified"),
    Dialect(
        name="intel-switch-p4-16",
        doc="hw_id of 4 bits, sequence of 24 bits that wraps at 2^22",
        hw_id_shift=2,
    ),
)
DIALECTS = {profile.name: profile for profile in _PROFILES}
"""All profiles by name; the first is the standard."""
STANDARD = _PROFILES[0]


@overload
def unwrap(value: int, width_bits: int, near: int) -> int: ...
@overload
def unwrap(
    value: NDArray[np.int64], width_bits: int, near: NDArray[np.int64]
) -> NDArray[np.int64]: ...
def unwrap(
    value: int | NDArray[np.int64], width_bits: int, near: int | NDArray[np.int64]
) -> int | NDArray[np.int64]:
    """The number nearest to `near` that equals `value` modulo 2^width_bits.

    All in one unit, on one clock. Right while |true - near| < 2^(width_bits - 1); at exactly half
    a period the earlier candidate is taken.

    >>> unwrap(3, 8, 254), unwrap(254, 8, 256), unwrap(0, 32, 2**32 + 5)
    (259, 254, 4294967296)
    """
    assert 1 <= width_bits <= UNWRAP_WIDTH_BITS_MAX
    distance = (value - near) & ((1 << width_bits) - 1)
    return near + distance - ((distance >> (width_bits - 1)) << width_bits)


class StampTimeline:
    """One device's stamps as local nanoseconds that never wrap.

    The origin is the device's own: the first stamp seen is taken as it is. The collector's clock
    only says how many periods have passed since the last stamp, so it may be wrong by less than
    half a period (35 hours for 48 bits of ns, 2.1 s for 32 bits).
    """

    def __init__(self, *, unit_ns: int, width_bits: int) -> None:
        self.unit_ns = unit_ns
        self._wraps = width_bits <= UNWRAP_WIDTH_BITS_MAX
        self._width_bits = min(width_bits, UNWRAP_WIDTH_BITS_MAX)
        # ns must fit 62 bits, so that differences of two stamps fit an int64
        self._limit = min(1 << self._width_bits, (1 << UNWRAP_WIDTH_BITS_MAX) // unit_ns)
        self._anchor: tuple[int, int] | None = None
        """(unwrapped stamp in units, collector time in ns when it arrived)."""

    def one_to_local_ns(self, stamp: int, captured_collector_ns: int) -> int | None:
        """Local ns of one raw stamp; None when it is 0 (not available) or impossible."""
        if not 0 < stamp < self._limit:
            return None
        if self._wraps:
            if self._anchor is None:
                self._anchor = (stamp, captured_collector_ns)
            stamp = unwrap(stamp, self._width_bits, self._near(captured_collector_ns))
            self._anchor = (stamp, captured_collector_ns)
        return stamp * self.unit_ns

    def to_local_ns(
        self, stamps: NDArray[np.uint64], captured_collector_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(local ns or NO_TSTAMP_NS, mask of impossible stamps) of raw 64-bit stamps.

        A raw 0 means not available (TR and INT: all-ones; 0 is what BMv2 leaves unset). A stamp
        that needs more bits than the device has is impossible.
        """
        absent = stamps == 0
        impossible = ~absent & (stamps >= np.uint64(self._limit))
        valid = ~(absent | impossible)
        local_ns = np.full(stamps.shape, NO_TSTAMP_NS, dtype=np.int64)
        if valid.any():
            units = stamps[valid].astype(np.int64)
            captured = captured_collector_ns[valid]
            if self._wraps:
                if self._anchor is None:
                    self._anchor = (int(units[0]), int(captured[0]))
                units = unwrap(units, self._width_bits, self._near(captured))
                self._anchor = (int(units[-1]), int(captured[-1]))
            local_ns[valid] = units * self.unit_ns
        return local_ns, impossible

    @overload
    def _near(self, captured_collector_ns: int) -> int: ...
    @overload
    def _near(self, captured_collector_ns: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def _near(self, captured_collector_ns: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
        """About what the device's clock showed then, in units."""
        assert self._anchor is not None
        stamp, arrival_ns = self._anchor
        return (captured_collector_ns - arrival_ns) // self.unit_ns + stamp
