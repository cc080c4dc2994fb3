# SPDX-License-Identifier: Apache-2.0
"""Keeps all switches of a fabric in their desired state, until it is told to stop.

The thin shell: each switch has a state machine (`switch_machine.py`) whose commands `KeptSwitch`
carries out. This file has what concerns several switches: the target, the order of their writes,
and pipeline changes. Inputs from outside are `replace_fabric`, `set_link` and `set_link_delays`.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field

import finsy as fy

from controller.access import DEFAULT_ACCESS, Access
from controller.desired import LinkDelays
from controller.draining import neighbours
from controller.entries import Member
from controller.fabric import Fabric, Switch, programmed_switches
from controller.findings import ROUTE_NAMES, Findings, Target
from controller.held_switch import PARALLEL_SWITCH_COUNT_MAX, HeldSwitch, write_in_rounds
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.kept_switch import KeptSwitch, is_settling
from controller.keeper.switch_machine import Phase, SwitchMachine
from controller.p4info_codec import table_sizes
from controller.pipeline_change import learn_running_program
from controller.reconcile import Operation, Update
from controller.rollout import PipelineChange, roll_out, rollout_order
from controller.rollout_steps import RolloutSteps, lead_around, not_drainable
from controller.session import PacketIn
from controller.switch_error import SwitchError

FIRST_GATHER_S_MAX = 10.0
"""The first writes wait this long for switches that are still being read: the order of writes
needs to know them all."""
GATHER_S_MAX = 0.3
"""The same for later writes."""
ROUND_S_MAX = 1.0
"""A switch that takes longer for its part of a round is not waited for."""
PASS_S_MAX = 3.0
"""The next pass begins when this one takes longer; switches that it still writes are left out."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """How to keep a fabric."""

    access: Access = DEFAULT_ACCESS
    addresses: Mapping[str, str] = field(default_factory=dict)
    """P4Runtime `HOST:PORT` by switch name, in place of those of the file."""
    pipeline_change: PipelineChange | None = None
    """Leave to replace a pipeline that a switch runs."""


class Keeper:
    """All switches of a fabric under control."""

    def __init__(
        self,
        fabric: Fabric,
        schema: fy.P4Schema,
        options: KeeperOptions,
        *,
        on_event: OnEvent,
        on_packet_in: Callable[[str, PacketIn], None] = lambda _switch, _packet: None,
        draw: Callable[[], float] = random.random,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.fabric = fabric
        self.schema = schema
        self.access = options.access
        self.slots = asyncio.Semaphore(PARALLEL_SWITCH_COUNT_MAX)
        self.switches: dict[str, KeptSwitch] = {}
        """By name."""
        self.failed_links: set[str] = set()
        """Names of links that are down."""
        self.now_ns = monotonic_ns
        self.packet_in = on_packet_in
        """Takes frames that switches send to the controller; must not block."""
        self.updates: dict[str, list[Update]] = {}
        """What a rollout wrote."""
        self._options = options
        self._on_event = on_event
        self._draw = draw
        self._link_delays: LinkDelays | None = None
        self._just_failed: set[str] = set()
        """Links whose ports still have buckets."""
        self._drained: frozenset[str] = frozenset()
        self._target: Target | None = None
        self._target_old = asyncio.Event()
        self._to_write: set[str] = set()
        self._write_wanted = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_first_pass = True
        self._halted = False
        """A pipeline change has failed: none is tried before the fabric is loaded again."""

    # Inputs

    async def run(self) -> None:
        """Keep the fabric until cancelled; then close all sessions."""
        self._target = await self._compute_target()
        self._event(EventKind.STARTED, f"{len(programmed_switches(self.fabric))} switches")
        try:
            async with asyncio.TaskGroup() as self._group:
                self._adopt(self.fabric)
                self.spawn(self._follow_target())
                self.spawn(self._write_in_passes())
                self.spawn(self._change_pipelines())
                try:
                    await asyncio.Event().wait()  # until cancelled
                finally:
                    for kept in self.switches.values():
                        kept.stop()
        finally:
            self._event(EventKind.STOPPED)

    def replace_fabric(self, fabric: Fabric) -> None:
        """Another description is in force: what it changes is written, and nothing else."""
        self.fabric = fabric
        self.failed_links &= {link.name for link in fabric.links}
        self._halted = False
        self._drained = frozenset()
        self._adopt(fabric)
        self._target_old.set()
        self._changed.set()
        self._event(EventKind.FABRIC_LOADED, f"{len(self.switches)} switches")

    def set_link(self, name: str, *, up: bool, reason: str = "") -> None:
        """A link works or does not; its name is that of the file, `leaf1:1-spine1:1`."""
        if name not in {link.name for link in self.fabric.links}:
            raise ValueError(f"there is no link {name}")
        if up == (name not in self.failed_links):
            return
        if up:
            self.failed_links.discard(name)
            self._just_failed.discard(name)
        else:
            self.failed_links.add(name)
            self._just_failed.add(name)
        message = f"{name}: {reason}" if reason else name
        self._event(EventKind.LINK_UP if up else EventKind.LINK_DOWN, message)
        self._target_old.set()

    def set_link_delays(self, link_delays: LinkDelays | None) -> None:
        """What transparent clocks add for their cables; None: whatever they hold stays."""
        self._link_delays = link_delays
        self._target_old.set()

    # What the switches see

    @property
    def target(self) -> Target:
        """What the switches should hold now."""
        assert self._target is not None, "set before the first switch is looked at"
        return self._target

    def want_write(self, name: str) -> None:
        """The switch waits for its turn."""
        self._to_write.add(name)
        self._write_wanted.set()

    def changed(self) -> None:
        """A switch has another phase."""
        self._changed.set()

    def spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Run it beside everything else; what it raises ends the whole controller."""
        return self._group.create_task(work)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return as soon as a change of some switch makes the condition true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def in_phase(self, *phases: Phase) -> list[KeptSwitch]:
        """The switches in these phases."""
        return [kept for kept in self.switches.values() if kept.machine.phase in phases]

    # Switches

    def _adopt(self, fabric: Fabric) -> None:
        """Begin with the switches that are new or elsewhere now, and stop with those that are not
        there any more."""
        wanted = {switch.name: switch for switch in programmed_switches(fabric)}
        for name, kept in [*self.switches.items()]:
            switch = wanted.get(name)
            if switch is None or (self._address(switch), switch.device_id) != (
                kept.address,
                kept.switch.device_id,
            ):
                del self.switches[name]
                kept.stop()
            else:
                kept.switch = switch
        for name, switch in wanted.items():
            address = self._address(switch)
            if address is None:
                error = "no P4Runtime address; set p4runtime in the file"
                self._event(EventKind.FAILED, error, switch=name)
            elif name not in self.switches:
                machine = SwitchMachine(
                    name,
                    cookie=self.schema.p4cookie,
                    election_id=self.access.election_id,
                    draw=self._draw,
                    on_event=self._on_event,
                )
                self.switches[name] = kept = KeptSwitch(switch, address, machine, self)
                kept.start()

    def _address(self, switch: Switch) -> str | None:
        return self._options.addresses.get(switch.name, switch.p4runtime)

    # Target

    async def _compute_target(self) -> Target:
        """Off the loop, since a large fabric takes a second."""
        findings = Findings(
            link_delays=self._link_delays,
            failed_links=frozenset(self.failed_links),
            drained_switches=self._drained,
        )
        return await asyncio.to_thread(
            Target.of, self.fabric, findings, table_sizes(self.schema), before=self._target
        )

    async def _follow_target(self) -> None:
        while True:
            await self._target_old.wait()
            self._target_old.clear()
            failed, self._just_failed = self._just_failed, set()
            target = await self._compute_target()
            if failed:
                await self._repair(target, failed)
            self._retarget(target)

    async def _repair(self, target: Target, failed: Collection[str]) -> None:
        """Lead the buckets of dead ports elsewhere at once, before all else is computed.

        The other ports of an ECMP set lead there already, so this needs no order. Whatever goes a
        longer way round from now on waits for its turn.
        """
        ends = [(link.a, link.b) for link in self.fabric.links if link.name in failed]
        work = [
            self.spawn(self._repair_switch(kept, target))
            for name in dict.fromkeys(end.node for pair in ends for end in pair)
            if (kept := self.switches.get(name)) is not None and kept.machine.phase is Phase.IN_SYNC
        ]
        if work:
            await asyncio.wait(work, timeout=ROUND_S_MAX)

    async def _repair_switch(self, kept: KeptSwitch, target: Target) -> None:
        held = kept.held
        try:
            if held is None:
                return
            updates = [
                update
                for update in target.updates(kept.name, held.known(), ROUTE_NAMES)
                if isinstance(update.entry, Member) and update.operation is Operation.MODIFY
            ]
            if updates:
                await held.write(updates)
                kept.machine.repaired(len(updates))
                self.changed()
        except SwitchError as error:
            if kept.held is held:
                kept.failed(error)

    def _retarget(self, target: Target) -> None:
        self._target = target
        for kept in [*self.switches.values()]:
            kept.retarget()

    # Writes

    async def _write_in_passes(self) -> None:
        while True:
            await self._write_wanted.wait()
            await self._gather(FIRST_GATHER_S_MAX if self._is_first_pass else GATHER_S_MAX)
            self._is_first_pass = False
            self._write_wanted.clear()
            names, self._to_write = self._to_write, set()
            await asyncio.wait({self.spawn(self._write(names))}, timeout=PASS_S_MAX)

    async def _gather(self, longest_s: float) -> None:
        """Wait for switches whose routes are not known yet, so that the order has all of them."""
        try:
            async with asyncio.timeout(longest_s):
                await self.until(lambda: not any(map(is_settling, self.switches.values())))
        except TimeoutError:
            pass

    async def _write(self, names: Iterable[str]) -> None:
        held: dict[str, HeldSwitch] = {}
        updates: dict[str, list[Update]] = {}
        for name in sorted(names):
            kept = self.switches.get(name)
            if kept is None or kept.held is None or kept.machine.phase is not Phase.WRITING:
                continue
            try:
                updates[name] = kept.updates()
            except SwitchError as error:
                kept.failed(error)
                continue
            if updates[name]:
                held[name] = kept.held
            else:
                kept.written(0)

        def same(name: str) -> KeptSwitch | None:
            """The switch, if it still has the session that was written to."""
            kept = self.switches.get(name)
            return kept if kept is not None and kept.held is held[name] else None

        def on_written(name: str) -> None:
            if (kept := same(name)) is not None:
                kept.written(len(updates[name]))

        def on_failed(error: SwitchError) -> None:
            if (kept := same(error.switch)) is not None:
                kept.failed(error)

        await write_in_rounds(
            self.fabric,
            held,
            {name: updates[name] for name in held},
            round_s_max=ROUND_S_MAX,
            on_written=on_written,
            on_failed=on_failed,
        )

    # Pipeline changes

    @property
    def held(self) -> dict[str, HeldSwitch]:
        """Switches that we are primary of."""
        return {
            name: kept.held
            for name, kept in self.switches.items()
            if kept.held is not None and kept.machine.is_primary
        }

    async def _change_pipelines(self) -> None:
        change = self._options.pipeline_change
        if change is None:
            return
        while True:
            await self.until(self._can_change)
            await self._roll_out(change)

    def _can_change(self) -> bool:
        """Some switch runs another pipeline, and nothing is under way with the others."""
        return (
            not self._halted
            and bool(self.in_phase(Phase.OTHER_PIPELINE))
            and not self.in_phase(
                Phase.CONNECTING, Phase.CHECKING, Phase.PUSHING, Phase.READING, Phase.WRITING
            )
        )

    async def _roll_out(self, change: PipelineChange) -> None:
        others = self.in_phase(Phase.OTHER_PIPELINE)
        for kept in others:
            kept.machine.change_begins(self.now_ns())
        try:
            ready = []
            for kept in others:
                try:
                    if kept.held is not None:
                        await learn_running_program(kept.held)
                        ready.append(kept.name)
                except SwitchError as error:
                    self._note("pipeline_change_failed", kept.name, error.message)
            order = rollout_order(self.fabric, ready, change.canary)
            result = await roll_out(order, RolloutSteps(self, change), self._note)
            self._halted = bool(result.errors) or len(ready) < len(others)
        finally:
            for kept in others:
                kept.feed(kept.machine.change_ends(self.now_ns()))

    async def set_drained(self, names: Collection[str], apart_from: Collection[str]) -> None:
        """Lead everything around these switches and no others."""
        self._drained = frozenset(names)
        target = await self._compute_target()
        quiet = {kept.name for kept in self.in_phase(Phase.IN_SYNC, Phase.CHANGING)}
        held = {name: one for name, one in self.held.items() if name in quiet - {*apart_from}}
        for name in neighbours(self.fabric, names):
            if name not in held:
                phase = self.switches[name].machine.phase.value
                raise not_drainable(min(names), name, f"is {phase.replace('_', ' ')}")
            if held[name].entries is None:
                raise not_drainable(min(names), name, "runs a program whose routes are unknown")
        errors = await lead_around(self.fabric, held, target)
        self._retarget(target)
        if errors:
            raise errors[0]

    def _note(self, kind: str, switch: str, message: str) -> None:
        self._event(EventKind(kind), message, switch=switch)

    # Parts

    def _event(self, kind: EventKind, message: str = "", *, switch: str | None = None) -> None:
        self._on_event(Event(kind=kind, switch=switch, message=message))
