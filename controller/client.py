# SPDX-License-Identifier: Apache-2.0
"""Make the switches of a fabric hold what its description says, and prove it by reading back.

`deploy` applies, `compare` only looks: it gives the plan (what apply would do) and the status
(what has drifted). Switches are served side by side, in rounds where routes change
(`write_order.py`); one that fails does not stop the others, and every failure is in the result.
Applying twice changes nothing. A pipeline that a switch runs is replaced only with leave, one
switch at a time (`rollout.py`).
"""

from collections.abc import Callable, Collection, Mapping

import finsy as fy

from controller.access import DEFAULT_ACCESS, Access
from controller.deploy_result import (
    DeployResult,
    FabricDifference,
    SwitchDifference,
    SwitchResult,
    UpdateResult,
)
from controller.deployment import Deployment, check_room, side_by_side
from controller.desired import LinkDelays
from controller.entries import Entry, EntryKey
from controller.fabric import Fabric, Switch
from controller.findings import (
    LINK_DELAY_NAMES,
    NO_FINDINGS,
    ROUTE_NAMES,
    Findings,
    Target,
    link_delay_updates,
)
from controller.garbage import few_collections
from controller.held_switch import HeldSwitch
from controller.left_drains import left_drains
from controller.pipeline import Pipeline
from controller.programs import Programs
from controller.reconcile import Update
from controller.rollout import Note, PipelineChange
from controller.session import SwitchSession, open_session
from controller.switch_error import SwitchError

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


async def deploy(
    fabric: Fabric,
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
    *,
    findings: Findings = NO_FINDINGS,
    access: Access = DEFAULT_ACCESS,
    pipeline_change: PipelineChange | None = None,
    note: Note = lambda _kind, _switch, _message: None,
) -> DeployResult:
    """Program all switches of the fabric and read everything back.

    addresses: P4Runtime `HOST:PORT` by switch name, in place of those of the file.
    pipeline: in place of the one that comes with the product.
    pipeline_change: leave to replace a pipeline that a switch runs; None: such a switch is an
    error. note: is told how such a change goes.
    """
    deployment = Deployment(
        fabric, Programs.of_pipeline(pipeline), findings, access, addresses or {}
    )
    with few_collections():
        return await _deploy(deployment, pipeline_change, note)


async def _deploy(
    deployment: Deployment, pipeline_change: PipelineChange | None, note: Note
) -> DeployResult:
    async with deployment:
        await deployment.connect(deployment.prepare_whole)
        await deployment.write_all()
        await deployment.change_pipelines(pipeline_change, note)
        results = await deployment.finish()
    return DeployResult(switches=results, errors=deployment.errors_in_order())


async def write_link_delays(
    fabric: Fabric,
    link_delays: LinkDelays,
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
    *,
    access: Access = DEFAULT_ACCESS,
) -> UpdateResult:
    """Have all switches hold these link delays, and touch nothing else: made to be called often."""

    def updates(switch: Switch, actual: Mapping[EntryKey, Entry]) -> list[Update]:
        return link_delay_updates(fabric, switch, link_delays, actual)

    deployment = Deployment(
        fabric, Programs.of_pipeline(pipeline), NO_FINDINGS, access, addresses or {}
    )
    return await _write_part(deployment, LINK_DELAY_NAMES, updates)


async def write_routes(
    fabric: Fabric,
    failed_links: Collection[str],
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
    *,
    access: Access = DEFAULT_ACCESS,
) -> UpdateResult:
    """Route around the links of these names, and touch nothing but routes: for link failures.

    Only buckets that led to a failed port are rewritten, or return to a port that works again.
    """
    deployment = Deployment(
        fabric,
        Programs.of_pipeline(pipeline),
        Findings(failed_links=failed_links),
        access,
        addresses or {},
    )

    def updates(switch: Switch, actual: Mapping[EntryKey, Entry]) -> list[Update]:
        return deployment.target.updates(switch.name, actual, ROUTE_NAMES)

    return await _write_part(deployment, ROUTE_NAMES, updates)


async def _write_part(
    deployment: "Deployment",
    names: frozenset[str],
    updates_of: Callable[[Switch, Mapping[EntryKey, Entry]], list[Update]],
) -> UpdateResult:
    async def prepare(switch: Switch, held: HeldSwitch) -> None:
        if await held.session.pipeline_cookie() != deployment.schema_of(switch.name).p4cookie:
            raise SwitchError(switch=switch.name, message="it runs another pipeline; deploy first")
        deployment.updates[switch.name] = updates_of(switch, await held.read(names))

    async with deployment:
        await deployment.connect(prepare)
        await deployment.write_all()
        await deployment.read_back(names, updates_of)
    return UpdateResult(
        written={name: len(updates) for name, updates in deployment.updates.items()},
        errors=deployment.errors_in_order(),
    )


async def compare(
    fabric: Fabric,
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
    *,
    findings: Findings = NO_FINDINGS,
    access: Access = DEFAULT_ACCESS,
) -> FabricDifference:
    """Read all switches and compare; writes nothing and takes no switch from its controller."""
    programs = Programs.of_pipeline(pipeline)
    target = Target.of(fabric, findings, programs.sizes(fabric))
    actual: dict[str, Mapping[EntryKey, Entry]] = {}

    async def one(switch: Switch, address: str) -> SwitchDifference:
        schema = programs.of(fabric, switch)
        async with open_session(
            name=switch.name,
            address=address,
            device_id=switch.device_id,
            schema=schema,
            access=access,
        ) as session:
            return await _compare_switch(switch, session, target, schema, actual)

    with few_collections():
        results, errors = await side_by_side(fabric, addresses or {}, one)
    return FabricDifference(
        switches=tuple(results),
        errors=tuple(errors),
        left_drained=left_drains(target, findings, actual),
    )


async def _compare_switch(
    switch: Switch,
    session: SwitchSession,
    target: Target,
    schema: fy.P4Schema,
    actual: dict[str, Mapping[EntryKey, Entry]],
) -> SwitchDifference:
    """actual: gets what the switch holds."""
    check_room(switch, target, schema)
    cookie = await session.pipeline_cookie()
    held: Mapping[EntryKey, Entry] = {}
    if cookie == schema.p4cookie:  # else its entries cannot be compared, and a push removes them
        held = actual[switch.name] = await session.read_by_key()
    return SwitchDifference(
        name=switch.name,
        pipeline_differs=cookie != schema.p4cookie,
        pipeline_runs=cookie is not None,
        entries_desired=len(target.entries(switch.name)),
        updates=tuple(target.updates(switch.name, held)),
    )
