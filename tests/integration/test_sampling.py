# SPDX-License-Identifier: Apache-2.0
"""Traffic beyond the report budget is sampled down on running switches, and up again."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.desired import desired_state
from controller.fabric import Fabric, LinkEnd, Watchlist, WatchTraffic
from controller.fabric_generate import leaf_spine
from controller.int_policy.sampling import sampled
from controller.int_policy.sampling_watch import SamplingWatch
from controller.keeper.events import Event, EventKind
from controller.keeper.phases import Phase
from controller.telemetry.frames import RoceFlow, roce_frame
from tests.support.cabled_park import CabledPark, cabled_park
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, kept

INTERVAL_S = 0.3
BUDGET_RPS = 400.0


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with a host each, one spine, and all RoCE traced."""
    made = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])
    roce = [one for one in made.watchlists if one.traffic is WatchTraffic.ROCE]
    watchlist: Watchlist = replace(roce[0], name="all", sample_psn_bits=0)
    return replace(made, watchlists=(watchlist,))


class Sender:
    """RoCEv2 from h1 to h2, so many packets at each turn of the loop."""

    def __init__(self, fabric: Fabric, cabled: CabledPark) -> None:
        sender, receiver = fabric.hosts
        leaf = fabric.switch("leaf1")
        dscp = next(one.dscp for one in fabric.qos.classes if one.marked_dscp is not None)
        flow = RoceFlow(
            src_mac=sender.mac,
            dst_mac=leaf.mac,
            src_ip=sender.ip,
            dst_ip=receiver.ip,
            src_port=50_000,
            dest_qp=7,
            dscp=dscp,
        )
        self.packets_per_s = 0
        self.frame: Callable[[int], bytes] = lambda psn: roce_frame(flow, psn=psn)
        self._carrier = cabled.carrier
        self._port = LinkEnd(node="leaf1", port=11)

    async def run(self) -> None:
        """Send until cancelled."""
        psn, loop = 0, asyncio.get_running_loop()
        last_s, owed = loop.time(), 0.0
        while True:
            await asyncio.sleep(0.02)
            now_s = loop.time()
            owed += self.packets_per_s * (now_s - last_s)
            last_s = now_s
            for _ in range(int(owed)):
                self._carrier.arrive(self._port, self.frame(psn))
                psn += 1
            owed -= int(owed)


@in_grpc_loop
async def test_rate_is_brought_under_the_budget_without_stale_entries(fabric: Fabric) -> None:
    """2,000 traced packets a second make 4,000 reports: 1 in 16 is within 70 % of 400, as entries
    that replace those of the file, with no pipeline pushed; without traffic they come back."""
    events: list[Event] = []
    watch = SamplingWatch(BUDGET_RPS, events.append, interval_s=INTERVAL_S)
    async with (
        cabled_park(fabric) as cabled,
        kept(cabled.park, companions=[watch]) as running,
    ):
        await running.in_phase(Phase.IN_SYNC)
        pushes = [one.machine.counters.pushes for one in running.keeper.switches.values()]
        sender = Sender(fabric, cabled)
        sending = asyncio.create_task(sender.run())

        async def holds(bits: dict[str, int]) -> bool:
            desired = desired_state(sampled(fabric, bits))
            held = {name: await cabled.park.entries(name) for name in desired}
            return held == {name: set(entries) for name, entries in desired.items()}

        async def until_held(bits: Callable[[], dict[str, int]]) -> None:
            """Every switch holds the entries of these patterns, and no others."""
            async with asyncio.timeout(DEADLINE_S):
                while not await holds(bits()):
                    await asyncio.sleep(INTERVAL_S / 4)

        async def until(condition: Callable[[], bool]) -> None:
            async with asyncio.timeout(DEADLINE_S):
                while not condition():
                    await asyncio.sleep(INTERVAL_S / 4)

        try:
            sender.packets_per_s = 2_000
            await until(lambda: watch.extra_bits.get("all", 0) >= 3)
            await until(lambda: 0 < sum(watch.rates_rps.values()) < BUDGET_RPS)
            await until_held(lambda: watch.extra_bits)
            sender.packets_per_s = 0
            await until(lambda: not watch.extra_bits)
            await until_held(dict)
        finally:
            sending.cancel()
        keeper = running.keeper
        assert pushes == [one.machine.counters.pushes for one in keeper.switches.values()]
        assert not running.told(EventKind.DRIFT)
    said = [event.message for event in events if event.kind is EventKind.SAMPLING_CHANGED]
    assert "takes 1 packet in" in said[0]
    assert said[-1].startswith("all watchlists as in the file")
