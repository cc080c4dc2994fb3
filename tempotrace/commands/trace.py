# SPDX-License-Identifier: Apache-2.0
"""`tempotrace trace`: bring spans into a running service, list traces, show them corrected."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tempotrace.commands.options import DEFAULT_URL, Json, Url
from tempotrace.errors import InputError, one_line_errors
from tempotrace.http import get_json, post
from tempotrace.strict_json import strict_text

app = typer.Typer(help="Spans: import, list, show.", no_args_is_help=True)


@app.command("import")
@one_line_errors
def import_files(
    files: Annotated[list[Path], typer.Argument(help="OTLP/JSON requests, one a line.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Send OTLP/JSON lines to the service; reports what it took and what it refused."""
    requests = spans = rejected = 0
    for path in files:
        for where, line, span_count in _requests(path):
            try:
                answer = post(url, "/v1/traces", line, "application/json")
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            partial = answer.get("partialSuccess") or {}
            refused = int(partial.get("rejectedSpans", 0))
            if partial.get("errorMessage"):
                typer.echo(f"{where}: {partial['errorMessage']}", err=True)
            requests += 1
            rejected += refused
            spans += span_count - refused
    if as_json:
        counts = {"requests": requests, "spans_accepted": spans, "spans_rejected": rejected}
        typer.echo(strict_text(counts))
    else:
        typer.echo(f"{requests} requests: {spans} spans accepted, {rejected} rejected")


def _requests(path: Path) -> Iterator[tuple[str, bytes, int]]:
    """Where each request stands, its bytes and its number of spans."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            if not line.strip():
                continue
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                raise InputError(f"{where}: expected one OTLP/JSON request a line") from None
            if not isinstance(request, dict) or "resourceSpans" not in request:
                raise InputError(f"{where}: resourceSpans: missing, this is no OTLP/JSON request")
            yield where, line, _count_spans(request)


def _count_spans(request: Mapping[str, Any]) -> int:
    """Spans of a request; parts of another shape are the service's to refuse."""
    count = 0
    for resource in request["resourceSpans"] or ():
        for scope in resource.get("scopeSpans", ()) if isinstance(resource, dict) else ():
            spans = scope.get("spans", ()) if isinstance(scope, dict) else ()
            count += len(spans) if isinstance(spans, list) else 0
    return count


@app.command("list")
@one_line_errors
def list_traces(
    url: Url = DEFAULT_URL,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 50,
    as_json: Json = False,
) -> None:
    """List the newest traces with their ids."""
    answer = get_json(url, f"/v1/traces?limit={limit}")
    if as_json:
        typer.echo(strict_text(answer))
        return
    table = Table(title="traces")
    for name in ("trace id", "root", "tenant", "spans"):
        table.add_column(name, justify="right" if name == "spans" else "left", no_wrap=True)
    for trace in answer["traces"]:
        table.add_row(
            trace["trace_id"], trace["root_name"], trace["tenant"], str(trace["span_count"])
        )
    Console().print(table)


@app.command("show")
@one_line_errors
def show(
    trace_id: Annotated[str, typer.Argument(help="32 hex digits, from `trace list`.")],
    url: Url = DEFAULT_URL,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Spans shown.")] = 40,
    as_json: Json = False,
) -> None:
    """Show a trace's spans, raw beside corrected."""
    answer = get_json(url, f"/v1/traces/{trace_id}")
    if as_json:
        typer.echo(strict_text(answer))
        return
    spans = answer["spans"]
    known = [s["start"]["corrected_reference_ns"] for s in spans]
    origin_ns = min((int(start) for start in known if start is not None), default=0)
    table = Table(title=f"trace {trace_id}, corrections version {answer['correction_version']}")
    for name in ("span id", "host", "span"):
        table.add_column(name, no_wrap=True)
    for name in ("start ns", "± ns", "moved by", "lasts ns"):
        table.add_column(name, justify="right", no_wrap=True)
    for span in spans[:limit]:
        start, end = span["start"], span["end"]
        raw_ns, corrected = int(start["raw_local_ns"]), start["corrected_reference_ns"]
        table.add_row(
            span["span_id"],
            span["host"],
            span["name"],
            "unknown" if corrected is None else str(int(corrected) - origin_ns),
            _known(start["bound_conditional_ns"]),
            "" if corrected is None else f"{int(corrected) - raw_ns:+d}",
            str(int(end["raw_local_ns"]) - raw_ns),
        )
    Console().print(table)
    typer.echo(f"start: corrected, after {origin_ns} ns; ±: the conditional bound")
    if len(spans) > limit:
        typer.echo(f"{len(spans) - limit} more spans: --limit {len(spans)}, or --json")


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)
