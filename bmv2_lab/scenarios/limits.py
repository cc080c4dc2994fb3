# SPDX-License-Identifier: Apache-2.0
"""Limits of a scenario: figures of its telemetry and truth, or of what the engine answers to it,
each with the range that it must be in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One figure and its range; a bound that is None does not limit."""

    name: str
    """What the figure is, with its unit last."""
    measure: Callable[["Evidence"], float]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def range(self) -> str:
        """The range in words.

        >>> Limit(name="x", measure=lambda _: 0.0, at_least=1.0, at_most=2.0).range
        '1 to 2'
        """
        low, high = self.at_least, self.at_most
        if low is None:
            return "any" if high is None else f"at most {high:g}"
        if high is None:
            return f"at least {low:g}"
        return f"{low:g}" if low == high else f"{low:g} to {high:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitResult:
    """What a run has of one limit."""

    name: str
    found: float
    range: str
    passed: bool


def check_limits(limits: tuple[Limit, ...], evidence: "Evidence") -> tuple[LimitResult, ...]:
    """Every limit against one run; NaN passes nothing."""
    results = []
    for limit in limits:
        found = float(limit.measure(evidence))
        low = limit.at_least is None or found >= limit.at_least
        high = limit.at_most is None or found <= limit.at_most
        results.append(
            LimitResult(
                name=limit.name,
                found=found,
                range=limit.range,
                passed=low and high and found == found,
            )
        )
    return tuple(results)
