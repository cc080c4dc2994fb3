# SPDX-License-Identifier: Apache-2.0
"""One end-to-end PTP exchange: offset, mean path delay and what delay asymmetry does to them.

::

    time transmitter (reference)            time receiver (client)
          t1  ----------- Sync ------------->  t2        t2 - t1 = d_ms + offset
          t4  <-------- Delay_Req -----------  t3        t4 - t3 = d_sm - offset

`offset = client - reference`: positive when the client is ahead. `c1`, `c2` are the corrections
(residence times) of Sync and Delay_Req. `delay_asymmetry_ns` is *half* the one-way difference,
((d_ms - c1) - (d_sm - c2)) / 2, positive when reference -> client is the slower direction
(IEEE 1588-2019 section 7.4.2; `clocks.md` 1.1 shows by numbers why it is not the whole).
"""

from dataclasses import dataclass

CORRECTION_NS_MAX = 10 * 1_000_000_000
"""A larger correctionField comes from a broken bridge (facebook/time drops it too)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeEstimate:
    """What one exchange says, under the assumption named by `delay_asymmetry_ns`."""

    offset_ns: float
    """client - reference, after removing the configured asymmetry."""
    mean_path_delay_ns: float
    """Mean of both residual one-way delays; the asymmetry does not change it."""


def estimate_offset(
    *,
    t1_reference_ns: int,
    t2_local_ns: int,
    t3_local_ns: int,
    t4_reference_ns: int,
    c1_ns: int = 0,
    c2_ns: int = 0,
    delay_asymmetry_ns: float = 0.0,
) -> ExchangeEstimate:
    """offset = ((t2 - t1 - c1) - (t4 - t3 - c2)) / 2 - delay asymmetry.

    10 us there and 4 us back with equal clocks look like a client 3 us ahead; the half
    difference as asymmetry puts that right:

    >>> stamps = dict(t1_reference_ns=0, t2_local_ns=10_000)
    >>> stamps |= dict(t3_local_ns=20_000, t4_reference_ns=24_000)
    >>> estimate_offset(**stamps)
    ExchangeEstimate(offset_ns=3000.0, mean_path_delay_ns=7000.0)
    >>> estimate_offset(**stamps, delay_asymmetry_ns=3000).offset_ns
    0.0
    """
    there_ns = t2_local_ns - t1_reference_ns - c1_ns
    back_ns = t4_reference_ns - t3_local_ns - c2_ns
    # integers first: the two huge epochs cancel exactly before a float appears
    return ExchangeEstimate(
        offset_ns=(there_ns - back_ns) / 2 - delay_asymmetry_ns,
        mean_path_delay_ns=(there_ns + back_ns) / 2,
    )


def half_difference_ns(forward_delay_ns: float, reverse_delay_ns: float) -> float:
    """Delay asymmetry of two one-way delays, positive when forward is slower.

    >>> half_difference_ns(10_000, 4_000)
    3000.0
    """
    return (forward_delay_ns - reverse_delay_ns) / 2


def servo_error_ns(*, configured_asymmetry_ns: float, true_asymmetry_ns: float) -> float:
    """Where a servo that drives its own offset to zero leaves the client: configured - true.

    >>> servo_error_ns(configured_asymmetry_ns=0, true_asymmetry_ns=3000)
    -3000
    """
    return configured_asymmetry_ns - true_asymmetry_ns
