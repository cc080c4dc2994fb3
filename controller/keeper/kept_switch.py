# SPDX-License-Identifier: Apache-2.0
"""Carries out the commands of one switch's machine over its P4Runtime session."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Protocol

import finsy as fy

from controller.access import Access
from controller.deployment import check_room
from controller.fabric import Switch
from controller.findings import Target
from controller.held_switch import HeldSwitch
from controller.keeper.phases import Do, Phase
from controller.keeper.switch_machine import SwitchMachine
from controller.reconcile import Update
from controller.session import (
    HEARTBEAT_DEADLINE_S,
    PacketIn,
    StreamCounters,
    SwitchSession,
    open_session,
)
from controller.switch_error import SwitchError


class Owner(Protocol):
    """What a switch needs of the fabric that it is part of."""

    access: Access
    slots: asyncio.Semaphore
    """Bounds how many switches are read or pushed at the same time."""

    def schema_of(self, switch: Switch) -> fy.P4Schema:
        """The program that the switch is to run."""

    @property
    def target(self) -> Target:
        """What the switches should hold now."""

    def now_ns(self) -> int:
        """The clock that never steps."""

    def want_write(self, name: str) -> None:
        """The switch waits for its turn to be written."""

    def changed(self) -> None:
        """A switch has another phase."""

    def packet_in(self, name: str, packet: PacketIn) -> None:
        """A switch has sent a frame to its controller."""

    def spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Run it beside everything else; what it raises ends the whole controller."""


class KeptSwitch:
    """One switch under control: its machine, its session, and what is under way."""

    def __init__(self, switch: Switch, address: str, machine: SwitchMachine, owner: Owner) -> None:
        self.switch = switch
        self.address = address
        self.machine = machine
        self.held: HeldSwitch | None = None
        """While a session is open."""
        self.stream = StreamCounters()
        """Of all sessions."""
        self._owner = owner
        self._life: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._stopped = False

    @property
    def name(self) -> str:
        """Name of the switch."""
        return self.switch.name

    def start(self) -> None:
        """Connect, from now on."""
        self.feed(self.machine.start(self._owner.now_ns()))

    def stop(self) -> None:
        """Stop everything, for good; the session closes."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        for task in (*self._work, *([self._life] if self._life is not None else [])):
            task.cancel()

    def feed(self, commands: list[Do]) -> None:
        """Carry out what the machine asks for, and call it when it wants to be called."""
        if self._stopped:
            return
        for command in commands:
            self._carry_out(command)
        self._set_alarm()
        self._owner.changed()

    def retarget(self) -> None:
        """The target has changed."""
        self.feed(self.machine.retarget(self._owner.now_ns()))

    def updates(self) -> list[Update]:
        """What separates the switch from its target; SwitchError where that is not known."""
        if self.held is None:
            raise SwitchError(switch=self.name, message="there is no session", lost=True)
        return self._owner.target.updates(self.name, self.held.known())

    def written(self, count: int) -> None:
        """Its updates were taken."""
        self.feed(self.machine.written(count, self._owner.now_ns()))

    def failed(self, error: SwitchError) -> None:
        """Something that the switch was asked for did not work."""
        now_ns = self._owner.now_ns()
        if error.lost:
            self.feed(self.machine.lost(error, now_ns))
        else:
            self.feed(self.machine.refused(error, now_ns))

    # Parts

    def _carry_out(self, command: Do) -> None:
        match command:
            case Do.CONNECT:
                self._life = self._owner.spawn(self._live())
            case Do.ANNOUNCE:
                self._begin(self._announce)
            case Do.DISCONNECT:
                self._cancel(self._work)
                if self._life is not None:
                    self._cancel({self._life})
                self._life = None
            case Do.STAND_DOWN:
                self._cancel(self._work)
            case Do.READ_COOKIE:
                self._begin(self._read_cookie)
            case Do.PUSH:
                self._begin(self._push)
            case Do.READ:
                self._begin(partial(self._compare, read=True))
            case Do.COMPARE:
                self._begin(partial(self._compare, read=False))
            case Do.WRITE:
                self._owner.want_write(self.name)

    def _cancel(self, tasks: set[asyncio.Task[None]]) -> None:
        for task in [*tasks]:
            if task is not asyncio.current_task():  # which ends by itself
                task.cancel()

    def _begin(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        task = self._owner.spawn(self._guarded(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _guarded(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await work()
        except SwitchError as error:
            self.failed(error)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self.machine.wake_ns is not None:
            wait_s = max(0, self.machine.wake_ns - self._owner.now_ns()) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        self.feed(self.machine.tick(self._owner.now_ns()))

    async def _live(self) -> None:
        """A session from beginning to end: what the switch says of who is primary."""
        held: HeldSwitch | None = None
        try:
            async with open_session(
                name=self.name,
                address=self.address,
                device_id=self.switch.device_id,
                schema=self._owner.schema_of(self.switch),
                access=self._owner.access,
                counters=self.stream,
            ) as session:
                held = self.held = HeldSwitch(self.name, session)
                packets = self._owner.spawn(self._take_packets(session))
                try:
                    await session.announce(self.machine.bid)
                    while True:
                        said = await session.arbitration()
                        self.feed(self.machine.arbitration(said, self._owner.now_ns()))
                finally:
                    packets.cancel()
        except SwitchError as error:
            self.feed(self.machine.lost(error, self._owner.now_ns()))
        finally:
            if self.held is held:  # the next session may have begun
                self.held = None

    async def _take_packets(self, session: SwitchSession) -> None:
        while True:
            self._owner.packet_in(self.name, await session.packets_in.get())

    def _session(self) -> HeldSwitch:
        if self.held is None:
            raise SwitchError(switch=self.name, message="the session is over", lost=True)
        return self.held

    async def _announce(self) -> None:
        await self._session().session.announce(self.machine.bid)

    async def _read_cookie(self) -> None:
        cookie = await self._session().session.pipeline_cookie(deadline_s=HEARTBEAT_DEADLINE_S)
        self.feed(self.machine.cookie(cookie, self._owner.now_ns()))

    async def _push(self) -> None:
        async with self._owner.slots:
            held = self._session()
            held.entries = None
            await held.session.push_pipeline()
        self.feed(self.machine.pushed(self._owner.now_ns()))

    async def _compare(self, *, read: bool) -> None:
        held = self._session()
        schema = self._owner.schema_of(self.switch)
        held.session.use_schema(schema)
        if read or held.entries is None:
            async with self._owner.slots:
                await held.read()
        check_room(self.switch, self._owner.target, schema)
        updates = self.updates()
        first = str(updates[0]) if updates else ""
        self.feed(self.machine.compared(len(updates), first, self._owner.now_ns()))


def is_settling(kept: KeptSwitch) -> bool:
    """The switch will soon be known: it answers, and is being looked at."""
    return kept.machine.phase in (Phase.CHECKING, Phase.PUSHING, Phase.READING)
