# SPDX-License-Identifier: Apache-2.0
"""Tofinos get the TNA program and hold the fabric's entries by its P4Info.

`tests/support/fake_tna.py` stands in for their P4Runtime servers.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i

from controller.client import compare, deploy
from controller.fabric import Fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.keeper.phases import Phase
from controller.pipeline_tna import TNA_TARGETS, load_tna
from controller.programs import Programs
from controller.targets import DeviceConfigFormat
from controller.tofino_config import device_config
from tests.support.fake_p4runtime import serve_fake
from tests.support.fake_tna import TnaSwitch, unpack_pi, unpack_stratum
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import kept

CPU_PORTS = {"tofino": 192, "tofino2": 0}


def fabric_of(target: str, packing: DeviceConfigFormat = DeviceConfigFormat.STRATUM) -> Fabric:
    """Two leaves and a spine of this target; no PTP over Ethernet, no report port in the way."""
    fabric = leaf_spine(leaves=2, spines=1, hosts_per_leaf=2, tenants=["a", "b"])
    models = tuple(
        replace(model, target=target, device_config=packing)
        if model.kind.value == "switch"
        else model
        for model in fabric.models
    )
    switches = tuple(replace(one, cpu_port=CPU_PORTS[target]) for one in fabric.switches)
    return replace(fabric, models=models, switches=switches)


@asynccontextmanager
async def running(
    fabric: Fabric, *, is_pi: bool = False
) -> AsyncIterator[tuple[dict[str, TnaSwitch], Fabric]]:
    """Servers by switch, and the fabric with their addresses."""
    async with AsyncExitStack() as stack:
        servers = {one.name: TnaSwitch(is_pi=is_pi) for one in fabric.switches}
        switches = [
            replace(one, p4runtime=await stack.enter_async_context(serve_fake(servers[one.name])))
            for one in fabric.switches
        ]
        yield servers, replace(fabric, switches=tuple(switches))


async def tempotrace(*words: str) -> tuple[int, Any]:
    """Exit code of a command, and what it says as JSON."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from tempotrace.entry import main; main()", *words, "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await process.communicate()
    assert said, complained.decode()
    assert process.returncode is not None
    return process.returncode, json.loads(said)


@pytest.mark.parametrize("target", sorted(TNA_TARGETS))
def test_device_config_holds_the_compiled_program(target: str) -> None:
    """Either packing, taken apart by its own rules, gives the artefacts byte by byte."""
    artefacts = load_tna(TNA_TARGETS[target])
    stratum = unpack_stratum(device_config(artefacts, DeviceConfigFormat.STRATUM))
    pi = unpack_pi(device_config(artefacts, DeviceConfigFormat.PI))
    for program in (stratum, pi):
        assert program.name == program.context["program_name"]
        assert program.binary == artefacts.binary
        assert program.context == json.loads(artefacts.context)
    assert stratum.schema == json.loads(artefacts.schema)
    assert stratum.pipe_scope == (0, 1, 2, 3)
    prefix = {one["name"].split(".")[0] for one in json.loads(artefacts.schema)["tables"]}
    assert "pipe" in prefix  # the profile's name is what the driver's objects begin with


@in_grpc_loop
async def test_plan_apply_status_of_tofinos(tmp_path: Path) -> None:
    """At the command line: planned, pushed, written, read back equal by cookie and entry; applying
    again writes nothing, and a changed entry shows as drift."""
    async with running(fabric_of("tofino")) as (servers, fabric):
        path = tmp_path / "fabric.yaml"
        path.write_text(dump_fabric(fabric), encoding="utf-8")
        planned, plan = await tempotrace("deploy", "plan", "-f", str(path))
        applied, result = await tempotrace("deploy", "apply", "-f", str(path))
        _, again = await tempotrace("deploy", "apply", "-f", str(path))
        in_sync, status = await tempotrace("deploy", "status", "-f", str(path))
        leaf = servers["leaf1"]
        gone = next(key for key, one in leaf.entities.items() if one.HasField("table_entry"))
        table = leaf.entities.pop(gone).table_entry.table_id
        drifted, drift = await tempotrace("deploy", "status", "-f", str(path))
    assert (planned, applied, in_sync, drifted) == (0, 0, 0, 1)
    assert [one["pipeline_differs"] for one in plan["switches"]] == [True] * 3
    planned_count = sum(len(one["updates"]) for one in plan["switches"])
    # Some default actions are those that the program begins with: set, once it is loaded.
    assert 100 < result["entries_written"] <= planned_count
    assert result["entries_read_back"] == sum(one["entries_desired"] for one in plan["switches"])
    assert result["drift_count"] == 0
    assert again["entries_written"] == 0
    assert status["in_sync"]
    assert [len(one["updates"]) for one in drift["switches"]] == [1, 0, 0]
    assert table >> 24 == p4i.P4Ids.TABLE
    programs = Programs.of_pipeline(None)
    for name, server in servers.items():
        assert server.push_count == 1
        assert server.config is not None
        assert server.config.p4info.pkg_info.arch == "tna"
        schema = programs.of(fabric, fabric.switch(name))
        assert server.config.cookie.cookie == schema.p4cookie
        assert server.loaded is not None
        assert server.loaded.binary == load_tna(TNA_TARGETS["tofino"]).binary


@pytest.mark.parametrize(
    ("target", "packing"),
    [
        ("tofino", DeviceConfigFormat.PI),
        ("tofino2", DeviceConfigFormat.STRATUM),
        ("tofino2", DeviceConfigFormat.PI),
    ],
)
def test_other_servers_and_generation(target: str, packing: DeviceConfigFormat) -> None:
    """Every target and packing is programmed and in sync afterwards."""

    @in_grpc_loop
    async def whole() -> None:
        async with running(fabric_of(target, packing), is_pi=packing is DeviceConfigFormat.PI) as (
            servers,
            fabric,
        ):
            result = await deploy(fabric)
            assert result.errors == ()
            assert result.ok
            assert (await compare(fabric)).in_sync
        for server in servers.values():
            assert server.loaded is not None
            assert server.loaded.binary == load_tna(TNA_TARGETS[target]).binary

    whole()


@in_grpc_loop
async def test_wrong_packing_is_an_error_of_the_switch() -> None:
    """A server that does not understand the device config refuses it, by name, and stays empty."""
    async with running(fabric_of("tofino"), is_pi=True) as (servers, fabric):
        result = await deploy(fabric)
    assert [error.switch for error in result.errors] == ["leaf1", "leaf2", "spine1"]
    assert all("Unknown format for p4_device_config" in error.message for error in result.errors)
    assert all(not server.entities for server in servers.values())


@dataclass
class Park:
    """What a keeper looks after."""

    fabric: Fabric
    addresses: dict[str, str]


@in_grpc_loop
async def test_tofinos_are_kept() -> None:
    """`deploy run` brings them in sync; one that comes back empty is provisioned again, and one
    whose model names another packing is not taken to run the right pipeline any more."""
    async with running(fabric_of("tofino")) as (servers, fabric):
        addresses = {one.name: one.p4runtime or "" for one in fabric.switches}
        async with kept(Park(fabric, addresses)) as keeper:
            await keeper.in_phase(Phase.IN_SYNC)
            assert all(server.push_count == 1 for server in servers.values())
            other = replace(
                fabric,
                models=tuple(
                    replace(one, device_config=DeviceConfigFormat.PI) for one in fabric.models
                ),
            )
            keeper.keeper.replace_fabric(other)
            await keeper.in_phase(Phase.OTHER_PIPELINE)
            keeper.keeper.replace_fabric(fabric)
            await keeper.in_phase(Phase.IN_SYNC)
        servers["leaf1"].config = None
        servers["leaf1"].entities.clear()
        async with kept(Park(fabric, addresses), election_id=2_000) as keeper:
            await keeper.in_phase(Phase.IN_SYNC)
    assert [server.push_count for server in servers.values()] == [2, 1, 1]
    assert servers["leaf1"].entities


@in_grpc_loop
async def test_fabric_of_several_targets() -> None:
    """Each switch gets the program of its own model: a Tofino between embedded switches."""
    tofino = fabric_of("tofino")
    (model,) = (one for one in tofino.models if one.kind.value == "switch")
    second = replace(model, name="other", target="tofino2")
    mixed = replace(
        tofino,
        models=(*tofino.models, second),
        switches=tuple(
            replace(one, model="other", cpu_port=0) if one.name == "spine1" else one
            for one in tofino.switches
        ),
    )
    async with running(mixed) as (servers, fabric):
        result = await deploy(fabric)
    assert result.ok
    loaded = {name: one.loaded.binary for name, one in servers.items() if one.loaded is not None}
    assert loaded["leaf1"] == load_tna(TNA_TARGETS["tofino"]).binary
    assert loaded["spine1"] == load_tna(TNA_TARGETS["tofino2"]).binary
