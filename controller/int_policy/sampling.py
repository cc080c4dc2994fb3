# SPDX-License-Identifier: Apache-2.0
"""Adaptive sampling: which watchlists are sampled how much more than the file says.

Pure. A watchlist takes one packet in 2^bits, those whose low PSN bits are zero; patterns of more
bits lie within those of fewer, so all hops go on reporting the same packets. Rates in, bits out.

Hysteresis: beyond `UPPER` of the budget it is sampled down at once, to `TARGET`; it is sampled up
again one step at a time, when `TARGET` would be kept in `CALM_COUNT` readings in a row. One step
doubles a watchlist's rate, so what was just sampled down does not come straight back.
"""

from collections.abc import Mapping
from dataclasses import replace

from controller.fabric import Fabric
from controller.fabric_telemetry import Watchlist, WatchMode, WatchTraffic
from controller.int_policy.report_rates import REPORTS_PER_PROBE, largest_collector_share

UPPER = 0.9
TARGET = 0.7
CALM_COUNT = 3
SAMPLE_BITS_MAX = 16
"""Of 24 bits of PSN: as in the file."""


class AdaptiveSampling:
    """The additional sample bits of a fabric's watchlists."""

    def __init__(
        self, fabric: Fabric, budget_rps: float, extra_bits: Mapping[str, int] | None = None
    ) -> None:
        """budget_rps: reports a second and collector. extra_bits: go on with these."""
        self._room = {one.name: _room(one) for one in fabric.watchlists}
        self._limit_rps = budget_rps / largest_collector_share(fabric)
        self._probes_rps = REPORTS_PER_PROBE * (fabric.probes.budget_pps if fabric.probes else 0)
        self._calm = 0
        self.extra_bits = {
            name: min(bits, self._room[name])
            for name, bits in (extra_bits or {}).items()
            if bits and self._room.get(name)
        }
        """By watchlist; those that are not named are sampled as in the file."""
        self.is_exhausted = False
        """Nothing more can be sampled down, and it is too much."""

    def step(self, rates_rps: Mapping[str, float], *, is_complete: bool = True) -> bool:
        """Take the reports a second of each watchlist; whether the bits have changed.

        is_complete: all switches were read; else nothing is sampled up.
        """
        rates = dict(rates_rps)
        before = dict(self.extra_bits)
        if self._total(rates) > UPPER * self._limit_rps:
            self._calm = 0
            self._sample_down(rates)
        elif is_complete:
            self._sample_up(rates)
        return self.extra_bits != before

    def _total(self, rates: Mapping[str, float]) -> float:
        return sum(rates.values()) + self._probes_rps

    def _sample_down(self, rates: dict[str, float]) -> None:
        """Halve the largest, until all of it fits: small watchlists keep their detail."""
        while self._total(rates) > TARGET * self._limit_rps:
            able = [
                name
                for name, rate in rates.items()
                if rate > 0 and self.extra_bits.get(name, 0) < self._room.get(name, 0)
            ]
            self.is_exhausted = not able and self._total(rates) > self._limit_rps
            if not able:
                return
            name = max(able, key=lambda one: rates[one])
            rates[name] /= 2
            self.extra_bits[name] = self.extra_bits.get(name, 0) + 1
        self.is_exhausted = False

    def _sample_up(self, rates: Mapping[str, float]) -> None:
        self.is_exhausted = False
        room_rps = TARGET * self._limit_rps - self._total(rates)
        fitting = [name for name in self.extra_bits if rates.get(name, 0.0) <= room_rps]
        if not fitting:
            self._calm = 0
            return
        self._calm += 1
        if self._calm < CALM_COUNT:
            return
        self._calm = 0
        name = max(fitting, key=lambda one: (self.extra_bits[one], one))
        self.extra_bits[name] -= 1
        if not self.extra_bits[name]:
            del self.extra_bits[name]


def sampled(fabric: Fabric, extra_bits: Mapping[str, int]) -> Fabric:
    """The fabric with so many more sample bits."""
    return replace(
        fabric,
        watchlists=tuple(
            replace(
                one, sample_psn_bits=one.sample_psn_bits + min(extra_bits[one.name], _room(one))
            )
            if one.name in extra_bits
            else one
            for one in fabric.watchlists
        ),
    )


def _room(watchlist: Watchlist) -> int:
    """Sample bits that may be added; PTP keeps its pattern, since clocks are corrected by it."""
    if watchlist.traffic is WatchTraffic.PTP or watchlist.mode is WatchMode.EXEMPT:
        return 0
    return max(0, SAMPLE_BITS_MAX - watchlist.sample_psn_bits)
