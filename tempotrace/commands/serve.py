# SPDX-License-Identifier: Apache-2.0
"""`tempotrace serve`: the tracing service over a recording, a running fabric or an empty store."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from controller.fabric_file import load_fabric
from controller.fabric_model import fabric_model
from controller.following.store_output import StoreOutput
from tempotrace.access import service_gate
from tempotrace.analysis import analyse, publish, warn_of_refusals
from tempotrace.commands.addresses import host_and_port
from tempotrace.commands.correct_follow import opened
from tempotrace.commands.options import DEFAULT_PORT, FabricFile
from tempotrace.errors import InputError, one_line_errors
from tempotrace.forwarding import forwarder
from tempotrace.interrupt import Interrupts
from tempotrace.live_follower import LiveFollower, Reload
from tempotrace.receivers import LOG_FOLDER, receivers
from tempotrace.service import open_store, start_service
from tempotrace.store_place import is_url, token_file
from tracing_core.service.forward_spool import BYTES_MAX, FullPolicy
from tracing_core.store import links_of, nodes_of

RETENTION_DAYS = 30


@one_line_errors
def serve(
    fabric: FabricFile,
    reports: Annotated[Path | None, typer.Option("--reports", help="pcap of reports.")] = None,
    exchanges: Annotated[
        Path | None, typer.Option("--exchanges", help="exchanges.jsonl of the hosts.")
    ] = None,
    clock_pairs: Annotated[
        Path | None, typer.Option("--clock-pairs", help="clock_pairs.jsonl: cross-stamps.")
    ] = None,
    store_place: Annotated[
        str | None,
        typer.Option(
            "--store",
            help="Folder of the embedded store, or http://USER:PASSWORD@HOST:8123/DATABASE of a "
            "ClickHouse server; temporary by default.",
        ),
    ] = None,
    log_folder: Annotated[
        Path | None,
        typer.Option(
            "--log",
            help="Folder of the write-ahead log: what was acknowledged and is not stored yet. In "
            "the store's folder by default; must be given with a ClickHouse server.",
        ),
    ] = None,
    retention_days: Annotated[
        int,
        typer.Option("--retention-days", min=0, help="Spans older than this go; 0 keeps all."),
    ] = RETENTION_DAYS,
    otlp_grpc_port: Annotated[
        int | None,
        typer.Option("--otlp-grpc-port", min=0, max=65535, help="4317 if it is free."),
    ] = None,
    otlp_http_port: Annotated[
        int | None,
        typer.Option("--otlp-http-port", min=0, max=65535, help="4318 if it is free."),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            help="HOST:PORT to receive telemetry reports on: clocks are corrected while the fabric "
            "runs. May be repeated.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="With --listen: keeps what has been learnt over a restart."),
    ] = None,
    forward: Annotated[
        str | None,
        typer.Option(
            "--forward",
            help="http://HOST:PORT of a Collector, Jaeger or Tempo: spans are passed on over "
            "OTLP/HTTP with their corrected time as attributes.",
        ),
    ] = None,
    forward_hold_s: Annotated[
        float,
        typer.Option("--forward-hold", min=0, help="Seconds that spans wait for corrections."),
    ] = 0.0,
    forward_full: Annotated[
        FullPolicy,
        typer.Option(
            "--forward-full",
            help="When more would wait for the receiver than --forward-disk allows: give up the "
            "oldest copies, or ask senders to come again.",
        ),
    ] = FullPolicy.DROP_OLDEST,
    forward_disk_mib: Annotated[
        int,
        typer.Option("--forward-disk", min=1, help="MiB that may wait for the receiver."),
    ] = BYTES_MAX // 2**20,
    forward_header: Annotated[
        list[str] | None,
        typer.Option(
            "--forward-header",
            metavar="NAME=VALUE",
            help="Header for the receiver, such as a token; repeatable. OTEL_EXPORTER_OTLP_HEADERS "
            "says the same without others seeing it.",
        ),
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(
            "--auth",
            help="required: every request needs a token. off: none does. By default off on "
            "loopback as long as there is no token.",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", help="File of the tokens; tokens.json in the store's folder."),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = DEFAULT_PORT,
) -> None:
    """Serve OTLP ingest, API and page until Ctrl-C; corrections of a recording, or live ones."""
    if reports is not None and listen:
        raise InputError("serve: give either --reports or --listen")
    if (reports is None and not listen) != (exchanges is None):
        raise InputError("serve: --reports or --listen, and --exchanges belong together")
    if state is not None and not listen:
        raise InputError("serve: --state goes with --listen")
    if store_place is not None and is_url(store_place) and log_folder is None:
        raise InputError("serve: --store with a URL needs --log, a folder on this machine")
    addresses = [host_and_port("--listen", text) for text in listen or []]
    gate = service_gate(auth, token_file(store_place, tokens), host)
    description = load_fabric(fabric)
    with (
        Interrupts() as interrupts,
        tempfile.TemporaryDirectory(prefix="tempotrace-store-") as temporary,
        open_store(store_place or Path(temporary)) as store,
    ):
        store.spans.set_retention(retention_days or None)
        analysis = None
        live = None
        if addresses and exchanges is not None:
            following, _ = opened(
                description,
                exchanges=exchanges,
                clock_pairs=clock_pairs,
                outputs=[],
                state=state,
                more_outputs=(StoreOutput(store),),
            )
            live = LiveFollower(description, addresses, following, store=store)
        if reports is not None and exchanges is not None:
            analysis = analyse(description, reports, exchanges, clock_pairs)
            warn_of_refusals(analysis)
        if analysis is not None:
            publish(analysis, store)
        else:
            model = fabric_model(description)
            store.fabric.replace(nodes_of(model), links_of(model))
        interrupts.check()
        log_folder = log_folder or Path(store_place or temporary) / LOG_FOLDER
        with (
            forwarder(
                forward,
                store,
                log_folder,
                headers=forward_header or (),
                hold_s=forward_hold_s,
                policy=forward_full,
                bytes_max=forward_disk_mib * 2**20,
            ) as forwarding,
            receivers(
                store,
                log_folder,
                host,
                grpc_port=otlp_grpc_port,
                http_port=otlp_http_port,
                forward=forwarding,
                gate=gate,
            ) as receiving,
            start_service(
                store, host, port, ingest=receiving.ingest, forward=forwarding
            ) as service,
        ):
            for place in receiving.places:
                typer.echo(place)
            if forwarding is not None:
                typer.echo(f"spans are passed on to {forwarding.url}")
            if gate.is_on:
                typer.echo("every request needs a token")
            typer.echo(f"page {service.url}/   API {service.url}/docs")
            typer.echo(f"OTLP {service.url}/v1/traces   Ctrl-C ends it")
            if live is None:
                interrupts.wait()
            else:
                typer.echo(f"telemetry reports on {live.listed}")
                with Reload(fabric) as reload:
                    live.serve(is_ended=lambda: interrupts.is_requested, reload=reload)
    typer.echo("stopped", err=True)
