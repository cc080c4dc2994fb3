# SPDX-License-Identifier: Apache-2.0
"""LLDP through the P4 program of embedded switches finds cables that are not as in the file."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cabling.check import FindingKind, LinkState
from controller.cabling.once import CablingResult, check_once
from controller.cabling.watch import CablingWatch
from controller.client import deploy
from controller.fabric import Fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.keeper.events import Event, EventKind
from controller.keeper.phases import Phase
from tempotrace.commands.deploy import app
from tests.support.cabled_park import CabledPark, cabled_park
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, PIPELINE, kept

LISTEN_S = 0.5
INTERVAL_S = 0.4


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with two hosts each, two spines: leaf ports 1 and 2 lead up, 11 and 12 down."""
    return leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, tenants=["t"])


async def checked(fabric: Fabric, cabled: CabledPark) -> CablingResult:
    """Deployed and checked once."""
    assert (await deploy(fabric, cabled.park.addresses, PIPELINE)).ok
    return await check_once(fabric, cabled.park.addresses, PIPELINE, listen_s=LISTEN_S)


def messages(result: CablingResult) -> list[str]:
    """The findings as people read them."""
    return [str(finding) for finding in result.cabling.findings]


@in_grpc_loop
async def test_cables_as_in_the_file(fabric: Fabric) -> None:
    """Every link between switches is confirmed; the check leaves no entry behind."""
    async with cabled_park(fabric) as cabled:
        result = await checked(fabric, cabled)
        assert await cabled.park.is_as_desired()
    assert result.ok
    assert result.cabling.count(LinkState.RIGHT) == 4
    assert result.cabling.count(LinkState.UNCHECKED) == 4  # hosts that say nothing


@in_grpc_loop
async def test_swapped_one_way_and_missing_cables_are_named(fabric: Fabric) -> None:
    """All three at once, each by its own name, and nothing else."""
    wide = leaf_spine(leaves=2, spines=4, hosts_per_leaf=1, tenants=["t"])
    async with cabled_park(wide) as cabled:
        cabled.swap("leaf1:1", "leaf1:2")
        cabled.cut("spine3:1")
        cabled.cut("leaf2:4")
        cabled.cut("spine4:2")
        result = await checked(wide, cabled)
    assert not result.ok
    assert messages(result) == [
        "one way: leaf1:3-spine3:1: spine3:1 hears leaf1:3, but leaf1:3 hears nothing of spine3:1",
        "silent: leaf2:4-spine4:2: nothing is heard in either direction",
        "swapped: leaf1:1 and leaf1:2 are swapped: leaf1:1 leads to spine2:1, leaf1:2 to spine1:1",
    ]
    assert result.cabling.count(LinkState.RIGHT) == 4


@in_grpc_loop
async def test_switch_without_the_entries_is_an_error_and_no_finding(fabric: Fabric) -> None:
    """One empty switch: it is named, and its links are unchecked rather than silent."""
    async with cabled_park(fabric) as cabled:
        assert (await deploy(fabric, cabled.park.addresses, PIPELINE)).ok
        await cabled.park.kill("spine1")
        await cabled.park.start("spine1")
        cabled.carrier.attach("spine1", cabled.park.switches["spine1"])
        result = await check_once(fabric, cabled.park.addresses, PIPELINE, listen_s=LISTEN_S)
    assert [(error.switch, error.message) for error in result.errors] == [
        ("spine1", "it runs no pipeline; deploy first")
    ]
    assert not result.cabling.findings
    assert result.cabling.links["leaf1:1-spine1:1"] is LinkState.UNCHECKED


@in_grpc_loop
async def test_keeper_tells_of_cables_and_when_they_are_right_again(fabric: Fabric) -> None:
    """Hosts at each other's ports by their own LLDP, a stranger, and a swap that is undone."""
    events: list[Event] = []
    watch = CablingWatch(events.append, interval_s=INTERVAL_S)

    async def told(text: str, kind: EventKind = EventKind.CABLING_WRONG) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while text not in [event.message for event in events if event.kind is kind]:
                await asyncio.sleep(INTERVAL_S / 4)

    h1, h2 = fabric.hosts[:2]
    async with (
        cabled_park(fabric) as cabled,
        kept(cabled.park, companions=[watch], on_packet_in=watch.take) as running,
    ):
        await running.in_phase(Phase.IN_SYNC)
        cabled.host_says("leaf1:11", name="node-b", mac=h2.mac)
        cabled.host_says("leaf1:12", name="node-a", mac=h1.mac)
        cabled.host_says("leaf2:11", name="printer", mac=0x0200DEADBEEF)
        await told(
            "swapped: leaf1:11 and leaf1:12 are swapped: leaf1:11 leads to h2:1, leaf1:12 to h1:1"
        )
        await told(
            "unknown neighbour: leaf2:11 is cabled to printer port 02:00:de:ad:be:ef; "
            "the file has h3:1 there"
        )
        cabled.swap("leaf2:1", "leaf2:2")
        swapped = (
            "swapped: leaf2:1 and leaf2:2 are swapped: leaf2:1 leads to spine2:2, "
            "leaf2:2 to spine1:2"
        )
        await told(swapped)
        cabled.swap("leaf2:1", "leaf2:2")
        await told(f"no longer {swapped}", EventKind.CABLING_RIGHT)
        async with asyncio.timeout(DEADLINE_S):
            while watch.state.cabling is None or watch.state.cabling.count(LinkState.RIGHT) < 4:
                await asyncio.sleep(INTERVAL_S / 4)
        assert {one.kind for one in watch.state.findings} == {
            FindingKind.SWAPPED,
            FindingKind.UNKNOWN,
        }
        assert not watch.state.counters.malformed


@in_grpc_loop
async def test_finding_outlives_a_switch_that_is_away(fabric: Fabric) -> None:
    """What cannot be looked at is not right again."""
    events: list[Event] = []
    watch = CablingWatch(events.append, interval_s=INTERVAL_S)
    async with (
        cabled_park(fabric) as cabled,
        kept(cabled.park, companions=[watch], on_packet_in=watch.take) as running,
    ):
        await running.in_phase(Phase.IN_SYNC)
        cabled.cut("spine1:1")
        async with asyncio.timeout(DEADLINE_S):
            while not watch.state.findings:
                await asyncio.sleep(INTERVAL_S / 4)
        await cabled.park.kill("leaf1")
        await running.in_phase(Phase.WAITING, "leaf1")
        sent = watch.state.counters.sent
        async with asyncio.timeout(DEADLINE_S):  # five rounds of the other switches' nine ports
            while watch.state.counters.sent < sent + 5 * 9:
                await asyncio.sleep(INTERVAL_S / 4)
        assert [one.kind for one in watch.state.findings] == [FindingKind.ONE_WAY]
    assert not [event for event in events if event.kind is EventKind.CABLING_RIGHT]


@in_grpc_loop
async def test_command_prints_findings_and_ends_with_1(fabric: Fabric, tmp_path: Path) -> None:
    """As JSON and as text; exit 0 once the cables are right."""
    async with cabled_park(fabric) as cabled:
        addresses = cabled.park.addresses
        assert (await deploy(fabric, addresses, PIPELINE)).ok
        addressed = replace(
            fabric,
            switches=tuple(replace(one, p4runtime=addresses[one.name]) for one in fabric.switches),
        )
        path = tmp_path / "fabric.yaml"
        path.write_text(dump_fabric(addressed), encoding="utf-8")
        runner = CliRunner()
        options = ["topology", "-f", str(path), "--listen-s", str(LISTEN_S)]
        right = await asyncio.to_thread(runner.invoke, app, options)
        cabled.swap("leaf1:1", "leaf1:2")
        wrong = await asyncio.to_thread(runner.invoke, app, [*options, "--json"])
    assert right.exit_code == 0, right.output
    assert right.stdout == "8 links: 4 right, 0 wrong, 4 unchecked\n"
    assert wrong.exit_code == 1
    answer = json.loads(wrong.stdout)
    assert answer["findings"] == [
        {
            "kind": "swapped",
            "ports": ["leaf1:1", "leaf1:2"],
            "message": "leaf1:1 and leaf1:2 are swapped: leaf1:1 leads to spine2:1, "
            "leaf1:2 to spine1:1",
        }
    ]
    assert answer["links"]["leaf2:1-spine1:2"] == "right"


@in_grpc_loop
async def test_fabric_that_punts_no_lldp_cannot_be_checked(fabric: Fabric, tmp_path: Path) -> None:
    """One line that says what the file lacks; the running controller says so once."""
    path = tmp_path / "fabric.yaml"
    path.write_text(dump_fabric(replace(fabric, punt=fabric.punt[1:])), encoding="utf-8")
    result = await asyncio.to_thread(CliRunner().invoke, app, ["topology", "-f", str(path)])
    assert result.exit_code == 2
    assert "punt" in result.stderr
