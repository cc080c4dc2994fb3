# SPDX-License-Identifier: Apache-2.0
"""`tempotrace verify`: check the certificate of a verdict, independently of what made it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from correction.certificate_check import CertificateError, check_certificate
from tempotrace.commands.options import Json
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors

CERTIFICATE_VERSION = 2
_KEYS = (
    "ground",
    "margin_units",
    "theta_ns",
    "estimate_ns",
    "edges",
    "determined",
    "cuts",
    "rivals",
)


@one_line_errors
def verify(
    file: Annotated[Path, typer.Argument(help="A certificate, as `correct run --certificate`.")],
    as_json: Json = False,
) -> None:
    """Check every claim of a certificate: which clocks are determined, and why the others are not.

    Exit 0: all claims are proved. Exit 1: one is not, and it is named.
    """
    try:
        certificate = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not JSON: {error}") from None
    if not isinstance(certificate, dict) or certificate.get("version") != CERTIFICATE_VERSION:
        raise InputError(
            f"{file}: version: expected a certificate of version {CERTIFICATE_VERSION}"
        )
    missing = [name for name in _KEYS if name not in certificate]
    if missing:
        raise InputError(
            f"{file}: {missing[0]}: not there; expected a certificate, as "
            "`correct run --certificate` writes it"
        )
    try:
        proved = check_certificate(certificate)
    except CertificateError as error:
        if as_json:
            typer.echo(json.dumps({"proved": False, "reason": str(error)}))
        else:
            typer.echo(f"not proved: {error}")
        raise typer.Exit(EXIT_CHECK_FAILED) from None
    if as_json:
        typer.echo(json.dumps({"proved": True, **proved}))
        return
    typer.echo(
        f"proved: {proved['determined']} clocks in loops are determined against "
        f"{certificate['ground']}; a host is if its switch is, but for its own cable"
    )
    for cut in certificate["cuts"]:
        way = "later" if cut["upwards"] else "earlier"
        typer.echo(f"not determined together: {', '.join(sorted(cut['side']))} (may be {way})")
    for moves in certificate["rivals"]:
        moved = ", ".join(f"{name} {move_ns:+.0f} ns" for name, move_ns in sorted(moves.items()))
        typer.echo(f"not determined: {moved} explains the links nearly as well")
