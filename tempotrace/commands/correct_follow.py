# SPDX-License-Identifier: Apache-2.0
"""`tempotrace correct follow`: corrections window by window, while the fabric runs."""

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from controller.collector.collect_capture import CaptureCollector
from controller.collector.cores import make_core
from controller.collector.outputs.output import OutputError, parse_output
from controller.collector.outputs.part import PartError
from controller.fabric import Fabric
from controller.fabric_file import load_fabric
from controller.fabric_model import fabric_model
from controller.following.correction_outputs import (
    CorrectionOutput,
    JsonLinesOutput,
    open_correction_output,
)
from controller.following.following import Following
from controller.following.link_delay_output import LinkDelayOutput
from controller.following.link_samples_output import LinkSamplesOutput
from controller.following.parts_input import LATE_NS as PARTS_LATE_NS
from controller.following.parts_input import FolderSource, PartsInput, PartSource
from controller.following.state_file import SavedState, StateFile
from controller.following.tails import ClockPairTail, PtpTail
from controller.ptp_entries import residence_offset_scaled
from controller.telemetry.topology import telemetry_fabric
from correction.stream.follow import Follower
from correction.stream.rows import HOLDOVER_NS
from correction.stream.saved import SavedStateError
from tempotrace.commands.addresses import host_and_port
from tempotrace.commands.options import FabricFile, Json
from tempotrace.errors import InputError, one_line_errors
from tempotrace.interrupt import Interrupts
from tempotrace.live_follower import LiveFollower, Reload, warn
from tempotrace.strict_json import strict_text
from tempotrace.waiting import COMPILING, told_if_long

IDLE_S = 0.1
"""Between two looks for parts of a collector."""


@one_line_errors
def follow(
    fabric: FabricFile,
    exchanges: Annotated[
        Path, typer.Option("--exchanges", help="exchanges.jsonl of the hosts, read as it grows.")
    ],
    listen: Annotated[
        list[str] | None,
        typer.Option("--listen", help="HOST:PORT to receive reports on; may be repeated."),
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option("--reports", help="A capture of reports, replayed with its capture times."),
    ] = None,
    collected: Annotated[
        str | None,
        typer.Option(
            "--collected",
            help="What `collect --statistics` hands on: file:DIR or nats://HOST:PORT/SUBJECT.",
        ),
    ] = None,
    clock_pairs: Annotated[
        Path | None,
        typer.Option("--clock-pairs", help="clock_pairs.jsonl: cross-stamps, read as it grows."),
    ] = None,
    out: Annotated[
        list[str] | None,
        typer.Option(
            "--out",
            help="Where corrections go: a file of JSON lines, file:DIR or "
            "nats://HOST:PORT/SUBJECT; may be repeated.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="File that keeps what has been learnt over a restart."),
    ] = None,
    holdover: Annotated[
        float,
        typer.Option("--holdover", min=0.0, help="Seconds that a clock is held over for."),
    ] = HOLDOVER_NS / 1e9,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.0, help="Stop after this long (default: when told to)."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="With --collected: stop where there is no more.")
    ] = False,
    link_delay_plan: Annotated[
        Path | None,
        typer.Option(
            "--link-delay-plan",
            help="Publish what transparent clocks should add after each window, for `deploy run`.",
        ),
    ] = None,
    link_samples: Annotated[
        Path | None,
        typer.Option(
            "--link-samples",
            help="Publish how many samples traffic gives of each link, for `deploy run`.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Correct clocks while the fabric runs; SIGHUP reads fabric.yaml again."""
    if sum(source is not None for source in (listen or None, reports, collected)) != 1:
        raise InputError("correct follow: give one of --listen, --reports and --collected")
    if once and collected is None:
        raise InputError("correct follow: --once goes with --collected")
    if link_samples is not None and collected is not None:
        raise InputError("correct follow: --link-samples goes with --listen or --reports")
    addresses = [host_and_port("--listen", text) for text in listen or []]
    if reports is not None and not exchanges.is_file():
        raise InputError(f"{exchanges}: no such file")
    description = load_fabric(fabric)
    with ExitStack() as stack:
        following, saved = opened(
            description,
            exchanges=exchanges,
            clock_pairs=clock_pairs,
            outputs=out or [],
            state=state,
            holdover_ns=round(holdover * 1e9),
            more_outputs=(
                *_link_delays(description, link_delay_plan),
                *([] if link_samples is None else [LinkSamplesOutput(link_samples)]),
            ),
        )
        stack.callback(following.close)
        interrupts = stack.enter_context(Interrupts())
        reload = stack.enter_context(Reload(fabric))
        end_s = None if seconds is None else time.monotonic() + seconds

        def is_ended() -> bool:
            return interrupts.is_requested or (end_s is not None and time.monotonic() >= end_s)

        if reports is not None:
            _replay(description, reports, following, interrupts)
        elif collected is not None:
            following.follower.late_ns = PARTS_LATE_NS
            following.parts = PartsInput(_part_source(collected, saved))
            while not is_ended():
                reload.apply(following)
                if not _stepped(following) and once:
                    break
                if not once:
                    time.sleep(IDLE_S)
            following.finish()
        else:
            live = LiveFollower(description, addresses, following)
            sys.stderr.write(f"listening on {live.listed}\n")
            live.serve(is_ended=is_ended, reload=reload)
    summary = following.summary()
    for text, output in zip(out or [], following.outputs, strict=False):
        if isinstance(output, JsonLinesOutput) and output.left_out and state is None:
            sys.stderr.write(
                f"{text}: {output.left_out} windows were left out: it has windows of these numbers "
                "already, of another run perhaps; give another file, or --state to go on\n"
            )
    if as_json:
        typer.echo(strict_text(summary))
    else:
        _print(summary)


def opened(
    description: Fabric,
    *,
    exchanges: Path,
    clock_pairs: Path | None,
    outputs: list[str],
    state: Path | None,
    holdover_ns: int = HOLDOVER_NS,
    more_outputs: tuple[CorrectionOutput, ...] = (),
) -> tuple[Following, SavedState | None]:
    """A follower with its files; what a process before may have published is published again."""
    declared = fabric_model(description)
    state_file = None if state is None else StateFile(state)
    try:
        saved = None if state_file is None else state_file.read(declared, holdover_ns=holdover_ns)
    except SavedStateError as error:
        raise InputError(f"{error}; remove it to begin anew") from None
    run = token_hex(8) if saved is None else saved.run
    follower = Follower(declared, holdover_ns=holdover_ns) if saved is None else saved.follower
    try:
        opened_outputs = [open_correction_output(text, run) for text in outputs]
    except OutputError as error:
        raise InputError(f"correct follow: {error}") from None
    following = Following(
        follower=follower,
        run=run,
        outputs=(*opened_outputs, *more_outputs),
        exchanges=PtpTail(exchanges, time_transmitter=description.ptp.grandmaster, warn=warn),
        clock_pairs=None if clock_pairs is None else ClockPairTail(clock_pairs, warn=warn),
        state=state_file,
    )
    if saved is not None:
        following.republish(saved.outbox)
    return following, saved


def _link_delays(description: Fabric, path: Path | None) -> tuple[LinkDelayOutput, ...]:
    if path is None:
        return ()
    offsets = {one.name: residence_offset_scaled(description, one) for one in description.switches}
    return (LinkDelayOutput(path, fabric_model(description), offsets),)


def _replay(
    description: Fabric, reports: Path, following: Following, interrupts: Interrupts
) -> None:
    with told_if_long(COMPILING):
        core = make_core(description)
    capture = CaptureCollector(telemetry_fabric(description), core)
    for collection in capture.collections(reports):
        interrupts.check()
        following.follower.add_packets(collection.packets, collection.hops)
        following.step()
    following.finish()


def _stepped(following: Following) -> bool:
    try:
        return following.step()
    except PartError as error:
        raise InputError(f"correct follow: {error}") from None


def _part_source(text: str, saved: SavedState | None) -> PartSource:
    position = (0, 0) if saved is None else saved.position
    try:
        spec = parse_output(text)
        if spec.kind == "file":
            return FolderSource(Path(spec.location), position)
        from controller.following.nats_input import JetStreamSource

        return JetStreamSource(spec, position)
    except OutputError as error:
        raise InputError(f"correct follow: {error}") from None


def _print(summary: dict[str, Any]) -> None:
    table = Table(title="corrections, window by window")
    table.add_column("count")
    table.add_column("value", justify="right")
    for name, value in summary.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for key, count in rows:
            table.add_row(f"{name} {key}".strip().replace("_", " "), str(count))
    Console().print(table)
