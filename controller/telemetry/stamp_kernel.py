# SPDX-License-Identifier: Apache-2.0
"""One device's raw stamps placed on its local time line: the rule, compiled.

The collector's clock says about what the device shows now; a stamp of limited width is the
number nearest to that. The anchor - the newest stamp that was believed - moves only with stamps
that come where they were expected, so that a damaged stamp misleads nobody after it. Stamps that
land elsewhere and bear each other out are a clock that was set or began anew: a new epoch.
"""

from enum import IntEnum, unique
from typing import Any

from controller.telemetry.unwrap import UNWRAP_WIDTH_BITS_MAX
from correction.compiled import compiled, inlined
from correction.records import NO_TSTAMP_NS

Array = Any  # numba compiles for what it is given; callers pass int64 and uint64 arrays


@unique
class StampFault(IntEnum):
    """Why a raw stamp is no instant."""

    NONE = 0
    ABSENT = 1
    """Raw 0, which the decoder also makes of all-ones: not available (INT 4.7)."""
    IMPOSSIBLE = 2
    """Needs more bits than the device has, or is too large to be subtracted."""
    OFF_ORIGIN = 3
    """A clock said to count from an epoch shows a time more than a day off (a 1970 clock)."""
    AMBIGUOUS = 4
    """Wraps faster than reports arrive, and the packet has no wider stamp of that node."""


UNIT_NS = 0
WIDTH_BITS = 1
"""0: it never wraps."""
LIMIT = 2
"""First impossible value, in units."""
EGRESS_WIDTH_BITS = 3
"""Of egress stamps, where they are narrower; 0: as wide as ingress stamps."""
ORIGIN_COLLECTOR_NS = 4
"""What a clock with a known origin shows when the collector's shows 0; NO_TSTAMP_NS: any."""
ANCHORED = 5
ANCHOR = 6
"""Newest believed stamp, unwrapped, in units."""
ANCHOR_COLLECTOR_NS = 7
SUSPECTS = 8
"""Stamps in a row that were not expected and bear each other out."""
SUSPECT = 9
SUSPECT_COLLECTOR_NS = 10
EPOCHS = 11
"""Times that the clock began anew."""
JUMP_UNITS = 12
"""Of the newest epoch: what it showed less what was expected."""
STATE_COLUMNS = 13

JUMP_NS = 1_000_000_000
"""Further off than this, and than a quarter of its period, a stamp is not expected. Reports take
micro- to milliseconds."""
RATE_ERROR_SHARE = 5_000
"""One part in so many (200 ppm) for the rates of the device's and the collector's clock."""
EPOCH_STAMPS = 3
"""So many agreeing stamps are an epoch."""
PERIOD_NS_MIN = 2_000_000_000
"""A clock that wraps faster cannot be placed by the collector's time."""
ORIGIN_SLACK_NS = 86_400_000_000_000

_NO_STAMP = NO_TSTAMP_NS
_WIDTH_MAX = UNWRAP_WIDTH_BITS_MAX
_NONE, _ABSENT, _IMPOSSIBLE = (
    int(StampFault.NONE),
    int(StampFault.ABSENT),
    int(StampFault.IMPOSSIBLE),
)
_OFF_ORIGIN, _AMBIGUOUS = int(StampFault.OFF_ORIGIN), int(StampFault.AMBIGUOUS)


def new_state(
    *, unit_ns: int, width_bits: int, egress_width_bits: int | None, origin_ns: int | None
) -> list[int]:
    """The row of a device that has not been heard of.

    `origin_ns`: its reading less the collector's, where its epoch is known.
    """
    width = 0 if width_bits > UNWRAP_WIDTH_BITS_MAX else width_bits
    row = [0] * STATE_COLUMNS
    row[UNIT_NS], row[WIDTH_BITS] = unit_ns, width
    # ns must fit 62 bits, so that differences of two stamps fit an int64
    row[LIMIT] = min(1 << min(width_bits, _WIDTH_MAX), (1 << _WIDTH_MAX) // unit_ns)
    narrower = egress_width_bits is not None and egress_width_bits < width_bits
    row[EGRESS_WIDTH_BITS] = (egress_width_bits or 0) if narrower else 0
    row[ORIGIN_COLLECTOR_NS] = NO_TSTAMP_NS if origin_ns is None else origin_ns
    return row


@inlined
def _nearest(value: int, width_bits: int, near: int) -> int:
    """`unwrap` of one number; 0 bits: the number itself."""
    if width_bits == 0:
        return value
    distance = (value - near) & ((1 << width_bits) - 1)
    return near + distance - ((distance >> (width_bits - 1)) << width_bits)


@inlined
def _units(ns: int, unit_ns: int) -> int:
    """Whole units, rounded down; most devices count nanoseconds, and a division takes longer than
    all the rest of `place`."""
    return ns if unit_ns == 1 else ns // unit_ns


@inlined
def place(row: Array, raw: int, captured_collector_ns: int, width_bits: int) -> Any:  # noqa: ANN401
    """(fault, unwrapped stamp in units) of a raw stamp; advances the row's state.

    `raw` is not negative; `width_bits` is that of this kind of stamp, 0 if it never wraps.
    """
    if raw == 0:
        return _ABSENT, 0
    unit_ns = row[UNIT_NS]
    limit = row[LIMIT]
    if width_bits != 0 and (1 << width_bits) < limit:
        limit = 1 << width_bits
    if raw >= limit or raw < 0:  # a raw stamp of 2^63 or more arrives negative
        return _IMPOSSIBLE, 0
    if width_bits != 0 and (1 << width_bits) * unit_ns < PERIOD_NS_MIN:
        return _AMBIGUOUS, 0
    if row[ORIGIN_COLLECTOR_NS] != _NO_STAMP:
        expected = _units(captured_collector_ns + row[ORIGIN_COLLECTOR_NS], unit_ns)
        if row[ANCHORED] == 0:
            row[ANCHOR] = expected
            row[ANCHOR_COLLECTOR_NS] = captured_collector_ns
            row[ANCHORED] = 1
        if width_bits == 0 and abs(raw - expected) > ORIGIN_SLACK_NS // unit_ns:
            return _OFF_ORIGIN, 0
    if row[ANCHORED] == 0:
        row[ANCHORED] = 1
        row[ANCHOR] = raw
        row[ANCHOR_COLLECTOR_NS] = captured_collector_ns
        return _NONE, raw
    elapsed = _units(captured_collector_ns - row[ANCHOR_COLLECTOR_NS], unit_ns)
    near = row[ANCHOR] + elapsed
    stamp = _nearest(raw, width_bits, near)
    tolerance = _units(JUMP_NS, unit_ns) + 1 + abs(elapsed) // RATE_ERROR_SHARE
    if width_bits != 0:
        tolerance = min(tolerance, 1 << (width_bits - 2))
    if captured_collector_ns < row[ANCHOR_COLLECTOR_NS]:
        return _NONE, stamp
    if abs(stamp - near) <= tolerance:
        row[ANCHOR] = stamp
        row[ANCHOR_COLLECTOR_NS] = captured_collector_ns
        row[SUSPECTS] = 0
        return _NONE, stamp
    if row[SUSPECTS] != 0:
        since = _units(captured_collector_ns - row[SUSPECT_COLLECTOR_NS], unit_ns)
        borne_out = row[SUSPECT] + since
        again = _nearest(raw, width_bits, borne_out)
        if abs(again - borne_out) <= tolerance:
            if captured_collector_ns > row[SUSPECT_COLLECTOR_NS]:
                row[SUSPECTS] += 1
            row[SUSPECT] = again
            row[SUSPECT_COLLECTOR_NS] = captured_collector_ns
            if row[SUSPECTS] >= EPOCH_STAMPS:
                row[EPOCHS] += 1
                row[JUMP_UNITS] = again - near
                row[ANCHOR] = again
                row[ANCHOR_COLLECTOR_NS] = captured_collector_ns
                row[SUSPECTS] = 0
            return _NONE, again
    row[SUSPECTS] = 1
    row[SUSPECT] = stamp
    row[SUSPECT_COLLECTOR_NS] = captured_collector_ns
    return _NONE, stamp


def _place_hop(row: Array, ingress: int, egress: int, captured_collector_ns: int) -> Any:  # noqa: ANN401
    """(ingress fault, ingress local ns, egress fault, egress local ns) of one hop's raw stamps.

    A narrower egress stamp is counted on from the ingress stamp: a packet stays in a switch for
    less than its period.
    """
    unit_ns = row[UNIT_NS]
    ingress_fault, ingress_units = place(row, ingress, captured_collector_ns, row[WIDTH_BITS])
    ingress_ns = ingress_units * unit_ns if ingress_fault == _NONE else _NO_STAMP
    width_bits = row[EGRESS_WIDTH_BITS]
    if width_bits == 0:
        width_bits = row[WIDTH_BITS]
    elif ingress_fault == _NONE and egress != 0:
        if egress < 0 or egress >= (1 << width_bits):
            return ingress_fault, ingress_ns, _IMPOSSIBLE, _NO_STAMP
        stay = (egress - ingress_units) & ((1 << width_bits) - 1)
        return ingress_fault, ingress_ns, _NONE, (ingress_units + stay) * unit_ns
    egress_fault, egress_units = place(row, egress, captured_collector_ns, width_bits)
    egress_ns = egress_units * unit_ns if egress_fault == _NONE else _NO_STAMP
    return ingress_fault, ingress_ns, egress_fault, egress_ns


place_hop = compiled(_place_hop)
place_hop_inlined = inlined(_place_hop)
"""The same, for loops."""


@compiled
def place_hops(
    state: Array,
    row: Array,
    ingress: Array,
    egress: Array,
    captured_collector_ns: Array,
    ingress_local_ns: Array,
    egress_local_ns: Array,
    faults: Array,
    epochs: Array,
) -> int:
    """`place_hop` of many hops in their order; returns how many epochs began.

    state: int64[nodes, STATE_COLUMNS]; row: index into it per hop; stamps: int64 views of the
    64-bit fields; faults: int64[2, kinds], counts
    added up; epochs: int64[n, 3], filled with (row, collector ns, jump in units) while there is
    room.
    """
    begun = 0
    for i in range(len(row)):
        one = state[row[i]]
        before = one[EPOCHS]
        ingress_fault, ingress_ns, egress_fault, egress_ns = place_hop_inlined(
            one, ingress[i], egress[i], captured_collector_ns[i]
        )
        ingress_local_ns[i] = ingress_ns
        egress_local_ns[i] = egress_ns
        faults[0, ingress_fault] += 1
        faults[1, egress_fault] += 1
        if one[EPOCHS] != before:
            if begun < len(epochs):
                epochs[begun, 0] = row[i]
                epochs[begun, 1] = captured_collector_ns[i]
                epochs[begun, 2] = one[JUMP_UNITS]
            begun += 1
    return begun
