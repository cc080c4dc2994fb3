# SPDX-License-Identifier: Apache-2.0
"""`tempotrace collect`: decode telemetry reports from captures or sockets, account for them, and
hand packets with their hops to outputs; `collect status` says why there are none."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from controller.collector.captures import STANDARD_INPUT
from controller.collector.collect_capture import CaptureCollector
from controller.collector.cores import make_core
from controller.collector.diagnosis import Evidence, PortState
from controller.collector.endpoint import Endpoint
from controller.collector.metrics import metrics_text
from controller.collector.outputs.open_output import open_output
from controller.collector.outputs.output import Output, OutputError
from controller.collector.outputs.pump import OutputPump
from controller.collector.running import RunningCollector
from controller.collector.socket_source import SocketSource
from controller.collector.sockets import port_holders
from controller.collector.state import CollectorState
from controller.collector.status import diagnose
from controller.collector.status_page import status_page
from controller.fabric import Fabric
from controller.fabric_file import load_fabric
from controller.telemetry.topology import telemetry_fabric
from tempotrace.analysis import rejected_by_reason
from tempotrace.commands import collect_status
from tempotrace.commands.addresses import host_and_port
from tempotrace.commands.options import Json
from tempotrace.errors import InputError, one_line_errors
from tempotrace.interrupt import Interrupts
from tempotrace.reporting import ProgressDisplay
from tempotrace.strict_json import strict_text

BIG_FILE_BYTES = 32 << 20
"""From here on a capture takes long enough for a progress bar."""
SECONDS = 10.0

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
    if pcap is not None:
        capture = CaptureCollector(telemetry_fabric(description), make_core(description))
        with _opened(output) as outputs, _progress(pcap) as update:
            state = capture.run(pcap, OutputPump(outputs, run=run), progress=update)
        hops = capture.hop_count
    else:
        if seconds is None and not output and metrics is None:
            seconds = SECONDS
        with _opened(output) as outputs:
            pump = OutputPump(outputs, run=run)
            state, hops = _receive(description, addresses, pump, seconds, metrics)
    summary = collection_summary(state, hops)
    if as_json:
        typer.echo(strict_text(summary))
    else:
        _print(summary)


def _receive(
    fabric: Fabric,
    addresses: Sequence[tuple[str, int]],
    pump: OutputPump,
    seconds: float | None,
    metrics: str | None,
) -> tuple[CollectorState, int]:
    core = make_core(fabric)
    try:
        source = SocketSource(addresses, collector_clock_ns=time.time_ns)
    except OSError as error:
        raise InputError(
            f"collect: cannot listen on {_listed(addresses)}: {error.strerror}{_holders(addresses)}"
        ) from None
    collector = RunningCollector(source, core, pump, run=pump.run, collector_clock_ns=time.time_ns)
    end_ns = None if seconds is None else time.monotonic_ns() + round(seconds * 1e9)
    with (
        closing(source),
        Interrupts() as interrupts,
        _endpoint(metrics, fabric, collector, source.addresses),
    ):
        sys.stderr.write(f"listening on {_listed(source.addresses)}\n")

        def is_ended() -> bool:
            return interrupts.is_requested or (end_ns is not None and time.monotonic_ns() >= end_ns)

        collector.serve(is_ended=is_ended)
    return collector.state, collector.hop_count


@contextmanager
def _endpoint(
    metrics: str | None,
    fabric: Fabric,
    collector: RunningCollector,
    addresses: Sequence[tuple[str, int]],
) -> Iterator[None]:
    """The HTTP endpoint while the collector runs, if one is wanted."""
    if metrics is None:
        yield
        return
    host, port = host_and_port("--metrics", metrics)
    names = {switch.node_id: switch.name for switch in fabric.switches}
    ports = [PortState(host=host, udp_port=udp_port, bound=True) for host, udp_port in addresses]
    ports += collect_status.missing_ports(fabric, [udp_port for _host, udp_port in addresses])

    def status() -> dict[str, object]:
        state = collector.live_state()
        age_s = (time.time_ns() - state.now_collector_ns) / 1e9
        evidence = Evidence(fabric=fabric, ports=ports, state=state, state_age_s=age_s)
        return status_page(diagnose(evidence), state)

    try:
        endpoint = Endpoint(
            host, port, metrics=lambda: metrics_text(collector.live_state(), names), status=status
        )
    except OSError as error:
        raise InputError(f"collect: cannot serve on {metrics}: {error.strerror}") from None
    sys.stderr.write(f"metrics on http://{_address(*endpoint.address)}/metrics\n")
    try:
        yield
    finally:
        endpoint.close()


@contextmanager
def _opened(texts: Sequence[str]) -> Iterator[list[Output]]:
    """The outputs that the command line names."""
    try:
        outputs = [open_output(text) for text in texts]
    except OutputError as error:
        raise InputError(f"collect: {error}") from None
    yield outputs


@contextmanager
def _progress(path: Path) -> Iterator[Any]:
    """A bar on standard error for big files, where that is a terminal."""
    is_big = path != STANDARD_INPUT and path.is_file() and path.stat().st_size >= BIG_FILE_BYTES
    with ProgressDisplay(quiet=not (is_big and sys.stderr.isatty())) as display:
        yield lambda share: display.update("reading", share)


def _listed(addresses: Sequence[tuple[str, int]]) -> str:
    return ", ".join(_address(host, port) for host, port in addresses)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _holders(addresses: Sequence[tuple[str, int]]) -> str:
    """Who has the ports already, in brackets."""
    found = {str(holder) for _host, port in addresses if port for holder in port_holders(port)}
    return f" (held by {', '.join(sorted(found))})" if found else ""


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
    Console().print(table)
