# SPDX-License-Identifier: Apache-2.0
"""Keeps the report rate under its budget beside the switches that are being kept."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from controller.fabric import programmed_switches
from controller.held_switch import HeldSwitch
from controller.int_policy.report_rates import COUNTED_TABLES, Counts, ReportRates
from controller.int_policy.sampling import AdaptiveSampling, sampled
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.keeper import Keeper
from controller.keeper.phases import Phase
from controller.switch_error import SwitchError

INTERVAL_S = 5.0
"""Between readings."""
OVERLAY = "sampling"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingState:
    """What is known of the report rate now."""

    rates_rps: Mapping[str, float]
    """By watchlist, at most."""
    extra_bits: Mapping[str, int]
    """Sample bits beyond those of the file, by watchlist."""


class SamplingWatch:
    """A companion of a keeper.

    Another pattern is another fabric to the keeper: entries with it are inserted, those without it
    deleted, all read back, and no pipeline is pushed.
    """

    def __init__(
        self, budget_rps: float, on_event: OnEvent, *, interval_s: float = INTERVAL_S
    ) -> None:
        self.rates_rps: dict[str, float] = {}
        """Reports a second by watchlist, at most; of the last reading."""
        self._budget_rps = budget_rps
        self._on_event = on_event
        self._interval_s = interval_s
        self._sampling: AdaptiveSampling | None = None
        self._told: dict[str, int] = {}

    @property
    def extra_bits(self) -> dict[str, int]:
        """Sample bits beyond those of the file, by watchlist."""
        return {} if self._sampling is None else dict(self._sampling.extra_bits)

    @property
    def state(self) -> SamplingState:
        """What is known now."""
        return SamplingState(rates_rps=dict(self.rates_rps), extra_bits=self.extra_bits)

    async def __call__(self, keeper: Keeper) -> None:
        """Reading after reading, until cancelled."""
        loop = asyncio.get_running_loop()
        fabric, read_s, has_settled = keeper.fabric, loop.time(), False
        rates, sampling = self._follow(keeper)
        while True:
            if keeper.fabric is not fabric:
                fabric, has_settled = keeper.fabric, False
                rates, sampling = self._follow(keeper)
            counts = await self._read(keeper)
            now_s = loop.time()
            is_complete = all(
                one.name in counts and rates.knows(one.name) for one in programmed_switches(fabric)
            )
            found = rates.take(counts, max(now_s - read_s, 1e-9))
            read_s = now_s
            if has_settled:
                self.rates_rps = found
                was_exhausted = sampling.is_exhausted
                # The next reading begins among patterns that are being changed, and says nothing.
                has_settled = not sampling.step(found, is_complete=is_complete)
                if not has_settled:
                    self._apply(keeper, sampling)
                if sampling.is_exhausted and not was_exhausted:
                    message = f"{sum(found.values()):.0f} reports a second, and no watchlist left "
                    self._event(EventKind.SAMPLING_EXHAUSTED, message + "that may be sampled down")
            else:
                has_settled = True
            await asyncio.sleep(self._interval_s)

    def _follow(self, keeper: Keeper) -> tuple[ReportRates, AdaptiveSampling]:
        """Another file is in force; watchlists that are still there go on as they are."""
        fabric = keeper.fabric
        sampling = AdaptiveSampling(fabric, self._budget_rps, self.extra_bits)
        self._apply(keeper, sampling)
        return ReportRates(fabric), sampling

    def _apply(self, keeper: Keeper, sampling: AdaptiveSampling) -> None:
        self._sampling = sampling
        bits = dict(sampling.extra_bits)
        keeper.set_overlay(OVERLAY, partial(sampled, extra_bits=bits) if bits else None)
        if bits != self._told:
            self._told = bits
            rate = f"{sum(self.rates_rps.values()):.0f} reports a second"
            self._event(EventKind.SAMPLING_CHANGED, f"{_listed(bits)}; there were {rate}")

    def _event(self, kind: EventKind, message: str) -> None:
        self._on_event(Event(kind=kind, message=message))

    async def _read(self, keeper: Keeper) -> dict[str, Counts]:
        """Of the switches that are in sync; the others say nothing."""
        found: dict[str, Counts] = {}

        async def one(name: str, held: HeldSwitch) -> None:
            try:
                found[name] = await held.session.packet_counts(COUNTED_TABLES)
            except SwitchError:
                return  # whoever looks after the switch finds out by itself

        async with asyncio.TaskGroup() as group:
            for name, kept in keeper.switches.items():
                if kept.machine.phase is Phase.IN_SYNC and kept.held is not None:
                    group.create_task(one(name, kept.held))
        return found


def _listed(bits: dict[str, int]) -> str:
    """One packet in 2^bits of each watchlist, beyond the file."""
    if not bits:
        return "all watchlists as in the file"
    parts = (f"{name} takes 1 packet in {1 << one} of the file's" for name, one in bits.items())
    return ", ".join(parts)
