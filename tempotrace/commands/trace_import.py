# SPDX-License-Identifier: Apache-2.0
"""`tempotrace trace import`: spans of files of many formats into a running service."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from tempotrace.commands.options import DEFAULT_URL, Json, TokenText, Url
from tempotrace.errors import EXIT_WRONG_INPUT, InputError, one_line_errors
from tempotrace.http import RefusedError, bearer, get_json
from tempotrace.import_report import REPORT_VERSION, Rows, file_document, file_lines
from tempotrace.span_upload import Upload
from tempotrace.strict_json import strict_text
from tempotrace.trace_files import FileSource
from tracing_core.importers import FileReport, ImportOptions, read_spans
from tracing_core.model import DEFAULT_TENANT, Span

READINGS = 2
"""Most formats are read twice; the progress bar counts with that."""


@one_line_errors
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="OTLP/JSON, Kineto, Chrome trace, Jaeger, Zipkin, NCCL inspector or RAS, Flight"
            " Recorder; plain or gzip. The format is told from the content."
        ),
    ],
    url: Url = DEFAULT_URL,
    token: TokenText = None,
    tenant: Annotated[str, typer.Option(help="Whose spans, where a file does not say.")] = "",
    host: Annotated[str, typer.Option(help="Host that took the stamps of these files.")] = "",
    job: Annotated[str, typer.Option(help="Training job: its ranks share a trace per step.")] = "",
    clock: Annotated[
        list[str] | None,
        typer.Option(
            help="Clock of the host's stamps, such as h3; or OLD=NEW for a clock of the report,"
            " such as h3/system=h3. Repeatable."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report only, send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Send spans of files to the service; reports what was taken and what was refused."""
    options = _options(tenant, host, job, clock or [])
    for path in files:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: not a regular file; files are read twice")
        path.open("rb").close()  # a file that is not there ends the import before it begins
    reports: list[FileReport] = []
    console = Console(stderr=True)
    with (
        Upload(url, headers=bearer(token)) as upload,
        Progress(console=console, transient=True) as progress,
    ):
        send = _drain if dry_run else upload.send
        for path in files:
            reports.append(_import(path, options, send, progress))
        counts = upload.counts
    rows = None if dry_run else _rows(url, token, reports)
    documents = [file_document(report, rows) for report in reports]
    refused = sum(report.refused.total() for report in reports)
    spans = sum(report.span_count for report in reports) if dry_run else counts.accepted_count
    document = {
        "version": REPORT_VERSION,
        "requests": counts.request_count,
        "spans_accepted": spans,
        "spans_rejected": counts.rejected_count + refused,
        "messages": counts.messages,
        "files": documents,
    }
    _print(document, as_json=as_json, dry_run=dry_run)
    if any(report.error for report in reports):
        raise typer.Exit(EXIT_WRONG_INPUT)


def _options(tenant: str, host: str, job: str, clocks: Sequence[str]) -> ImportOptions:
    names = [item for item in clocks if "=" not in item]
    if len(names) > 1:
        raise InputError(f"--clock: {names[0]} and {names[1]}: one name for the host's stamps")
    renamed = dict(item.split("=", 1) for item in clocks if "=" in item)
    return ImportOptions(
        tenant=tenant or DEFAULT_TENANT,
        host=host,
        job=job,
        clock=names[0] if names else "",
        clocks=renamed,
    )


def _import(
    path: Path, options: ImportOptions, send: Callable[[Iterable[Span]], None], progress: Progress
) -> FileReport:
    report = FileReport(name=str(path))
    task = progress.add_task(path.name, total=READINGS * path.stat().st_size)
    source = FileSource(path, lambda size_bytes: progress.advance(task, size_bytes))
    send(read_spans(source, options, report))
    progress.update(task, completed=READINGS * path.stat().st_size)
    return report


def _drain(spans: Iterable[Span]) -> None:
    for _ in spans:
        pass


def _rows(url: str, token: str | None, reports: Sequence[FileReport]) -> Rows | None:
    """Corrections in force of the clocks that the files used; None if they may not be seen."""
    wanted = {name for report in reports for name, _ in report.clocks}
    if not wanted - {""}:
        return {}
    try:
        answer = get_json(url, "/v1/clocks?all=true", token=token)
    except RefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        typer.echo("how well the clocks are known is not shown: it needs fabric:read", err=True)
        return None
    return {
        item["clock"]: item["corrections"] for item in answer["clocks"] if item["clock"] in wanted
    }


def _print(document: Mapping[str, Any], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        typer.echo(strict_text(document))
        return
    for item in document["files"]:
        for line in file_lines(item):
            typer.echo(line)
    for message in document["messages"]:
        typer.echo(message, err=True)
    verb = "would be sent" if dry_run else "accepted"
    typer.echo(
        f"{document['requests']} requests: {document['spans_accepted']} spans {verb},"
        f" {document['spans_rejected']} rejected"
    )
