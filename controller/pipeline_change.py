# SPDX-License-Identifier: Apache-2.0
"""The steps of a pipeline change on one switch: save, replace, check, put back."""

import asyncio
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import finsy as fy
from finsy.proto import p4r

from controller.findings import ROUTE_NAMES, Target
from controller.held_switch import WRITE_SIZE_MAX, HeldSwitch
from controller.reconcile import Update
from controller.session import HEARTBEAT_DEADLINE_S
from controller.switch_error import SwitchError

HEALTH_INTERVAL_S = 1.0
"""How often a switch is asked while it settles."""
NAMES_SHOWN_MAX = 4
"""Objects of one kind that a message names."""
HEALTH_CHECK_S_MAX = 120.0
"""A health check that runs longer has failed."""

_ENTITY_ORDER = {
    "action_profile_member": 0,
    "action_profile_group": 1,
    "multicast_group_entry": 2,
    "table_entry": 3,
    "clone_session_entry": 4,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPipeline:
    """What a switch ran and held, as it sent it."""

    config: p4r.ForwardingPipelineConfig
    schema: fy.P4Schema
    messages: tuple[p4r.Entity, ...]


async def learn_running_program(held: HeldSwitch) -> None:
    """Read and write by the names of the program that the switch runs, and read its routes.

    Where they cannot be understood the entries stay unknown, and it takes no part in draining.
    """
    config = await _running(held)
    schema = _schema_of(config)
    held.session.use_schema(schema)
    known = {table.alias for table in schema.tables}
    known |= {profile.alias for profile in schema.action_profiles}
    if not known >= ROUTE_NAMES:
        return
    try:
        await held.read(ROUTE_NAMES)
    except SwitchError as error:
        if error.lost:
            raise
        held.entries = None


async def save(held: HeldSwitch) -> SavedPipeline:
    """Keep what runs; SwitchError where the switch does not tell, since nothing could go back."""
    config = await _running(held)
    schema = _schema_of(config)
    held.session.use_schema(schema)
    return SavedPipeline(
        config=config, schema=schema, messages=tuple(await held.session.read_messages())
    )


async def _running(held: HeldSwitch) -> p4r.ForwardingPipelineConfig:
    config = await held.session.running_pipeline()
    if config is None or not config.p4_device_config or not config.HasField("p4info"):
        raise SwitchError(
            switch=held.name,
            message="it does not tell the pipeline that it runs, so there is no way back",
        )
    return config


def _schema_of(config: p4r.ForwardingPipelineConfig) -> fy.P4Schema:
    return fy.P4Schema(config.p4info, config.p4_device_config)


async def change(held: HeldSwitch, schema: fy.P4Schema, target: Target) -> list[Update]:
    """Push the pipeline, write all entries and read them back; what was written."""
    held.session.use_schema(schema)
    await held.session.push_pipeline()
    updates = target.updates(held.name, await held.read())
    await held.write(updates)
    await _check_entries(held, target)
    return updates


async def check(
    held: HeldSwitch,
    schema: fy.P4Schema,
    target: Target,
    *,
    settle_s: float,
    health_check: str | None,
) -> None:
    """The health gate: it answers, runs and holds the same all the time, and the check agrees."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + settle_s
    while (left_s := end_s - loop.time()) > 0:
        cookie = await held.session.pipeline_cookie(deadline_s=HEARTBEAT_DEADLINE_S)
        if cookie != schema.p4cookie:
            raise SwitchError(switch=held.name, message="it does not run the new pipeline any more")
        await asyncio.sleep(min(left_s, HEALTH_INTERVAL_S))
    await _check_entries(held, target)
    if health_check is not None:
        await _run_check(held.name, health_check)


async def restore(held: HeldSwitch, saved: SavedPipeline) -> None:
    """Push what ran before and write back what it held."""
    held.session.use_schema(saved.schema)
    held.entries = None
    await held.session.push_pipeline(saved.config)
    for part in _restoring_writes(saved):
        await held.session.write_messages(part)


def not_restored(saved: SavedPipeline) -> str:
    """What the old program has whose state does not come back, by name: it begins anew there.

    Counters are not spoken of: they begin at zero on every switch that restarts.
    """
    info = saved.config.p4info
    kinds = {
        "meters": [one.preamble.alias for one in info.meters]
        + [one.preamble.alias for one in info.direct_meters],
        "digests": [one.preamble.alias for one in info.digests],
        "value sets": [one.preamble.alias for one in info.value_sets],
        "registers": [one.preamble.alias for one in info.registers],
    }
    return ", ".join(
        f"{kind} ({', '.join(names[:NAMES_SHOWN_MAX])}"
        f"{', ...' if len(names) > NAMES_SHOWN_MAX else ''})"
        for kind, names in kinds.items()
        if names
    )


async def _check_entries(held: HeldSwitch, target: Target) -> None:
    await held.read()
    missing = target.updates(held.name, held.known())
    if missing:
        raise SwitchError(
            switch=held.name,
            where=missing[0].entry.where,
            message=f"the switch does not hold what it took ({len(missing)} differ)",
        )


def _restoring_writes(saved: SavedPipeline) -> Iterator[list[p4r.Update]]:
    """Updates that write back everything, in an order that works, in requests of bounded size."""
    constant = {table.id for table in saved.schema.tables if table.is_const}
    updates = []
    for message in saved.messages:
        entry = message.table_entry if message.HasField("table_entry") else None
        if entry is not None and (entry.is_const or entry.table_id in constant):
            continue
        is_default = entry is not None and entry.is_default_action
        if is_default and entry is not None and not entry.HasField("action"):
            continue
        how = p4r.Update.MODIFY if is_default else p4r.Update.INSERT
        updates.append(p4r.Update(type=how, entity=message))
    updates.sort(key=_rank)
    for _, same in groupby(updates, key=_rank):
        waiting = list(same)
        for start in range(0, len(waiting), WRITE_SIZE_MAX):
            yield waiting[start : start + WRITE_SIZE_MAX]


def _rank(update: p4r.Update) -> int:
    kind = update.entity.WhichOneof("entity")
    if kind == "packet_replication_engine_entry":
        return _ENTITY_ORDER[update.entity.packet_replication_engine_entry.WhichOneof("type") or ""]
    return _ENTITY_ORDER[kind or ""]


async def _run_check(name: str, command: str) -> None:
    """Run the operator's command; its last line of stderr says why it failed."""
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            name,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        raise SwitchError(switch=name, message=f"health check {command!r}: {error}") from error
    try:
        async with asyncio.timeout(HEALTH_CHECK_S_MAX):
            _, said = await process.communicate()
    except TimeoutError:
        raise SwitchError(
            switch=name,
            message=f"health check {command!r} did not end within {HEALTH_CHECK_S_MAX:g} s",
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines() or [""]
        raise SwitchError(
            switch=name,
            message=f"health check {command!r} ended with {process.returncode}: {lines[-1]}",
        )
