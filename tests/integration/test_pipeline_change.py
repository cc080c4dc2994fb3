# SPDX-License-Identifier: Apache-2.0
"""A pipeline change goes switch by switch, drained, through a health gate, and back on failure."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import Server, serve
from controller.client import compare, deploy
from controller.draining import cut_off_hosts, drainable, drained_links
from controller.entries import Entry
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.pipeline import load_pipeline
from controller.rollout import PipelineChange, roll_out, rollout_order
from controller.session import open_session, program_schema
from controller.switch_error import SwitchError
from tests.support.grpc_loop import in_grpc_loop

OLD = load_pipeline()
NEW = replace(OLD, bmv2_json=OLD.bmv2_json + "\n")
"""The same program with another cookie."""


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with a host each, two spines."""
    return leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])


@asynccontextmanager
async def running(fabric: Fabric) -> AsyncIterator[tuple[dict[str, str], Server]]:
    """The addresses of embedded switches that run the old pipeline, and their servers."""
    program = SwitchProgram.from_json(OLD.bmv2_json)
    server = await serve([EmbeddedSwitch(program, device_id=s.device_id) for s in fabric.switches])
    try:
        addresses = {s.name: server.addresses[s.device_id] for s in fabric.switches}
        assert (await deploy(fabric, addresses, OLD)).ok
        yield addresses, server
    finally:
        await server.stop()


def cookies(fabric: Fabric, server: Server) -> dict[str, int]:
    """The cookie of the pipeline that each switch runs."""
    found = {}
    for switch in fabric.switches:
        config = server.services[switch.device_id].config
        assert config is not None
        found[switch.name] = config.cookie.cookie
    return found


async def entries(fabric: Fabric, addresses: dict[str, str], name: str) -> set[Entry]:
    """All entries of a switch."""
    async with open_session(
        name=name,
        address=addresses[name],
        device_id=fabric.switch(name).device_id,
        schema=program_schema(OLD),
    ) as session:
        return set(await session.read_entries())


@in_grpc_loop
async def test_change_goes_over_all_switches_with_the_spine_drained(fabric: Fabric) -> None:
    """While a spine is changed no leaf leads over it; in the end all run the new pipeline."""
    async with running(fabric) as (addresses, server):
        notes: list[tuple[str, str, str]] = []
        result = await deploy(
            fabric,
            addresses,
            NEW,
            pipeline_change=PipelineChange(settle_s=0),
            note=lambda *note: notes.append(note),
        )
        after = await compare(fabric, addresses, NEW)
    assert result.ok
    assert result.pipelines_pushed == 4
    assert after.in_sync
    begun = [name for kind, name, _ in notes if kind == "pipeline_change_begins"]
    assert begun == ["spine1", "spine2", "leaf1", "leaf2"]  # spines cut off no host
    assert notes[0] == ("pipeline_change_begins", "spine1", "canary")
    assert set(cookies(fabric, server).values()) == {program_schema(NEW).p4cookie}


@in_grpc_loop
async def test_no_leaf_leads_over_the_spine_that_is_changed(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the push of spine1 the leaves, which still run the old program, use spine2 only."""
    seen: dict[str, set[int]] = {}
    async with running(fabric) as (addresses, server):
        service = server.services[fabric.switch("spine1").device_id]
        push = service.pipeline.set

        def look_and_push(request: object) -> None:
            for leaf in ("leaf1", "leaf2"):
                profile = server.services[fabric.switch(leaf).device_id].switch.state.profiles
                members = next(iter(profile.values())).members.values()
                seen[leaf] = {member.cell[5] for member in members if member.member_id > 1023}
            push(request)  # type: ignore[arg-type]

        monkeypatch.setattr(service.pipeline, "set", look_and_push)
        result = await deploy(fabric, addresses, NEW, pipeline_change=PipelineChange(settle_s=0))
    assert result.ok
    assert seen == {"leaf1": {2}, "leaf2": {2}}


@in_grpc_loop
async def test_failed_health_check_puts_the_canary_back(fabric: Fabric) -> None:
    """The canary gets its old pipeline and entries, nothing else was touched, and errors say so;
    what the old program had besides is named."""
    notes: list[tuple[str, str, str]] = []
    async with running(fabric) as (addresses, server):
        before = {s.name: await entries(fabric, addresses, s.name) for s in fabric.switches}
        result = await deploy(
            fabric,
            addresses,
            NEW,
            pipeline_change=PipelineChange(settle_s=0, canary="leaf2", health_check="false"),
            note=lambda *note: notes.append(note),
        )
        after = {s.name: await entries(fabric, addresses, s.name) for s in fabric.switches}
        assert set(cookies(fabric, server).values()) == {program_schema(OLD).p4cookie}
        assert (await compare(fabric, addresses, OLD)).in_sync
    assert after == before
    (restored,) = [message for kind, _, message in notes if kind == "pipeline_restored"]
    assert restored.startswith("runs what it ran before, but for its registers (")
    assert not result.ok
    assert [str(error) for error in result.errors] == [
        "leaf1: not tried, since the change failed before",
        "leaf2: health check 'false' ended with 1:",
        "spine1: not tried, since the change failed before",
        "spine2: not tried, since the change failed before",
    ]


@in_grpc_loop
async def test_refused_pipeline_leaves_the_switch_as_it_was(fabric: Fabric) -> None:
    """A pipeline that the canary refuses is not tried on the next switch; routes are led back."""
    broken = replace(OLD, bmv2_json=OLD.bmv2_json.replace('"pipelines"', '"pipe_lines"', 1))
    async with running(fabric) as (addresses, server):
        before = {s.name: await entries(fabric, addresses, s.name) for s in fabric.switches}
        result = await deploy(fabric, addresses, broken, pipeline_change=PipelineChange(settle_s=0))
        after = {s.name: await entries(fabric, addresses, s.name) for s in fabric.switches}
        assert set(cookies(fabric, server).values()) == {program_schema(OLD).p4cookie}
    assert after == before
    assert str(result.errors[2]).startswith("spine1: INVALID_ARGUMENT")


def test_spines_are_drained_and_leaves_are_not(fabric: Fabric) -> None:
    """Something passes through a spine; through a leaf only what ends at its hosts."""
    assert drainable(fabric) == {"spine1", "spine2"}
    assert drained_links(fabric, ["spine1"]) == {"leaf1:1-spine1:1", "leaf2:1-spine1:2"}
    assert cut_off_hosts(fabric, "leaf1") == ("h1",)
    assert cut_off_hosts(fabric, "spine1") == ()
    with pytest.raises(ValueError, match="there is no switch leaf9"):
        drained_links(fabric, ["leaf9"])


def test_canary_comes_first(fabric: Fabric) -> None:
    """The named canary, then spines, then leaves; a name without need of change is ignored."""
    names = ["leaf1", "leaf2", "spine1"]
    assert rollout_order(fabric, names, "leaf2") == ["leaf2", "spine1", "leaf1"]
    assert rollout_order(fabric, names, "spine2") == ["spine1", "leaf1", "leaf2"]


class ListedSteps:
    """Steps that note what they are asked for, and fail where they are told to."""

    def __init__(self, *fails: str) -> None:
        self.done: list[str] = []
        self._fails = fails

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what in self._fails:
            raise SwitchError(switch=what.split()[-1], message=f"no {what.split()[0]}")

    async def drain(self, names: Collection[str]) -> None:
        """Noted."""
        self._do(f"drain {' '.join(names)}".strip())

    async def save(self, name: str) -> str:
        """Noted."""
        self._do(f"save {name}")
        return f"old of {name}"

    async def change(self, name: str) -> None:
        """Noted."""
        self._do(f"change {name}")

    async def check(self, name: str) -> None:
        """Noted."""
        self._do(f"check {name}")

    async def restore(self, name: str, saved: str) -> None:
        """Noted, with what it is given."""
        assert saved == f"old of {name}"
        self._do(f"restore {name}")


@pytest.mark.parametrize(
    ("fails", "tail", "changed", "restored", "error_count"),
    [
        ((), ["check b", "drain"], ("a", "b"), None, 0),
        (("check b",), ["check b", "restore b", "drain"], ("a",), "b", 1),
        (("change a",), ["change a", "restore a", "drain"], (), "a", 1),
        (("save a",), ["drain a", "save a", "drain"], (), None, 1),
        (("drain b",), ["check a", "drain b", "drain"], ("a",), None, 1),
        # What cannot be put back stays drained.
        (("check b", "restore b"), ["check b", "restore b"], ("a",), None, 2),
    ],
)
@in_grpc_loop
async def test_rollout_ends_at_the_first_failure(
    fails: tuple[str, ...],
    tail: list[str],
    changed: tuple[str, ...],
    restored: str | None,
    error_count: int,
) -> None:
    """Whatever fails: what was changed stays, what failed goes back, and drains are taken back."""
    steps = ListedSteps(*fails)
    result = await roll_out(["a", "b"], steps, lambda *_: None)
    assert steps.done[-len(tail) :] == tail
    assert (result.changed, result.restored) == (changed, restored)
    assert len(result.errors) == error_count
    assert set(result.waiting) == {"a", "b"} - set(changed)


@in_grpc_loop
async def test_neighbour_with_an_unknown_program_stops_the_drain(fabric: Fabric) -> None:
    """A leaf whose routes are not understood cannot be led around a spine; the error says so."""
    async with running(fabric) as (addresses, server):
        config = server.services[fabric.switch("leaf1").device_id].config
        assert config is not None
        for table in config.p4info.tables:
            if table.preamble.alias == "ipv4_lpm":
                table.preamble.alias = "routes"
        result = await deploy(fabric, addresses, NEW, pipeline_change=PipelineChange(settle_s=0))
        assert set(cookies(fabric, server).values()) == {program_schema(OLD).p4cookie}
        forced = await deploy(
            fabric, addresses, NEW, pipeline_change=PipelineChange(settle_s=0, drain=False)
        )
    assert "spine1: cannot be drained: leaf1 runs a program whose routes are unknown" in str(
        result.errors[2]
    )
    assert forced.ok
