# SPDX-License-Identifier: Apache-2.0
"""`tempotrace job`: training jobs of a running service, their steps, and who held them up."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer
from rich.console import Console
from rich.table import Table

from tempotrace.commands.options import DEFAULT_URL, Json, TokenText, Url
from tempotrace.errors import one_line_errors
from tempotrace.http import get_json
from tempotrace.strict_json import strict_text

app = typer.Typer(help="Training jobs: list, show, step.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the job, from `job list`.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Where several have a job of that name.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000)]
CursorText = Annotated[str, typer.Option("--cursor", help="next_cursor of the page before.")]
AsOf = Annotated[
    int | None, typer.Option("--as-of", min=0, help="Correction version; default the newest.")
]
NS_PER_MS = 1e6


@app.command("list")
@one_line_errors
def list_jobs(
    url: Url = DEFAULT_URL,
    token: TokenText = None,
    tenant: Tenant = "",
    limit: Limit = 50,
    cursor: CursorText = "",
    as_json: Json = False,
) -> None:
    """List jobs, those that began last first."""
    query = _query(tenant=tenant, limit=limit, cursor=cursor)
    answer = get_json(url, f"/v1/jobs{query}", token=token)
    if as_json:
        typer.echo(strict_text(answer))
        return
    table = _table("jobs", ("job", "tenant"), ("ranks", "steps", "spans", "lasts s"))
    for job in answer["jobs"]:
        length_ns = int(job["last_local_ns"]) - int(job["first_local_ns"])
        table.add_row(
            job["job"],
            job["tenant"],
            *(str(job[name]) for name in ("ranks", "steps", "spans")),
            f"{length_ns / 1e9:.3f}",
        )
    _print(table, answer)


@app.command("show")
@one_line_errors
def show(
    job: Name,
    url: Url = DEFAULT_URL,
    token: TokenText = None,
    tenant: Tenant = "",
    first: Annotated[int, typer.Option("--from", min=0, help="Lowest step shown.")] = 0,
    limit: Limit = 50,
    cursor: CursorText = "",
    as_of: AsOf = None,
    as_json: Json = False,
) -> None:
    """Show a job's steps: how long each took, and which rank ended last."""
    query = _query(limit=limit, cursor=cursor, tenant=tenant, as_of=as_of, **{"from": first})
    answer = get_json(url, f"/v1/jobs/{quote(job, safe='')}/steps{query}", token=token)
    if as_json:
        typer.echo(strict_text(answer))
        return
    table = _table(
        f"job {answer['job']}, corrections version {answer['correction_version']}",
        ("step",),
        ("ranks", "took ms", "± ns", "ends spread ns", "± ns", "last rank", "order of ends"),
    )
    for step in answer["steps"]:
        duration_ns = step["duration_ns"]
        table.add_row(
            str(step["step"]),
            str(step["ranks"]),
            "unknown" if duration_ns is None else f"{duration_ns / NS_PER_MS:.6f}",
            _known(step["duration_bound_conditional_ns"]),
            _known(step["end_spread_ns"]),
            _known(step["end_spread_bound_conditional_ns"]),
            _who(step["slowest"]),
            step["order"].replace("_", " "),
        )
    _print(table, answer)


@app.command("step")
@one_line_errors
def step(
    job: Name,
    number: Annotated[int, typer.Argument(metavar="STEP", min=0)],
    url: Url = DEFAULT_URL,
    token: TokenText = None,
    tenant: Tenant = "",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, help="Ranks and collectives shown.")
    ] = 40,
    cursor: CursorText = "",
    as_of: AsOf = None,
    as_json: Json = False,
) -> None:
    """Show a step whole: its ranks, and who entered and left each collective last."""
    query = _query(limit=limit, cursor=cursor, tenant=tenant, as_of=as_of)
    path = f"/v1/jobs/{quote(job, safe='')}/steps/{number}{query}"
    answer = get_json(url, path, token=token)
    if as_json:
        typer.echo(strict_text(answer))
        return
    console = Console()
    console.print(_ranks(answer, limit))
    rest = len(answer["ranks"]) - limit
    if rest > 0:
        typer.echo(f"{rest} more: --limit {len(answer['ranks'])}, or --json")
    table = _table(
        "collectives",
        ("communicator", "number", "operation"),
        ("ranks", "enter spread ns", "± ns", "last to enter", "last to leave"),
    )
    for item in answer["collectives"]:
        table.add_row(
            item["communicator"],
            str(item["sequence"]),
            item["name"],
            str(len({rank["rank"] for rank in item["ranks"]})),
            _known(item["enter_spread_ns"]),
            _known(item["enter_spread_bound_conditional_ns"]),
            _who(item["last_to_enter"]),
            _who(item["last_to_leave"]),
        )
    _print(table, answer)
    typer.echo(f"ended last: {_who(answer['step']['slowest'])}; ±: the conditional bound")
    for trace_path in answer["transfers"]:
        typer.echo(f"transfers: {trace_path}")


def _ranks(answer: Mapping[str, Any], limit: int) -> Table:
    table = _table(
        f"step {answer['step']['step']} of {answer['job']}, corrections version"
        f" {answer['correction_version']}",
        ("rank", "host", "clock"),
        ("lasts ns", "moved by", "± ns", "ends before last ns", "± ns"),
    )
    for rank in answer["ranks"][:limit]:
        start = rank["start"]
        corrected = start["corrected_reference_ns"]
        moved = "" if corrected is None else f"{int(corrected) - int(start['raw_local_ns']):+d}"
        table.add_row(
            str(rank["rank"]),
            rank["host"],
            rank["clock_domain"],
            _known(rank["duration_raw_ns"]),
            moved,
            _known(start["bound_conditional_ns"]),
            _known(rank["end_before_last_ns"]) if rank["compared"] else "-",
            _known(rank["end_before_last_bound_conditional_ns"]) if rank["compared"] else "-",
        )
    return table


def _query(**values: str | int | None) -> str:
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""


def _table(title: str, left: tuple[str, ...], right: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _print(table: Table, answer: Mapping[str, Any]) -> None:
    Console().print(table)
    if answer["next_cursor"] is not None:
        typer.echo(f"more: --cursor {answer['next_cursor']}")


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _who(verdict: Mapping[str, Any]) -> str:
    if verdict["verdict"] == "certain":
        return f"rank {verdict['rank']}"
    return f"undecided ({verdict['candidate_count']})"
