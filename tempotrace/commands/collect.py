# SPDX-License-Identifier: Apache-2.0
"""`tempotrace collect`: decode telemetry reports from a pcap or a socket and account for them."""

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from controller.fabric import Fabric
from controller.fabric_file import load_fabric
from controller.telemetry.collector import Collection, Collector, collect
from controller.telemetry.pcap import read_pcap
from controller.telemetry.udp import serve_udp
from tempotrace.analysis import rejected_by_reason
from tempotrace.commands.options import FabricFile, Json
from tempotrace.errors import InputError, one_line_errors
from tempotrace.strict_json import strict_text


@one_line_errors
def collect_command(
    fabric: FabricFile,
    pcap: Annotated[Path | None, typer.Option("--pcap", help="A capture of reports.")] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", help="HOST:PORT to receive reports on.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, help="With --listen: stop after this long.")
    ] = 10.0,
    as_json: Json = False,
) -> None:
    """Decode reports into packets with their hops; show counts, losses and rejections."""
    if (pcap is None) == (listen is None):
        raise InputError("collect: give either --pcap FILE or --listen HOST:PORT")
    description = load_fabric(fabric)
    if pcap is not None:
        collection = collect(read_pcap(pcap), description)
    else:
        assert listen is not None
        collection = asyncio.run(_receive(description, listen, seconds))
    summary = collection_summary(collection)
    if as_json:
        typer.echo(strict_text(summary))
    else:
        _print(summary)


async def _receive(fabric: Fabric, listen: str, seconds: float) -> Collection:
    host, separator, port = listen.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit()) or not 0 <= int(port) <= 65535:
        raise InputError(f"collect: --listen {listen!r} is not HOST:PORT")
    collector = Collector(fabric)
    try:
        server = await serve_udp(
            collector, host=host, port=int(port), collector_clock_ns=time.time_ns
        )
    except OSError as error:
        raise InputError(f"collect: cannot listen on {listen}: {error.strerror}") from None
    try:
        await asyncio.sleep(seconds)
    finally:
        server.close()
    return collector.flush()


def collection_summary(collection: Collection) -> dict[str, Any]:
    """Counters of a collection, ready for JSON."""
    counters = collection.counters
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
        "hops": len(collection.hops),
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
    Console().print(table)
