# SPDX-License-Identifier: Apache-2.0
"""What happens while a scenario runs on real packets: cables, switches and daemons go and come.

The controller writes over P4Runtime from a thread of its own, one thing after another, as the
run's own thread has hosts to serve. The truth gets the instants at which things were done, which
are later than the scenario's by what doing them takes.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from bmv2_lab.backends.needs import BackendError
from bmv2_lab.backends.network import Cable
from bmv2_lab.backends.process import be_prompt
from bmv2_lab.backends.ptp4l import Ptp4l
from bmv2_lab.backends.real_time_fabric import RealTimeFabric
from bmv2_lab.backends.running_switches import RunningSwitches
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.scenarios.disturbances import (
    ClockStep,
    Event,
    GrandmasterFailover,
    LinkFlap,
    NtpFallback,
    PfcStorm,
    Rehash,
    SwitchRestart,
)
from bmv2_lab.simulator.clocks import Oscillator
from bmv2_lab.truth import TrueEvent
from controller.client import deploy, write_routes
from controller.deploy_result import DeployResult
from controller.fabric import Fabric, LinkEnd
from controller.pipeline import Pipeline

FINISH_DEADLINE_S = 30.0


class RealTimeController:
    """The controller while the fabric runs."""

    def __init__(self, fabric: Fabric, pipeline: Pipeline, switches: RunningSwitches) -> None:
        self._fabric = fabric
        self._pipeline = pipeline
        self._switches = switches
        self._dark: set[str] = set()
        self._thread = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="controller", initializer=be_prompt
        )
        self._jobs: list[Future[None]] = []

    def submit(self, work: Callable[[], None]) -> None:
        """Do it after everything that was submitted before; `check` tells what went wrong."""
        self._jobs.append(self._thread.submit(work))

    def begin(self, fabric: Fabric) -> DeployResult:
        """Program all switches, and return when it is done."""
        return self._thread.submit(self.deploy, fabric).result()

    def check(self) -> None:
        """BackendError if something could not be done."""
        for job in self._jobs:
            if job.done():
                job.result()

    def finish(self) -> None:
        """Wait for everything that was submitted."""
        for job in self._jobs:
            job.result(FINISH_DEADLINE_S)

    def close(self) -> None:
        """Leave out what has not begun."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def deploy(self, fabric: Fabric) -> DeployResult:
        """Have all switches hold what `fabric` says."""
        result = asyncio.run(deploy(fabric, self._switches.addresses, self._pipeline))
        if not result.ok:
            found = [*map(str, result.errors), f"{result.drift_count} entries differ"]
            raise BackendError(f"deploy: {found[0]}")
        return result

    def route_around(self, failed_links: tuple[str, ...]) -> None:
        """Have no route lead over these links; switches that are dark cannot be told."""
        reached = {n: a for n, a in self._switches.addresses.items() if n not in self._dark}
        result = asyncio.run(write_routes(self._fabric, failed_links, reached, self._pipeline))
        errors = [error for error in result.errors if error.switch not in self._dark]
        if errors:
            raise BackendError(f"routes: {errors[0]}")

    def lose(self, switch: str) -> None:
        """A switch goes dark."""
        self._dark.add(switch)
        self._switches.stop(switch)

    def bring_back(self, switch: str, uptime_ns: int) -> tuple[int, int]:
        """It boots and is programmed again; when it was back, and its clock's jump."""
        at_ns, jump_ns = self._switches.boot(switch, uptime_ns)
        self._dark.discard(switch)
        self.deploy(self._fabric)
        return at_ns, jump_ns


class RealTimeStage:
    """Schedules the events of a run."""

    def __init__(
        self,
        lab: RealTimeFabric,
        fabric: Fabric,
        switches: RunningSwitches,
        controller: RealTimeController,
        daemons: Mapping[str, Ptp4l],
        time_base: TimeBase,
    ) -> None:
        self._lab = lab
        self._fabric = fabric
        self._switches = switches
        self._controller = controller
        self._daemons = daemons
        self._time = time_base

    def schedule(self, events: tuple[Event, ...]) -> None:
        """Put all into the engine."""
        for event in events:
            match event:
                case Rehash():
                    self._at(event.at_ns, partial(self._rehash, event))
                case LinkFlap():
                    self._link_flap(event)
                case SwitchRestart():
                    self._switch_restart(event)
                case GrandmasterFailover():
                    self._lab.engine.at(event.at_ns, self._grandmaster_dies, event)
                case ClockStep():
                    self._record(
                        kind="clock_step",
                        entity=event.switch,
                        from_true_ns=event.at_ns,
                        value=event.step_ns,
                        unit="ns",
                    )
                case NtpFallback() | PfcStorm():
                    raise AssertionError("refused before")

    def _at(self, at_ns: int, work: Callable[[], None]) -> None:
        """Have the controller do it at a true instant."""
        self._lab.engine.at(at_ns, self._controller.submit, work)

    def _rehash(self, event: Rehash) -> None:
        from_ns = self._time.true_now()
        ecmp = replace(self._fabric.ecmp, seed=event.seed)
        self._controller.deploy(replace(self._fabric, ecmp=ecmp))
        self._record(
            kind="rehash",
            from_true_ns=from_ns,
            until_true_ns=self._time.true_now(),
            value=event.seed,
            unit="seed",
        )

    def _link_flap(self, event: LinkFlap) -> None:
        end = LinkEnd.parse(event.end)
        index = next(i for i, one in enumerate(self._fabric.links) if end in (one.a, one.b))
        name = self._fabric.links[index].name
        cable = self._switches.network.interfaces.cables[index]
        done: dict[str, int] = {}

        def carry(state: str) -> None:
            set_cable(self._switches, cable, state)
            done[state] = self._time.true_now()

        def routed(*, around: bool) -> None:
            self._controller.route_around((name,) if around else ())
            if around:
                done["routed"] = self._time.true_now()
                return
            self._record(
                kind="link_down",
                entity=name,
                from_true_ns=done["down"],
                until_true_ns=done["up"],
                value=done["routed"] - done["down"],
                unit="ns to new routes",
            )

        self._at(event.down_ns, lambda: carry("down"))
        self._at(event.down_ns + event.detect_ns, lambda: routed(around=True))
        self._at(event.up_ns, lambda: carry("up"))
        self._at(event.up_ns + event.detect_ns, lambda: routed(around=False))

    def _switch_restart(self, event: SwitchRestart) -> None:
        ends = [(link.name, link.a.node, link.b.node) for link in self._fabric.links]
        links = tuple(name for name, a, b in ends if event.switch in (a, b))
        done: dict[str, int] = {}

        def lose() -> None:
            self._controller.lose(event.switch)
            done["dark"] = self._time.true_now()

        def bring_back() -> None:
            back_ns, jump_ns = self._controller.bring_back(event.switch, event.uptime_ns)
            self._record(
                kind="switch_restart",
                entity=event.switch,
                from_true_ns=done["dark"],
                until_true_ns=back_ns,
                value=jump_ns,
                unit="ns its clock went on by",
            )

        self._at(event.at_ns, lose)
        self._at(event.at_ns + event.detect_ns, lambda: self._controller.route_around(links))
        self._at(event.at_ns + event.boot_ns, bring_back)

    def _grandmaster_dies(self, event: GrandmasterFailover) -> None:
        """Its daemon is killed; the others find out, elect the successor and follow it."""
        grandmaster = self._fabric.ptp.grandmaster
        self._daemons[grandmaster].kill()
        self._record(
            kind="grandmaster_silent", entity=grandmaster, from_true_ns=self._time.true_now()
        )
        self._lab.on_transmitter = lambda host, at_ns: self._record(
            kind="grandmaster", entity=host, from_true_ns=at_ns
        )

    def _record(
        self,
        *,
        kind: str,
        entity: str = "",
        from_true_ns: int,
        until_true_ns: int | None = None,
        value: float = 0.0,
        unit: str = "",
    ) -> None:
        self._lab.truth.events.append(
            TrueEvent(
                kind=kind,
                entity=entity,
                from_true_ns=from_true_ns,
                until_true_ns=until_true_ns,
                value=value,
                unit=unit,
            )
        )


def set_cable(switches: RunningSwitches, cable: Cable, state: str) -> None:
    """Both of the wires' sides go `up` or `down`: the ports at the ends lose their carrier."""
    lines = "".join(f"link set dev {wire} {state}\n" for wire in (cable.wire_a, cable.wire_b))
    switches.network.namespace.command("ip", "-batch", "-", stdin=lines)


def step_clocks(events: tuple[Event, ...], oscillators: Mapping[str, Oscillator]) -> None:
    """Have the drawn clocks step, before switches are started with them."""
    for event in events:
        if isinstance(event, ClockStep):
            oscillators[event.switch].jump(event.at_ns, event.step_ns)
