# SPDX-License-Identifier: Apache-2.0
"""Pipeline changes over a fabric that is being kept."""

import asyncio
from collections.abc import Collection

import finsy as fy

from controller.draining import neighbours
from controller.fabric import Fabric
from controller.findings import Target
from controller.held_switch import HeldSwitch
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.kept_fabric import KeptFabric
from controller.keeper.phases import Phase
from controller.pipeline_change import learn_running_program
from controller.reconcile import Update
from controller.rollout import PipelineChange, roll_out, rollout_order
from controller.rollout_steps import RolloutSteps, lead_around, not_drainable
from controller.switch_error import SwitchError

RETRY_S = 60.0
"""Before the next attempt, where a change could not begin: a neighbour was away, say."""


class PipelineChanges:
    """Changes the pipelines of switches that run another one, whenever there are some."""

    def __init__(self, kept: KeptFabric, change: PipelineChange, on_event: OnEvent) -> None:
        self.updates: dict[str, list[Update]] = {}
        """What each switch was written."""
        self.is_halted = False
        """A change has failed: none is tried before the fabric is loaded again."""
        self._kept = kept
        self._change = change
        self._on_event = on_event

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._kept.until(self._can_change)
            if not await self._roll_out():
                await asyncio.sleep(RETRY_S)

    def _can_change(self) -> bool:
        """Some switch runs another pipeline, and nothing is under way with the others."""
        return (
            not self.is_halted
            and bool(self._kept.in_phase(Phase.OTHER_PIPELINE))
            and not self._kept.in_phase(
                Phase.CONNECTING, Phase.CHECKING, Phase.PUSHING, Phase.READING, Phase.WRITING
            )
        )

    async def _roll_out(self) -> bool:
        """Go over all switches that run another pipeline; False where something was in the way."""
        others = self._kept.in_phase(Phase.OTHER_PIPELINE)
        for one in others:
            one.machine.change_begins(self._kept.now_ns())
        try:
            ready = []
            for one in others:
                try:
                    if one.held is not None:
                        await learn_running_program(one.held)
                        ready.append(one.name)
                except SwitchError as error:
                    self._note(EventKind.PIPELINE_CHANGE_FAILED.value, one.name, error.message)
            order = rollout_order(self.fabric, ready, self._change.canary)
            result = await roll_out(order, RolloutSteps(self, self._change), self._note)
            self.is_halted = bool(result.errors) and not result.untouched
            return not result.errors and len(ready) == len(others)
        finally:
            for one in others:
                one.feed(one.machine.change_ends(self._kept.now_ns()))

    def _note(self, kind: str, switch: str, message: str) -> None:
        self._on_event(Event(kind=EventKind(kind), switch=switch, message=message))

    # What the steps need

    @property
    def fabric(self) -> Fabric:
        """The description in force."""
        return self._kept.fabric

    def schema_of(self, name: str) -> fy.P4Schema:
        """The program that the switch of this name is to run."""
        return self._kept.schema_of(self.fabric.switch(name))

    @property
    def target(self) -> Target:
        """What the switches should hold."""
        return self._kept.target

    @property
    def held(self) -> dict[str, HeldSwitch]:
        """Switches that we are primary of."""
        return {
            name: one.held
            for name, one in self._kept.switches.items()
            if one.held is not None and one.machine.is_primary
        }

    async def set_drained(self, names: Collection[str], apart_from: Collection[str]) -> None:
        """Lead everything around these switches and no others."""
        kept = self._kept
        kept.drained = frozenset(names)
        target = await kept.compute_target()
        quiet = {one.name for one in kept.in_phase(Phase.IN_SYNC, Phase.CHANGING)}
        held = {name: one for name, one in self.held.items() if name in quiet - {*apart_from}}
        for name in neighbours(self.fabric, names):
            if name not in held:
                machine = kept.switches[name].machine if name in kept.switches else None
                phase = "unknown" if machine is None else machine.phase.value.replace("_", " ")
                raise not_drainable(min(names), name, f"is {phase}")
            if held[name].entries is None:
                raise not_drainable(min(names), name, "runs a program whose routes are unknown")
        errors = await lead_around(self.fabric, held, target)
        kept.retarget(target)
        if errors:
            raise errors[0]
