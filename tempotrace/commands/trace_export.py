# SPDX-License-Identifier: Apache-2.0
"""`tempotrace trace export`: a trace for other tools, in corrected time."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from tempotrace.commands.options import DEFAULT_URL, TokenText, Url
from tempotrace.errors import InputError, one_line_errors
from tempotrace.http import get_response

FORMATS = ("otlp", "chrome", "perfetto")
TIMES = ("corrected", "raw")


@one_line_errors
def export(
    trace_id: Annotated[str, typer.Argument(help="32 hex digits, from `trace list`.")],
    wanted: Annotated[
        str, typer.Option("--format", help="otlp (JSON), chrome (JSON) or perfetto (protobuf).")
    ] = "otlp",
    time: Annotated[
        str, typer.Option("--time", help="corrected, or raw: all stamps as they are.")
    ] = "corrected",
    as_of: Annotated[
        int | None, typer.Option("--as-of", min=0, help="Correction version; default the newest.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; standard output by default.")
    ] = None,
    url: Url = DEFAULT_URL,
    token: TokenText = None,
) -> None:
    """Write a trace as OTLP, Chrome trace or Perfetto, with corrected time and its interval."""
    if wanted not in FORMATS:
        raise InputError(f"--format: expected {', '.join(FORMATS)}; found {wanted}")
    if time not in TIMES:
        raise InputError(f"--time: expected {' or '.join(TIMES)}; found {time}")
    if wanted == "perfetto" and out is None and sys.stdout.isatty():
        raise InputError("a Perfetto trace is binary: --out FILE, or redirect standard output")
    query = {"format": wanted, "time": time}
    if as_of is not None:
        query["as_of"] = str(as_of)
    response = get_response(url, f"/v1/traces/{trace_id}/export?{urlencode(query)}", token=token)
    if out is None:
        sys.stdout.buffer.write(response.content)
    else:
        out.write_bytes(response.content)
    left_out = int(response.headers.get("TempoTrace-Left-Out", "0"))
    if left_out:
        typer.echo(
            f"{left_out} spans are left out: their clocks have no correction; the file says which."
            " --time raw shows them",
            err=True,
        )
