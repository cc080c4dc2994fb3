# SPDX-License-Identifier: Apache-2.0
"""Keeps all switches of a fabric in their desired state, until it is told to stop.

The thin shell: each switch has a state machine (`switch_machine.py`) whose commands `KeptSwitch`
carries out. This file has what concerns several switches: following the target, repairing ECMP
groups of failed ports, and the order of writes; `pipeline_changes.py` changes pipelines. Inputs
from outside are `replace_fabric`, `set_link` and `set_link_delays`.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import finsy as fy

from controller.access import DEFAULT_ACCESS, Access
from controller.desired import LinkDelays
from controller.entries import Member
from controller.fabric import Fabric, programmed_switches
from controller.findings import ROUTE_NAMES, Target
from controller.garbage import few_collections
from controller.held_switch import HeldSwitch, write_in_rounds
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.kept_fabric import KeptFabric
from controller.keeper.kept_switch import KeptSwitch, is_settling
from controller.keeper.phases import Phase
from controller.keeper.pipeline_changes import PipelineChanges
from controller.reconcile import Operation, Update
from controller.rollout import PipelineChange
from controller.switch_error import SwitchError
from controller.switch_stream import PacketIn

FIRST_GATHER_S_MAX = 10.0
"""The first writes wait this long for switches that are still being read: the order of writes
needs to know them all."""
GATHER_S_MAX = 0.3
"""The same for later writes."""
ROUND_S_MAX = 1.0
"""A switch that takes longer for its part of a round is not waited for."""
PASS_S_MAX = 3.0
"""The next pass begins when this one takes longer; switches that it still writes are left out."""


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
        self._kept = KeptFabric(
            fabric,
            schema,
            access=options.access,
            addresses=options.addresses,
            on_event=on_event,
            on_packet_in=on_packet_in,
            draw=draw,
            monotonic_ns=monotonic_ns,
        )
        self._changes = (
            PipelineChanges(self._kept, options.pipeline_change, on_event)
            if options.pipeline_change is not None
            else None
        )
        self._on_event = on_event
        self._just_failed: set[str] = set()
        """Links whose ports still have buckets."""
        self._target_old = asyncio.Event()
        self._is_first_pass = True

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
            group.create_task(self._write_in_passes())
            if self._changes is not None:
                group.create_task(self._changes.run())
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
        """Another description is in force: what it changes is written, and nothing else."""
        kept = self._kept
        kept.fabric = fabric
        kept.failed_links &= {link.name for link in fabric.links}
        kept.drained = frozenset()
        if self._changes is not None:
            self._changes.is_halted = False
        self._event(EventKind.FABRIC_LOADED, f"{len(programmed_switches(fabric))} switches")
        kept.adopt()
        kept.changed()
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

    # Writes

    async def _write_in_passes(self) -> None:
        kept = self._kept
        while True:
            await kept.write_wanted.wait()
            await self._gather(FIRST_GATHER_S_MAX if self._is_first_pass else GATHER_S_MAX)
            self._is_first_pass = False
            kept.write_wanted.clear()
            names, kept.to_write = kept.to_write, set()
            await asyncio.wait({kept.spawn(self._write(names))}, timeout=PASS_S_MAX)

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

    def _event(self, kind: EventKind, message: str = "") -> None:
        self._on_event(Event(kind=kind, message=message))
