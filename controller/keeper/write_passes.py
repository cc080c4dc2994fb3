# SPDX-License-Identifier: Apache-2.0
"""Writes what switches wait for, in passes that keep to the order of writes."""

import asyncio
from collections.abc import Iterable

from controller.held_switch import HeldSwitch, write_in_rounds
from controller.keeper.kept_fabric import KeptFabric
from controller.keeper.kept_switch import KeptSwitch, is_settling
from controller.keeper.phases import Phase
from controller.reconcile import Update
from controller.switch_error import SwitchError

FIRST_GATHER_S_MAX = 10.0
"""The first writes wait this long for switches that are still being read: the order of writes
needs to know them all."""
GATHER_S_MAX = 0.3
"""The same for later writes."""
ROUND_S_MAX = 1.0
"""A switch that takes longer for its part of a round is not waited for."""
READ_BACK_S_MAX = 2.0
"""Switches that are through with their updates wait for the others so long before they are read."""
PASS_S_MAX = 3.0
"""The next pass begins when this one takes longer; switches that it still writes are left out."""


class WritePasses:
    """The writes of one fabric."""

    def __init__(self, kept: KeptFabric) -> None:
        self._kept = kept
        self._is_first_pass = True

    async def run(self) -> None:
        """Until cancelled."""
        kept = self._kept
        while True:
            await kept.write_wanted.wait()
            await self._gather(FIRST_GATHER_S_MAX if self._is_first_pass else GATHER_S_MAX)
            self._is_first_pass = False
            kept.write_wanted.clear()
            names, kept.to_write = kept.to_write, set()
            await asyncio.wait({kept.spawn(self._write(names))}, timeout=PASS_S_MAX)

    async def _gather(self, longest_s: float) -> None:
        """Wait for switches whose routes are not known yet, so that the order has all of them."""
        try:
            async with asyncio.timeout(longest_s):
                await self._kept.until(
                    lambda: not any(map(is_settling, self._kept.switches.values()))
                )
        except TimeoutError:
            pass

    async def _write(self, names: Iterable[str]) -> None:
        held: dict[str, HeldSwitch] = {}
        updates: dict[str, list[Update]] = {}
        for name in sorted(names):
            kept = self._kept.switches.get(name)
            if kept is None or kept.held is None or kept.machine.phase is not Phase.WRITING:
                continue
            try:
                updates[name] = kept.updates()
            except SwitchError as error:
                kept.failed(error)
                continue
            if updates[name]:
                held[name] = kept.held
            else:
                kept.written(0)

        def same(name: str) -> KeptSwitch | None:
            """The switch, if it still has the session that was written to."""
            kept = self._kept.switches.get(name)
            return kept if kept is not None and kept.held is held[name] else None

        written: list[str] = []
        is_over = False

        def read_back() -> None:
            """What was written, after the writes of the others: until then flows are lost."""
            nonlocal is_over
            is_over = True
            for name in written:
                if (kept := same(name)) is not None:
                    kept.written(len(updates[name]))
            written.clear()

        def on_written(name: str) -> None:
            written.append(name)
            if is_over:  # it was not waited for
                read_back()

        def on_failed(error: SwitchError) -> None:
            if (kept := same(error.switch)) is not None:
                kept.failed(error)

        alarm = asyncio.get_running_loop().call_later(READ_BACK_S_MAX, read_back)
        try:
            await write_in_rounds(
                self._kept.fabric,
                held,
                {name: updates[name] for name in held},
                round_s_max=ROUND_S_MAX,
                on_written=on_written,
                on_failed=on_failed,
            )
        finally:
            alarm.cancel()
        read_back()
