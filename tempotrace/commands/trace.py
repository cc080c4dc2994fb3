# SPDX-License-Identifier: Apache-2.0
"""`tempotrace trace`: bring spans into a running service, list traces, show them corrected."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tempotrace.commands.options import DEFAULT_URL, Json, TokenText, Url
from tempotrace.commands.trace_export import export
from tempotrace.commands.trace_import import import_files
from tempotrace.errors import one_line_errors
from tempotrace.http import get_json
from tempotrace.strict_json import strict_text

app = typer.Typer(help="Spans: import, export, list, show.", no_args_is_help=True)

app.command("import")(import_files)
app.command("export")(export)


@app.command("list")
@one_line_errors
def list_traces(
    url: Url = DEFAULT_URL,
    token: TokenText = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 50,
    as_json: Json = False,
) -> None:
    """List the newest traces with their ids."""
    answer = get_json(url, f"/v1/traces?limit={limit}", token=token)
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
    token: TokenText = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Spans shown.")] = 40,
    as_json: Json = False,
) -> None:
    """Show a trace's spans, raw beside corrected."""
    answer = get_json(url, f"/v1/traces/{trace_id}", token=token)
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
