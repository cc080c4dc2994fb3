# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy run`: keep a fabric in its desired state until told to stop."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import typer

from controller.collector.endpoint import Endpoint
from controller.fabric import Fabric, FabricError
from controller.fabric_file import load_fabric_and_paths
from controller.fabric_treatment import unequal_treatment
from controller.keeper.events import FAULTS, Event, EventKind, OnEvent, event_line
from controller.keeper.file_watch import Print, fingerprint
from controller.keeper.keeper import Keeper, KeeperOptions
from controller.keeper.status import (
    EventCounts,
    KeeperState,
    keeper_state,
    metrics_text,
    status_json,
)
from controller.pipeline import load_pipeline
from controller.plain_file import require_plain_file
from controller.session import program_schema
from tempotrace.commands.addresses import host_and_port
from tempotrace.commands.deploy_companions import Companions
from tempotrace.errors import InputError
from tempotrace.event_file import EventFile

WATCH_INTERVAL_S = 0.25
"""How often the description is looked at."""
STATE_S_MAX = 5.0
"""Longest wait of a scrape for the state."""


def keep_fabric(
    path: Path,
    fabric: Fabric,
    paths: tuple[Path, ...],
    options: KeeperOptions,
    *,
    metrics: str | None,
    log: Path | None,
    companions: Companions,
    as_json: bool,
) -> None:
    """Keep the fabric; returns on SIGINT and SIGTERM."""
    files = _Files(path, paths, fingerprint(paths))  # what changes from now on is followed
    with ExitStack() as stack:
        writers = [_writer(sys.stdout, as_json=as_json)]
        if log is not None:
            stream = stack.enter_context(log.open("ab", buffering=0))
            writers.append(EventFile(log, stream, complain=partial(typer.echo, err=True)).write)
        asyncio.run(_keep(files, fabric, options, metrics, companions, writers))


def _writer(stream: TextIO, *, as_json: bool) -> OnEvent:
    def write(event: Event) -> None:
        now_ns = time.time_ns()
        if as_json:
            line = event_line(event, now_ns)
        else:
            clock = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC).strftime("%H:%M:%S")
            line = f"{clock} {'!' if event.kind in FAULTS else ' '} {event}"
        with suppress(OSError):  # nobody reads any more; the fabric is kept all the same
            stream.write(line + "\n")
            stream.flush()

    return write


async def _keep(
    files: "_Files",
    fabric: Fabric,
    options: KeeperOptions,
    metrics: str | None,
    companions: Companions,
    writers: list[OnEvent],
) -> None:
    counts = EventCounts()

    listeners: list[OnEvent] = [counts, *writers]

    def on_event(event: Event) -> None:
        for tell in listeners:
            tell(event)

    beside = companions.make(on_event, options.access)
    keeper = Keeper(
        fabric,
        program_schema(load_pipeline()),
        options,
        on_event=on_event,
        on_packet_in=beside.take,
        companions=beside.all,
    )
    loop = asyncio.get_running_loop()
    reload = asyncio.Event()
    running = asyncio.ensure_future(keeper.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    loop.add_signal_handler(signal.SIGHUP, reload.set)

    def state() -> KeeperState:
        return keeper_state(keeper, counts.counts, beside.state)

    with _endpoint(metrics, state, loop):
        watching = asyncio.ensure_future(_follow_file(files, keeper, reload, on_event))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watching, running):
                task.cancel()
            ended = await asyncio.gather(watching, running, return_exceptions=True)
        for error in ended:
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error


@dataclass(frozen=True, slots=True)
class _Files:
    """The description, it and all that it includes, and how these were when it was read."""

    path: Path
    paths: tuple[Path, ...]
    print: Print


async def _follow_file(
    files: _Files,
    keeper: Keeper,
    reload: asyncio.Event,
    on_event: OnEvent,
) -> None:
    """Load the description again when it changes, or on SIGHUP; a wrong one changes nothing.

    A file that has changed is read when two looks in a row find the same, and what was read while
    it changed does not count: half of a file may be a fabric as well.
    """
    path, paths = files.path, files.paths
    loaded = last = files.print
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(reload.wait(), WATCH_INTERVAL_S)
        now = fingerprint(paths)
        is_still, last = now == last, now
        if not reload.is_set() and (now == loaded or not is_still):
            continue
        reload.clear()
        outcome = await asyncio.to_thread(_load_again, path)
        if fingerprint(paths) != now:
            continue
        loaded = now
        if isinstance(outcome, str):
            on_event(Event(kind=EventKind.FABRIC_REFUSED, message=outcome))
            continue
        fabric, found = outcome
        if found != paths:
            paths = found
            last = loaded = fingerprint(found)
        keeper.replace_fabric(fabric)


def _load_again(path: Path) -> tuple[Fabric, tuple[Path, ...]] | str:
    """The fabric and its files, or why there is none: a pipe can be read once only, say."""
    try:
        if path.exists() and not path.is_dir():
            require_plain_file(path)
        return load_fabric_and_paths(path, check=unequal_treatment)
    except (FabricError, OSError) as error:
        return "; ".join(str(error).splitlines())


@contextmanager
def _endpoint(
    metrics: str | None, state: Callable[[], KeeperState], loop: asyncio.AbstractEventLoop
) -> Iterator[None]:
    """`/metrics`, `/status` and `/healthz` while the keeper runs, if they are wanted."""
    if metrics is None:
        yield
        return

    async def in_loop() -> KeeperState:
        return state()

    def now() -> KeeperState:
        return asyncio.run_coroutine_threadsafe(in_loop(), loop).result(STATE_S_MAX)

    host, port = host_and_port("--metrics", metrics)
    try:
        endpoint = Endpoint(
            host, port, metrics=lambda: metrics_text(now()), status=lambda: status_json(now())
        )
    except OSError as error:
        raise InputError(f"deploy run: cannot serve on {metrics}: {error.strerror}") from None
    bound_host, bound_port = endpoint.address
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    typer.echo(f"metrics on http://{shown}:{bound_port}/metrics", err=True)
    try:
        yield
    finally:
        endpoint.close()
