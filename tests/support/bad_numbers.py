# SPDX-License-Identifier: Apache-2.0
"""Numbers that no clock shows and no network makes, put into exchanges, hop records and samples.

Each damage comes with the reason that must be counted for it (clocks.md section 7).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from correction.links import Reject

WRAP_NS = 2**32
UTC_TAI_NS = 37 * 10**9
HOUR_NS = 3_600 * 10**9
CLIENT = ("t2_local_ns", "t3_local_ns")
REFERENCE = ("t1_reference_ns", "t4_reference_ns")
STAMPS = (*REFERENCE, *CLIENT)


@dataclass(frozen=True, kw_only=True)
class Damage:
    """What is done to rows, in place, and what it is called."""

    name: str
    reason: Reject
    apply: Callable[[np.ndarray, np.random.Generator], None]


def _shift(
    fields: tuple[str, ...], by_ns: int
) -> Callable[[np.ndarray, np.random.Generator], None]:
    def apply(rows: np.ndarray, _rng: np.random.Generator) -> None:
        for field in fields:
            rows[field] += by_ns

    return apply


def _wraps(fields: tuple[str, ...]) -> Callable[[np.ndarray, np.random.Generator], None]:
    def apply(rows: np.ndarray, rng: np.random.Generator) -> None:
        by_ns = rng.choice([-4, -1, 1, 2, 4], len(rows)) * WRAP_NS
        for field in fields:
            rows[field] += by_ns

    return apply


def _to_1970(fields: tuple[str, ...]) -> Callable[[np.ndarray, np.random.Generator], None]:
    """Seconds since the device was switched on."""

    def apply(rows: np.ndarray, rng: np.random.Generator) -> None:
        start_ns = rows[fields[0]] - rng.integers(10**9, 10**14, len(rows))
        for field in fields:
            rows[field] -= start_ns

    return apply


def _set(field: str, low: int, high: int) -> Callable[[np.ndarray, np.random.Generator], None]:
    def apply(rows: np.ndarray, rng: np.random.Generator) -> None:
        rows[field] = rng.integers(low, high, len(rows))

    return apply


def _by_themselves() -> list[Damage]:
    """A row refutes itself: any number of them changes nothing."""
    found = [
        Damage(
            name="negative path delay",
            reason=Reject.EXCHANGE_DELAY_NEGATIVE,
            apply=_shift(("t4_reference_ns",), -10_000_000),
        ),
        Damage(
            name="path delay of seconds",
            reason=Reject.EXCHANGE_DELAY_TOO_LARGE,
            apply=_shift(("t2_local_ns",), 1_500_000_000),
        ),
    ]
    for field in ("c1_ns", "c2_ns"):
        found += [
            Damage(
                name=f"{field} negative",
                reason=Reject.EXCHANGE_CORRECTION_NEGATIVE,
                apply=_set(field, -(2**40), -10_001),
            ),
            Damage(
                name=f"{field} above 10 s",
                reason=Reject.EXCHANGE_CORRECTION_TOO_LARGE,
                apply=_set(field, 10 * 10**9 + 1, 2**62),
            ),
            Damage(
                name=f"{field} of a second",
                reason=Reject.EXCHANGE_CORRECTION_ABOVE_DELAY,
                apply=_set(field, 10**9, 2 * 10**9),
            ),
        ]
    for field in STAMPS:
        found += [
            Damage(
                name=f"{field} off by k x 2^32 ns",
                reason=Reject.EXCHANGE_CLOCK_JUMP_2_32,
                apply=_wraps((field,)),
            ),
            Damage(
                name=f"{field} in TAI for UTC",
                reason=Reject.EXCHANGE_CLOCK_JUMP_UTC_TAI,
                apply=_shift((field,), UTC_TAI_NS),
            ),
            Damage(
                name=f"{field} in UTC for TAI",
                reason=Reject.EXCHANGE_CLOCK_JUMP_UTC_TAI,
                apply=_shift((field,), -UTC_TAI_NS),
            ),
            Damage(
                name=f"{field} from 1970",
                reason=Reject.EXCHANGE_STAMP_FROM_1970,
                apply=_to_1970((field,)),
            ),
        ]
    return found


def _among_others() -> list[Damage]:
    """Both stamps of one end are off alike: the clock's other exchanges refute the row."""
    return [
        damage
        for end, fields in (("client", CLIENT), ("reference", REFERENCE))
        for damage in (
            Damage(
                name=f"{end} off by k x 2^32 ns",
                reason=Reject.EXCHANGE_CLOCK_JUMP_2_32,
                apply=_wraps(fields),
            ),
            Damage(
                name=f"{end} in TAI for UTC",
                reason=Reject.EXCHANGE_CLOCK_JUMP_UTC_TAI,
                apply=_shift(fields, UTC_TAI_NS),
            ),
            Damage(
                name=f"{end} from 1970",
                reason=Reject.EXCHANGE_STAMP_FROM_1970,
                apply=_to_1970(fields),
            ),
            Damage(
                name=f"{end} 5 s off",
                reason=Reject.EXCHANGE_CLOCK_JUMP,
                apply=_shift(fields, -5 * 10**9),
            ),
        )
    ]


IMPOSSIBLE_EXCHANGES = {one.name: one for one in _by_themselves()}
STRANGE_EXCHANGES = {one.name: one for one in _among_others()}

BOTH_STAMPS = ("ingress_tstamp_local_ns", "egress_tstamp_local_ns")
HOPS = {
    one.name: one
    for one in (
        Damage(
            name="clock off by k x 2^32 ns",
            reason=Reject.CLOCK_JUMP_2_32,
            apply=_wraps(BOTH_STAMPS),
        ),
        Damage(
            name="clock in TAI for UTC",
            reason=Reject.CLOCK_JUMP_UTC_TAI,
            apply=_shift(BOTH_STAMPS, UTC_TAI_NS),
        ),
        Damage(
            name="clock years off",
            reason=Reject.CLOCK_JUMP,
            apply=_shift(BOTH_STAMPS, 10**17 + 5),
        ),
        Damage(
            name="negative residence",
            reason=Reject.RESIDENCE_IMPOSSIBLE,
            apply=_shift(("egress_tstamp_local_ns",), -1_000_000),
        ),
        Damage(
            name="ingress off by 2^32 ns",
            reason=Reject.RESIDENCE_IMPOSSIBLE,
            apply=_shift(("ingress_tstamp_local_ns",), -WRAP_NS),
        ),
        Damage(
            name="egress in TAI for UTC",
            reason=Reject.RESIDENCE_IMPOSSIBLE,
            apply=_shift(("egress_tstamp_local_ns",), UTC_TAI_NS),
        ),
    )
}


def _nothing(_rows: np.ndarray, _rng: np.random.Generator) -> None:
    """As they are: once more."""


CROSS_STAMPS = {
    one.name: one
    for one in (
        Damage(name="a second time", reason=Reject.CROSS_STAMP_DUPLICATE, apply=_nothing),
        Damage(
            name="PHC off by k x 2^32 ns",
            reason=Reject.CROSS_STAMP_CLOCK_JUMP_2_32,
            apply=_wraps(("phc_local_ns",)),
        ),
        Damage(
            name="counter off by k x 2^32 ns",
            reason=Reject.CROSS_STAMP_CLOCK_JUMP_2_32,
            apply=_wraps(("counter_local_ns",)),
        ),
        Damage(
            name="PHC in TAI for UTC",
            reason=Reject.CROSS_STAMP_CLOCK_JUMP_UTC_TAI,
            apply=_shift(("phc_local_ns",), UTC_TAI_NS),
        ),
        Damage(
            name="PHC from 1970",
            reason=Reject.CROSS_STAMP_FROM_1970,
            apply=_to_1970(("phc_local_ns",)),
        ),
        Damage(
            name="counter 5 s off",
            reason=Reject.CROSS_STAMP_CLOCK_JUMP,
            apply=_shift(("counter_local_ns",), 5 * 10**9),
        ),
        Damage(
            name="no PHC reading",
            reason=Reject.CROSS_STAMP_NO_STAMP,
            apply=_set("phc_local_ns", -(2**63), -(2**62) - 1),
        ),
    )
}
