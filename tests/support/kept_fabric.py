# SPDX-License-Identifier: Apache-2.0
"""Embedded switches that can be killed and started again, and keepers over them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import Server, serve
from controller.access import Access
from controller.desired import desired_state
from controller.entries import Entry
from controller.fabric import Fabric
from controller.keeper.events import Event, EventKind
from controller.keeper.keeper import Companion, Keeper, KeeperOptions
from controller.keeper.phases import Phase
from controller.pipeline import Pipeline, load_pipeline
from controller.rollout import PipelineChange
from controller.session import open_session, program_schema
from controller.switch_error import SwitchError
from controller.switch_stream import PacketIn

PIPELINE = load_pipeline()
SCHEMA = program_schema(PIPELINE)
DEADLINE_S = 40.0
"""Far beyond what anything takes: a test that needs it has failed."""


@dataclass
class SwitchPark:
    """The switches of a fabric, each on a port of its own that it keeps over restarts."""

    fabric: Fabric
    servers: dict[str, Server] = field(default_factory=dict)
    switches: dict[str, EmbeddedSwitch] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        """An empty switch on its port."""
        program = SwitchProgram.from_json(PIPELINE.bmv2_json)
        device_id = self.fabric.switch(name).device_id
        switch = EmbeddedSwitch(program, device_id=device_id)
        port = int(self.addresses[name].rpartition(":")[2]) if name in self.addresses else 0
        server = await serve([switch], first_port=port)
        self.servers[name], self.switches[name] = server, switch
        self.addresses[name] = server.addresses[device_id]

    async def kill(self, name: str) -> None:
        """The switch is gone, with all that it held."""
        await self.servers.pop(name).stop()

    async def entries(self, name: str) -> set[Entry]:
        """All that a switch holds."""
        async with open_session(
            name=name,
            address=self.addresses[name],
            device_id=self.fabric.switch(name).device_id,
            schema=SCHEMA,
        ) as session:
            return set(await session.read_entries())

    async def is_as_desired(self) -> bool:
        """Every switch holds exactly what the fabric asks for."""
        desired = desired_state(self.fabric)
        try:
            held = {name: await self.entries(name) for name in desired}
        except SwitchError:  # one has no pipeline yet
            return False
        return held == {name: set(entries) for name, entries in desired.items()}


@asynccontextmanager
async def park(fabric: Fabric) -> AsyncIterator[SwitchPark]:
    """All switches of a fabric, empty."""
    switches = SwitchPark(fabric)
    try:
        for switch in fabric.switches:
            await switches.start(switch.name)
        yield switches
    finally:
        for name in [*switches.servers]:
            await switches.kill(name)


@dataclass
class RunningKeeper:
    """A running keeper and what it told."""

    keeper: Keeper
    events: list[Event]
    task: "asyncio.Task[None]"

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; an end of the keeper, or none for long, is an error."""
        waiting = asyncio.create_task(self.keeper.until(condition))
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise AssertionError([str(event) for event in self.events[-20:]]) from None
        finally:
            waiting.cancel()
        if self.task.done():
            self.task.result()

    async def in_phase(self, phase: Phase, *names: str) -> None:
        """Wait until these switches, or all of them, are in a phase."""
        switches = self.keeper.switches
        await self.until(
            lambda: all(switches[name].machine.phase is phase for name in names or switches)
        )

    async def stop(self) -> None:
        """End the keeper as Ctrl-C does."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    def told(self, kind: EventKind) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.events if event.kind is kind]


class AnyPark(Protocol):
    """Switches of some kind."""

    fabric: Fabric
    addresses: dict[str, str]


@asynccontextmanager
async def kept(
    switches: AnyPark,
    *,
    election_id: int = 1_000,
    pipeline: Pipeline = PIPELINE,
    pipeline_change: PipelineChange | None = None,
    fabric: Fabric | None = None,
    companions: Sequence[Companion] = (),
    on_packet_in: Callable[[str, PacketIn], None] = lambda _switch, _packet: None,
) -> AsyncIterator[RunningKeeper]:
    """A keeper at work on the switches."""
    events: list[Event] = []
    keeper = Keeper(
        fabric or switches.fabric,
        SCHEMA if pipeline is PIPELINE else program_schema(pipeline),
        KeeperOptions(
            access=Access(election_id=election_id),
            addresses=switches.addresses,
            pipeline_change=pipeline_change,
        ),
        on_event=events.append,
        draw=lambda: 0.5,
        companions=companions,
        on_packet_in=on_packet_in,
    )
    running = RunningKeeper(keeper, events, asyncio.create_task(keeper.run()))
    try:
        await running.until(lambda: len(keeper.switches) == len(keeper.fabric.switches))
        yield running
    finally:
        await running.stop()
