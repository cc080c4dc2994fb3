# SPDX-License-Identifier: Apache-2.0
"""How long the controller takes for a fabric of embedded switches, which run in another process."""

import asyncio
import multiprocessing
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

import finsy as fy

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller.client import compare, deploy
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.findings import Findings, Target
from controller.keeper.events import Event
from controller.keeper.keeper import Keeper, KeeperOptions
from controller.keeper.phases import Phase
from controller.pipeline import load_pipeline
from controller.reconcile import Update
from controller.route_entries import held_ports
from controller.session import program_schema

FIRST_APPLY_S_MAX = 60.0
"""Design limit for 200 switches on two cores, from empty switches to every entry read back."""
NOOP_APPLY_S_MAX = 10.0
"""Design limit of an apply that finds everything in place."""
LINK_EVENT_S_MAX = 1.0
"""Design limit from a link that fails to the last of its leaf's buckets rewritten."""
LEAVES_PER_SPINE = 4
HOSTS_PER_LEAF = 2
KEEPER_S_MAX = 300.0

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployBench:
    """One measurement. Seconds are wall time; `_cpu_s` is processor time of the controller, and
    `switches_cpu_s` that of all switches over both applies."""

    switches: int
    links: int
    entries: int
    first_apply_s: float
    first_apply_cpu_s: float
    noop_apply_s: float
    noop_apply_cpu_s: float
    switches_cpu_s: float
    entries_written: int
    entries_equal: bool
    """Every entry of every switch was read back equal, and the second apply wrote nothing."""
    takeover_s: float
    """A controller that stays starts and finds all switches in sync."""
    link_event_s: float
    """A link fails, and no bucket of its leaf leads over it any more: the write is confirmed."""
    link_written_s: float
    """The same, until the last write of all switches whose routes change is confirmed."""
    link_settled_s: float
    """The same, until all switches of the fabric were read back with their new routes."""

    @property
    def limits_kept(self) -> bool:
        """Within the design limits, and everything equal."""
        return (
            self.entries_equal
            and self.first_apply_s <= FIRST_APPLY_S_MAX
            and self.noop_apply_s <= NOOP_APPLY_S_MAX
            and self.link_event_s <= LINK_EVENT_S_MAX
        )


def bench_fabric(switch_count: int) -> Fabric:
    """A leaf-spine fabric of that many switches, one in five a spine."""
    spines = max(1, switch_count // (LEAVES_PER_SPINE + 1))
    return leaf_spine(
        leaves=switch_count - spines,
        spines=spines,
        hosts_per_leaf=HOSTS_PER_LEAF,
        tenants=[f"tenant{number}" for number in range(HOSTS_PER_LEAF)],
    )


def run(switch_count: int, step: Step) -> DeployBench:
    """Measure; `step` is told what comes next."""
    fabric = bench_fabric(switch_count)
    step("starting switches")
    with _switches(fabric) as (addresses, switches_cpu_s):
        return asyncio.run(_measure(fabric, addresses, switches_cpu_s, step))


async def _measure(
    fabric: Fabric, addresses: dict[str, str], switches_cpu_s: Callable[[], float], step: Step
) -> DeployBench:
    before_s = switches_cpu_s()
    step("first apply")
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    first = await deploy(fabric, addresses)
    first_s, first_cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    step("apply again")
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    again = await deploy(fabric, addresses)
    again_s, again_cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    after_s = switches_cpu_s()
    step("comparing")
    difference = await compare(fabric, addresses)
    step("link event")
    takeover_s, event_s, written_s, settled_s = await _link_event(fabric, addresses)
    desired = sum(one.entries_desired for one in first.switches)
    return DeployBench(
        switches=len(fabric.switches),
        links=len(fabric.links),
        entries=first.entries_read_back,
        first_apply_s=first_s,
        first_apply_cpu_s=first_cpu_s,
        noop_apply_s=again_s,
        noop_apply_cpu_s=again_cpu_s,
        switches_cpu_s=after_s - before_s,
        entries_written=first.entries_written,
        entries_equal=first.ok
        and again.ok
        and difference.in_sync
        and again.entries_written == 0
        and first.entries_read_back == desired,
        takeover_s=takeover_s,
        link_event_s=event_s,
        link_written_s=written_s,
        link_settled_s=settled_s,
    )


async def _link_event(
    fabric: Fabric, addresses: dict[str, str]
) -> tuple[float, float, float, float]:
    """Seconds until a keeper has found all in sync; until a failed link is led around at its own
    switches; until the last switch is written; and until all were read back."""
    schema = program_schema(load_pipeline())
    link = fabric.links[0]
    failed = Target.of(fabric, Findings(failed_links=[link.name]))
    async with _keeping(fabric, addresses, schema) as keeper:
        start_s = time.perf_counter()
        await keeper.until(lambda: _all_in_sync(keeper))
        takeover_s = time.perf_counter() - start_s
        wanted = sum(len(_updates(keeper, failed, name)) for name in keeper.switches)
        start_s = time.perf_counter()
        keeper.set_link(link.name, up=False)
        await keeper.until(lambda: link.a.port not in _ports(keeper, link.a.node))
        event_s = time.perf_counter() - start_s
        await keeper.until(lambda: _updates_taken(keeper) >= wanted)
        written_s = time.perf_counter() - start_s
        await keeper.until(lambda: _all_in_sync(keeper))
        settled_s = time.perf_counter() - start_s
        assert not any(_updates(keeper, failed, name) for name in keeper.switches)
        return takeover_s, event_s, written_s, settled_s


def _all_in_sync(keeper: Keeper) -> bool:
    return all(kept.machine.phase is Phase.IN_SYNC for kept in keeper.switches.values())


def _ports(keeper: Keeper, name: str) -> set[int]:
    """The ports that the switch's buckets lead to."""
    held = keeper.switches[name].held
    assert held is not None, "nothing disturbs this keeper"
    return set(held_ports(held.known().values()).values())


def _updates(keeper: Keeper, target: Target, name: str) -> list[Update]:
    """What separates a switch from the target."""
    held = keeper.switches[name].held
    assert held is not None, "nothing disturbs this keeper"
    return target.updates(name, held.known())


def _updates_taken(keeper: Keeper) -> int:
    """By all switches, since the keeper began: it found them in sync."""
    return sum(kept.machine.counters.updates for kept in keeper.switches.values())


@asynccontextmanager
async def _keeping(
    fabric: Fabric, addresses: dict[str, str], schema: fy.P4Schema
) -> AsyncIterator[Keeper]:
    def ignore(_event: Event) -> None:
        """Nobody reads the log."""

    keeper = Keeper(fabric, schema, KeeperOptions(addresses=addresses), on_event=ignore)
    task = asyncio.ensure_future(keeper.run())
    try:
        async with asyncio.timeout(KEEPER_S_MAX):
            await keeper.until(lambda: len(keeper.switches) == len(fabric.switches))
            yield keeper
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# The process of the switches


@contextmanager
def _switches(fabric: Fabric) -> Iterator[tuple[dict[str, str], Callable[[], float]]]:
    """Embedded switches in a process of their own: addresses by name, and what they have used."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(len(fabric.switches), theirs), daemon=True)
    process.start()
    theirs.close()

    def cpu_s() -> float:
        ours.send("cpu")
        used: float = ours.recv()
        return used

    try:
        yield ours.recv(), cpu_s
    finally:
        with suppress(OSError):
            ours.send("stop")
        process.join()


def _serve(switch_count: int, pipe: Connection) -> None:
    asyncio.run(_serve_until_told(bench_fabric(switch_count), pipe))


async def _serve_until_told(fabric: Fabric, pipe: Connection) -> None:
    program = SwitchProgram.from_json(load_pipeline().bmv2_json)
    server = await serve([EmbeddedSwitch(program, device_id=s.device_id) for s in fabric.switches])
    try:
        pipe.send({one.name: server.addresses[one.device_id] for one in fabric.switches})
        told = ""
        while told != "stop":
            told = await asyncio.to_thread(_next_word, pipe)
            if told == "cpu":
                used = resource.getrusage(resource.RUSAGE_SELF)
                pipe.send(used.ru_utime + used.ru_stime)
    finally:
        await server.stop()


def _next_word(pipe: Connection) -> str:
    try:
        word: str = pipe.recv()
    except EOFError:  # whoever measures is gone
        return "stop"
    return word
