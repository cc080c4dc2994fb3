# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy shell`: p4runtime-shell on one switch of the fabric file.

The shell lives in an environment of its own (`make env-shell`), since its protobuf is an old one.
It takes the P4Info that the switch runs, pushes nothing, and bids a lower election id than any
controller of the fabric: beside one it can look at everything and change nothing.
"""

import asyncio
import difflib
import os
import sys
from pathlib import Path
from typing import Annotated

import finsy as fy
import typer

from controller.access import Access
from controller.fabric import Fabric, Switch, programmed_switches
from controller.fabric_file import load_fabric
from controller.programs import Programs
from controller.session import CONNECT_DEADLINE_S, open_session
from controller.switch_error import SwitchError
from tempotrace.commands.deploy_options import (
    AccessOptions,
    NoTls,
    RoleName,
    TlsCa,
    TlsCertificate,
    TlsKey,
    TlsName,
)
from tempotrace.commands.options import FabricFile
from tempotrace.errors import InputError, one_line_errors

ELECTION_ID = 1
"""Lowest there is: whoever keeps the fabric stays primary."""
ENVIRONMENT = Path(".venv-shell")
NAMES_SHOWN_MAX = 8


@one_line_errors
def shell(
    switch: Annotated[str, typer.Argument(help="Name of a switch of the fabric file.")],
    fabric: FabricFile,
    environment: Annotated[
        Path, typer.Option(help="Virtual environment of p4runtime-shell (make env-shell).")
    ] = ENVIRONMENT,
    tls_ca: TlsCa = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    no_tls: NoTls = False,
    role: RoleName = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Bid above the fabric's controllers: they stop writing here."
        ),
    ] = False,
) -> None:
    """Open p4runtime-shell on a switch; beside a controller it only reads."""
    reach = AccessOptions(
        ca=tls_ca, certificate=tls_cert, key=tls_key, server_name=tls_name, no_tls=no_tls, role=role
    )
    description = load_fabric(fabric, check=reach.problems)
    access = reach.access(description.controller)
    found = find_switch(description, switch, fabric)
    python = environment / "bin" / "python"
    if not python.exists():
        raise InputError(f"{python}: no p4runtime-shell there; make env-shell installs it")
    programs = Programs.of_pipeline(None)
    try:
        remark = asyncio.run(_remark(found, access, programs.of(description, found)))
    except SwitchError as error:
        raise InputError(str(error)) from None
    election_id = access.election_id + 1 if take_over else ELECTION_ID
    words = [str(python), "-m", "p4runtime_sh", *shell_options(found, access, election_id)]
    typer.echo(
        f"{found.name} at {found.p4runtime}, device {found.device_id}, election id {election_id}: "
        + (
            "takes over from the fabric's controllers"
            if take_over
            else "a controller stays primary, and then this shell only reads"
        ),
        err=True,
    )
    if remark:
        typer.echo(f"{found.name}: {remark}", err=True)
    sys.stderr.flush()
    os.execve(  # the shell is the process from here on, terminal included
        python, words, {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    )


async def _remark(switch: Switch, access: Access, schema: fy.P4Schema) -> str:
    """What is to be said of what the switch runs; SwitchError where the shell could not begin."""
    assert switch.p4runtime is not None, "find_switch has looked"
    async with open_session(
        name=switch.name,
        address=switch.p4runtime,
        device_id=switch.device_id,
        schema=schema,
        access=access,
    ) as session:
        cookie = await session.pipeline_cookie(deadline_s=CONNECT_DEADLINE_S)
    if cookie is None:
        raise SwitchError(switch=switch.name, message="it runs no pipeline; deploy first")
    if cookie != schema.p4cookie:
        return "it runs another pipeline than the fabric's; names are those of what it runs"
    return ""


def find_switch(fabric: Fabric, name: str, path: Path) -> Switch:
    """The switch; InputError with near matches for a name that there is not."""
    switches = {switch.name: switch for switch in fabric.switches}
    if name not in switches:
        close = difflib.get_close_matches(name, switches, n=3)
        listed = ", ".join([*switches][:NAMES_SHOWN_MAX])
        more = ", ..." if len(switches) > NAMES_SHOWN_MAX else ""
        hint = f"did you mean {' or '.join(close)}?" if close else f"expected {listed}{more}"
        raise InputError(f"{path}: there is no switch {name!r}; {hint}")
    found = switches[name]
    if found not in programmed_switches(fabric):
        raise InputError(f"{path}: {name} has target none: it does not run the program")
    if found.p4runtime is None:
        raise InputError(f"{path}: {name} has no P4Runtime address; set p4runtime in the file")
    return found


def shell_options(switch: Switch, access: Access, election_id: int) -> list[str]:
    """The shell's own options; nothing that makes it push a pipeline."""
    assert switch.p4runtime is not None, "find_switch has looked"
    words = ["--grpc-addr", switch.p4runtime, "--device-id", str(switch.device_id)]
    words += ["--election-id", f"0,{election_id}"]
    if access.role:
        words += ["--role-name", access.role]
    if access.tls is not None:
        if access.tls.server_name:
            raise InputError("p4runtime-shell cannot expect another name than the address's host")
        words += ["--ssl", "--cacert", str(access.tls.ca)]
        if access.tls.certificate is not None:
            words += ["--cert", str(access.tls.certificate)]
            words += ["--private-key", str(access.tls.key)]
    return words
