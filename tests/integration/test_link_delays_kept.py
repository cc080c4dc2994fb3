# SPDX-License-Identifier: Apache-2.0
"""Published link delays reach the switches, end when they expire, and are on record."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controller.fabric import Fabric, PtpRole
from controller.fabric_generate import leaf_spine
from controller.int_policy.delay_plan_file import read_delay_plan, write_delay_plan
from controller.int_policy.delay_watch import DelayWatch, held_delays
from controller.keeper.events import EventKind
from controller.keeper.phases import Phase
from controller.ptp_log import PtpLogError
from controller.transparent_clock import Basis, LinkDelayPlan, PortDelay
from controller.written_delays import read_link_delays
from correction.injected import END_OF_TIME_NS
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, RunningKeeper, SwitchPark, kept, park

INTERVAL_S = 0.05


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """A leaf and a spine that are transparent clocks."""
    made = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
    return replace(
        made,
        switches=tuple(replace(one, ptp_role=PtpRole.TRANSPARENT_CLOCK) for one in made.switches),
    )


def delay(switch: str, scaled: int, valid_to_ns: int) -> PortDelay:
    """A value of port 1."""
    return PortDelay(
        switch=switch,
        ingress_port=1,
        delay_scaled_ns=scaled,
        basis=Basis.MEASURED,
        valid_to_collector_ns=valid_to_ns,
    )


class Clock:
    """The collector's clock, which the test moves."""

    def __init__(self) -> None:
        self.now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(INTERVAL_S)


async def held(switches: SwitchPark, name: str) -> dict[int, int]:
    """Delays that a switch really holds."""
    return held_delays({entry.key: entry for entry in await switches.entries(name)})


@in_grpc_loop
async def test_published_delays_are_written_recorded_and_withdrawn(
    fabric: Fabric, tmp_path: Path
) -> None:
    """A negative value too; one that expires goes alone; a broken file changes nothing; a
    controller that starts again goes on with the record; without any file nothing is left."""
    plan, record = tmp_path / "plan.jsonl", tmp_path / "link_delays.jsonl"
    clock = Clock()
    write_delay_plan(
        plan, LinkDelayPlan(delays=(delay("leaf1", 1 << 20, 5_000), delay("spine1", -7, 9_000)))
    )
    node_ids = {one.name: one.node_id for one in fabric.switches}

    def watch_of(events: list[str]) -> DelayWatch:
        return DelayWatch(
            plan,
            record,
            lambda event: events.append(event.kind.value),
            interval_s=INTERVAL_S,
            now_collector_ns=clock,
        )

    def settled(running: RunningKeeper, watch: DelayWatch, count: int) -> Callable[[], bool]:
        """So many values are in force, held by switches that are all in sync."""
        return lambda: (
            (watch.state.in_force, watch.state.held) == (count, count)
            and all(one.machine.phase is Phase.IN_SYNC for one in running.keeper.switches.values())
        )

    async with park(fabric) as switches:
        events: list[str] = []
        watch = watch_of(events)
        async with kept(switches, companions=[watch]) as running:
            await until(settled(running, watch, 2))
            assert await held(switches, "leaf1") == {1: 1 << 20}
            assert await held(switches, "spine1") == {1: -7}

            clock.now_ns = 5_000
            await until(settled(running, watch, 1))
            assert await held(switches, "leaf1") == {}
            assert await held(switches, "spine1") == {1: -7}

            plan.write_text("nonsense\n", encoding="utf-8")
            await until(lambda: EventKind.LINK_DELAYS_REFUSED.value in events)
            assert await held(switches, "spine1") == {1: -7}
        first = read_link_delays(record, node_ids).rows.tolist()
        assert first == [
            (node_ids["leaf1"], 1, 1 << 20, 1_000, 5_000),
            (node_ids["spine1"], 1, -7, 1_000, END_OF_TIME_NS),
        ]
        plan.unlink()
        clock.now_ns = 6_000
        again = watch_of([])
        async with kept(switches, companions=[again]) as running:
            await until(lambda: record.read_text(encoding="utf-8").count('"6000"') == 1)
            assert await held(switches, "spine1") == {}
    rows = read_link_delays(record, node_ids).rows.tolist()
    assert rows == [first[0], (node_ids["spine1"], 1, -7, 1_000, 6_000)]


@in_grpc_loop
async def test_switch_that_is_no_transparent_clock_any_more_loses_its_delays(
    fabric: Fabric, tmp_path: Path
) -> None:
    """A changed file while a plan is in force: the switch is in sync, without delays."""
    plan, clock = tmp_path / "plan.jsonl", Clock()
    write_delay_plan(
        plan, LinkDelayPlan(delays=(delay("leaf1", 5, 1 << 40), delay("spine1", 6, 1 << 40)))
    )
    told: list[EventKind] = []
    watch = DelayWatch(
        plan,
        None,
        lambda event: told.append(event.kind),
        interval_s=INTERVAL_S,
        now_collector_ns=clock,
    )
    changed = replace(
        fabric,
        switches=tuple(
            replace(one, ptp_role=PtpRole.NONE if one.name == "leaf1" else one.ptp_role)
            for one in fabric.switches
        ),
    )
    async with park(fabric) as switches, kept(switches, companions=[watch]) as running:
        await until(lambda: watch.state.held == 2)
        running.keeper.replace_fabric(changed)
        await until(lambda: watch.state.held == 1)
        await running.in_phase(Phase.IN_SYNC)
        assert await held(switches, "leaf1") == {}
        assert await held(switches, "spine1") == {1: 6}
        assert not running.told(EventKind.REFUSED)
    assert EventKind.LINK_DELAYS_REFUSED in told  # the engine still publishes for that switch


@in_grpc_loop
async def test_record_that_cannot_be_written_ends_nothing(fabric: Fabric, tmp_path: Path) -> None:
    """Said once, tried again; one that can neither be read nor moved away is left alone."""
    plan, clock, told = tmp_path / "plan.jsonl", Clock(), list[str]()
    folder = tmp_path / "record"
    write_delay_plan(plan, LinkDelayPlan(delays=(delay("leaf1", 5, 1 << 40),)))

    def watch_of(record: Path) -> DelayWatch:
        return DelayWatch(
            plan,
            record,
            lambda event: told.append(event.message),
            interval_s=INTERVAL_S,
            now_collector_ns=clock,
        )

    missing = watch_of(folder / "link_delays.jsonl")
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{", encoding="utf-8")
    (tmp_path / "broken.jsonl.old" / "full").mkdir(parents=True)
    stuck = watch_of(broken)
    async with park(fabric) as switches, kept(switches, companions=[missing, stuck]):
        await until(lambda: missing.state.held == 1 == stuck.state.held)
        refused = f"{folder / 'link_delays.jsonl'}: No such file or directory; it is tried again"
        await until(lambda: refused in told)
        folder.mkdir()
        await until((folder / "link_delays.jsonl").exists)
        assert told.count(refused) == 1
    assert [one for one in told if "nothing is recorded" in one]
    assert broken.read_text(encoding="utf-8") == "{"


def test_plan_survives_its_file(tmp_path: Path) -> None:
    """Values, their basis and their ends."""
    path = tmp_path / "plan.jsonl"
    plan = LinkDelayPlan(delays=(delay("a", -(1 << 40), 1), delay("b", 2, 1 << 62)))
    write_delay_plan(path, plan)
    assert read_delay_plan(path, ("a", "b")).delays == plan.delays
    assert [one.name for one in tmp_path.iterdir()] == ["plan.jsonl"]


LINE = (
    '{"record":"link_delay","switch":"a","ingress_port":1,"delay_scaled_ns":"1",'
    '"basis":"measured","valid_to_collector_ns":"1"}'
)
OTHER = LINE.replace('"a"', '"x"')
HEADER = (
    '{"record":"header","version":1,"fabric_constant_scaled_ns":"0",'
    '"access_constant_scaled_ns":"0"}'
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "1: record: the file is empty"),
        (LINE, "1: record: expected a header"),
        ('{"record":"header","version":2}', "1: record: expected a header of version 1"),
        ('{"record":"header","version":1}', "1: fabric_constant_scaled_ns: "),
        (f"{HEADER}\n{HEADER}", "2: record: expected link_delay"),
        (f"{HEADER}\n{OTHER}", "2: switch: no transparent clock"),
        (f"{HEADER}\n{LINE.replace('measured', 'guess')}", "2: basis: expected one of"),
        (f"{HEADER}\n{LINE}\n{LINE}", "3: ingress_port: the port comes twice"),
        (f"{HEADER}\n{LINE.replace(':1,', ':70000,', 1)}", "2: ingress_port: 70000 is no port"),
    ],
)
def test_wrong_plans_are_refused_by_line(tmp_path: Path, text: str, error: str) -> None:
    """File, line, key and what was expected."""
    path = tmp_path / "plan.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PtpLogError) as refused:
        read_delay_plan(path, ("a",))
    assert str(refused.value).startswith(f"{path}:{error}")
