# SPDX-License-Identifier: Apache-2.0
"""What happens while a scenario runs: events of the data plane, and turns of the controller.

`stage` puts the former into the engine and returns the latter; the run stops virtual time for each
turn, in which the controller writes over P4Runtime as it would to real switches.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bmv2_lab.draw import Stream, stream
from bmv2_lab.fabric_of import as_routers
from bmv2_lab.scenarios.disturbances import (
    ClockStep,
    GrandmasterFailover,
    LinkFlap,
    NtpFallback,
    PfcStorm,
    Rehash,
    SwitchRestart,
)
from bmv2_lab.simulator.ntp import NtpFollower
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.p4runtime import Server, serve
from bmv2_lab.truth import TrueEvent
from controller.client import deploy, write_routes
from controller.deploy_result import DeployResult
from controller.fabric import Fabric, Host, LinkEnd, cabling
from controller.pipeline import Pipeline


class NotProgrammed(Exception):
    """A switch does not hold what the controller wrote; `str()` is one line."""


async def serve_in_lab(lab: VirtualFabric, switches: dict[str, EmbeddedSwitch]) -> Server:
    """P4Runtime servers whose timeouts run in the virtual time of the fabric."""
    return await serve(switches.values(), clock_ns=lambda: lab.engine.now_ns, call_at=lab.engine.at)


class ControllerSide:
    """The controller while the fabric runs: its switches' servers, and what it can do to them."""

    def __init__(
        self,
        fabric: Fabric,
        lab: VirtualFabric,
        switches: dict[str, EmbeddedSwitch],
        pipeline: Pipeline,
        make_switch: Callable[[str], EmbeddedSwitch],
    ) -> None:
        self.fabric = fabric
        self.lab = lab
        self._pipeline = pipeline
        self._make_switch = make_switch
        self._switches = switches
        self._servers: list[Server] = []
        self._addresses: dict[str, str] = {}

    async def start(self) -> None:
        """Serve P4Runtime for all switches."""
        await self._serve(self._switches)

    async def stop(self) -> None:
        """Close all servers."""
        for server in self._servers:
            await server.stop()

    async def deploy(self, fabric: Fabric) -> DeployResult:
        """Have all switches hold what `fabric` says."""
        result = await deploy(fabric, self._addresses, self._pipeline)
        if not result.ok:
            found = [*map(str, result.errors), f"{result.drift_count} entries differ"]
            raise NotProgrammed(found[0])
        return result

    async def configure_routers(self) -> None:
        """Routes for the switches that do not run the program, as somebody else would give them."""
        routers = as_routers(self.fabric)
        if routers is not None:
            await self.deploy(routers)

    async def route_around(self, failed_links: Sequence[str]) -> None:
        """Have no route lead over these links, and all others as before."""
        result = await write_routes(self.fabric, failed_links, self._addresses, self._pipeline)
        if result.errors:
            raise NotProgrammed(str(result.errors[0]))

    async def bring_back(self, name: str) -> None:
        """A switch has booted: a new process with a new server and no pipeline; program it."""
        switch = self._make_switch(name)
        await self._serve({name: switch})
        self.lab.switch_nodes[name].restart(switch)
        await self.deploy(self.fabric)

    async def _serve(self, switches: dict[str, EmbeddedSwitch]) -> None:
        server = await serve_in_lab(self.lab, switches)
        self._servers.append(server)
        for name, switch in switches.items():
            self._addresses[name] = server.addresses[switch.device_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An instant at which the controller acts."""

    at_ns: int
    act: Callable[[ControllerSide], Awaitable[object]]


def stage(lab: VirtualFabric, fabric: Fabric, seed: int) -> tuple[Turn, ...]:
    """Schedule the scenario's events and write them into the truth; the controller's turns."""
    turns: list[Turn] = []
    for index, event in enumerate(lab.scenario.events):
        match event:
            case Rehash():
                turns += _rehash(event, lab, fabric)
            case LinkFlap():
                turns += _link_flap(event, lab, fabric)
            case ClockStep():
                _clock_step(event, lab)
            case SwitchRestart():
                turns += _switch_restart(event, lab, fabric)
            case GrandmasterFailover():
                _grandmaster_failover(event, lab, fabric, seed)
            case PfcStorm():
                _pfc_storm(event, lab, fabric)
            case NtpFallback():
                _ntp_fallback(event, lab, fabric, seed, index)
    return tuple(sorted(turns, key=lambda turn: turn.at_ns))


def _rehash(event: Rehash, lab: VirtualFabric, fabric: Fabric) -> Iterator[Turn]:
    _record(lab, kind="rehash", from_true_ns=event.at_ns, value=event.seed, unit="seed")
    other = replace(fabric, ecmp=replace(fabric.ecmp, seed=event.seed))
    yield Turn(at_ns=event.at_ns, act=lambda side: side.deploy(other))


def _link_flap(event: LinkFlap, lab: VirtualFabric, fabric: Fabric) -> Iterator[Turn]:
    end = LinkEnd.parse(event.end)
    link = next(link for link in fabric.links if end in (link.a, link.b))
    _record(
        lab,
        kind="link_down",
        entity=link.name,
        from_true_ns=event.down_ns,
        until_true_ns=event.up_ns,
        value=event.detect_ns,
        unit="ns to new routes",
    )
    for at_ns, up in ((event.down_ns, False), (event.up_ns, True)):
        lab.engine.at(at_ns, lab.set_cable, link, up)
    yield Turn(
        at_ns=event.down_ns + event.detect_ns, act=lambda side: side.route_around([link.name])
    )
    yield Turn(at_ns=event.up_ns + event.detect_ns, act=lambda side: side.route_around(()))


def _clock_step(event: ClockStep, lab: VirtualFabric) -> None:
    _record(
        lab,
        kind="clock_step",
        entity=event.switch,
        from_true_ns=event.at_ns,
        value=event.step_ns,
        unit="ns",
    )
    lab.switch_nodes[event.switch].oscillator.jump(event.at_ns, event.step_ns)


def _switch_restart(event: SwitchRestart, lab: VirtualFabric, fabric: Fabric) -> Iterator[Turn]:
    node = lab.switch_nodes[event.switch]
    back_ns = event.at_ns + event.boot_ns
    jump_ns = event.uptime_ns - node.oscillator.read_ns(back_ns)
    _record(
        lab,
        kind="switch_restart",
        entity=event.switch,
        from_true_ns=event.at_ns,
        until_true_ns=back_ns,
        value=jump_ns,
        unit="ns its clock went on by",
    )
    node.oscillator.jump(back_ns, jump_ns)
    lab.engine.at(event.at_ns, setattr, node, "dark", True)
    cables = [link for link in fabric.links if event.switch in (link.a.node, link.b.node)]
    for link in cables:
        far = link.b if link.a.node == event.switch else link.a
        lab.engine.at(event.at_ns, lab.set_port, far, False)
        lab.engine.at(back_ns, lab.set_port, far, True)
    links = [link.name for link in cables]
    yield Turn(at_ns=event.at_ns + event.detect_ns, act=lambda side: side.route_around(links))
    yield Turn(at_ns=back_ns, act=lambda side: side.bring_back(event.switch))


def _grandmaster_failover(
    event: GrandmasterFailover, lab: VirtualFabric, fabric: Fabric, seed: int
) -> None:
    takeover_ns = event.at_ns + event.takeover_ns
    _record(
        lab,
        kind="grandmaster_silent",
        entity=fabric.ptp.grandmaster,
        from_true_ns=event.at_ns,
        until_true_ns=event.back_ns,
    )
    _record(
        lab,
        kind="grandmaster",
        entity=event.successor,
        from_true_ns=takeover_ns,
        until_true_ns=event.back_ns,
    )
    grandmaster = fabric.host(fabric.ptp.grandmaster)
    successor = fabric.host(event.successor)
    clients = tuple(
        host for host in fabric.hosts if host.name not in (event.successor, fabric.ptp.grandmaster)
    )

    def fall_silent() -> None:
        assert lab.timing.transmitter is not None, "one host serves all clients itself"
        lab.timing.transmitter.stop()

    def serve(host: Host, followers: tuple[Host, ...], turn: int) -> None:
        rng = stream(seed, Stream.EVENTS, turn)
        lab.timing.transmitter = lab.timing.make_transmitter(host, followers, rng)
        for client in followers:
            lab.timing.clients[client.name].follow(host)

    def take_over() -> None:
        lab.timing.clients[event.successor].stop()
        serve(successor, clients, 0)

    def come_back() -> None:
        fall_silent()
        serve(grandmaster, (*clients, successor), 1)

    lab.engine.at(event.at_ns, fall_silent)
    lab.engine.at(takeover_ns, take_over)
    if event.back_ns is not None:
        lab.engine.at(event.back_ns, come_back)


def _pfc_storm(event: PfcStorm, lab: VirtualFabric, fabric: Fabric) -> None:
    _record(
        lab,
        kind="pfc_storm",
        entity=event.host,
        from_true_ns=event.from_ns,
        until_true_ns=event.until_ns,
    )
    for near, far in cabling(fabric).items():
        if far.node == event.host:
            lab.engine.at(event.from_ns, lab.pause, near, True)
            lab.engine.at(event.until_ns, lab.pause, near, False)


def _ntp_fallback(
    event: NtpFallback, lab: VirtualFabric, fabric: Fabric, seed: int, index: int
) -> None:
    _record(
        lab,
        kind="ntp_fallback",
        entity=event.host,
        from_true_ns=event.at_ns,
        value=event.bias_ns,
        unit="ns",
    )

    def fall_back() -> None:
        lab.timing.clients[event.host].stop()
        NtpFollower(
            lab.engine,
            lab.phcs[event.host],
            lab.phcs[fabric.ptp.grandmaster],
            poll_ns=event.poll_ns,
            bias_ns=event.bias_ns,
            noise_sd_ns=event.noise_sd_ns,
            rng=stream(seed, Stream.EVENTS, 1 + index),
            on_adjust=partial(lab.timing.phc_adjusted, event.host),
        )

    lab.engine.at(event.at_ns, fall_back)


def _record(
    lab: VirtualFabric,
    *,
    kind: str,
    entity: str = "",
    from_true_ns: int,
    until_true_ns: int | None = None,
    value: float = 0.0,
    unit: str = "",
) -> None:
    lab.truth.events.append(
        TrueEvent(
            kind=kind,
            entity=entity,
            from_true_ns=from_true_ns,
            until_true_ns=until_true_ns,
            value=value,
            unit=unit,
        )
    )
