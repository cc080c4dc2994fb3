# SPDX-License-Identifier: Apache-2.0
"""Switches are reached over TLS, both sides showing certificates; what does not fit is named."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller.access import Access, AccessError, Tls
from controller.client import compare, deploy
from controller.desired import desired_state
from controller.fabric_controller import ControllerSettings, TlsFiles
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.pipeline import load_pipeline
from tests.support.certificates import Pair, make_authority, make_certificate
from tests.support.grpc_loop import in_grpc_loop

FABRIC = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
PIPELINE = load_pipeline()
COUNTS = [(name, len(entries)) for name, entries in desired_state(FABRIC).items()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates are."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Pair:
    """The authority of switches and controller."""
    return make_authority(folder, "authority")


@pytest.fixture(scope="module")
def switch_pair(folder: Path, authority: Pair) -> Pair:
    """The certificate of all switches."""
    return make_certificate(folder, "switch", authority, alt_name="IP:127.0.0.1")


@pytest.fixture(scope="module")
def named_pair(folder: Path, authority: Pair) -> Pair:
    """A certificate for a name that is no address."""
    return make_certificate(folder, "named", authority, alt_name="DNS:switch.example")


@pytest.fixture(scope="module")
def controller_pair(folder: Path, authority: Pair) -> Pair:
    """The controller's certificate."""
    return make_certificate(folder, "controller", authority, alt_name="DNS:controller")


@asynccontextmanager
async def running(pair: Pair, client_ca: Path | None) -> AsyncIterator[dict[str, str]]:
    """Addresses of the switches, which serve TLS."""
    program = SwitchProgram.from_json(PIPELINE.bmv2_json)
    credentials = grpc.ssl_server_credentials(
        [(pair.key.read_bytes(), pair.certificate.read_bytes())],
        None if client_ca is None else client_ca.read_bytes(),
        require_client_auth=client_ca is not None,
    )
    switches = [EmbeddedSwitch(program, device_id=s.device_id) for s in FABRIC.switches]
    server = await serve(switches, credentials=credentials)
    try:
        yield {s.name: server.addresses[s.device_id] for s in FABRIC.switches}
    finally:
        await server.stop()


@in_grpc_loop
async def test_both_sides_show_certificates(
    authority: Pair, switch_pair: Pair, controller_pair: Pair
) -> None:
    """With a certificate of the authority the deployment works; without one it does not."""
    ca = authority.certificate
    mutual = Tls(ca=ca, certificate=controller_pair.certificate, key=controller_pair.key)
    async with running(switch_pair, ca) as addresses:
        anonymous = await deploy(FABRIC, addresses, PIPELINE, access=Access(tls=Tls(ca=ca)))
        plain = await compare(FABRIC, addresses, PIPELINE)
        result = await deploy(FABRIC, addresses, PIPELINE, access=Access(tls=mutual))
        seen = await compare(FABRIC, addresses, PIPELINE, access=Access(tls=mutual))
    assert [error.switch for error in anonymous.errors] == ["leaf1", "spine1"]
    assert all(error.message.startswith("UNAVAILABLE") for error in anonymous.errors)
    assert all(error.lost for error in plain.errors)
    assert result.ok
    assert seen.in_sync


@in_grpc_loop
async def test_name_of_the_certificate_counts(authority: Pair, named_pair: Pair) -> None:
    """A certificate for another name is refused, unless that name is what we expect."""
    tls = Tls(ca=authority.certificate)
    named = Tls(ca=authority.certificate, server_name="switch.example")
    async with running(named_pair, None) as addresses:
        refused = await deploy(FABRIC, addresses, PIPELINE, access=Access(tls=tls))
        result = await deploy(FABRIC, addresses, PIPELINE, access=Access(tls=named))
    assert len(refused.errors) == 2
    assert result.ok


@in_grpc_loop
async def test_stranger_is_not_trusted(folder: Path, switch_pair: Pair) -> None:
    """A switch whose certificate comes from another authority is not written to."""
    other = make_authority(folder, "other")
    async with running(switch_pair, None) as addresses:
        access = Access(tls=Tls(ca=other.certificate))
        result = await deploy(FABRIC, addresses, PIPELINE, access=access)
    assert len(result.errors) == 2
    assert result.switches == ()


@in_grpc_loop
async def test_unusable_files_are_named(folder: Path, authority: Pair, switch_pair: Pair) -> None:
    """A file that is missing or is no PEM file is in the error of each switch."""
    empty = folder / "empty.pem"
    empty.write_text("nothing", encoding="utf-8")
    async with running(switch_pair, None) as addresses:
        for path, message in (
            (folder / "absent.pem", "No such file"),
            (empty, "expected a PEM file"),
        ):
            result = await deploy(FABRIC, addresses, PIPELINE, access=Access(tls=Tls(ca=path)))
            assert str(result.errors[0]).startswith(f"leaf1: {path}: {message}")
    with pytest.raises(AccessError, match="go together"):
        Tls(ca=authority.certificate, certificate=switch_pair.certificate)


@in_grpc_loop
async def test_section_of_the_fabric_file_is_enough(
    tmp_path: Path, authority: Pair, switch_pair: Pair, controller_pair: Pair
) -> None:
    """`deploy apply` reaches switches that ask for a certificate by the file alone, in the role and
    with the election id that it says; `--no-tls` does not."""
    tls = TlsFiles(
        ca=authority.certificate, certificate=controller_pair.certificate, key=controller_pair.key
    )
    async with running(switch_pair, authority.certificate) as addresses:
        fabric = replace(
            FABRIC,
            controller=ControllerSettings(tls=tls, election_id=77, role="fabric"),
            switches=tuple(replace(s, p4runtime=addresses[s.name]) for s in FABRIC.switches),
        )
        path = tmp_path / "fabric.yaml"
        path.write_text(dump_fabric(fabric), encoding="utf-8")
        applied = await tempotrace("deploy", "apply", "-f", str(path))
        refused = await tempotrace("deploy", "status", "-f", str(path), "--no-tls")
        status = await tempotrace("deploy", "status", "-f", str(path))
    assert applied[0] == 0, applied
    assert "2 switches hold" in applied[1]
    assert refused[0] == 1
    lines = [f"{name}: in sync, {count} entries" for name, count in COUNTS]
    assert status == (0, "\n".join([*lines, "2 of 2 in sync"]) + "\n")


async def tempotrace(*words: str) -> tuple[int | None, str]:
    """Exit code and standard output of a command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from tempotrace.entry import main; main()", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()
