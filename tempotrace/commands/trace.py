# SPDX-License-Identifier: Apache-2.0
"""`tempotrace trace`: bring spans into a running service and show them corrected."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tempotrace.commands.options import DEFAULT_URL, Json, Url
from tempotrace.errors import InputError, one_line_errors
from tempotrace.http import get_json, post

app = typer.Typer(help="Spans: import, show.", no_args_is_help=True)


@app.command("import")
@one_line_errors
def import_files(
    files: Annotated[list[Path], typer.Argument(help="OTLP/JSON requests, one a line.")],
    url: Url = DEFAULT_URL,
) -> None:
    """Send OTLP/JSON lines to the service; reports what it refused."""
    sent = rejected = 0
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    answer = post(url, "/v1/traces", line, "application/json")
                except InputError as error:
                    raise InputError(f"{path}:{number}: {error}") from None
                partial = answer.get("partialSuccess") or {}
                rejected += int(partial.get("rejectedSpans", 0))
                if partial.get("errorMessage"):
                    typer.echo(f"{path}:{number}: {partial['errorMessage']}", err=True)
                sent += 1
    typer.echo(f"{sent} requests sent, {rejected} spans rejected")


@app.command("show")
@one_line_errors
def show(
    trace_id: Annotated[str, typer.Argument(help="32 hex digits.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show a trace's spans, raw beside corrected."""
    answer = get_json(url, f"/v1/traces/{trace_id}")
    if as_json:
        typer.echo(json.dumps(answer, indent=1))
        return
    table = Table(title=f"trace {trace_id}, corrections version {answer['correction_version']}")
    for name in ("host", "span", "start raw ns", "start corrected ns", "bound ns"):
        table.add_column(name, justify="left" if name in ("host", "span") else "right")
    for span in answer["spans"]:
        start = span["start"]
        table.add_row(
            span["host"],
            span["name"],
            str(start["raw_local_ns"]),
            str(start["corrected_reference_ns"] or "unknown"),
            str(start["bound_conditional_ns"] or "unknown"),
        )
    Console().print(table)
