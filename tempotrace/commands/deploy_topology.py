# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy topology`: is everything cabled as the file says?"""

import asyncio
from typing import Annotated

import typer

from controller.cabling.once import LISTEN_S, check_once
from controller.cabling.report import format_cabling, result_json
from controller.cabling.rounds import punts_lldp
from controller.fabric_file import load_fabric
from tempotrace.commands.deploy_options import (
    AccessOptions,
    NoTls,
    TlsCa,
    TlsCertificate,
    TlsKey,
    TlsName,
)
from tempotrace.commands.options import DAY_S, FabricFile, Json
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text

LOWEST_ELECTION_ID = 1
"""A check takes no switch from a controller."""


@one_line_errors
def topology(
    fabric: FabricFile,
    listen_s: Annotated[
        float,
        typer.Option(
            "--listen-s", min=0.1, max=DAY_S, help="How long; hosts' own LLDP comes every 30 s."
        ),
    ] = LISTEN_S,
    tls_ca: TlsCa = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    no_tls: NoTls = False,
    as_json: Json = False,
) -> None:
    """Check the cabling by LLDP; exit 1 where it is not as in the file."""
    reach = AccessOptions(
        ca=tls_ca, certificate=tls_cert, key=tls_key, server_name=tls_name, no_tls=no_tls
    )
    description = load_fabric(fabric, check=reach.problems)
    if not punts_lldp(description):
        raise InputError(f"{fabric}: punt: no rule takes LLDP; expected one of ether_type 0x88cc")
    access = reach.access(description.controller, election_id=LOWEST_ELECTION_ID)
    result = asyncio.run(check_once(description, access=access, listen_s=listen_s))
    if as_json:
        typer.echo(strict_text(result_json(result)))
    else:
        typer.echo(format_cabling(result))
    if not result.ok:
        raise typer.Exit(EXIT_CHECK_FAILED)
