# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy`: init, plan, apply and status of a fabric's switches."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from controller.client import compare
from controller.client import deploy as deploy_fabric
from controller.deploy_report import (
    difference_json,
    format_plan,
    format_result,
    format_status,
    result_json,
)
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric
from controller.fabric_generate import leaf_spine
from tempotrace.analysis import with_addresses
from tempotrace.commands.options import FabricFile, Json
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text

TENANTS = ("alpha", "beta")
"""Tenants of a generated fabric, one host of each per leaf in turn."""
PORT_MAX = 65_535

app = typer.Typer(help="Program the switches over P4Runtime.", no_args_is_help=True)


@app.command("init")
@one_line_errors
def init(
    fabric: FabricFile = Path("fabric.yaml"),
    leaves: Annotated[int, typer.Option(min=1)] = 8,
    spines: Annotated[int, typer.Option(min=1)] = 4,
    hosts_per_leaf: Annotated[int, typer.Option(min=1)] = 2,
    speed_gbps: Annotated[int, typer.Option(min=1)] = 100,
    first_port: Annotated[
        int,
        typer.Option(min=1, max=65535, help="P4Runtime port of the first switch on 127.0.0.1."),
    ] = 9559,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a leaf-spine fabric.yaml to start from; edit it, or try it with `lab switches`."""
    if fabric.exists() and not force:
        raise InputError(f"{fabric}: is there already; --force overwrites it")
    try:
        generated = leaf_spine(
            leaves=leaves,
            spines=spines,
            hosts_per_leaf=hosts_per_leaf,
            speed_gbps=speed_gbps,
            tenants=TENANTS[:hosts_per_leaf],
        )
    except ValueError as error:
        raise InputError(f"deploy init: {error}") from None
    if first_port + len(generated.switches) - 1 > PORT_MAX:
        raise InputError(
            f"deploy init: {len(generated.switches)} ports from {first_port} on "
            f"end above {PORT_MAX}"
        )
    addresses = {
        switch.name: f"127.0.0.1:{first_port + index}"
        for index, switch in enumerate(generated.switches)
    }
    fabric.write_text(dump_fabric(with_addresses(generated, addresses)), encoding="utf-8")
    typer.echo(f"wrote {fabric}: {len(generated.switches)} switches, {len(generated.links)} links")


@app.command("plan")
@one_line_errors
def plan(fabric: FabricFile, as_json: Json = False) -> None:
    """Show what `apply` would change; writes nothing."""
    difference = asyncio.run(compare(load_fabric(fabric)))
    if as_json:
        typer.echo(strict_text(difference_json(difference)))
    else:
        typer.echo(format_plan(difference))
    _fail_if(bool(difference.errors))


@app.command("apply")
@one_line_errors
def apply(fabric: FabricFile, as_json: Json = False) -> None:
    """Make the switches hold what the fabric asks for, and read everything back."""
    result = asyncio.run(deploy_fabric(load_fabric(fabric)))
    if as_json:
        typer.echo(strict_text(result_json(result)))
    else:
        typer.echo(format_result(result))
    _fail_if(not result.ok)


@app.command("status")
@one_line_errors
def status(fabric: FabricFile, as_json: Json = False) -> None:
    """Show drift; exit 1 when a switch does not hold what the fabric asks for."""
    difference = asyncio.run(compare(load_fabric(fabric)))
    if as_json:
        typer.echo(strict_text(difference_json(difference)))
    else:
        typer.echo(format_status(difference))
    _fail_if(not difference.in_sync)


def _fail_if(failed: bool) -> None:
    if failed:
        raise typer.Exit(EXIT_CHECK_FAILED)
