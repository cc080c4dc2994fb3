# SPDX-License-Identifier: Apache-2.0
"""The switches of a fabric that is being kept, and the target that all of them follow."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping

import finsy as fy

from controller.access import Access
from controller.desired import LinkDelays
from controller.fabric import Fabric, Switch, programmed_switches, transparent_clocks
from controller.findings import Findings, Target
from controller.held_switch import PARALLEL_SWITCH_COUNT_MAX
from controller.keeper.backoff import WaitLimits
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.kept_switch import KeptSwitch
from controller.keeper.phases import Phase
from controller.keeper.switch_machine import SwitchMachine
from controller.programs import Programs
from controller.switch_stream import PacketIn


class KeptFabric:
    """What the parts of a keeper share."""

    def __init__(
        self,
        fabric: Fabric,
        schema: fy.P4Schema,
        *,
        access: Access,
        addresses: Mapping[str, str],
        on_event: OnEvent,
        on_packet_in: Callable[[str, PacketIn], None],
        draw: Callable[[], float],
        reconnect: WaitLimits,
        monotonic_ns: Callable[[], int],
    ) -> None:
        self.fabric = fabric
        """The description in force, as in its file."""
        self.overlays: dict[str, Callable[[Fabric], Fabric]] = {}
        """Changes of the description that hold for the moment, by name."""
        self._programs = Programs(schema)
        self.access = access
        self.slots = asyncio.Semaphore(PARALLEL_SWITCH_COUNT_MAX)
        self.switches: dict[str, KeptSwitch] = {}
        """By name."""
        self.failed_links: set[str] = set()
        """Names of links that are down."""
        self.link_delays: LinkDelays | None = None
        self.drained: frozenset[str] = frozenset()
        """Switches that nothing shall pass through."""
        self.to_write: set[str] = set()
        """Switches that wait for their turn to be written."""
        self.write_wanted = asyncio.Event()
        self.now_ns = monotonic_ns
        self.packet_in = on_packet_in
        """Takes frames that switches send to the controller; must not block."""
        self._addresses = addresses
        self._on_event = on_event
        self._draw = draw
        self._reconnect = reconnect
        self._target: Target | None = None
        self._changed = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    # Tasks

    def run_in(self, group: asyncio.TaskGroup) -> None:
        """All tasks of the switches belong to this group."""
        self._group = group

    def spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Run it beside everything else; what it raises ends the whole controller."""
        assert self._group is not None, "the keeper runs"
        return self._group.create_task(work)

    def changed(self) -> None:
        """A switch has another phase."""
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return as soon as a change of some switch makes the condition true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # Switches

    def adopt(self) -> None:
        """Begin with the switches that are new or elsewhere now, and stop with those that are not
        there any more."""
        wanted = {switch.name: switch for switch in programmed_switches(self.fabric)}
        for name, kept in [*self.switches.items()]:
            switch = wanted.get(name)
            if switch is None or not self._is_the_same(kept, switch):
                del self.switches[name]
                kept.stop()
            else:
                kept.switch = switch
        for name, switch in wanted.items():
            address = self._address(switch)
            if address is None:
                error = "no P4Runtime address; set p4runtime in the file"
                self._on_event(Event(kind=EventKind.FAILED, switch=name, message=error))
            elif name not in self.switches:
                machine = SwitchMachine(
                    name,
                    cookie=self.schema_of(switch).p4cookie,
                    election_id=self.access.election_id,
                    draw=self._draw,
                    on_event=self._on_event,
                    reconnect=self._reconnect,
                )
                self.switches[name] = kept = KeptSwitch(switch, address, machine, self)
                kept.start()

    def stop(self) -> None:
        """Stop with all switches, for good."""
        for kept in self.switches.values():
            kept.stop()

    def in_phase(self, *phases: Phase) -> list[KeptSwitch]:
        """The switches in these phases."""
        return [kept for kept in self.switches.values() if kept.machine.phase in phases]

    def want_write(self, name: str) -> None:
        """The switch waits for its turn."""
        self.to_write.add(name)
        self.write_wanted.set()

    def _is_the_same(self, kept: KeptSwitch, switch: Switch) -> bool:
        """At the same place, and to run the same program."""
        return (
            self._address(switch) == kept.address
            and switch.device_id == kept.switch.device_id
            and self.schema_of(switch).p4cookie == kept.machine.wanted_cookie
        )

    def _address(self, switch: Switch) -> str | None:
        return self._addresses.get(switch.name, switch.p4runtime)

    # Target

    @property
    def target(self) -> Target:
        """What the switches should hold now."""
        assert self._target is not None, "set before the first switch is looked at"
        return self._target

    async def compute_target(self) -> Target:
        """What they should hold after what is known now; off the loop, since it takes a while."""
        fabric = self.fabric
        delays = self.link_delays
        if delays is not None:  # of the file before, perhaps
            clocks = transparent_clocks(fabric)
            delays = {name: ports for name, ports in delays.items() if name in clocks}
        findings = Findings(
            link_delays=delays,
            failed_links=frozenset(self.failed_links),
            drained_switches=self.drained,
        )
        for _, overlay in sorted(self.overlays.items()):
            fabric = overlay(fabric)
        return await asyncio.to_thread(
            Target.of, fabric, findings, self._programs.sizes(fabric), before=self._target
        )

    def schema_of(self, switch: Switch) -> fy.P4Schema:
        """The program that the switch is to run."""
        return self._programs.of(self.fabric, switch)

    def retarget(self, target: Target) -> None:
        """All switches follow this target from now on."""
        self._target = target
        for kept in [*self.switches.values()]:
            kept.retarget()
