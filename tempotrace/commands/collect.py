# SPDX-License-Identifier: Apache-2.0
"""`tempotrace collect`: decode telemetry reports from captures or sockets, account for them, and
hand packets with their hops to outputs; `collect status` says why there are none."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from controller.collector.aggregation import Aggregation, AggregationCounters
from controller.collector.captures import STANDARD_INPUT
from controller.collector.collect_capture import CaptureCollector
from controller.collector.cores import make_core
from controller.collector.outputs.pump import OutputPump
from controller.collector.state import CollectorState
from controller.fabric_file import load_fabric
from controller.fabric_model import fabric_model
from controller.telemetry.topology import telemetry_fabric
from tempotrace.analysis import rejected_by_reason
from tempotrace.commands import collect_status
from tempotrace.commands.addresses import host_and_port
from tempotrace.commands.collect_live import ReceiveOptions, opened, receive
from tempotrace.commands.options import Json
from tempotrace.errors import InputError, one_line_errors
from tempotrace.reporting import ProgressDisplay
from tempotrace.strict_json import strict_text
from tempotrace.waiting import COMPILING, told_if_long

BIG_FILE_BYTES = 32 << 20
"""From here on a capture takes long enough for a progress bar."""
SECONDS = 10.0
WORKERS_MAX = 64

app = typer.Typer(
    help="Decode telemetry reports; show counts, losses and rejections.",
    invoke_without_command=True,
    no_args_is_help=True,
)
app.command("status")(collect_status.status)


@app.callback()
@one_line_errors
def collect(
    context: typer.Context,
    fabric: Annotated[
        Path | None,
        typer.Option("-f", "--fabric", help="The fabric's description, fabric.yaml."),
    ] = None,
    pcap: Annotated[
        Path | None,
        typer.Option("--pcap", help="A capture of reports (pcap, pcapng, gzip; - is stdin)."),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option("--listen", help="HOST:PORT to receive reports on; may be repeated."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            min=0.0,
            help="With --listen: stop after this long (default: 10; with --output or --metrics: "
            "when told to by a signal).",
        ),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            help="Where packets go: file:DIR or nats://HOST:PORT/SUBJECT; may be repeated.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", help="HOST:PORT for /metrics (Prometheus) and /status."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", min=1, max=WORKERS_MAX, help="With --listen: processes that share a port."
        ),
    ] = 1,
    ring: Annotated[
        str | None,
        typer.Option(
            "--ring",
            help="With --listen: read reports of this network interface through a ring that the "
            "kernel writes (AF_PACKET; needs CAP_NET_RAW).",
        ),
    ] = None,
    statistics: Annotated[
        bool,
        typer.Option(
            "--statistics",
            help="Also gather links, egress queues and paths by window: envelopes of one-way "
            "differences, residence, queue depth, changes of path. They go to the outputs.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Decode reports into packets with their hops; show counts, losses and rejections."""
    if context.invoked_subcommand is not None:
        context.obj = fabric
        return
    listen, output = listen or [], output or []
    if (pcap is None) == (not listen):
        raise InputError("collect: give either --pcap FILE or --listen HOST:PORT")
    if fabric is None:
        raise InputError("collect: give the fabric's description, -f fabric.yaml")
    if pcap is not None and metrics is not None:
        raise InputError("collect: --metrics goes with --listen")
    addresses = [host_and_port("--listen", text) for text in listen]
    description = load_fabric(fabric)
    run = token_hex(8)
    aggregation = Aggregation(fabric_model(description)) if statistics else None
    if pcap is not None:
        with told_if_long(COMPILING):
            core = make_core(description)
        capture = CaptureCollector(telemetry_fabric(description), core)
        with opened(output) as outputs, _progress(pcap) as update:
            state = capture.run(
                pcap, OutputPump(outputs, run=run, aggregation=aggregation), progress=update
            )
        hops = capture.hop_count
    else:
        if seconds is None and not output and metrics is None:
            seconds = SECONDS
        options = ReceiveOptions(
            workers=workers,
            ring=ring,
            outputs=tuple(output),
            run=run,
            seconds=seconds,
            metrics=metrics,
            aggregation=aggregation,
        )
        state, hops = receive(description, addresses, options)
    summary = collection_summary(state, hops)
    if aggregation is not None:
        summary["statistics"] = statistics_summary(aggregation.counters)
    if as_json:
        typer.echo(strict_text(summary))
    else:
        _print(summary)


@contextmanager
def _progress(path: Path) -> Iterator[Any]:
    """A bar on standard error for big files, where that is a terminal."""
    is_big = path != STANDARD_INPUT and path.is_file() and path.stat().st_size >= BIG_FILE_BYTES
    with ProgressDisplay(quiet=not (is_big and sys.stderr.isatty())) as display:
        yield lambda share: display.update("reading", share)


def collection_summary(state: CollectorState, hops: int) -> dict[str, Any]:
    """Counters of a collection, ready for JSON."""
    counters = state.counters
    return {
        "received": counters.received,
        "decoded": counters.decoded,
        "duplicates": counters.duplicates,
        "replicas": counters.replicas,
        "lost": counters.lost,
        "reordered": counters.reordered,
        "restarts": counters.restarts,
        "unconfirmed": counters.unconfirmed,
        "rejected": rejected_by_reason(counters),
        "invalid_tstamps": dict(sorted(counters.invalid_tstamps.items())),
        "packets_complete": counters.complete,
        "packets_incomplete": counters.incomplete,
        "packets_resent": counters.resent,
        "drop_reports": sum(counters.dropped.values()),
        "drops": dict(counters.dropped),
        "congestion_reports": counters.congested,
        "hops": hops,
        "kernel_drops": state.receive.kernel_drops,
        "queue_drops": state.receive.queue_drops,
        "worker_restarts": state.worker_restarts,
        "outputs": {
            name: {
                "acknowledged_parts": output.acknowledged_parts,
                "acknowledged_packets": output.acknowledged_packets,
                "dropped_packets": output.dropped_packets,
                "failed_packets": output.failed_packets,
            }
            for name, output in state.outputs.items()
        },
        "senders": {
            f"node {node} hw {hw} to {destination}": {"lost": c.lost, "received": c.received}
            for (node, hw, destination), c in counters.senders.items()
        },
    }


def statistics_summary(counters: AggregationCounters) -> dict[str, Any]:
    """Counters of the statistics, ready for JSON."""
    return {
        "link_samples": counters.link_samples,
        "link_windows": counters.link_windows,
        "hop_windows": counters.hop_windows,
        "flows": counters.flows,
        "path_changes": counters.path_changes,
        "late_samples": counters.late_samples,
        "late_hops": counters.late_hops,
        "left_out": {r.value: n for r, n in sorted(counters.left_out.rejected.items())},
        "forgotten": counters.forgotten,
    }


def _print(summary: dict[str, Any]) -> None:
    table = Table(title="telemetry reports")
    table.add_column("count")
    table.add_column("value", justify="right")
    for name, value in summary.items():
        if isinstance(value, int):
            table.add_row(name.replace("_", " "), str(value))
    for reason, count in summary["rejected"].items():
        table.add_row(f"rejected: {reason}", str(count))
    for reason, count in summary["drops"].items():
        table.add_row(f"dropped: {reason}", str(count))
    for field, count in summary["invalid_tstamps"].items():
        table.add_row(f"invalid stamp: {field}", str(count))
    for name, output in summary["outputs"].items():
        for key, count in output.items():
            table.add_row(f"{name}: {key.replace('_', ' ')}", str(count))
    for name, value in summary.get("statistics", {}).items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for key, count in rows:
            table.add_row(f"statistics: {f'{name} {key}'.strip().replace('_', ' ')}", str(count))
    Console().print(table)
