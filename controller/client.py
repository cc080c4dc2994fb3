# SPDX-License-Identifier: Apache-2.0
"""Make the switches of a fabric hold what its description says, and prove it by reading back.

`deploy` applies, `compare` only looks: it gives the plan (what apply would do) and the status
(what has drifted). Switches are served side by side; one that fails does not stop the others, and
every failure is in the result. Applying twice changes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

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
    results, errors = await _side_by_side(
        fabric,
        addresses or {},
        lambda switch, address: _deploy_switch(switch, address, target, schema),
    )
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

    async def one(switch: Switch, address: str) -> tuple[str, int]:
        async with open_session(
            name=switch.name, address=address, device_id=switch.device_id, schema=schema
        ) as session:
            await _take_charge(session, address)
            if await session.pipeline_cookie() != schema.p4cookie:
                raise SwitchError(
                    switch=switch.name, message="it runs another pipeline; deploy first"
                )
            updates = updates_of(switch, await session.read_entries(names))
            for batch in batches(updates, size_max=WRITE_SIZE_MAX):
                await session.write(batch)
        return switch.name, len(updates)

    results, errors = await _side_by_side(fabric, addresses or {}, one)
    return UpdateResult(written=dict(results), errors=tuple(errors))


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
    slots = asyncio.Semaphore(PARALLEL_SWITCH_COUNT_MAX)

    async def one(switch: Switch) -> _T | SwitchError:
        address = addresses.get(switch.name, switch.p4runtime)
        if address is None:
            return SwitchError(
                switch=switch.name, message="no P4Runtime address; set p4runtime in the file"
            )
        async with slots:
            try:
                return await work(switch, address)
            except SwitchError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(switch)) for switch in programmed_switches(fabric)]
    answers = [task.result() for task in tasks]
    return (
        [answer for answer in answers if not isinstance(answer, SwitchError)],
        [answer for answer in answers if isinstance(answer, SwitchError)],
    )


async def _deploy_switch(
    switch: Switch, address: str, target: Target, schema: fy.P4Schema
) -> SwitchResult:
    async with open_session(
        name=switch.name, address=address, device_id=switch.device_id, schema=schema
    ) as session:
        _check_room(switch, target, schema)
        await _take_charge(session, address)
        push = await session.pipeline_cookie() != schema.p4cookie
        if push:
            await session.push_pipeline()
        actual = await session.read_entries()
        updates = target.updates(switch.name, actual)
        for batch in batches(updates, size_max=WRITE_SIZE_MAX):
            await session.write(batch)
        if updates:
            actual = await session.read_entries()
    done = Counter(update.operation for update in updates)
    return SwitchResult(
        name=switch.name,
        pipeline_pushed=push,
        inserted=done[Operation.INSERT],
        modified=done[Operation.MODIFY],
        deleted=done[Operation.DELETE],
        entries_desired=len(target.entries(switch.name)),
        entries_read_back=len(actual),
        drift=tuple(target.updates(switch.name, actual)),
    )


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
