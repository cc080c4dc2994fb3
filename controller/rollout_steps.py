# SPDX-License-Identifier: Apache-2.0
"""The steps of a pipeline change over open sessions."""

from collections.abc import Collection, Mapping
from typing import Protocol

import finsy as fy

from controller import pipeline_change
from controller.draining import drainable
from controller.fabric import Fabric
from controller.findings import ROUTE_NAMES, Target
from controller.held_switch import HeldSwitch, write_in_rounds
from controller.pipeline_change import SavedPipeline
from controller.reconcile import Update
from controller.rollout import PipelineChange
from controller.switch_error import SwitchError


class ChangingFabric(Protocol):
    """Whoever holds the sessions."""

    @property
    def fabric(self) -> Fabric:
        """The description in force."""

    def schema_of(self, name: str) -> fy.P4Schema:
        """The program that the switch of this name is to run."""

    updates: dict[str, list[Update]]
    """What each switch was written."""

    @property
    def target(self) -> Target:
        """What the switches should hold."""

    @property
    def held(self) -> Mapping[str, HeldSwitch]:
        """Switches that we are primary of."""

    async def set_drained(self, names: Collection[str], apart_from: Collection[str]) -> None:
        """Lead everything around these switches and no others; `apart_from` are not written."""


class RolloutSteps:
    """What `roll_out` asks for."""

    def __init__(self, owner: ChangingFabric, change: PipelineChange) -> None:
        self._owner = owner
        self._change = change
        self._drainable = drainable(owner.fabric) if change.drain else frozenset()
        self._drained: frozenset[str] = frozenset()

    async def drain(self, names: Collection[str]) -> None:
        """Route all other switches around these."""
        wanted = self._drainable & {*names}
        if wanted != self._drained:
            self._drained = wanted
            await self._owner.set_drained(wanted, names)

    async def save(self, name: str) -> SavedPipeline:
        """What runs there."""
        return await pipeline_change.save(self._held(name))

    async def change(self, name: str) -> None:
        """Replace it."""
        owner = self._owner
        self._owner.updates[name] = await pipeline_change.change(
            self._held(name), owner.schema_of(name), owner.target
        )

    async def check(self, name: str) -> None:
        """The health gate."""
        await pipeline_change.check(
            self._held(name),
            self._owner.schema_of(name),
            self._owner.target,
            settle_s=self._change.settle_s,
            health_check=self._change.health_check,
        )

    async def restore(self, name: str, saved: SavedPipeline) -> str:
        """Put it back; what could not be put back."""
        await pipeline_change.restore(self._held(name), saved)
        return pipeline_change.not_restored(saved)

    def _held(self, name: str) -> HeldSwitch:
        held = self._owner.held.get(name)
        if held is None:
            raise SwitchError(switch=name, message="the session is over", lost=True)
        return held


async def lead_around(
    fabric: Fabric, held: Mapping[str, HeldSwitch], target: Target
) -> list[SwitchError]:
    """Write the target's routes, and nothing else, to all switches whose routes are known."""
    updates = {
        name: target.updates(name, one.known(), ROUTE_NAMES)
        for name, one in held.items()
        if one.entries is not None
    }
    return await write_in_rounds(fabric, held, updates)


def not_drainable(name: str, neighbour: str, reason: str) -> SwitchError:
    """Why traffic cannot be led around a switch."""
    return SwitchError(
        switch=name,
        message=f"cannot be drained: {neighbour} {reason}; --no-drain goes on without",
    )
