# SPDX-License-Identifier: Apache-2.0
"""What a sender does with an OTLP/HTTP answer (OTLP 1.x, "Failures" and "OTLP/HTTP Throttling")."""

from enum import StrEnum, unique

RETRYABLE = frozenset((429, 502, 503, 504))
FIRST_WAIT_S = 0.25
WAIT_S_MAX = 30.0
"""Longest wait before a repetition, whatever the receiver asks for."""


@unique
class Delivery(StrEnum):
    """What became of one request."""

    DELIVERED = "delivered"
    REPEAT = "repeat"
    REFUSED = "refused"
    """The receiver will never take it: repeating it would only keep others waiting."""


def delivery(status: int) -> Delivery:
    """By the answer's status."""
    if 200 <= status < 300:
        return Delivery.DELIVERED
    return Delivery.REPEAT if status in RETRYABLE else Delivery.REFUSED


def wait_s(retry_after: str | None, repetition: int) -> float:
    """Seconds to wait before a repetition, counted from 0: as asked for, else doubling.

    >>> wait_s("3", 0), wait_s(None, 2), wait_s("900", 0)
    (3.0, 1.0, 30.0)
    """
    try:
        asked_s = float(retry_after) if retry_after else FIRST_WAIT_S * 2 ** min(repetition, 20)
    except ValueError:  # a date
        asked_s = 1.0
    return min(max(asked_s, 0.0), WAIT_S_MAX) if asked_s == asked_s else FIRST_WAIT_S
