# SPDX-License-Identifier: Apache-2.0
"""Stamps and other numbers of foreign files, made exact integers without a float in between."""

import math
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

INT64_MAX = 2**63 - 1
_DIGITS_MAX = 40
"""More digits than any stamp has; longer ones would only cost time."""


def micros_to_ns(value: object) -> int | None:
    """Nanoseconds of a number of microseconds; None if it is no number or beyond 64 bits.

    >>> micros_to_ns(Decimal("1719853884.0005")), micros_to_ns("12.25"), micros_to_ns("soon")
    (1719853884000, 12250, None)
    """
    return _scaled(value, 3)


def millis_to_ns(value: object) -> int | None:
    """Nanoseconds of a number of milliseconds."""
    return _scaled(value, 6)


def whole(value: object) -> int | None:
    """An integer that fits 64 bits, given as a number or as text."""
    return _scaled(value, 0)


def quantum_of(gcd_ns: int) -> int:
    """The resolution of stamps whose greatest common divisor this is: 1 ns, 1 us, 1 ms or 1 s.

    A millisecond clock that is shown in microseconds is told by that. 0, no stamps at all, is 1.

    >>> quantum_of(math.gcd(1_500_000, 4_000_000)), quantum_of(12), quantum_of(0)
    (1000, 1, 1)
    """
    quantum_ns = 1
    while gcd_ns and quantum_ns < 10**9 and gcd_ns % (quantum_ns * 1000) == 0:
        quantum_ns *= 1000
    return quantum_ns


class Gcd:
    """Greatest common divisor of the stamps seen so far."""

    def __init__(self) -> None:
        self.value_ns = 0

    def add(self, *stamps_ns: int) -> None:
        """Counts stamps in; once the divisor is below a microsecond nothing changes any more."""
        if self.value_ns != 1:
            self.value_ns = math.gcd(self.value_ns, *stamps_ns)


def _scaled(value: object, exponent: int) -> int | None:
    if type(value) is int:
        number = value * 10**exponent
    else:
        if isinstance(value, str):
            if len(value) > _DIGITS_MAX:
                return None
            try:
                value = Decimal(value)
            except InvalidOperation:
                return None
        if not isinstance(value, Decimal) or not value.is_finite() or value.adjusted() > 20:
            return None
        number = int(value.scaleb(exponent).to_integral_value(rounding=ROUND_HALF_EVEN))
    return number if -INT64_MAX <= number <= INT64_MAX else None
