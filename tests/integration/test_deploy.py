# SPDX-License-Identifier: Apache-2.0
"""A whole fabric of embedded switches is programmed over P4Runtime and forwards as described."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter

import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import Server, serve
from controller.client import Findings, compare, deploy
from controller.deploy_report import format_status
from controller.desired import desired_state
from controller.entries import CloneSession
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.pipeline import Pipeline, load_pipeline
from controller.plan_report import format_plan
from controller.reconcile import Operation
from controller.rollout import PipelineChange
from controller.session import open_session, program_schema
from tests.support.grpc_loop import in_grpc_loop

SCHEMA = program_schema(load_pipeline())


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    """The committed artefacts."""
    return load_pipeline()


@pytest.fixture(scope="module")
def program(pipeline: Pipeline) -> SwitchProgram:
    """The committed program, translated once."""
    return SwitchProgram.from_json(pipeline.bmv2_json)


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """The demo's fabric: 8 leaves, 4 spines, 16 hosts."""
    return leaf_spine()


@asynccontextmanager
async def running(
    fabric: Fabric, program: SwitchProgram
) -> AsyncIterator[tuple[dict[str, EmbeddedSwitch], dict[str, str], Server]]:
    """Embedded switches by name, their addresses by name, and the servers."""
    switches = {
        switch.name: EmbeddedSwitch(program, device_id=switch.device_id)
        for switch in fabric.switches
    }
    server = await serve(list(switches.values()))
    try:
        addresses = {switch.name: server.addresses[switch.device_id] for switch in fabric.switches}
        yield switches, addresses, server
    finally:
        await server.stop()


@in_grpc_loop
async def test_demo_fabric_is_programmed_and_read_back_equal(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """12 empty switches hold every desired entry after one deployment, in a few seconds."""
    async with running(fabric, program) as (_, addresses, _):
        start_s = perf_counter()
        result = await deploy(fabric, addresses, pipeline)
        elapsed_s = perf_counter() - start_s
    assert result.errors == ()
    assert result.ok
    assert result.pipelines_pushed == 12
    desired = desired_state(fabric)
    assert result.entries_read_back == sum(len(entries) for entries in desired.values())
    assert elapsed_s < 20  # about 2 s; the limit allows for a loaded machine


@in_grpc_loop
async def test_applying_twice_changes_nothing(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """The second run writes nothing, pushes nothing, and plan and status agree."""
    async with running(fabric, program) as (_, addresses, _):
        before = await compare(fabric, addresses, pipeline)
        assert not before.in_sync
        assert "! push the pipeline" in format_plan(before, fabric)
        await deploy(fabric, addresses, pipeline)
        again = await deploy(fabric, addresses, pipeline)
        after = await compare(fabric, addresses, pipeline)
    assert again.ok
    assert (again.entries_written, again.pipelines_pushed) == (0, 0)
    assert after.in_sync
    assert format_plan(after, fabric).endswith("on 0 of 12 switches")
    assert format_status(after).splitlines()[0].startswith("leaf1: in sync")


@in_grpc_loop
async def test_controller_restarts_leave_one_replica_per_session(
    pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Twenty runs, every second one after a push of another pipeline, end in the same state."""
    fabric = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
    async with running(fabric, program) as (switches, addresses, server):
        states: set[tuple[str, ...]] = set()
        for run in range(20):
            if run % 2:
                for service in server.services.values():
                    assert service.config is not None
                    service.config.cookie.cookie = run
            result = await deploy(
                fabric, addresses, pipeline, pipeline_change=PipelineChange(settle_s=0)
            )
            assert result.ok
            assert result.pipelines_pushed == (2 if run == 0 or run % 2 else 0)
            async with open_session(
                name="leaf1",
                address=addresses["leaf1"],
                device_id=switches["leaf1"].device_id,
                schema=SCHEMA,
            ) as session:
                entries = await session.read_entries()
            sessions = [entry for entry in entries if isinstance(entry, CloneSession)]
            assert [len(session.replicas) for session in sessions] == [1, 1]
            states.add(tuple(sorted(str(entry) for entry in entries)))
        assert len(states) == 1


@in_grpc_loop
async def test_drift_is_shown_and_repaired(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Another controller's changes show as drift of that switch, and apply takes them back."""
    async with running(fabric, program) as (_, addresses, _):
        await deploy(fabric, addresses, pipeline)
        changed = replace(fabric, hosts=(replace(fabric.hosts[0], mac=0x0200DEADBEEF),))
        changed = replace(changed, hosts=(*changed.hosts, *fabric.hosts[1:]))
        assert (await deploy(changed, addresses, pipeline)).ok

        drift = await compare(fabric, addresses, pipeline)
        (leaf,) = [switch for switch in drift.switches if not switch.in_sync]
        assert leaf.name == "leaf1"
        assert [update.operation for update in leaf.updates] == [Operation.MODIFY]
        assert "02:00:de:ad:be:ef" in format_plan(drift, fabric)

        repaired = await deploy(fabric, addresses, pipeline)
        assert repaired.ok
        assert repaired.entries_written == 1


@in_grpc_loop
async def test_change_of_the_file_touches_only_what_it_concerns(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Without leaf5's second uplink, leaves get a group for leaf5 alone, and strays go."""
    links = tuple(link for link in fabric.links if str(link.a) != "leaf5:2")
    broken = replace(fabric, links=links)
    async with running(fabric, program) as (_, addresses, _):
        await deploy(fabric, addresses, pipeline)
        result = await deploy(broken, addresses, pipeline)
        assert result.ok
        by_name = {switch.name: switch for switch in result.switches}
        # leaf1: one more group with its buckets, and the route to leaf5 points to it.
        assert (by_name["leaf1"].inserted, by_name["leaf1"].modified) == (65, 1)
        # spine1, 3, 4 are not concerned; spine2 reaches leaf5 through the other leaves.
        assert by_name["spine1"].entries_written == 0
        assert by_name["spine2"].entries_written > 0
        back = await deploy(fabric, addresses, pipeline)
        assert back.ok
        after = await compare(fabric, addresses, pipeline)
    assert after.in_sync


@in_grpc_loop
async def test_programmed_leaf_forwards_and_spreads_flows(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Local traffic leaves on the host's port; remote flows use all four uplinks."""
    async with running(fabric, program) as (switches, addresses, _):
        await deploy(fabric, addresses, pipeline)
    leaf = switches["leaf1"]

    def egress_ports(dst_ip: int, src_port: int) -> list[int]:
        frame = _udp_frame(fabric.host("h1").ip, dst_ip, src_port, 9)
        return [copy.egress_port for copy in leaf.ingress(frame, 11, 1_000)]

    assert egress_ports(fabric.host("h2").ip, 50_000) == [12]
    remote = {tuple(egress_ports(fabric.host("h16").ip, 49_152 + flow)) for flow in range(64)}
    assert remote == {(1,), (2,), (3,), (4,)}


@in_grpc_loop
async def test_failed_link_moves_its_own_flows_only(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Of 512 flows per leaf pair those over the failed link move, and all come back with it."""
    failed = Findings(failed_links=["leaf5:2-spine2:5"])
    async with running(fabric, program) as (switches, addresses, _):
        await deploy(fabric, addresses, pipeline)
        before = {name: flow_ports(switches[name], fabric, name) for name in ("leaf1", "leaf5")}
        assert (await deploy(fabric, addresses, pipeline, findings=failed)).ok
        during = {name: flow_ports(switches[name], fabric, name) for name in ("leaf1", "leaf5")}
        assert (await deploy(fabric, addresses, pipeline)).ok
        after = {name: flow_ports(switches[name], fabric, name) for name in ("leaf1", "leaf5")}
    assert after == before
    for name in ("leaf1", "leaf5"):
        moved = {flow for flow, port in before[name].items() if during[name][flow] != port}
        over_the_link = {
            flow
            for flow, port in before[name].items()
            if port == 2 and (name == "leaf5" or flow[0] == "h9")
        }
        assert moved == over_the_link, name
        assert len(over_the_link) > 64


def flow_ports(leaf: EmbeddedSwitch, fabric: Fabric, name: str) -> dict[tuple[str, int], int]:
    """Egress port of 512 flows to a host of leaf5 and leaf6, or of leaf1 and leaf6 from leaf5."""
    source, port = ("h1", 11) if name == "leaf1" else ("h9", 11)
    ports = {}
    for target in ("h9" if name == "leaf1" else "h1", "h11"):
        for flow in range(512):
            frame = _udp_frame(fabric.host(source).ip, fabric.host(target).ip, 49_152 + flow, 9)
            (copy,) = leaf.ingress(frame, port, 1_000)
            ports[target, flow] = copy.egress_port
    return ports


@in_grpc_loop
async def test_wrong_device_is_an_error_of_that_switch(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """An address that leads to another switch is refused by its device id."""
    async with running(fabric, program) as (_, addresses, _):
        result = await deploy(fabric, dict(addresses, leaf1=addresses["spine1"]), pipeline)
    (error,) = result.errors
    assert str(error).startswith("leaf1: NOT_FOUND")
    assert len(result.switches) == 11


@in_grpc_loop
async def test_two_controllers_do_not_write_at_once(
    fabric: Fabric, pipeline: Pipeline, program: SwitchProgram
) -> None:
    """While one controller holds a switch, a second one may read but not write there."""
    async with running(fabric, program) as (_, addresses, _):
        await deploy(fabric, addresses, pipeline)
        async with open_session(
            name="leaf1", address=addresses["leaf1"], device_id=1, schema=SCHEMA
        ) as holder:
            await holder.become_primary()
            result = await deploy(fabric, addresses, pipeline)
            seen = await compare(fabric, addresses, pipeline)
        (error,) = result.errors
        assert error.switch == "leaf1"
        assert "lection id" in error.message
        assert seen.in_sync
        assert (await deploy(fabric, addresses, pipeline)).ok


def _udp_frame(src_ip: int, dst_ip: int, src_port: int, dst_port: int) -> bytes:
    """A UDP frame to the leaf's MAC, with a right IPv4 checksum and none for UDP."""
    payload = b"x" * 32
    udp = (
        src_port.to_bytes(2, "big")
        + dst_port.to_bytes(2, "big")
        + (8 + len(payload)).to_bytes(2, "big")
        + bytes(2)
    )
    header = bytearray(
        bytes([0x45, 0])
        + (20 + len(udp) + len(payload)).to_bytes(2, "big")
        + bytes([0, 1, 0, 0, 64, 17, 0, 0])
        + src_ip.to_bytes(4, "big")
        + dst_ip.to_bytes(4, "big")
    )
    words = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, 20, 2))
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    header[10:12] = (words ^ 0xFFFF).to_bytes(2, "big")
    ethernet = bytes.fromhex("020001000001") + bytes.fromhex("020000000101") + b"\x08\x00"
    return ethernet + bytes(header) + udp + payload


@in_grpc_loop
async def test_a_controller_that_is_gone_does_not_lock_the_switch(program: SwitchProgram) -> None:
    """A switch remembers the highest election id; with nobody primary the next one above wins."""
    small = leaf_spine(leaves=1, spines=1)
    async with running(small, program) as (_, addresses, _server):
        switch = small.switches[0]
        async with open_session(
            name=switch.name,
            address=addresses[switch.name],
            device_id=switch.device_id,
            schema=SCHEMA,
        ) as former:
            await former.become_primary(2_000)
        result = await deploy(small, addresses)
        assert result.ok
        assert result.errors == ()
