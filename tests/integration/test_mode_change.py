# SPDX-License-Identifier: Apache-2.0
"""A watchlist's mode, class and sampling change at run time, as entries; packets show it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from controller.client import compare, deploy
from controller.fabric import Fabric, LinkEnd
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import Watchlist, WatchMode, WatchTraffic
from controller.keeper.events import EventKind
from controller.keeper.phases import Phase
from controller.telemetry.collector import Collection, collect
from controller.telemetry.frames import RoceFlow, roce_frame
from tests.support.cabled_park import CabledPark, cabled_park
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import PIPELINE, RunningKeeper, kept

PACKETS = 16
HOPS = 3
"""leaf1, a spine, leaf2."""


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with a host each, one spine; all RoCE in mode MD."""
    made = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])
    roce = next(one for one in made.watchlists if one.traffic is WatchTraffic.ROCE)
    return replace(made, watchlists=(replace(roce, name="all", sample_psn_bits=0),))


def watching(fabric: Fabric, change: Callable[[Watchlist], Watchlist]) -> Fabric:
    """The same with a changed watchlist."""
    return replace(fabric, watchlists=tuple(map(change, fabric.watchlists)))


def in_mode(fabric: Fabric, mode: WatchMode) -> Fabric:
    """Postcards cannot hold the node id, bit 0 of the instructions."""
    bitmap = 0xFC00 if mode is WatchMode.MD else 0x7C00

    def change(one: Watchlist) -> Watchlist:
        hops = one.remaining_hop_count if mode is WatchMode.MD else None
        return replace(one, mode=mode, instruction_bitmap=bitmap, remaining_hop_count=hops)

    return watching(fabric, change)


@dataclass
class Wire:
    """The fabric's cables, and what leaves them."""

    fabric: Fabric
    cabled: CabledPark
    reports: list[bytes]
    delivered: list[bytes]

    def send(self, *, dscp: int | None = None) -> Collection:
        """RoCEv2 from h1 to h2 with PSNs from 0; what the reports of it say."""
        self.reports.clear()
        self.delivered.clear()
        sender, receiver = self.fabric.hosts
        classes = [one.dscp for one in self.fabric.qos.classes if one.marked_dscp is not None]
        flow = RoceFlow(
            src_mac=sender.mac,
            dst_mac=self.fabric.switch("leaf1").mac,
            src_ip=sender.ip,
            dst_ip=receiver.ip,
            src_port=50_000,
            dest_qp=7,
            dscp=classes[0] if dscp is None else dscp,
        )
        for psn in range(PACKETS):
            self.cabled.carrier.arrive(LinkEnd(node="leaf1", port=11), roce_frame(flow, psn=psn))
        assert len(self.delivered) == PACKETS
        return collect([*enumerate(self.reports)], self.fabric)


@asynccontextmanager
async def wire(fabric: Fabric) -> AsyncIterator[Wire]:
    """Embedded switches, cabled."""
    async with cabled_park(fabric) as cabled:
        one = Wire(fabric, cabled, [], [])
        report_ports = {switch.report_port for switch in fabric.switches}

        def on_uncabled(port: LinkEnd, frame: bytes) -> None:
            (one.reports if port.port in report_ports else one.delivered).append(frame)

        cabled.cut("leaf2:11")  # what leaves for the receiver is kept
        cabled.carrier.on_uncabled = on_uncabled
        yield one


async def followed(running: RunningKeeper, fabric: Fabric, wire: Wire) -> None:
    """Another file is in force, and every switch holds exactly what follows from it."""
    loaded = len(running.told(EventKind.WRITTEN))
    running.keeper.replace_fabric(fabric)
    await running.until(lambda: len(running.told(EventKind.WRITTEN)) > loaded)
    await running.in_phase(Phase.IN_SYNC)
    assert (await compare(fabric, wire.cabled.park.addresses, PIPELINE)).in_sync


@in_grpc_loop
async def test_modes_change_without_a_pipeline_push(fabric: Fabric) -> None:
    """MD: two reports a packet; XD and MX: one of each switch; and the receiver gets the same."""
    async with wire(fabric) as one, kept(one.cabled.park) as running:
        await running.in_phase(Phase.IN_SYNC)
        found = one.send()
        assert len(one.reports) == 2 * PACKETS
        assert found.packets["hop_count"].tolist() == [HOPS] * PACKETS
        sent = [*one.delivered]
        for mode in (WatchMode.XD, WatchMode.MX, WatchMode.MD):
            await followed(running, in_mode(fabric, mode), one)
            found = one.send()
            expected = 2 if mode is WatchMode.MD else HOPS
            assert len(one.reports) == expected * PACKETS, mode
            assert found.packets["hop_count"].tolist() == [HOPS] * PACKETS
            assert one.delivered == sent
        exempt = watching(fabric, lambda w: replace(w, mode=WatchMode.EXEMPT))
        await followed(running, exempt, one)
        one.send()
        assert not one.reports
        await followed(running, fabric, one)
        machines = [kept_one.machine for kept_one in running.keeper.switches.values()]
        assert [machine.counters.pushes for machine in machines] == [1, 1, 1]
        assert not running.told(EventKind.DRIFT)
        assert not running.told(EventKind.REFUSED)


@in_grpc_loop
async def test_sampling_and_class_change_at_run_time(fabric: Fabric) -> None:
    """One packet in four by PSN; another class: the old one's packets are not reported any more."""
    other = next(one for one in fabric.qos.classes if one.marked_dscp is None)
    marked = replace(other, name="other", dscp=40, marked_dscp=41)
    both = replace(fabric, qos=replace(fabric.qos, classes=(*fabric.qos.classes, marked)))
    async with wire(both) as one, kept(one.cabled.park, fabric=both) as running:
        await running.in_phase(Phase.IN_SYNC)
        sampled = watching(both, lambda w: replace(w, sample_psn_bits=2))
        await followed(running, sampled, one)
        assert len(one.send().packets) == PACKETS // 4
        moved = watching(both, lambda w: replace(w, traffic_class="other"))
        await followed(running, moved, one)
        assert len(one.send().packets) == 0
        assert len(one.send(dscp=40).packets) == PACKETS
        await followed(running, both, one)
        assert len(one.send().packets) == PACKETS


@in_grpc_loop
async def test_apply_changes_the_mode_as_well(fabric: Fabric) -> None:
    """Entries of the old mode go, none is left behind, and no pipeline is pushed."""
    async with wire(fabric) as one:
        addresses = one.cabled.park.addresses
        assert (await deploy(fabric, addresses, PIPELINE)).ok
        for mode in (WatchMode.XD, WatchMode.MD):
            changed = in_mode(fabric, mode)
            result = await deploy(changed, addresses, PIPELINE)
            assert result.ok
            assert result.pipelines_pushed == 0
            assert (await compare(changed, addresses, PIPELINE)).in_sync
            one.send()
            assert len(one.reports) == (2 if mode is WatchMode.MD else HOPS) * PACKETS
