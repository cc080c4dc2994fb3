# SPDX-License-Identifier: Apache-2.0
"""A pipeline change over a fabric: one switch at a time, and back on the first failure.

Pure sequencing over steps that others carry out. Each switch is drained, changed, checked and taken
back into use before the next one follows; the first one is the canary. One that fails its
change or its health gate gets back what ran there before, and the rollout ends: what was changed
before passed its gate and stays.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from controller.draining import cut_off_hosts
from controller.fabric import Fabric
from controller.switch_error import SwitchError

SETTLE_S = 5.0
"""How long a changed switch must stay healthy before it is taken back into use."""

_SavedT = TypeVar("_SavedT")
Note = Callable[[str, str, str], None]
"""`note(kind, switch, message)`: what happens, as it happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineChange:
    """Leave to replace the pipeline that a switch runs, and how to go about it."""

    canary: str | None = None
    """The first switch to change; None: the one that cuts off fewest hosts."""
    settle_s: float = SETTLE_S
    drain: bool = True
    """Lead traffic around a switch before it is changed."""
    health_check: str | None = None
    """A command that is given the switch's name; it must end with 0 before the next switch."""


class Steps(Protocol[_SavedT]):
    """What a rollout is made of; each raises SwitchError when it fails."""

    async def drain(self, names: Collection[str]) -> None:
        """Lead traffic around these switches and no others."""

    async def save(self, name: str) -> _SavedT:
        """What runs on the switch, for putting it back."""

    async def change(self, name: str) -> None:
        """Push the new pipeline and write all entries."""

    async def check(self, name: str) -> None:
        """The health gate."""

    async def restore(self, name: str, saved: _SavedT) -> str:
        """Put back what ran before; what of it could not be put back, empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutResult(Generic[_SavedT]):
    """How far a rollout came."""

    changed: tuple[str, ...]
    errors: tuple[SwitchError, ...] = ()
    """Why it ended early: first the failure, then a failure to put things right."""
    restored: str | None = None
    """The switch that got back what it ran before."""
    waiting: tuple[str, ...] = ()
    """Switches that still run another pipeline, the one that failed included."""
    untouched: bool = False
    """The switch that failed could not even be drained or saved."""


def rollout_order(fabric: Fabric, names: Collection[str], canary: str | None) -> list[str]:
    """The canary, then those that cut off fewest hosts; else in the order of the file."""
    ordered = sorted(
        (switch.name for switch in fabric.switches if switch.name in names),
        key=lambda name: len(cut_off_hosts(fabric, name)),
    )
    if canary in ordered:
        ordered.remove(canary)
        ordered.insert(0, canary)
    return ordered


async def roll_out(
    order: Sequence[str], steps: Steps[_SavedT], note: Note
) -> RolloutResult[_SavedT]:
    """Change the pipelines of these switches, one after the other."""
    for place, name in enumerate(order):
        role = "canary" if place == 0 else f"{place + 1} of {len(order)}"
        saved: _SavedT | None = None
        errors: list[SwitchError] = []
        restored = False
        try:
            note("pipeline_change_begins", name, role)
            await steps.drain([name])
            saved = await steps.save(name)
            await steps.change(name)
            await steps.check(name)
        except SwitchError as error:
            errors.append(error)
            note("pipeline_change_failed", name, str(error))
        if not errors:
            note("pipeline_changed", name, role)
            continue
        try:
            if saved is not None:
                lost = await steps.restore(name, saved)
                restored = True
                without = f", but for its {lost}" if lost else ""
                note("pipeline_restored", name, f"runs what it ran before{without}")
        except SwitchError as error:
            errors.append(error)
            note("pipeline_restore_failed", name, str(error))
        if restored or saved is None:  # else nothing should be led over it
            errors += await _undrained(steps)
        return RolloutResult(
            changed=tuple(order[:place]),
            errors=tuple(errors),
            restored=name if restored else None,
            waiting=tuple(order[place:]),
            untouched=saved is None,
        )
    return RolloutResult(changed=tuple(order), errors=tuple(await _undrained(steps)))


async def _undrained(steps: Steps[_SavedT]) -> list[SwitchError]:
    try:
        await steps.drain([])
    except SwitchError as error:
        return [error]
    return []
