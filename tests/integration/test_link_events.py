# SPDX-License-Identifier: Apache-2.0
"""Port states over gNMI and silence over LLDP lead flows around a link, and nobody else's flows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from controller.access import DEFAULT_ACCESS, Access, Tls
from controller.cabling.watch import CablingWatch
from controller.entries import Entry, Group, GroupRef, MemberRef, TableEntry
from controller.fabric import Fabric, LinkEnd
from controller.fabric_generate import leaf_spine
from controller.findings import Findings, Target
from controller.keeper.events import Event, EventKind
from controller.keeper.phases import Phase
from controller.link_events.gnmi_ports import GnmiPorts
from controller.link_events.link_watch import LinkWatch
from controller.route_entries import held_ports
from tests.support.cabled_park import cabled_park
from tests.support.certificates import make_authority, make_certificate
from tests.support.gnmi_switch import GnmiSwitch
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, RunningKeeper, SwitchPark, kept, park

LINK = "leaf1:1-spine1:1"
INTERVAL_S = 0.4


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with a host each, three spines."""
    return leaf_spine(leaves=2, spines=3, hosts_per_leaf=1, tenants=["t"])


def with_gnmi(fabric: Fabric, addresses: Mapping[str, str]) -> Fabric:
    """The fabric with gNMI servers of some switches."""
    return replace(
        fabric,
        switches=tuple(replace(one, gnmi=addresses.get(one.name)) for one in fabric.switches),
    )


@dataclass
class Followed:
    """A kept fabric whose links are watched."""

    switches: SwitchPark
    running: RunningKeeper
    links: LinkWatch
    ports: GnmiPorts
    events: list[Event]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that no phase of a switch tells of."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.02)

    async def settled(self, *failed: str) -> None:
        """These links have failed, and every switch holds what follows."""
        keeper = self.running.keeper
        await self.until(lambda: set(keeper.failed_links) == set(failed))
        target = Target.of(keeper.fabric, Findings(failed_links=frozenset(failed)))
        await self.running.until(
            lambda: all(
                one.machine.phase is Phase.IN_SYNC
                and one.held is not None
                and not target.updates(name, one.held.known())
                for name, one in keeper.switches.items()
            )
        )

    async def buckets(self) -> dict[str, dict[str, list[int]]]:
        """The port of every bucket, by switch and prefix, as read from the switches."""
        return {
            one.name: buckets(await self.switches.entries(one.name))
            for one in self.switches.fabric.switches
        }


def buckets(entries: Collection[Entry]) -> dict[str, list[int]]:
    """What a flow's hash chooses from, by prefix: a bucket keeps its place in all groups."""
    ports = held_ports(entries)
    groups = {one.group_id: one for one in entries if isinstance(one, Group)}
    found: dict[str, list[int]] = {}
    for entry in entries:
        if isinstance(entry, TableEntry) and entry.table == "ipv4_lpm":
            if isinstance(entry.action, GroupRef):
                members = [number for number, _ in groups[entry.action.group_id].members]
                found[str(entry.match)] = [ports[number] for number in sorted(members)]
            elif isinstance(entry.action, MemberRef):
                found[str(entry.match)] = [ports[entry.action.member_id]]
    return found


@asynccontextmanager
async def followed(
    switches: SwitchPark, fabric: Fabric, *, access: Access = DEFAULT_ACCESS
) -> AsyncIterator[Followed]:
    """Kept, with the port states of gNMI."""
    events: list[Event] = []
    links = LinkWatch()
    ports = GnmiPorts(links, access, events.append, draw=lambda: 0.5)
    async with kept(switches, fabric=fabric, companions=[links, ports]) as running:
        await running.in_phase(Phase.IN_SYNC)
        yield Followed(switches, running, links, ports, events)


@asynccontextmanager
async def gnmi_switch(
    ports: Mapping[int, str], *, number_leaf: str = "id"
) -> AsyncIterator[GnmiSwitch]:
    """A gNMI server at work."""
    server = GnmiSwitch(dict(ports), number_leaf=number_leaf)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


UP = {1: "UP", 2: "UP", 3: "UP", 11: "UP"}


@in_grpc_loop
async def test_port_that_goes_down_moves_its_own_flows_and_no_others(fabric: Fabric) -> None:
    """Every bucket that led elsewhere still does, on all switches; up again, all is as before."""
    async with park(fabric) as switches, gnmi_switch(UP, number_leaf="ifindex") as server:
        described = with_gnmi(fabric, {"leaf1": server.address})
        async with followed(switches, described) as one:
            await one.until(lambda: one.ports.state.by_switch["leaf1"].is_followed)
            assert one.ports.state.without == ("leaf2", "spine1", "spine2", "spine3")
            before = await one.buckets()
            server.set_port(1, "DOWN")
            await one.settled(LINK)
            away = await one.buckets()
            server.set_port(1, "UP")
            await one.settled()
            assert await one.buckets() == before
            down = one.running.told(EventKind.LINK_DOWN)
            assert [event.message for event in down] == [f"{LINK}: gNMI: leaf1:1: oper-status DOWN"]
    moved = {
        (name, prefix, port)
        for name, by_prefix in before.items()
        for prefix, ports in by_prefix.items()
        for port, now in zip(ports, away[name][prefix], strict=len(ports) > 1)
        if port != now
    }
    assert {(name, port) for name, _, port in moved} == {
        ("leaf1", 1),  # its own end
        ("leaf2", 1),  # to spine1, which does not lead to leaf1 any more
        ("spine1", 1),  # the other end
    }
    assert len({prefix for name, prefix, _ in moved if name != "leaf1"}) == 1
    for name in ("leaf1", "leaf2"):
        for prefix, ports in before[name].items():
            if len(ports) > 1:
                assert 1 in ports
                assert 1 not in away[name][prefix]


@in_grpc_loop
async def test_gnmi_server_that_comes_and_goes(fabric: Fabric) -> None:
    """A port that is down at the start counts; a lost server changes nothing and is found again;
    an interface that is deleted is down; a file without the server takes all of it back."""
    async with park(fabric) as switches, gnmi_switch(UP | {1: "LOWER_LAYER_DOWN"}) as server:
        described = with_gnmi(fabric, {"leaf1": server.address})
        async with followed(switches, described) as one:
            await one.settled(LINK)
            await server.stop()
            await one.until(lambda: bool(one.ports.state.by_switch["leaf1"].error))
            assert set(one.running.keeper.failed_links) == {LINK}
            unknown = [event for event in one.events if event.kind is EventKind.PORTS_UNKNOWN]
            assert [event.switch for event in unknown] == ["leaf1"]
            server.ports[1] = "UP"
            await server.start()
            await one.settled()
            server.remove_port(2)
            await one.settled("leaf1:2-spine2:1")
            one.running.keeper.replace_fabric(fabric)
            await one.settled()
            assert not one.ports.state.by_switch
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_port_that_was_down_before_the_file_had_a_cable_there(fabric: Fabric) -> None:
    """ON_CHANGE tells a state once: a file that moves a link to that port knows of it."""
    moved = replace(
        fabric,
        links=tuple(
            replace(one, a=LinkEnd(node="leaf1", port=4)) if one.name == LINK else one
            for one in fabric.links
        ),
    )
    async with park(fabric) as switches, gnmi_switch(UP | {4: "DOWN"}) as server:
        addresses = {"leaf1": server.address}
        async with followed(switches, with_gnmi(fabric, addresses)) as one:
            await one.until(lambda: one.ports.state.by_switch["leaf1"].is_followed)
            await one.settled()
            one.running.keeper.replace_fabric(with_gnmi(moved, addresses))
            await one.settled("leaf1:4-spine1:1")
            server.set_port(4, "UP")
            await one.settled()


@in_grpc_loop
async def test_gnmi_over_tls_with_the_same_certificates(fabric: Fabric, tmp_path: Path) -> None:
    """The server asks for the controller's certificate, which is the one of P4Runtime."""
    authority = make_authority(tmp_path, "authority")
    pair = make_certificate(tmp_path, "switch", authority, alt_name="IP:127.0.0.1")
    mine = make_certificate(tmp_path, "controller", authority, alt_name="DNS:controller")
    credentials = grpc.ssl_server_credentials(
        [(pair.key.read_bytes(), pair.certificate.read_bytes())],
        authority.certificate.read_bytes(),
        require_client_auth=True,
    )
    access = Access(tls=Tls(ca=authority.certificate, certificate=mine.certificate, key=mine.key))
    server = GnmiSwitch(UP | {1: "DOWN"})
    await server.start(credentials)
    try:
        async with (
            park(fabric) as switches,
            followed(switches, with_gnmi(fabric, {"leaf1": server.address}), access=access) as one,
        ):
            await one.settled(LINK)
    finally:
        await server.stop()


@in_grpc_loop
async def test_link_that_falls_silent_over_lldp_is_led_around(fabric: Fabric) -> None:
    """A cable that passes frames one way only is out of use, and in use again when it is whole;
    one that was never heard is left alone."""
    links = LinkWatch()
    events: list[Event] = []
    watch = CablingWatch(events.append, interval_s=INTERVAL_S, links=links)
    async with cabled_park(fabric) as cabled:
        never = cabled.carrier.cables.copy()
        cabled.cut("leaf2:3")
        cabled.cut("spine3:2")
        async with kept(cabled.park, companions=[links, watch], on_packet_in=watch.take) as running:
            await running.in_phase(Phase.IN_SYNC)
            one = Followed(
                cabled.park, running, links, GnmiPorts(links, DEFAULT_ACCESS, events.append), events
            )
            await one.until(
                lambda: any("leaf2:3-spine3:2" in str(found) for found in watch.state.findings)
            )
            cabled.cut("spine1:1")
            await one.settled(LINK)
            cabled.carrier.cables.update(never)
            await one.settled()
            down = [event.message for event in running.told(EventKind.LINK_DOWN)]
            assert any(one.startswith(f"{LINK}: LLDP: one way") for one in down)
            assert not any(one.startswith("leaf2:3-spine3:2") for one in down)
        assert await cabled.park.is_as_desired()
