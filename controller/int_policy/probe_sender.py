# SPDX-License-Identifier: Apache-2.0
"""Sends the link probes of a fabric beside the switches that are being kept."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.fabric import Fabric
from controller.keeper.keeper import Keeper
from controller.probes import PlannedProbe, ProbePlanner
from controller.switch_error import SwitchError

WINDOW_S = 1.0
"""What is planned at a time: the engine's windows are as long."""


@dataclass(slots=True)
class ProbeCounters:
    """Since the start."""

    sent: int = 0
    skipped: int = 0
    """Planned for a switch that is not ours now, or that takes no packets."""


class ProbeSender:
    """A companion of a keeper; idle where the file declares no `probes`.

    pairs: by link name, the samples in both directions that traffic gives in a window; links that
    are not named are taken for quiet.
    """

    def __init__(
        self,
        pairs: Callable[[], Mapping[str, int]] = dict,
        *,
        window_s: float = WINDOW_S,
    ) -> None:
        self.counters = ProbeCounters()
        self._pairs = pairs
        self._window_s = window_s
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def __call__(self, keeper: Keeper) -> None:
        """Window after window, until cancelled."""
        loop = asyncio.get_running_loop()
        fabric: Fabric | None = None
        planner: ProbePlanner | None = None
        window_ns = round(self._window_s * 1e9)
        try:
            while True:
                if planner is None or keeper.fabric is not fabric:
                    fabric = keeper.fabric
                    planner = ProbePlanner(fabric)
                start_ns = round(loop.time() * 1e9)
                for probe in planner.plan(self._pairs(), start_ns=start_ns, window_ns=window_ns):
                    await asyncio.sleep(max(0.0, probe.at_ns / 1e9 - loop.time()))
                    self._send(keeper, probe)
                await asyncio.sleep(max(0.0, (start_ns + window_ns) / 1e9 - loop.time()))
        finally:
            for task in self._sending.values():
                task.cancel()

    def _send(self, keeper: Keeper, probe: PlannedProbe) -> None:
        """Without waiting: one switch that takes no packets must not hold up the others, and a send
        that is cancelled would end its stream."""
        before = self._sending.get(probe.switch)
        if before is not None and not before.done():
            self.counters.skipped += 1
            return
        self._sending[probe.switch] = asyncio.create_task(self._packet_out(keeper, probe))

    async def _packet_out(self, keeper: Keeper, probe: PlannedProbe) -> None:
        try:
            await keeper.packet_out(probe.switch, probe.frame, egress_port=probe.egress_port)
        except SwitchError:
            self.counters.skipped += 1
            return
        self.counters.sent += 1
