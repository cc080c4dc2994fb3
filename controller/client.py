# SPDX-License-Identifier: Apache-2.0
"""Make the switches of a fabric hold what its description says, and prove it by reading back.

`deploy` applies, `compare` only looks: it gives the plan (what apply would do) and the status
(what has drifted). Switches are served side by side, in rounds where routes change
(`write_order.py`); one that fails does not stop the others, and every failure is in the result.
Applying twice changes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import finsy as fy

from controller.deploy_result import (
    DeployResult,
    FabricDifference,
    SwitchDifference,
    SwitchResult,
    UpdateResult,
)
from controller.desired import LinkDelays
from controller.entries import Entry
from controller.fabric import Fabric, Switch, programmed_switches
from controller.findings import (
    LINK_DELAY_NAMES,
    NO_FINDINGS,
    ROUTE_NAMES,
    Findings,
    Target,
    link_delay_updates,
)
from controller.p4info_codec import overfull
from controller.pipeline import Pipeline, load_pipeline
from controller.reconcile import Operation, Update, batches
from controller.session import (
    CONNECT_DEADLINE_S,
    SwitchError,
    SwitchSession,
    open_session,
    program_schema,
)
from controller.write_order import Held, write_rounds

__all__ = [
    "DeployResult",
    "FabricDifference",
    "Findings",
    "SwitchDifference",
    "SwitchResult",
    "UpdateResult",
    "compare",
    "deploy",
    "write_link_delays",
    "write_routes",
]

WRITE_SIZE_MAX = 500
"""Updates per write request: some 50 kB, and well below the 10 s that the library allows."""
PARALLEL_SWITCH_COUNT_MAX = 64
"""Switches served at the same time."""

_T = TypeVar("_T")


async def deploy(
    fabric: Fabric,
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
    *,
    findings: Findings = NO_FINDINGS,
) -> DeployResult:
    """Program all switches of the fabric and read everything back.

    addresses: P4Runtime `HOST:PORT` by switch name, in place of those of the file.
    pipeline: in place of the one that comes with the product.
    """
    schema = program_schema(pipeline or load_pipeline())
    target = Target.of(fabric, findings)
    pushed: set[str] = set()

    async def prepare(switch: Switch, session: SwitchSession) -> Held:
        if await session.pipeline_cookie() != schema.p4cookie:
            await session.push_pipeline()
            pushed.add(switch.name)
        actual = await session.read_entries()
        return Held(entries=actual, updates=target.updates(switch.name, actual))

    async def finish(switch: Switch, session: SwitchSession, held: Held) -> SwitchResult:
        actual = await session.read_entries() if held.updates else held.entries
        done = Counter(update.operation for update in held.updates)
        return SwitchResult(
            name=switch.name,
            pipeline_pushed=switch.name in pushed,
            inserted=done[Operation.INSERT],
            modified=done[Operation.MODIFY],
            deleted=done[Operation.DELETE],
            entries_desired=len(target.entries(switch.name)),
            entries_read_back=len(actual),
            drift=tuple(target.updates(switch.name, actual)),
        )

    def check(switch: Switch) -> None:
        _check_room(switch, target, schema)

    work = _Work(check=check, prepare=prepare, finish=finish)
    results, errors = await _write(fabric, addresses or {}, schema, work)
    return DeployResult(switches=tuple(results), errors=tuple(errors))


async def write_link_delays(
    fabric: Fabric,
    link_delays: LinkDelays,
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
) -> UpdateResult:
    """Have all switches hold these link delays, and touch nothing else: made to be called often."""

    def updates(switch: Switch, actual: list[Entry]) -> list[Update]:
        return link_delay_updates(fabric, switch, link_delays, actual)

    return await _write_part(fabric, LINK_DELAY_NAMES, updates, addresses, pipeline)


async def write_routes(
    fabric: Fabric,
    failed_links: Collection[str],
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
) -> UpdateResult:
    """Route around the links of these names, and touch nothing but routes: for link failures.

    Only buckets that led to a failed port are rewritten, or return to a port that works again.
    """
    target = Target.of(fabric, Findings(failed_links=failed_links))

    def updates(switch: Switch, actual: list[Entry]) -> list[Update]:
        return target.updates(switch.name, actual, ROUTE_NAMES)

    return await _write_part(fabric, ROUTE_NAMES, updates, addresses, pipeline)


async def _write_part(
    fabric: Fabric,
    names: frozenset[str],
    updates_of: Callable[[Switch, list[Entry]], list[Update]],
    addresses: Mapping[str, str] | None,
    pipeline: Pipeline | None,
) -> UpdateResult:
    schema = program_schema(pipeline or load_pipeline())

    async def prepare(switch: Switch, session: SwitchSession) -> Held:
        if await session.pipeline_cookie() != schema.p4cookie:
            raise SwitchError(switch=switch.name, message="it runs another pipeline; deploy first")
        actual = await session.read_entries(names)
        return Held(entries=actual, updates=updates_of(switch, actual))

    async def finish(switch: Switch, session: SwitchSession, held: Held) -> tuple[str, int]:
        return switch.name, len(held.updates)

    work = _Work(check=lambda switch: None, prepare=prepare, finish=finish)
    results, errors = await _write(fabric, addresses or {}, schema, work)
    return UpdateResult(written=dict(results), errors=tuple(errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work(Generic[_T]):
    """What is done to each switch: before anything is sent, before the writes, and after them."""

    check: Callable[[Switch], None]
    prepare: Callable[[Switch, SwitchSession], Awaitable[Held]]
    finish: Callable[[Switch, SwitchSession, Held], Awaitable[_T]]


async def _write(
    fabric: Fabric, addresses: Mapping[str, str], schema: fy.P4Schema, work: _Work[_T]
) -> tuple[list[_T], list[SwitchError]]:
    """Write what `prepare` finds to be written, in the order of `write_rounds`.

    The sessions stay open, so that nobody else writes in between. A switch that fails drops out.
    """
    async with AsyncExitStack() as stack:
        sessions: dict[str, SwitchSession] = {}

        async def prepare(switch: Switch, address: str) -> tuple[str, Held]:
            session = await stack.enter_async_context(
                open_session(
                    name=switch.name, address=address, device_id=switch.device_id, schema=schema
                )
            )
            work.check(switch)
            await _take_charge(session, address)
            sessions[switch.name] = session
            return switch.name, await work.prepare(switch, session)

        prepared, errors = await _side_by_side(fabric, addresses, prepare)
        held = dict(prepared)

        async def carry_out(switch: Switch, updates: Sequence[Update]) -> None:
            for batch in batches(updates, size_max=WRITE_SIZE_MAX):
                await sessions[switch.name].write(batch)

        for part in write_rounds(fabric, held):
            failed = await _each(
                [
                    partial(carry_out, fabric.switch(name), updates)
                    for name, updates in part.items()
                    if name in held
                ]
            )
            errors += [one for one in failed if isinstance(one, SwitchError)]
            for error in errors:
                held.pop(error.switch, None)
        finished = await _each(
            [
                partial(work.finish, fabric.switch(name), sessions[name], one)
                for name, one in held.items()
            ]
        )
    order = {switch.name: index for index, switch in enumerate(fabric.switches)}
    errors += [one for one in finished if isinstance(one, SwitchError)]
    errors.sort(key=lambda error: order[error.switch])
    return [one for one in finished if not isinstance(one, SwitchError)], errors


async def _take_charge(session: SwitchSession, address: str) -> None:
    try:
        async with asyncio.timeout(CONNECT_DEADLINE_S):
            await session.become_primary()
    except TimeoutError as error:
        raise SwitchError(
            switch=session.name,
            message=f"{address} did not answer within {CONNECT_DEADLINE_S:g} s",
        ) from error


async def compare(
    fabric: Fabric,
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
    *,
    findings: Findings = NO_FINDINGS,
) -> FabricDifference:
    """Read all switches and compare; writes nothing and takes no switch from its controller."""
    schema = program_schema(pipeline or load_pipeline())
    target = Target.of(fabric, findings)
    results, errors = await _side_by_side(
        fabric,
        addresses or {},
        lambda switch, address: _compare_switch(switch, address, target, schema),
    )
    return FabricDifference(switches=tuple(results), errors=tuple(errors))


async def _side_by_side(
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

    answers = await _each([partial(one, switch) for switch in programmed_switches(fabric)])
    return (
        [answer for answer in answers if not isinstance(answer, SwitchError)],
        [answer for answer in answers if isinstance(answer, SwitchError)],
    )


async def _each(work: Sequence[Callable[[], Awaitable[_T]]]) -> list[_T | SwitchError]:
    """What all of it gives, in order, with errors in their places; so many at the same time."""
    slots = asyncio.Semaphore(PARALLEL_SWITCH_COUNT_MAX)

    async def one(part: Callable[[], Awaitable[_T]]) -> _T | SwitchError:
        async with slots:
            try:
                return await part()
            except SwitchError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(part)) for part in work]
    return [task.result() for task in tasks]


def _check_room(switch: Switch, target: Target, schema: fy.P4Schema) -> None:
    """An error before anything is written, rather than half of the entries."""
    for message in overfull(target.entries(switch.name), schema):
        raise SwitchError(switch=switch.name, message=message)


async def _compare_switch(
    switch: Switch, address: str, target: Target, schema: fy.P4Schema
) -> SwitchDifference:
    async with open_session(
        name=switch.name, address=address, device_id=switch.device_id, schema=schema
    ) as session:
        _check_room(switch, target, schema)
        differs = await session.pipeline_cookie() != schema.p4cookie
        # Entries of another program cannot be compared, and a push removes them all.
        actual = [] if differs else await session.read_entries()
    return SwitchDifference(
        name=switch.name,
        pipeline_differs=differs,
        entries_desired=len(target.entries(switch.name)),
        updates=tuple(target.updates(switch.name, actual)),
    )
