# SPDX-License-Identifier: Apache-2.0
"""`deploy run` follows whole descriptions: no half, no pipe, none that changes meanwhile."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from controller.fabric import Fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.keeper.events import Event, EventKind
from controller.keeper.file_watch import fingerprint
from controller.keeper.keeper import Keeper
from tempotrace.commands import deploy_run

FABRIC = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
DEADLINE_S = 40.0


@dataclass
class Follower:
    """What was made of the file, in place of a keeper."""

    path: Path
    fabrics: list[Fabric] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    reload: asyncio.Event = field(default_factory=asyncio.Event)

    def replace_fabric(self, fabric: Fabric) -> None:
        """As of the keeper."""
        self.fabrics.append(fabric)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[Follower]:
    """The file is followed."""
    one = Follower(path)
    files = deploy_run._Files(path, (path,), fingerprint((path,)))
    task = asyncio.create_task(
        deploy_run._follow_file(files, cast(Keeper, one), one.reload, one.events.append)
    )
    try:
        yield one
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A description, looked at often."""
    monkeypatch.setattr(deploy_run, "WATCH_INTERVAL_S", 0.02)
    path = tmp_path / "fabric.yaml"
    path.write_text(dump_fabric(FABRIC), encoding="utf-8")
    return path


def named(name: str) -> str:
    """The description under another name."""
    return dump_fabric(replace(FABRIC, name=name))


def test_what_was_read_while_the_file_changed_does_not_count(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as a fabric nor as an error, at SIGHUP either: the next look reads it whole."""
    load = deploy_run.load_fabric_and_paths
    texts = [named("longer-than-before"), "half: [", named("last")]
    read: list[str] = []

    def load_while_written(*args: Path, **options: object) -> object:
        read.append(args[0].read_text(encoding="utf-8"))
        if texts:
            path.write_text(texts.pop(0), encoding="utf-8")
            os.utime(path, ns=(len(texts), len(texts)))
            load_error = "cut off" if read[-1].startswith("half") else ""
            if load_error:
                raise OSError(load_error)
        return load(args[0])

    monkeypatch.setattr(deploy_run, "load_fabric_and_paths", load_while_written)

    async def follow() -> Follower:
        async with following(path) as one:
            one.reload.set()
            await one.until(lambda: bool(one.fabrics))
        return one

    one = asyncio.run(follow())
    assert [fabric.name for fabric in one.fabrics] == ["last"]
    assert not one.events
    assert len(read) == 4


def test_pipe_in_place_of_the_file_is_refused_and_not_waited_for(path: Path) -> None:
    """What was in force stays; a file in its place again is followed."""

    async def follow() -> Follower:
        async with following(path) as one:
            path.unlink()
            os.mkfifo(path)
            await one.until(lambda: bool(one.events))
            new = path.with_name("new")
            new.write_text(named("again"), encoding="utf-8")
            new.replace(path)
            await one.until(lambda: bool(one.fabrics))
        return one

    one = asyncio.run(follow())
    refused = [event.message for event in one.events if event.kind is EventKind.FABRIC_REFUSED]
    assert any("Not a regular file" in message for message in refused)
    assert [fabric.name for fabric in one.fabrics] == ["again"]
