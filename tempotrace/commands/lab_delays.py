# SPDX-License-Identifier: Apache-2.0
"""`tempotrace lab delays`: true one-way delays of a run as text, for others' simulators."""

from pathlib import Path
from typing import Annotated

import typer

from bmv2_lab.scale.delays import DelaysError, delays_of_folder, write_delays
from tempotrace.commands.options import Json
from tempotrace.errors import InputError, one_line_errors
from tempotrace.strict_json import strict_text


@one_line_errors
def delays(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="What `lab run`, `demo` or `lab scale` wrote.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the delay files.")],
    client: Annotated[
        list[str] | None, typer.Option("--client", help="Only this client; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the true delays of PTP event messages, per client and direction (docs/scale.md)."""
    try:
        clients = write_delays(delays_of_folder(folder), out, client)
    except DelaysError as error:
        raise InputError(f"lab delays: {error}") from None
    if as_json:
        typer.echo(strict_text({"clients": list(clients), "out": str(out)}))
        return
    typer.echo(f"delays of {len(clients)} clients are in {out}")
