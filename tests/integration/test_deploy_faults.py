# SPDX-License-Identifier: Apache-2.0
"""Faults in the middle of it: in the end the state is the desired one, or an error names the place.

Switches die during an apply, controllers are killed between two writes, tables are full, and one
entry in a thousand is refused.
"""

import asyncio
import os
import random
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.p4service import SwitchService
from bmv2_lab.switch.p4write import UpdateWriter
from controller import held_switch
from controller.client import compare, deploy
from controller.entries import TableEntry
from controller.fabric import Fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.findings import NO_FINDINGS, Target
from controller.keeper.events import EventKind
from controller.keeper.phases import Phase
from controller.p4info_codec import encode_entry
from controller.reconcile import Operation, Update
from controller.session import open_session
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, PIPELINE, SCHEMA, SwitchPark, kept, park

RUNS_S = 60.0


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with a host each, two spines."""
    return leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])


@pytest.fixture
def small_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests instead of few."""
    monkeypatch.setattr(held_switch, "WRITE_SIZE_MAX", 7)


@dataclass
class WriteTrap:
    """Does something before a write of a switch is carried out."""

    at: int
    """The number of the write, counted from 1."""
    act: Callable[[], None]
    count: int = 0

    def set(self, service: SwitchService) -> None:
        """From now on."""
        write = service._write

        async def trapped(request: p4r.WriteRequest) -> list[p4r.Error]:
            self.count += 1
            if self.count == self.at:
                self.act()
                await asyncio.sleep(0)
            return await write(request)

        service._write = trapped  # type: ignore[method-assign]


def service_of(switches: SwitchPark, name: str) -> SwitchService:
    """The P4Runtime service of a switch."""
    return next(iter(switches.servers[name].services.values()))


@pytest.mark.parametrize("at", [1, 4, 12])
@in_grpc_loop
async def test_switch_killed_during_apply_is_named_and_the_next_apply_completes_it(
    at: int, fabric: Fabric, small_writes: None
) -> None:
    """The others are in order all the same; the dead one comes back empty and is provisioned."""
    async with park(fabric) as switches:
        killed: list[asyncio.Task[None]] = []
        trap = WriteTrap(at, lambda: killed.append(asyncio.create_task(switches.kill("leaf1"))))
        trap.set(service_of(switches, "leaf1"))
        result = await deploy(fabric, switches.addresses, PIPELINE)
        await killed[0]
        assert [error.switch for error in result.errors] == ["leaf1"]
        assert result.errors[0].lost
        assert {switch.name for switch in result.switches} == {"leaf2", "spine1", "spine2"}
        assert all(not switch.drift for switch in result.switches)
        await switches.start("leaf1")
        again = await deploy(fabric, switches.addresses, PIPELINE)
        assert again.ok
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_switch_killed_while_it_is_kept_is_provisioned_as_soon_as_it_is_back(
    fabric: Fabric, small_writes: None
) -> None:
    """Killed in the middle of its first writes."""
    async with park(fabric) as switches:
        killed: list[asyncio.Task[None]] = []
        trap = WriteTrap(3, lambda: killed.append(asyncio.create_task(switches.kill("spine1"))))
        trap.set(service_of(switches, "spine1"))
        async with kept(switches) as running:
            await running.in_phase(Phase.WAITING, "spine1")
            await killed[0]
            await switches.start("spine1")
            await running.in_phase(Phase.IN_SYNC)
            assert await switches.is_as_desired()


@asynccontextmanager
async def fabric_file(fabric: Fabric, switches: SwitchPark, folder: Path) -> AsyncIterator[Path]:
    """fabric.yaml with the addresses of the switches."""
    addressed = tuple(
        replace(switch, p4runtime=switches.addresses[switch.name]) for switch in fabric.switches
    )
    path = folder / "fabric.yaml"
    path.write_text(dump_fabric(replace(fabric, switches=addressed)), encoding="utf-8")
    yield path


async def start_controller(command: str, path: Path) -> asyncio.subprocess.Process:
    """`tempotrace deploy COMMAND` in a process of its own."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from tempotrace.entry import main; main()"),
        *("deploy", command, "-f", str(path)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


@pytest.mark.parametrize(("command", "at"), [("apply", 2), ("run", 3)])
@in_grpc_loop
async def test_controller_killed_between_writes_leaves_nothing_that_the_next_does_not_mend(
    command: str, at: int, fabric: Fabric, tmp_path: Path
) -> None:
    """SIGKILL at the write of one switch; a new controller takes over and completes everything."""
    async with park(fabric) as switches, fabric_file(fabric, switches, tmp_path) as path:
        controller: list[asyncio.subprocess.Process] = []
        trap = WriteTrap(at, lambda: os.kill(controller[0].pid, signal.SIGKILL))
        trap.set(service_of(switches, "spine2"))
        controller.append(await start_controller(command, path))
        async with asyncio.timeout(RUNS_S):
            assert await controller[0].wait() == -signal.SIGKILL
        assert not (await compare(fabric, switches.addresses, PIPELINE)).in_sync
        result = await deploy(fabric, switches.addresses, PIPELINE)
        assert result.ok
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_two_deployments_at_once_never_write_the_same_switch(fabric: Fabric) -> None:
    """Each switch belongs to one of them; the other says so, and afterwards all is in order."""
    async with park(fabric) as switches:
        first, second = await asyncio.gather(
            deploy(fabric, switches.addresses, PIPELINE),
            deploy(fabric, switches.addresses, PIPELINE),
        )
        done = [switch.name for result in (first, second) for switch in result.switches]
        assert sorted(done) == sorted(set(done))
        for error in (*first.errors, *second.errors):
            assert "lection id" in error.message
        assert (await deploy(fabric, switches.addresses, PIPELINE)).ok
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_full_table_names_switch_table_and_entry(fabric: Fabric) -> None:
    """A table smaller than P4Info says: nothing is claimed to be right; with room it is mended."""
    async with park(fabric) as switches:
        assert (await deploy(fabric, switches.addresses, PIPELINE)).ok
        table = switches.switches["leaf1"].state.tables["TempoIngress.routing.ipv4_lpm"]
        spec = table.spec
        table.spec = replace(spec, max_size=len(table.entries))
        host = replace(fabric.hosts[0], name="h9", ip=fabric.hosts[0].ip + 7, mac=0x020000000909)
        link = replace(
            fabric.links[-2],
            a=replace(fabric.links[-2].a, port=40),
            b=replace(fabric.links[-2].b, node="h9"),
        )
        assert link.a.node == "leaf1"
        larger = replace(fabric, hosts=(*fabric.hosts, host), links=(*fabric.links, link))
        result = await deploy(larger, switches.addresses, PIPELINE)
        (error,) = result.errors
        assert str(error).startswith(
            f"leaf1: ipv4_lpm [dst_addr=10.0.1.{(host.ip & 0xFF)}/32]: insert failed: "
            "RESOURCE_EXHAUSTED"
        )
        async with kept(switches, fabric=larger) as running:
            await running.in_phase(Phase.REFUSED, "leaf1")
            await running.in_phase(Phase.IN_SYNC, "leaf2", "spine1", "spine2")
            (event,) = running.told(EventKind.REFUSED)
            assert (event.switch, "ipv4_lpm" in event.message) == ("leaf1", True)
            table.spec = spec
            running.keeper.replace_fabric(larger)
            await running.in_phase(Phase.IN_SYNC)
        assert (await compare(larger, switches.addresses, PIPELINE)).in_sync


@in_grpc_loop
async def test_full_of_strays_is_no_obstacle(fabric: Fabric) -> None:
    """A table that strays fill to the last place takes the new entries all the same."""
    async with park(fabric) as switches:
        assert (await deploy(fabric, switches.addresses, PIPELINE)).ok
        size = SCHEMA.tables["int_edge_ports"].size
        used = {11, 60}
        ports = [port for port in range(1, 509) if port not in used]
        target = Target.of(fabric, NO_FINDINGS)
        sample = next(
            entry
            for entry in target.entries("leaf1").values()
            if isinstance(entry, TableEntry) and entry.table == "int_edge_ports"
        )
        strays = [
            TableEntry.of("int_edge_ports", {"ingress_port": port}, sample.action)
            for port in ports[: size - 2]
        ]
        async with open_session(
            name="leaf1",
            address=switches.addresses["leaf1"],
            device_id=fabric.switch("leaf1").device_id,
            schema=SCHEMA,
        ) as session:
            await session.become_primary()
            await session.write([insertion(stray) for stray in strays])
        result = await deploy(fabric, switches.addresses, PIPELINE)
        assert result.ok
        assert await switches.is_as_desired()


def insertion(entry: TableEntry) -> Update:
    """What adds it."""
    return Update(operation=Operation.INSERT, entry=entry)


def thousand_watched(fabric: Fabric) -> Fabric:
    """A watchlist that makes 1,000 entries of one table."""
    many = replace(fabric.watchlists[0], opcodes=tuple(range(200)), dest_qps=tuple(range(1, 6)))
    return replace(fabric, watchlists=(many,))


def watch_entries(fabric: Fabric) -> list[TableEntry]:
    """Those of leaf1's watchlist."""
    entries = [
        entry
        for entry in Target.of(fabric, NO_FINDINGS).entries("leaf1").values()
        if isinstance(entry, TableEntry) and entry.table == "int_watchlist"
    ]
    assert len(entries) >= 1_000
    return entries


def refuse(
    patch: pytest.MonkeyPatch, switches: SwitchPark, name: str, entries: list[TableEntry]
) -> None:
    """Have a switch refuse to take these entries."""
    refused = {encode_entry(entry, SCHEMA).table_entry.SerializeToString() for entry in entries}
    switch = switches.switches[name]
    apply = UpdateWriter.apply

    def checked(self: UpdateWriter, update: p4r.Update) -> None:
        if (
            self.target.switch is switch
            and update.entity.table_entry.SerializeToString() in refused
        ):
            raise StateError(errors.RESOURCE_EXHAUSTED, "no luck")
        apply(self, update)

    patch.setattr(UpdateWriter, "apply", checked)


@in_grpc_loop
async def test_one_rejected_entry_in_a_thousand_is_named(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other 999 are there, the error has the entry, and mending is one update."""
    monkeypatch.setattr(held_switch, "WRITE_SIZE_MAX", 1_000)
    watched = thousand_watched(fabric)
    bad = watch_entries(watched)[500]
    async with park(watched) as switches:
        with monkeypatch.context() as patch:
            refuse(patch, switches, "leaf1", [bad])
            result = await deploy(watched, switches.addresses, PIPELINE)
        (error,) = result.errors
        assert (error.switch, error.where) == ("leaf1", bad.where)
        assert "no luck (1 of 1000 updates of this request failed)" in error.message
        plan = await compare(watched, switches.addresses, PIPELINE)
        (leaf,) = [switch for switch in plan.switches if not switch.in_sync]
        missing = [update for update in leaf.updates if update.entry.where == error.where]
        assert len(missing) == 1
        again = await deploy(watched, switches.addresses, PIPELINE)
        assert again.ok
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_a_thousand_rejected_entries_are_one_clear_error(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The details of all of them arrive: more than gRPC takes by default."""
    monkeypatch.setattr(held_switch, "WRITE_SIZE_MAX", 1_000)
    watched = thousand_watched(fabric)
    entries = watch_entries(watched)
    async with park(watched) as switches:
        with monkeypatch.context() as patch:
            refuse(patch, switches, "leaf1", entries)
            result = await deploy(watched, switches.addresses, PIPELINE)
        (error,) = result.errors
        assert (error.switch, error.where) == ("leaf1", entries[0].where)
        failed = re.search(r"no luck \((\d+) of 1000 updates of this request failed", error.message)
        assert failed is not None
        assert int(failed[1]) > 900  # entries of other tables share the request
        assert (await deploy(watched, switches.addresses, PIPELINE)).ok


@pytest.mark.parametrize("seed", [1, 2, 3])
@in_grpc_loop
async def test_any_order_of_faults_ends_in_the_desired_state(
    seed: int, fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switches die and start, links fail and come back, entries vanish, in any order and midway."""
    print(f"seed {seed}")
    monkeypatch.setattr("controller.keeper.switch_machine.AUDIT_NS", 300_000_000)
    rng = random.Random(seed)
    names = [switch.name for switch in fabric.switches]
    links = [link.name for link in fabric.links if "h" not in link.b.node]
    async with park(fabric) as switches, kept(switches) as running:
        keeper = running.keeper
        for _ in range(40):
            name = rng.choice(names)
            match rng.randrange(4):
                case 0 if name in switches.servers:
                    await switches.kill(name)
                case 1 if name not in switches.servers:
                    await switches.start(name)
                case 2:
                    keeper.set_link(rng.choice(links), up=rng.random() < 0.5)
                case 3 if name in switches.servers:
                    switches.switches[name].state.clone_sessions.clear()
                case _:
                    pass
            if switches.servers and rng.random() < 0.3:
                await running.in_phase(Phase.IN_SYNC, *switches.servers)
            for _ in range(rng.randrange(200)):
                await asyncio.sleep(0)
        for name in names:
            if name not in switches.servers:
                await switches.start(name)
        for link in links:
            keeper.set_link(link, up=True)
        async with asyncio.timeout(DEADLINE_S):
            while not await switches.is_as_desired():
                await running.in_phase(Phase.IN_SYNC)
        assert all(one.machine.error is None for one in keeper.switches.values())
