# SPDX-License-Identifier: Apache-2.0
"""`tempotrace attribute`: what made a transfer slow, asked of a running service."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tempotrace.commands.options import DEFAULT_URL, Json, TokenText, Url
from tempotrace.errors import one_line_errors
from tempotrace.http import get_json
from tempotrace.strict_json import strict_text


@one_line_errors
def attribute(
    trace_id: Annotated[str, typer.Argument(help="32 hex digits.")],
    span_id: Annotated[
        str | None, typer.Argument(help="An rdma.send span; all slow ones of the trace if none.")
    ] = None,
    url: Url = DEFAULT_URL,
    token: TokenText = None,
    as_json: Json = False,
) -> None:
    """Name the hop, link or host that made a transfer slow, or say why that cannot be told."""
    unknown, transfers = 0, []
    if span_id is None:
        listing = get_json(url, f"/v1/traces/{trace_id}/transfers", token=token)
        transfers = listing["transfers"]
        span_ids = [item["send_span_id"] for item in transfers if item["slow"]]
        unknown = sum(item["excess_ns"] is None for item in transfers)
    else:
        span_ids = [span_id]
    answers = [get_json(url, f"/v1/attribution/{trace_id}/{one}", token=token) for one in span_ids]
    if as_json:
        typer.echo(strict_text(answers))
        return
    if unknown:
        sys.stderr.write(
            f"trace {trace_id}: of {unknown} of {len(transfers)} transfers it cannot be told "
            "whether they are slow; `tempotrace attribute TRACE SPAN` says why\n"
        )
    if not answers:
        if not unknown:
            typer.echo(f"trace {trace_id}: no transfer is slow")
        return
    table = Table(title=f"slow transfers of trace {trace_id}")
    for name in ("span", "cause", "reason"):
        table.add_column(name)
    for one, answer in zip(span_ids, answers, strict=True):
        cause = answer["kind"] if answer["kind"] == "none" else answer["entity"]
        table.add_row(one, cause, answer["reason"])
    Console().print(table)
