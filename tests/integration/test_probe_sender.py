# SPDX-License-Identifier: Apache-2.0
"""Probes of the controller go over quiet links, are bounced by the neighbour, and reported."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import Probes
from controller.int_policy.delay_plan_file import replace_file
from controller.int_policy.link_samples_file import (
    LinkSamples,
    QuietLinksFile,
    link_samples_text,
)
from controller.int_policy.probe_sender import ProbeSender
from controller.int_policy.quiet_links import BUSY_WINDOWS
from controller.keeper.events import Event
from controller.keeper.phases import Phase
from controller.telemetry.collector import collect
from correction.records import TRAFFIC_PROBE
from tests.support.cabled_park import cabled_park
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, kept

WINDOW_S = 0.2
LINKS = ("leaf1:1-spine1:1", "leaf1:2-spine2:1", "leaf2:1-spine1:2", "leaf2:2-spine2:2")


def fabric_of(budget_pps: int) -> Fabric:
    """Two leaves, two spines, and a budget of probes."""
    made = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])
    return replace(made, probes=Probes(budget_pps=budget_pps))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(WINDOW_S / 4)


@in_grpc_loop
async def test_quiet_links_are_probed_from_both_ends() -> None:
    """The link with traffic of its own gets none; each probe is three reports of two switches."""
    fabric = fabric_of(200)
    sender = ProbeSender(lambda: {LINKS[0]: 1_000}, window_s=WINDOW_S)
    frames: list[bytes] = []
    async with cabled_park(fabric) as cabled:
        cabled.carrier.on_uncabled = lambda _port, frame: frames.append(frame)
        async with kept(cabled.park, companions=[sender]) as running:
            await running.in_phase(Phase.IN_SYNC)
            await until(lambda: sender.counters.sent >= 120)
    found = collect([*enumerate(frames)], fabric)
    probes = found.packets[found.packets["traffic"] == TRAFFIC_PROBE]
    assert len(probes) >= 60
    names = {switch.node_id: switch.name for switch in fabric.switches}
    pairs: Counter[tuple[str, ...]] = Counter()
    for probe in probes:
        first = int(probe["first_hop"])
        hops = found.hops[first : first + int(probe["hop_count"])]
        pairs[tuple(names[int(one)] for one in hops["node_id"])] += 1
    met = {frozenset(path) for path in pairs}
    assert frozenset({"leaf1", "spine1"}) not in met
    assert met >= {
        frozenset({"leaf1", "spine2"}),
        frozenset({"leaf2", "spine1"}),
        frozenset({"leaf2", "spine2"}),
    }


@in_grpc_loop
async def test_fabric_without_probes_sends_none_and_a_lost_switch_holds_up_nobody() -> None:
    """Idle without a budget; with one, probes of a switch that is away are skipped."""
    fabric = fabric_of(200)
    sender = ProbeSender(window_s=WINDOW_S)
    async with (
        cabled_park(fabric) as cabled,
        kept(cabled.park, companions=[sender], fabric=replace(fabric, probes=None)) as running,
    ):
        await running.in_phase(Phase.IN_SYNC)
        await asyncio.sleep(2 * WINDOW_S)
        assert sender.counters.sent == sender.counters.skipped == 0
        running.keeper.replace_fabric(fabric)
        await until(lambda: sender.counters.sent >= 20)
        await cabled.park.kill("spine1")
        await running.in_phase(Phase.WAITING, "spine1")
        sent = sender.counters.sent
        await until(lambda: sender.counters.skipped > 0 and sender.counters.sent >= sent + 20)


@in_grpc_loop
async def test_link_that_becomes_busy_gets_no_probes_any_more(tmp_path: Path) -> None:
    """By the engine's counts: three windows with enough samples, then none; quiet again, probes
    again. No task is left when the keeper has stopped."""
    events: list[Event] = []
    fabric = fabric_of(200)
    path = tmp_path / "link_samples.json"
    quiet = QuietLinksFile(path, events.append, now_collector_ns=lambda: 0)
    sender = ProbeSender(quiet, window_s=WINDOW_S)
    frames: list[bytes] = []

    def sending() -> list[str]:
        """Sends that are under way."""
        work = map(str, (task.get_coro() for task in asyncio.all_tasks()))
        return [one for one in work if "ProbeSender" in one]

    def publish(pairs: int) -> None:
        """One more window of the engine."""
        found = LinkSamples(window_end_collector_ns=0, pairs={LINKS[0]: pairs})
        replace_file(path, link_samples_text(found))

    async def ways(skip: int) -> Counter[tuple[str, ...]]:
        """Where probes go, after so many that were planned before."""
        for count in (skip, 80):
            frames.clear()
            wanted = sender.counters.sent + count
            await until(lambda wanted=wanted: sender.counters.sent >= wanted)  # type: ignore[misc]
        found = collect([*enumerate(frames)], fabric)
        names = {switch.node_id: switch.name for switch in fabric.switches}
        counts: Counter[tuple[str, ...]] = Counter()
        for probe in found.packets[found.packets["traffic"] == TRAFFIC_PROBE]:
            first = int(probe["first_hop"])
            hops = found.hops[first : first + int(probe["hop_count"])]
            counts[tuple(sorted({names[int(one)] for one in hops["node_id"]}))] += 1
        return counts

    async with cabled_park(fabric) as cabled:
        cabled.carrier.on_uncabled = lambda _port, frame: frames.append(frame)
        async with kept(cabled.park, companions=[sender], fabric=fabric) as running:
            await running.in_phase(Phase.IN_SYNC)
            before = await ways(0)
            for number in range(BUSY_WINDOWS):
                publish(100 + number)
                await until(lambda seen=number: quiet.windows_seen > seen)  # type: ignore[misc]
            during = await ways(80)
            publish(0)
            await until(lambda: quiet.busy_count == 0)
            after = await ways(80)
    await until(lambda: not sending())
    busy = ("leaf1", "spine1")
    assert before[busy] > 0
    assert during[busy] == 0
    assert after[busy] > 0
    assert all(one["leaf2", "spine2"] > 0 for one in (before, during, after))
    assert not events
