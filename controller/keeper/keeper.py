# SPDX-License-Identifier: Apache-2.0
"""Keeps all switches of a fabric in their desired state, until it is told to stop.

The thin shell: each switch has a state machine (`switch_machine.py`) whose commands `KeptSwitch`
carries out. This file has what concerns several switches: following the target, and repairing ECMP
groups of failed ports; `write_passes.py` writes in order, `pipeline_changes.py` changes pipelines.
Inputs from outside are `replace_fabric`, `set_overlay`, `set_link` and `set_link_delays`; what
produces them at run time (link checks, an INT policy) runs beside the switches as a `Companion` and
may send and take packets.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import finsy as fy

from controller.access import DEFAULT_ACCESS, Access
from controller.desired import LinkDelays
from controller.entries import Member
from controller.fabric import Fabric, programmed_switches
from controller.fabric_treatment import require_equal_treatment
from controller.findings import ROUTE_NAMES, Target
from controller.garbage import few_collections
from controller.keeper.backoff import RECONNECT_LIMITS, WaitLimits
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.kept_fabric import KeptFabric
from controller.keeper.kept_switch import KeptSwitch
from controller.keeper.phases import Phase
from controller.keeper.pipeline_changes import PipelineChanges
from controller.keeper.write_passes import ROUND_S_MAX, WritePasses
from controller.reconcile import Operation
from controller.rollout import PipelineChange
from controller.switch_error import SwitchError
from controller.switch_stream import PacketIn


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """How to keep a fabric."""

    access: Access = DEFAULT_ACCESS
    addresses: Mapping[str, str] = field(default_factory=dict)
    """P4Runtime `HOST:PORT` by switch name, in place of those of the file."""
    pipeline_change: PipelineChange | None = None
    """Leave to replace a pipeline that a switch runs."""
    reconnect: WaitLimits = RECONNECT_LIMITS
    """Waits between attempts to reach a switch."""


class Keeper:
    """All switches of a fabric under control.

    on_packet_in: takes frames that switches send to the controller; must not block.
    companions: run as long as the keeper does; what one raises ends it.
    """

    def __init__(
        self,
        fabric: Fabric,
        schema: fy.P4Schema,
        options: KeeperOptions,
        *,
        on_event: OnEvent,
        on_packet_in: Callable[[str, PacketIn], None] = lambda _switch, _packet: None,
        companions: Sequence["Companion"] = (),
        draw: Callable[[], float] = random.random,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        require_equal_treatment(fabric)
        self._kept = KeptFabric(
            fabric,
            schema,
            access=options.access,
            addresses=options.addresses,
            on_event=on_event,
            on_packet_in=on_packet_in,
            draw=draw,
            reconnect=options.reconnect,
            monotonic_ns=monotonic_ns,
        )
        self._changes = (
            PipelineChanges(self._kept, options.pipeline_change, on_event)
            if options.pipeline_change is not None
            else None
        )
        self._companions = companions
        self._on_event = on_event
        self._just_failed: set[str] = set()
        """Links, failed or drained, whose ports still have buckets."""
        self._target_old = asyncio.Event()

    async def run(self) -> None:
        """Keep the fabric until cancelled; then close all sessions."""
        kept = self._kept
        target = await kept.compute_target()
        self._event(EventKind.STARTED, f"{len(programmed_switches(kept.fabric))} switches")
        try:
            with few_collections():
                await self._run(target)
        finally:
            self._event(EventKind.STOPPED)

    async def _run(self, target: Target) -> None:
        kept = self._kept
        async with asyncio.TaskGroup() as group:
            kept.run_in(group)
            kept.retarget(target)
            kept.adopt()
            group.create_task(self._follow_target())
            group.create_task(WritePasses(kept).run())
            if self._changes is not None:
                group.create_task(self._changes.run())
            for companion in self._companions:
                group.create_task(companion(self))
            try:
                await asyncio.Event().wait()  # until cancelled
            finally:
                kept.stop()

    # State

    @property
    def fabric(self) -> Fabric:
        """The description in force."""
        return self._kept.fabric

    @property
    def switches(self) -> Mapping[str, KeptSwitch]:
        """The switches by name."""
        return self._kept.switches

    @property
    def failed_links(self) -> Collection[str]:
        """Names of links that are down."""
        return self._kept.failed_links

    def now_ns(self) -> int:
        """The clock of all phases."""
        return self._kept.now_ns()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return as soon as a change of some switch makes the condition true."""
        await self._kept.until(condition)

    # Inputs

    def replace_fabric(self, fabric: Fabric) -> None:
        """Another description is in force: what it changes is written, and nothing else.

        UnequalTreatmentError where it treats marked packets otherwise; the old one stays then.
        """
        require_equal_treatment(fabric)
        kept = self._kept
        out_of_use = {link.name for link in kept.fabric.links if link.drained}
        self._just_failed |= {link.name for link in fabric.links if link.drained} - out_of_use
        kept.fabric = fabric
        kept.failed_links &= {link.name for link in fabric.links}
        kept.drained = frozenset()
        if self._changes is not None:
            self._changes.is_halted = False
        self._event(EventKind.FABRIC_LOADED, f"{len(programmed_switches(fabric))} switches")
        kept.adopt()
        kept.changed()
        self._target_old.set()

    def set_overlay(self, name: str, overlay: Callable[[Fabric], Fabric] | None) -> None:
        """Change what the description says, for the moment; None: as in the file again.

        name: whose change it is; those of several names are made in the order of their names.
        Switches, links and hosts stay those of the file.
        """
        if overlay is None:
            self._kept.overlays.pop(name, None)
        else:
            self._kept.overlays[name] = overlay
        self._target_old.set()

    def set_link(self, name: str, *, up: bool, reason: str = "") -> None:
        """A link works or does not; its name is that of the file, `leaf1:1-spine1:1`."""
        kept = self._kept
        if name not in {link.name for link in kept.fabric.links}:
            raise ValueError(f"there is no link {name}")
        if up == (name not in kept.failed_links):
            return
        if up:
            kept.failed_links.discard(name)
            self._just_failed.discard(name)
        else:
            kept.failed_links.add(name)
            self._just_failed.add(name)
        message = f"{name}: {reason}" if reason else name
        self._event(EventKind.LINK_UP if up else EventKind.LINK_DOWN, message)
        self._target_old.set()

    def set_link_delays(self, link_delays: LinkDelays | None) -> None:
        """What transparent clocks add for their cables; None: whatever they hold stays."""
        self._kept.link_delays = link_delays
        self._target_old.set()

    # Packets

    async def packet_out(self, switch: str, frame: bytes, *, egress_port: int) -> None:
        """Send a frame out of a port of a switch; SwitchError where it is not ours now."""
        kept = self._kept.switches.get(switch)
        if kept is None or kept.held is None or not kept.machine.is_primary:
            raise SwitchError(switch=switch, message="it is not ours")
        await kept.held.session.packet_out(frame, egress_port=egress_port)

    # Target

    async def _follow_target(self) -> None:
        while True:
            await self._target_old.wait()
            self._target_old.clear()
            failed, self._just_failed = self._just_failed, set()
            target = await self._kept.compute_target()
            if failed:
                await self._repair(target, failed)
            self._kept.retarget(target)

    async def _repair(self, target: Target, failed: Collection[str]) -> None:
        """Lead the buckets of dead ports elsewhere at once, before all else is computed.

        The other ports of an ECMP set lead there already, so this needs no order. Whatever goes a
        longer way round from now on waits for its turn.
        """
        kept = self._kept
        ends = [(link.a, link.b) for link in kept.fabric.links if link.name in failed]
        work = [
            kept.spawn(self._repair_switch(one, target))
            for name in dict.fromkeys(end.node for pair in ends for end in pair)
            if (one := kept.switches.get(name)) is not None and one.machine.phase is Phase.IN_SYNC
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
                self._kept.changed()
        except SwitchError as error:
            if kept.held is held:
                kept.failed(error)

    def _event(self, kind: EventKind, message: str = "") -> None:
        self._on_event(Event(kind=kind, message=message))


Companion: TypeAlias = Callable[[Keeper], Coroutine[None, None, None]]
"""Runs beside the switches."""
