# SPDX-License-Identifier: Apache-2.0
"""`tempotrace bench`: speed, beside a bare limit in the same run.

What is measured is imported by the command that measures it: all other commands start without.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from tempotrace.commands.options import DEFAULT_SEED, Json, Seed
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text

if TYPE_CHECKING:
    from controller.collector.bench_result import CollectorBench

app = typer.Typer(help="Measure speed.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Sub-commands by what they measure."""


@app.command("switch")
@one_line_errors
def switch(as_json: Json = False) -> None:
    """Packets a second of one core through the full INT pipeline of the embedded switch."""
    from bmv2_lab.switch.bench import run as run_bench

    result = asdict(run_bench())
    if as_json:
        typer.echo(strict_text(result))
        return
    shares = result.pop("profile_share")
    for name, value in result.items():
        typer.echo(f"{name:32} {value:10,.0f}")
    for name, share in shares.items():
        typer.echo(f"time in {name:24} {share:10.0%}")


@app.command("collector")
@one_line_errors
def collector(
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Processor time of each measurement.")
    ] = 4.0,
    as_json: Json = False,
) -> None:
    """Reports a second of one core, and what the whole collector costs beside bare receiving."""
    from controller.collector.bench_result import BENCH_STEPS
    from controller.collector.bench_result import run_bench as run_collector_bench

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=BENCH_STEPS)
        result = run_collector_bench(
            seconds=seconds, step=lambda name: progress.update(task, description=name, advance=1)
        )
    if as_json:
        typer.echo(strict_text(asdict(result)))
    else:
        _print_collector(result)
    if not result.overloaded:
        typer.echo(
            "bench: the sender could not overload the receiver (kernel drops of 5 % or less): "
            "the times per report are not those of a busy receiver",
            err=True,
        )
        raise typer.Exit(1)


@app.command("solver")
@one_line_errors
def solver(
    leaves: Annotated[int, typer.Option("--leaves", min=2)] = 512,
    spines: Annotated[int, typer.Option("--spines", min=2)] = 64,
    hosts: Annotated[int, typer.Option("--hosts", min=1)] = 16_384,
    rails: Annotated[
        int,
        typer.Option("--rails", min=0, help="NICs of a machine, tied by cross-stamps; 0: no ties."),
    ] = 0,
    seed: Seed = DEFAULT_SEED,
    as_json: Json = False,
) -> None:
    """Solve a leaf-spine fabric with 20 % bad links on one core: verdicts and both bounds."""
    from bmv2_lab.scale.solver_bench import run as run_solver_bench

    try:
        result = asdict(run_solver_bench(leaves, spines, hosts, seed, rails=rails))
    except ValueError as error:
        raise InputError(f"--rails: {error}") from None
    if as_json:
        typer.echo(strict_text(result))
        return
    for name, value in result.items():
        text = f"{value:,.4g}" if isinstance(value, float) else f"{value}"
        typer.echo(f"{name:32} {text:>14}")


@app.command("deploy")
@one_line_errors
def deploy(
    switches: Annotated[int, typer.Option("--switches", min=2, max=240)] = 200,
    as_json: Json = False,
) -> None:
    """Program embedded switches twice and fail a link; exit 1 beyond the limits."""
    from bmv2_lab.deploy_bench import run as run_deploy_bench

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        result = run_deploy_bench(switches, lambda name: progress.update(task, description=name))
    values = {**asdict(result), "limits_kept": result.limits_kept}
    if as_json:
        typer.echo(strict_text(values))
    else:
        for name, value in values.items():
            text = f"{value:,.2f}" if isinstance(value, float) else f"{value}"
            typer.echo(f"{name:32} {text:>14}")
    if not result.limits_kept:
        raise typer.Exit(EXIT_CHECK_FAILED)


@app.command("ingest")
@one_line_errors
def ingest(
    spans: Annotated[
        int, typer.Option("--spans", min=512, help="Spans through the service.")
    ] = 4_000_000,
    as_json: Json = False,
) -> None:
    """Spans a second of one core, OTLP/HTTP bytes to durable and queryable."""
    from tracing_core.service.bench_ingest import run as run_ingest_bench

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        result = asdict(
            run_ingest_bench(spans=spans, step=lambda name: progress.update(task, description=name))
        )
    _print_values(result, as_json=as_json)


@app.command("query")
@one_line_errors
def query(
    spans: Annotated[
        int, typer.Option("--spans", min=1000, help="Spans stored before.")
    ] = 10_000_000,
    queries: Annotated[int, typer.Option("--queries", min=10, help="Queries of each kind.")] = 300,
    rate: Annotated[
        float, typer.Option("--rate", min=1, help="Spans a second that come in meanwhile.")
    ] = 125_000.0,
    as_json: Json = False,
) -> None:
    """Latency of queries on 10 million spans while more come in, and memory."""
    from tracing_core.service.bench_query import run as run_query_bench

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        result = asdict(
            run_query_bench(
                spans=spans,
                queries=queries,
                ingest_spans_per_s=rate,
                step=lambda name: progress.update(task, description=name),
            )
        )
    if not as_json:
        kinds = ("trace_by_id", "search", "attribute_search")
        for kind in kinds:
            for name, value in result.pop(kind).items():
                result[f"{kind}: {name}"] = value
    _print_values(result, as_json=as_json)


def _print_values(result: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        typer.echo(strict_text(result))
        return
    for name, value in result.items():
        text = f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
        typer.echo(f"{name:32} {text:>14}")


@app.command("stream")
@one_line_errors
def stream(
    leaves: Annotated[int, typer.Option("--leaves", min=2)] = 512,
    spines: Annotated[int, typer.Option("--spines", min=2)] = 64,
    hosts: Annotated[int, typer.Option("--hosts", min=2)] = 16_384,
    samples: Annotated[
        int, typer.Option("--samples", min=2, help="Of each directed link in a window.")
    ] = 20,
    exchanges: Annotated[
        int, typer.Option("--exchanges", min=2, help="PTP exchanges of each host in a window.")
    ] = 4,
    seed: Seed = DEFAULT_SEED,
    as_json: Json = False,
) -> None:
    """Processor time of one window of `correct follow` on a leaf-spine fabric, by stages."""
    from bmv2_lab.scale.stream_bench import run as run_stream_bench

    result = asdict(run_stream_bench(leaves, spines, hosts, samples, exchanges, seed))
    _print_values(result, as_json=as_json)


@app.command("convert")
@one_line_errors
def convert(
    stamps: Annotated[int, typer.Option("--stamps", min=1)] = 2_000_000,
    as_json: Json = False,
) -> None:
    """Stamps a second that one core brings to reference time with both bounds."""
    from bmv2_lab.scale.convert_bench import run as run_convert_bench

    _print_values(asdict(run_convert_bench(stamps)), as_json=as_json)


def _print_collector(result: "CollectorBench") -> None:
    scapy = "not installed" if result.scapy_per_s is None else f"{result.scapy_per_s:,.0f}"
    rows = {
        "decoded from memory, reports/s": f"{result.decode_per_s:,.0f}",
        "up to link samples, reports/s": f"{result.collect_per_s:,.0f}",
        "plain struct decoder, reports/s": f"{result.struct_per_s:,.0f}",
        "plain scapy decoder, reports/s": scapy,
        "receive only, ns/report": f"{result.receive_only_cpu_ns:.0f}",
        "end to end, ns/report": f"{result.end_to_end_cpu_ns:.0f}",
        "end to end - receive only, ns/report": f"{result.added_cpu_ns:.0f}",
        "receive only, separate, ns/report": f"{result.separate.receive_only_cpu_ns:.0f}",
        "end to end, separate, ns/report": f"{result.separate.end_to_end_cpu_ns:.0f}",
        "receive only, ring, ns/report": _ns(
            result.ring.receive_only_cpu_ns if result.ring else None
        ),
        "end to end, ring, ns/report": _ns(result.ring.end_to_end_cpu_ns if result.ring else None),
        "ratio": f"{result.ratio:.2f}",
        "ratio, separate": f"{result.separate.ratio:.2f}",
        "peak memory, MiB": f"{result.peak_mib:.0f}",
    }
    for name, kind in result.kinds.items():
        rows[f"{name}: end to end, ns/report"] = f"{kind.end_to_end_cpu_ns:.0f}"
    for name, text in rows.items():
        typer.echo(f"{name:40} {text:>14}")


def _ns(value: float | None) -> str:
    return "not allowed" if value is None else f"{value:.0f}"
