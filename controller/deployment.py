# SPDX-License-Identifier: Apache-2.0
"""One deployment over the sessions of all switches of a fabric, which stay open until it ends."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

import finsy as fy

from controller import pipeline_change
from controller.access import Access
from controller.deploy_result import SwitchResult
from controller.draining import neighbours
from controller.entries import Entry, EntryKey
from controller.fabric import Fabric, Switch, programmed_switches
from controller.fabric_treatment import require_equal_treatment
from controller.findings import Findings, Target
from controller.held_switch import HeldSwitch, each, write_in_rounds
from controller.p4info_codec import overfull
from controller.programs import Programs
from controller.reconcile import Operation, Update
from controller.rollout import Note, PipelineChange, roll_out, rollout_order
from controller.rollout_steps import RolloutSteps, lead_around, not_drainable
from controller.session import CONNECT_DEADLINE_S, SwitchSession, open_session
from controller.switch_error import SwitchError

OTHER_PIPELINE = "it runs another pipeline; --allow-pipeline-change replaces it"

_T = TypeVar("_T")


class Deployment:
    """One deployment over sessions that stay open, so that nobody else writes in between."""

    def __init__(
        self,
        fabric: Fabric,
        programs: Programs,
        findings: Findings,
        access: Access,
        addresses: Mapping[str, str],
    ) -> None:
        require_equal_treatment(fabric)
        self.fabric = fabric
        self.programs = programs
        self.findings = findings
        self.access = access
        self.addresses = addresses
        self.target = Target.of(fabric, findings, programs.sizes(fabric))
        self.held: dict[str, HeldSwitch] = {}
        """Switches that we are primary of and that have not failed."""
        self.updates: dict[str, list[Update]] = {}
        """What each of them needs."""
        self.others: list[str] = []
        """Switches that run another pipeline."""
        self._pushed: set[str] = set()
        self._routes_moved = False
        self._errors: list[SwitchError] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Deployment":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def schema_of(self, name: str) -> fy.P4Schema:
        """The program that the switch of this name is to run."""
        return self.programs.of(self.fabric, self.fabric.switch(name))

    def fail(self, errors: Iterable[SwitchError]) -> None:
        """Switches that drop out."""
        for error in errors:
            self._errors.append(error)
            self.held.pop(error.switch, None)
            self.updates.pop(error.switch, None)

    async def connect(self, prepare: Callable[[Switch, HeldSwitch], Awaitable[None]]) -> None:
        """Be primary of every switch, and prepare each."""

        async def one(switch: Switch, address: str) -> None:
            schema = self.programs.of(self.fabric, switch)
            session = await self._stack.enter_async_context(
                open_session(
                    name=switch.name,
                    address=address,
                    device_id=switch.device_id,
                    schema=schema,
                    access=self.access,
                )
            )
            check_room(switch, self.target, schema)
            await _take_charge(session, address, self.access.election_id)
            held = HeldSwitch(switch.name, session)
            await prepare(switch, held)
            self.held[switch.name] = held

        _, errors = await side_by_side(self.fabric, self.addresses, one)
        self.fail(errors)

    async def prepare_whole(self, switch: Switch, held: HeldSwitch) -> None:
        """Push the pipeline where there is none, and find out what must be written."""
        cookie = await held.session.pipeline_cookie()
        if cookie not in (None, self.programs.of(self.fabric, switch).p4cookie):
            self.others.append(switch.name)
            return
        if cookie is None:
            await held.session.push_pipeline()
            self._pushed.add(switch.name)
        self.updates[switch.name] = self.target.updates(switch.name, await held.read())

    async def write_all(self) -> None:
        """Write the updates of all switches; those that fail drop out."""
        before = {name: held.written_count for name, held in self.held.items()}
        errors = await write_in_rounds(self.fabric, self.held, self.updates)
        self.fail(
            [
                error.left_at(
                    self.held[error.switch].written_count - before[error.switch],
                    len(self.updates[error.switch]),
                )
                for error in errors
            ]
        )

    async def change_pipelines(self, change: PipelineChange | None, note: Note) -> None:
        """Replace the other pipelines, one after the other; without leave they are errors."""
        if change is None:
            self.fail([SwitchError(switch=name, message=OTHER_PIPELINE) for name in self.others])
        if not self.held or not self.others or change is None:
            return
        learned = await each(
            [partial(pipeline_change.learn_running_program, self.held[n]) for n in self.others]
        )
        self.fail([result for result in learned if isinstance(result, SwitchError)])
        waiting = [name for name in self.others if name in self.held]
        steps = RolloutSteps(self, change)
        done = await roll_out(rollout_order(self.fabric, waiting, change.canary), steps, note)
        self._pushed |= {*done.changed}
        self._routes_moved = True
        self.fail(done.errors)
        self.fail(
            [
                SwitchError(switch=name, message="not tried, since the change failed before")
                for name in done.waiting
                if name in self.held
            ]
        )

    async def set_drained(self, names: Collection[str], apart_from: Collection[str]) -> None:
        """Lead everything around these switches and no others."""
        drained = {*self.findings.drained_switches, *names}
        target = Target.of(
            self.fabric,
            replace(self.findings, drained_switches=drained),
            self.target.sizes,
            before=self.target,
        )
        for name in neighbours(self.fabric, names):
            held = self.held.get(name)
            if held is not None and held.entries is None:
                raise not_drainable(min(names), name, "runs a program whose routes are unknown")
        held_switches = {n: one for n, one in self.held.items() if n not in apart_from}
        if errors := await lead_around(self.fabric, held_switches, target):
            raise errors[0]

    async def read_back(
        self,
        names: frozenset[str],
        updates_of: Callable[[Switch, Mapping[EntryKey, Entry]], list[Update]],
    ) -> None:
        """Switches that were written to hold what they took of these tables, or are errors."""

        async def one(name: str) -> None:
            switch = self.fabric.switch(name)
            missing = updates_of(switch, await self.held[name].read(names))
            if missing:
                raise SwitchError(
                    switch=name,
                    where=missing[0].entry.where,
                    message=f"the switch does not hold what it took ({len(missing)} differ)",
                )

        written = [name for name, updates in self.updates.items() if updates]
        answers = await each([partial(one, name) for name in written])
        self.fail([answer for answer in answers if isinstance(answer, SwitchError)])

    async def finish(self) -> tuple[SwitchResult, ...]:
        """What was written and is held now, by all switches that have not failed."""

        async def one(name: str) -> SwitchResult:
            held, updates = self.held[name], self.updates[name]
            if not updates and not self._routes_moved:
                return self._result(name, held.known(), updates, drift=[])
            actual = await held.read()
            return self._result(name, actual, updates, drift=self.target.updates(name, actual))

        finished = await each([partial(one, name) for name in self.updates])
        self.fail([result for result in finished if isinstance(result, SwitchError)])
        return self._in_order(
            [result for result in finished if not isinstance(result, SwitchError)],
            lambda result: result.name,
        )

    def _result(
        self,
        name: str,
        actual: Collection[EntryKey],
        updates: Sequence[Update],
        *,
        drift: Sequence[Update],
    ) -> SwitchResult:
        done = Counter(update.operation for update in updates)
        return SwitchResult(
            name=name,
            pipeline_pushed=name in self._pushed,
            inserted=done[Operation.INSERT],
            modified=done[Operation.MODIFY],
            deleted=done[Operation.DELETE],
            entries_desired=len(self.target.entries(name)),
            entries_read_back=len(actual),
            drift=tuple(drift),
        )

    def errors_in_order(self) -> tuple[SwitchError, ...]:
        """All errors, in the order of the fabric's switches."""
        return self._in_order(self._errors, lambda error: error.switch)

    def _in_order(self, items: Sequence[_T], name: Callable[[_T], str]) -> tuple[_T, ...]:
        """Sorted as the fabric's switches are."""
        order = {switch.name: index for index, switch in enumerate(self.fabric.switches)}
        return tuple(sorted(items, key=lambda item: order[name(item)]))


async def _take_charge(session: SwitchSession, address: str, election_id: int) -> None:
    try:
        async with asyncio.timeout(CONNECT_DEADLINE_S):
            await session.become_primary(election_id)
    except TimeoutError as error:
        raise SwitchError(
            switch=session.name,
            message=f"{address} did not answer within {CONNECT_DEADLINE_S:g} s",
            lost=True,
        ) from error


async def side_by_side(
    fabric: Fabric,
    addresses: Mapping[str, str],
    work: Callable[[Switch, str], Awaitable[_T]],
) -> tuple[list[_T], list[SwitchError]]:
    """The answers of the switches that could be served, and the errors of the others.

    Switches without the program are left alone.
    """

    async def one(switch: Switch) -> _T:
        address = addresses.get(switch.name, switch.p4runtime)
        if address is None:
            raise SwitchError(
                switch=switch.name, message="no P4Runtime address; set p4runtime in the file"
            )
        return await work(switch, address)

    answers = await each([partial(one, switch) for switch in programmed_switches(fabric)])
    return (
        [answer for answer in answers if not isinstance(answer, SwitchError)],
        [answer for answer in answers if isinstance(answer, SwitchError)],
    )


def check_room(switch: Switch, target: Target, schema: fy.P4Schema) -> None:
    """An error before anything is written, rather than half of the entries."""
    try:
        entries = target.entries(switch.name)
    except ValueError as error:  # more than entries can express
        raise SwitchError(switch=switch.name, message=str(error)) from error
    for message in overfull(entries.values(), schema):
        raise SwitchError(switch=switch.name, message=message)
