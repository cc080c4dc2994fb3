# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy run` as a process: its log, its metrics, its file, and its end."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from controller.client import compare
from controller.fabric import Fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.keeper.file_watch import fingerprint
from controller.route_entries import held_ports
from tempotrace.commands.deploy import app
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import PIPELINE, SwitchPark, park

DEADLINE_S = 60.0


def addressed(fabric: Fabric, switches: SwitchPark) -> Fabric:
    """The fabric with the addresses of its switches."""
    return replace(
        fabric,
        switches=tuple(
            replace(switch, p4runtime=switches.addresses[switch.name]) for switch in fabric.switches
        ),
    )


@dataclass
class RunningCommand:
    """The process and what it has logged."""

    process: asyncio.subprocess.Process
    lines: list[dict[str, object]]

    async def until(self, event: str, count: int = 1) -> dict[str, object]:
        """Read the log until an event has come so often; the last of them."""
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            while len(found := [one for one in self.lines if one["event"] == event]) < count:
                line = await self.process.stdout.readline()
                assert line, self.lines
                self.lines.append(json.loads(line))
        return found[-1]

    async def metrics_url(self) -> str:
        """Where it says that its metrics are."""
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            while True:
                line = (await self.process.stderr.readline()).decode()
                assert line
                if found := re.search(r"metrics on (http://[^/]+)/metrics", line):
                    return found[1]


@asynccontextmanager
async def running(path: Path, *options: str) -> AsyncIterator[RunningCommand]:
    """The command at work."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from tempotrace.entry import main; main()"),
        *("deploy", "run", "-f", str(path), "--json", "--metrics", "127.0.0.1:0", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield RunningCommand(process, [])
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def page(url: str) -> str:
    """A page of the endpoint."""
    with urlopen(url, timeout=DEADLINE_S) as answer:
        return str(answer.read().decode())


@in_grpc_loop
async def test_command_keeps_the_fabric_follows_its_file_and_ends_cleanly(tmp_path: Path) -> None:
    """In sync; metrics and status tell; a wrong file is refused; SIGHUP reloads; SIGTERM is 0."""
    fabric = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
    path, log = tmp_path / "fabric.yaml", tmp_path / "events.jsonl"
    async with park(fabric) as switches:
        text = dump_fabric(addressed(fabric, switches))
        path.write_text(text, encoding="utf-8")
        async with running(path, "--log", str(log)) as command:
            await command.until("in_sync", 2)
            url = await command.metrics_url()
            metrics = await asyncio.to_thread(page, f"{url}/metrics")
            status = json.loads(await asyncio.to_thread(page, f"{url}/status"))

            path.write_text(text.replace("udp_port: 32766", "udp_port: banana"), encoding="utf-8")
            refused = await command.until("fabric_refused")

            other = replace(fabric, hosts=(replace(fabric.hosts[0], mac=0x0200DEADBEEF),))
            path.write_text(dump_fabric(addressed(other, switches)), encoding="utf-8")
            await command.until("fabric_loaded")
            await command.until("in_sync", 3)
            assert (await compare(other, switches.addresses, PIPELINE)).in_sync

            command.process.send_signal(signal.SIGHUP)
            await command.until("fabric_loaded", 2)
            command.process.send_signal(signal.SIGTERM)
            await command.until("stopped")
            async with asyncio.timeout(DEADLINE_S):
                assert await command.process.wait() == 0
    assert 'tempotrace_controller_switches{phase="in_sync"} 2.0' in metrics
    assert 'tempotrace_controller_switch_in_sync{switch="leaf1"} 1.0' in metrics
    assert 'tempotrace_controller_events_total{event="in_sync"} 2.0' in metrics
    assert (status["in_sync"], [one["phase"] for one in status["switches"]]) == (
        True,
        ["in_sync", "in_sync"],
    )
    assert refused["fault"] is True
    assert "udp_port" in str(refused["message"])
    logged = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [one["event"] for one in logged] == [one["event"] for one in command.lines]


@in_grpc_loop
async def test_drain_of_the_operator_is_followed(tmp_path: Path) -> None:
    """The link's own switches first, its buckets rewritten and no others; SIGHUP or not."""
    fabric = leaf_spine(leaves=2, spines=3, hosts_per_leaf=1, tenants=["t"])
    path, link = tmp_path / "fabric.yaml", "leaf1:1-spine1:1"
    async with park(fabric) as switches:
        path.write_text(dump_fabric(addressed(fabric, switches)), encoding="utf-8")
        async with running(path) as command:
            await command.until("in_sync", 5)
            before = held_ports(await switches.entries("leaf1"))
            count = len([one for one in command.lines if one["event"] == "written"])
            drain = await asyncio.to_thread(
                CliRunner().invoke, app, ["drain", link, "-f", str(path)]
            )
            assert drain.exit_code == 0
            command.process.send_signal(signal.SIGHUP)
            first = await command.until("written", count + 1)
            assert (first["switch"], "led around" in str(first["message"])) == ("leaf1", True)
            after = held_ports(await switches.entries("leaf1"))
    moved = {member for member, port in before.items() if after[member] != port}
    assert moved == {member for member, port in before.items() if port == 1}
    assert moved


def test_wrong_options_are_one_line(tmp_path: Path) -> None:
    """TLS options that do not go together, or a canary that is no switch, are exit code 2."""
    fabric = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
    path = tmp_path / "fabric.yaml"
    path.write_text(dump_fabric(fabric), encoding="utf-8")
    for options, message in (
        (["--tls-cert", "x.pem"], "need --tls-ca"),
        (["--tls-ca", str(tmp_path / "no.pem")], "no.pem: No such file"),
        (["--allow-pipeline-change", "--canary", "leaf9"], "there is no switch leaf9"),
        (["--canary", "leaf1"], "need --allow-pipeline-change"),
        (["--metrics", "127.0.0.1:" + "9" * 5_000], "is not HOST:PORT"),
    ):
        got = CliRunner().invoke(app, ["run", "-f", str(path), *options])
        assert got.exit_code == 2
        assert message in got.stderr
        assert len(got.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("option", ["--topology-interval-s", "--settle-s"])
def test_waits_without_an_end_are_refused(tmp_path: Path, option: str) -> None:
    """Neither infinite nor no number at all."""
    path = tmp_path / "fabric.yaml"
    fabric = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
    path.write_text(dump_fabric(fabric), encoding="utf-8")
    for value in ("inf", "nan"):
        got = CliRunner().invoke(app, ["run", "-f", str(path), option, value])
        assert got.exit_code == 2


def test_fingerprint_changes_with_content_and_with_replacement(tmp_path: Path) -> None:
    """A longer text, another file in its place, and no file are all seen."""
    path = tmp_path / "a"
    prints = [fingerprint([path])]
    path.write_text("one", encoding="utf-8")
    prints.append(fingerprint([path]))
    path.write_text("longer", encoding="utf-8")
    prints.append(fingerprint([path]))
    other = tmp_path / "b"
    other.write_text("longer", encoding="utf-8")
    other.rename(path)
    prints.append(fingerprint([path]))
    assert len(set(prints)) == 4
    assert fingerprint([path]) == prints[-1]
