# SPDX-License-Identifier: Apache-2.0
"""The controller that stays keeps a fabric in its desired state, whatever happens to it."""

import asyncio
from dataclasses import replace

import pytest

from controller.access import Access
from controller.client import compare, deploy
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.findings import Findings, Target
from controller.keeper.events import EventKind
from controller.keeper.keeper import Keeper
from controller.keeper.phases import Phase
from controller.rollout import PipelineChange
from controller.route_entries import held_ports
from controller.session import open_session, program_schema
from controller.switch_error import SwitchError
from controller.switch_stream import PacketIn
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, PIPELINE, SCHEMA, kept, park


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with a host each, two spines."""
    return leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])


@in_grpc_loop
async def test_empty_switches_are_provisioned(fabric: Fabric) -> None:
    """Every entry is read back equal, and each switch told its steps in order."""
    async with park(fabric) as switches, kept(switches) as running:
        await running.in_phase(Phase.IN_SYNC)
        assert await switches.is_as_desired()
    steps = [event.kind for event in running.events if event.switch == "leaf1"]
    assert steps == [
        EventKind.CONNECTED,
        EventKind.PRIMARY,
        EventKind.EMPTY,
        EventKind.PIPELINE_PUSHED,
        EventKind.WRITTEN,
        EventKind.IN_SYNC,
    ]
    assert running.events[-1].kind is EventKind.STOPPED


@in_grpc_loop
async def test_switch_that_restarts_empty_is_provisioned_again(fabric: Fabric) -> None:
    """It is lost, found again, and holds everything; the others are not written."""
    async with park(fabric) as switches, kept(switches) as running:
        await running.in_phase(Phase.IN_SYNC)
        updates = running.keeper.switches["spine1"].machine.counters.updates
        await switches.kill("leaf1")
        await running.in_phase(Phase.WAITING, "leaf1")
        await switches.start("leaf1")
        await running.in_phase(Phase.IN_SYNC)
        assert await switches.is_as_desired()
        assert running.keeper.switches["spine1"].machine.counters.updates == updates
    assert len(running.told(EventKind.LOST)) == 1


@in_grpc_loop
async def test_backup_takes_over_and_the_old_primary_stays_backup(fabric: Fabric) -> None:
    """Nobody writes twice: the backup waits, takes all switches over, and keeps them."""
    async with park(fabric) as switches, kept(switches, election_id=20) as first:
        await first.in_phase(Phase.IN_SYNC)
        async with kept(switches, election_id=10) as second:
            await second.in_phase(Phase.BACKUP)
            await first.stop()
            await second.in_phase(Phase.IN_SYNC)
            assert all(
                one.machine.counters.takeovers == 1 and one.machine.counters.updates == 0
                for one in second.keeper.switches.values()
            )
            async with kept(switches, election_id=20) as again:
                await again.in_phase(Phase.BACKUP)
                await second.in_phase(Phase.IN_SYNC)
                assert len(second.told(EventKind.BACKUP)) == 4  # at its start
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_two_controllers_with_the_same_id_agree(fabric: Fabric) -> None:
    """The later one takes the id below and is the backup; one deployment is refused clearly."""
    async with park(fabric) as switches, kept(switches) as first:
        await first.in_phase(Phase.IN_SYNC)
        async with kept(switches) as second:
            await second.in_phase(Phase.BACKUP)
            refused = await deploy(fabric, switches.addresses, PIPELINE)
            assert len(refused.errors) == 4
            assert all("lection" in error.message for error in refused.errors)
            await first.stop()
            await second.in_phase(Phase.IN_SYNC)


@in_grpc_loop
async def test_failed_link_moves_its_own_buckets_only(fabric: Fabric) -> None:
    """Buckets of the dead port are rewritten, and all come home with the link."""
    wide = leaf_spine(leaves=2, spines=4, hosts_per_leaf=1, tenants=["t"])
    async with park(wide) as switches, kept(switches, fabric=wide) as running:
        await running.in_phase(Phase.IN_SYNC)
        home = held_ports(await switches.entries("leaf1"))
        keeper = running.keeper

        async def settled() -> None:
            """The target is followed and every switch is in sync with it."""
            target = Target.of(wide, Findings(failed_links=frozenset(keeper.failed_links)))
            await running.until(
                lambda: all(
                    one.machine.phase is Phase.IN_SYNC
                    and one.held is not None
                    and not target.updates(name, one.held.known())
                    for name, one in keeper.switches.items()
                )
            )

        keeper.set_link("leaf1:1-spine1:1", up=False, reason="test")
        await settled()
        away = held_ports(await switches.entries("leaf1"))
        keeper.set_link("leaf1:1-spine1:1", up=True)
        await settled()
        assert held_ports(await switches.entries("leaf1")) == home
        assert await switches.is_as_desired()
    assert {m for m in home if away[m] != home[m]} == {m for m in home if home[m] == 1}
    assert [str(event) for event in running.told(EventKind.LINK_DOWN)] == [
        "link_down: leaf1:1-spine1:1: test"
    ]
    with pytest.raises(ValueError, match="there is no link"):
        keeper.set_link("nowhere", up=False)


@in_grpc_loop
async def test_changed_file_is_followed(fabric: Fabric) -> None:
    """Another MAC of a host is one update of one switch; a switch that is gone is left alone."""
    changed = replace(
        fabric, hosts=(replace(fabric.hosts[0], mac=0x0200DEADBEEF), *fabric.hosts[1:])
    )
    async with park(fabric) as switches, kept(switches) as running:
        await running.in_phase(Phase.IN_SYNC)
        before = {n: s.machine.counters.updates for n, s in running.keeper.switches.items()}
        running.keeper.replace_fabric(changed)
        leaf = running.keeper.switches["leaf1"].machine
        await running.until(
            lambda: leaf.counters.updates > before["leaf1"] and leaf.phase is Phase.IN_SYNC
        )
        after = {n: s.machine.counters.updates for n, s in running.keeper.switches.items()}
        assert (await compare(changed, switches.addresses, PIPELINE)).in_sync
        smaller = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])
        running.keeper.replace_fabric(smaller)
        assert set(running.keeper.switches) == {"leaf1", "leaf2", "spine1"}
    assert {name: after[name] - before[name] for name in after} == {
        "leaf1": 1,
        "leaf2": 0,
        "spine1": 0,
        "spine2": 0,
    }


@in_grpc_loop
async def test_overlay_holds_as_long_as_it_is_there(fabric: Fabric) -> None:
    """A watchlist of the moment is written, and gone without a trace when it is withdrawn."""
    async with park(fabric) as switches, kept(switches) as running:
        await running.in_phase(Phase.IN_SYNC)
        before = await switches.entries("leaf1")
        updates = running.keeper.switches["leaf1"].machine.counters
        count = updates.updates

        def without_watchlists(file: Fabric) -> Fabric:
            return replace(file, watchlists=())

        running.keeper.set_overlay("policy", without_watchlists)
        await running.until(lambda: updates.updates > count)
        await running.in_phase(Phase.IN_SYNC)
        during = await switches.entries("leaf1")
        bare = replace(fabric, watchlists=())
        assert (await compare(bare, switches.addresses, PIPELINE)).in_sync
        count = updates.updates
        running.keeper.set_overlay("policy", None)
        await running.until(lambda: updates.updates > count)
        await running.in_phase(Phase.IN_SYNC)
        assert await switches.entries("leaf1") == before
    assert during < before


@in_grpc_loop
async def test_packets_go_both_ways_and_companions_run(fabric: Fabric) -> None:
    """A companion sends a frame out of a switch, which sends another one to the controller."""
    taken: list[tuple[str, bytes, int]] = []
    sent = asyncio.Event()

    async def companion(keeper: Keeper) -> None:
        """Sends as soon as the switch is ours."""
        await keeper.until(lambda: bool(keeper.switches))
        await keeper.until(lambda: keeper.switches["leaf1"].machine.phase is Phase.IN_SYNC)
        await keeper.packet_out("leaf1", b"out", egress_port=3)

    async with park(fabric) as switches:
        leaf = switches.switches["leaf1"]
        leaf.on_packet_out = lambda _frame: sent.set()
        arrived = asyncio.Event()

        def on_packet_in(switch: str, packet: PacketIn) -> None:
            taken.append((switch, packet.frame, packet.metadata["ingress_port"]))
            arrived.set()

        async with kept(switches, companions=[companion], on_packet_in=on_packet_in) as running:
            await asyncio.wait_for(sent.wait(), DEADLINE_S)
            assert leaf.on_packet_in is not None
            leaf.on_packet_in((7 << 7).to_bytes(2, "big") + b"in")  # port of 9 bits, 7 of padding
            await asyncio.wait_for(arrived.wait(), DEADLINE_S)
            with pytest.raises(SwitchError, match="not ours"):
                await running.keeper.packet_out("leaf9", b"", egress_port=1)
    assert taken == [("leaf1", b"in", 7)]


@in_grpc_loop
async def test_switch_emptied_by_somebody_else_is_found(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream does not end, but the heartbeat sees that the pipeline is gone."""
    monkeypatch.setattr("controller.keeper.switch_machine.HEARTBEAT_NS", 50_000_000)
    async with park(fabric) as switches, kept(switches) as running:
        await running.in_phase(Phase.IN_SYNC)
        service = next(iter(switches.servers["leaf1"].services.values()))
        service.pipeline.running = None
        await running.until(lambda: len(running.told(EventKind.PIPELINE_PUSHED)) == 5)
        await running.in_phase(Phase.IN_SYNC)
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_drift_is_found_by_the_audit(fabric: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that somebody removed behind our back comes back, and the log names it."""
    monkeypatch.setattr("controller.keeper.switch_machine.AUDIT_NS", 100_000_000)
    async with park(fabric) as switches, kept(switches) as running:
        await running.in_phase(Phase.IN_SYNC)
        switches.switches["leaf1"].state.clone_sessions.clear()
        await running.until(lambda: bool(running.told(EventKind.DRIFT)))
        await running.in_phase(Phase.IN_SYNC)
        assert await switches.is_as_desired()
    assert "clone session" in running.told(EventKind.DRIFT)[0].message


@in_grpc_loop
async def test_other_pipeline_is_left_alone_without_leave(fabric: Fabric) -> None:
    """The switch keeps what it runs, the error says what to do, and the others are served."""
    other = replace(PIPELINE, bmv2_json=PIPELINE.bmv2_json + "\n")
    async with park(fabric) as switches:
        one = replace(fabric, switches=(fabric.switch("leaf1"),), links=fabric.links[-2:-1])
        assert one.switches[0].name == "leaf1"
        async with kept(switches, pipeline=other) as running:
            await running.in_phase(Phase.IN_SYNC)
        async with kept(switches) as running:
            await running.in_phase(Phase.OTHER_PIPELINE)
            machine = running.keeper.switches["leaf1"].machine
            assert "--allow-pipeline-change" in str(machine.error)
        assert (await compare(fabric, switches.addresses, other)).in_sync


@in_grpc_loop
async def test_pipeline_change_goes_through_the_fabric(fabric: Fabric) -> None:
    """With leave all switches get the new pipeline, spines first, and end in sync."""
    other = replace(PIPELINE, bmv2_json=PIPELINE.bmv2_json + "\n")
    async with park(fabric) as switches:
        async with kept(switches) as running:
            await running.in_phase(Phase.IN_SYNC)
        change = PipelineChange(settle_s=0)
        async with kept(switches, pipeline=other, pipeline_change=change) as running:
            await running.in_phase(Phase.IN_SYNC)
        assert (await compare(fabric, switches.addresses, other)).in_sync
        changed = [event.switch for event in running.told(EventKind.PIPELINE_CHANGED)]
        assert changed == ["spine1", "spine2", "leaf1", "leaf2"]


@in_grpc_loop
async def test_pipeline_change_that_fails_goes_back_and_halts(fabric: Fabric) -> None:
    """The canary runs the old pipeline again, and nothing more is tried."""
    other = replace(PIPELINE, bmv2_json=PIPELINE.bmv2_json + "\n")
    async with park(fabric) as switches:
        async with kept(switches) as running:
            await running.in_phase(Phase.IN_SYNC)
        change = PipelineChange(settle_s=0, health_check="false")
        async with kept(switches, pipeline=other, pipeline_change=change) as running:
            await running.until(lambda: bool(running.told(EventKind.PIPELINE_RESTORED)))
            await running.in_phase(Phase.OTHER_PIPELINE)
        assert (await compare(fabric, switches.addresses, PIPELINE)).in_sync
        assert len(running.told(EventKind.PIPELINE_CHANGE_BEGINS)) == 1


@in_grpc_loop
async def test_twenty_restarts_leave_one_replica_and_the_same_entries(fabric: Fabric) -> None:
    """A controller that is stopped and started again finds everything as it left it."""
    small = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
    async with park(small) as switches:
        states = set()
        for run in range(20):
            async with kept(switches, election_id=1_000) as running:
                await running.in_phase(Phase.IN_SYNC)
                updates = sum(
                    one.machine.counters.updates for one in running.keeper.switches.values()
                )
                assert (updates > 0) == (run == 0)
            entries = await switches.entries("leaf1")
            states.add(frozenset(entries))
            sessions = switches.switches["leaf1"].state.clone_sessions.values()
            assert [len(session.replicas) for session in sessions] == [1, 1]
        assert len(states) == 1


@in_grpc_loop
async def test_primary_elsewhere_is_respected_on_one_switch(fabric: Fabric) -> None:
    """Where another controller holds one switch, the others are kept all the same."""
    async with (
        park(fabric) as switches,
        open_session(
            name="leaf1",
            address=switches.addresses["leaf1"],
            device_id=fabric.switch("leaf1").device_id,
            schema=SCHEMA,
            access=Access(),
        ) as holder,
    ):
        await holder.become_primary(9_000)
        async with kept(switches) as running:
            await running.in_phase(Phase.IN_SYNC, "leaf2", "spine1", "spine2")
            await running.in_phase(Phase.BACKUP, "leaf1")
            await holder.close()
            await running.in_phase(Phase.IN_SYNC)
            assert await switches.is_as_desired()
    assert program_schema(PIPELINE).p4cookie == SCHEMA.p4cookie
