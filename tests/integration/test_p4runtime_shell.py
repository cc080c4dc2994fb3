# SPDX-License-Identifier: Apache-2.0
"""p4runtime-shell, in its own environment (`make env-shell`), against the embedded switch."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import Server, serve
from controller.access import Access
from controller.client import compare, deploy
from controller.fabric import Fabric
from controller.fabric_controller import ControllerSettings, TlsFiles
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.pipeline import load_pipeline
from controller.session import open_session, program_schema
from tempotrace.commands.deploy_options import AccessOptions
from tests.support.certificates import make_authority, make_certificate
from tests.support.grpc_loop import in_grpc_loop

ROOT = Path(__file__).parents[2]
VENV = ROOT / os.environ.get("SHELL_VENV", ".venv-shell")
ARTIFACTS = resources.files("p4src").joinpath("artifacts")
P4INFO = ARTIFACTS.joinpath("tempotrace.p4info.txtpb")
BMV2_JSON = ARTIFACTS.joinpath("tempotrace.json")

pytestmark = [
    pytest.mark.shell,
    pytest.mark.skipif(
        not (VENV / ".shell").exists(),
        reason=f"p4runtime-shell is not installed in {VENV.name}: make env-shell",
    ),
]

# Runs in the shell's own Python; prints one JSON object.
SCRIPT = """
import json, sys
import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

address, p4info, config = sys.argv[1:]
sh.setup(device_id=7, grpc_addr=address, election_id=(0, 1), verbose=False,
         config=sh.FwdPipeConfig(p4info, config))
found = {}


def work():
    entry = sh.TableEntry("TempoIngress.qos.qos_class")(action="TempoIngress.qos.set_queue")
    entry.match["dscp"] = "26"
    entry.action["queue_id"] = "1"
    entry.insert()
    try:
        entry.insert()
    except P4RuntimeWriteException as error:
        found["twice"] = [detail.canonical_code for _, detail in error.errors]
    entry.action["queue_id"] = "2"
    entry.modify()
    found["queues"] = [e.action["queue_id"].value.hex() for e in entry.read()]

    for number in (1, 2):
        member = sh.ActionProfileMember("TempoIngress.routing.ecmp_selector")(
            member_id=number, action="TempoIngress.routing.forward")
        member.action["port"] = str(number)
        member.action["dst_mac"] = "02:00:00:00:00:01"
        member.insert()
    group = sh.ActionProfileGroup("TempoIngress.routing.ecmp_selector")(group_id=1)
    group.add(1, 1)
    group.add(2, 3)
    group.insert()
    route = sh.TableEntry("TempoIngress.routing.ipv4_lpm")(group_id=1)
    route.match["dst_addr"] = "10.0.0.0/8"
    route.insert()
    found["routes"] = [e.group_id for e in route.read()]
    found["weights"] = [[m.weight for m in g.members] for g in
                        sh.ActionProfileGroup("TempoIngress.routing.ecmp_selector").read()]

    session = sh.CloneSessionEntry(5)
    session.add(60, 1)
    session.insert()
    found["replicas"] = [[(r.egress_port, r.instance) for r in s.replicas] for s in
                         sh.CloneSessionEntry(5).read()]
    flood = sh.MulticastGroupEntry(3)
    flood.add(1, 1).add(2, 1)
    flood.insert()

    route.delete()
    found["left"] = len(list(sh.TableEntry("TempoIngress.routing.ipv4_lpm").read()))
    found["version"] = sh.APIVersion()


try:
    work()
finally:  # its thread would keep the process
    sh.teardown()
print(json.dumps(found))
"""

# Typed at the shell's prompt.
TYPED = """
te = table_entry["TempoIngress.qos.qos_class"](action="TempoIngress.qos.set_queue")
te.match["dscp"] = "26"
te.action["queue_id"] = "1"
te.insert()
print("queues", [e.action["queue_id"].value for e in te.read()])
"""


# Beside a controller: what is there can be read, and nothing be written.
LOOKED = """
print("queues", [e.action["queue_id"].value for e in table_entry["qos_class"].read()])
te = table_entry["TempoIngress.qos.qos_class"](action="TempoIngress.qos.set_queue")
te.match["dscp"] = "1"
te.action["queue_id"] = "2"
te.insert()
"""


async def run(*command: str, typed: str = "", home: Path, returns: int | None = 0) -> str:
    """The output of a program that is given some text; `returns` is its exit code."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "IPYTHONDIR": str(home),
        "TERM": "dumb",
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=ROOT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(typed.encode()), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode()
    assert process.returncode == returns, text
    return text


def test_shell_connects_reads_and_writes(tmp_path: Path) -> None:
    """Pipeline, entries, members, groups, clone sessions: written, read back, in the switch."""

    async def whole() -> tuple[EmbeddedSwitch, dict[str, Any]]:
        switch = EmbeddedSwitch(SwitchProgram.from_json(BMV2_JSON.read_bytes()), device_id=7)
        server = await serve([switch])
        try:
            text = await run(
                str(VENV / "bin" / "python"),
                *("-c", SCRIPT, server.addresses[7], str(P4INFO), str(BMV2_JSON)),
                home=tmp_path,
            )
        finally:
            await server.stop()
        return switch, json.loads(text.splitlines()[-1])

    switch, found = asyncio.run(whole())
    assert found == {
        "twice": [6],
        "queues": ["02"],
        "routes": [1],
        "weights": [[1, 3]],
        "replicas": [[[60, 1]]],
        "left": 0,
        "version": "1.3.0",
    }
    (entry,) = switch.state.tables["TempoIngress.qos.qos_class"].entries.values()
    assert entry.cell[5:] == [2]
    assert switch.state.clone_sessions[5].replicas == ((60, 1),)
    assert switch.state.multicast_groups[3] == ((1, 1), (2, 1))


def test_make_shell_starts_it_on_an_address(tmp_path: Path) -> None:
    """`make shell GRPC_ADDR=... DEVICE_ID=... ELECTION_ID=...` takes commands at its prompt."""

    async def whole() -> tuple[EmbeddedSwitch, str]:
        switch = EmbeddedSwitch(SwitchProgram.from_json(BMV2_JSON.read_bytes()), device_id=7)
        server = await serve([switch])
        try:
            text = await run(
                *("make", "-s", "-o", f"{VENV.name}/.shell", "shell"),
                *(f"SHELL_VENV={VENV}", f"PYTHON={sys.executable}"),
                *(f"GRPC_ADDR={server.addresses[7]}", "DEVICE_ID=7", "ELECTION_ID=0,9"),
                f"ARGS=--config {P4INFO},{BMV2_JSON}",
                typed=TYPED,
                home=tmp_path,
            )
        finally:
            await server.stop()
        return switch, text

    switch, text = asyncio.run(whole())
    assert "queues [b'\\x01']" in text
    assert len(switch.state.tables["TempoIngress.qos.qos_class"].entries) == 1


@asynccontextmanager
async def fabric_of_switches(folder: Path) -> AsyncIterator[tuple[Path, Server, Fabric]]:
    """The file of a fabric whose embedded switches have been programmed, over TLS."""
    authority = make_authority(folder, "authority")
    switch = make_certificate(folder, "switch", authority, alt_name="IP:127.0.0.1")
    own = make_certificate(folder, "controller", authority, alt_name="DNS:controller")
    fabric = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])
    program = SwitchProgram.from_json(BMV2_JSON.read_bytes())
    credentials = grpc.ssl_server_credentials(
        [(switch.key.read_bytes(), switch.certificate.read_bytes())],
        authority.certificate.read_bytes(),
        require_client_auth=True,
    )
    switches = [EmbeddedSwitch(program, device_id=s.device_id) for s in fabric.switches]
    server = await serve(switches, credentials=credentials)
    try:
        tls = TlsFiles(ca=authority.certificate, certificate=own.certificate, key=own.key)
        fabric = replace(
            fabric,
            controller=ControllerSettings(tls=tls),
            switches=tuple(
                replace(s, p4runtime=server.addresses[s.device_id]) for s in fabric.switches
            ),
        )
        path = folder / "fabric.yaml"
        path.write_text(dump_fabric(fabric), encoding="utf-8")
        yield path, server, fabric
    finally:
        await server.stop()


def access_of(fabric: Fabric) -> Access:
    """As the fabric file says."""
    options = AccessOptions(ca=None, certificate=None, key=None, server_name=None)
    return options.access(fabric.controller)


def make_shell(name: str, path: Path, *arguments: str) -> tuple[str, ...]:
    """`make shell SWITCH=... FABRIC=...` with the environments that are there."""
    return (
        *("make", "-s", "-o", f"{VENV.name}/.shell", "-o", ".venv/.runtime", "shell"),
        *(f"SHELL_VENV={VENV}", f"PYTHON={sys.executable}", f"BIN={Path(sys.executable).parent}"),
        *(f"SWITCH={name}", f"FABRIC={path}", f"ARGS={' '.join(arguments)}"),
    )


@in_grpc_loop
async def test_make_shell_opens_a_switch_of_the_fabric_file(tmp_path: Path) -> None:
    """Beside a controller the shell sees its entries, by TLS, and its write is refused; the
    controller stays primary."""
    async with fabric_of_switches(tmp_path) as (path, _, fabric):
        result = await deploy(fabric, access=access_of(fabric))
        assert result.ok
        leaf = fabric.switch("leaf2")
        async with open_session(
            name=leaf.name,
            address=leaf.p4runtime or "",
            device_id=leaf.device_id,
            schema=program_schema(load_pipeline()),
            access=access_of(fabric),
        ) as controller:
            await controller.become_primary()
            text = await run(*make_shell("leaf2", path), typed=LOOKED, home=tmp_path)
            await controller.write([])  # would fail if the shell had taken over
    assert "leaf2 at 127.0.0.1:" in text
    assert "queues [b" in text
    assert "not primary" in text or "PERMISSION_DENIED" in text or "read access" in text


@in_grpc_loop
async def test_shell_takes_over_when_told(tmp_path: Path) -> None:
    """With --take-over it writes, since it bids above the file's election id."""
    async with fabric_of_switches(tmp_path) as (path, _, fabric):
        assert (await deploy(fabric, access=access_of(fabric))).ok
        await run(*make_shell("leaf1", path, "--take-over"), typed=LOOKED, home=tmp_path)
        status = await compare(fabric, access=access_of(fabric))
    (stray,) = status.switches[0].updates
    assert "qos_class [dscp=1]" in str(stray)


@in_grpc_loop
async def test_shell_errors_are_one_line(tmp_path: Path) -> None:
    """A name that there is not, with near ones; a switch that runs nothing."""
    async with fabric_of_switches(tmp_path) as (path, _, _):
        unknown = await run(*make_shell("laef1", path), home=tmp_path, returns=2)
        empty = await run(*make_shell("spine1", path), home=tmp_path, returns=2)
    assert f"{path}: there is no switch 'laef1'; did you mean leaf1 or leaf2?" in unknown
    assert "spine1: it runs no pipeline; deploy first" in empty
