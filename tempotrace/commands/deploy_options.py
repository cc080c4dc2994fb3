# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that talk to switches: TLS, election id, pipeline changes."""

from pathlib import Path
from typing import Annotated

import typer

from controller.access import Access, AccessError, Tls
from controller.access import read_certificate as check_certificate
from controller.arbitration import ELECTION_ID, ELECTION_ID_MAX
from controller.fabric import Fabric
from controller.rollout import SETTLE_S, PipelineChange
from tempotrace.errors import InputError

TlsCa = Annotated[
    Path | None,
    typer.Option("--tls-ca", help="Use TLS; authorities of the switches' certificates (PEM)."),
]
TlsCertificate = Annotated[
    Path | None, typer.Option("--tls-cert", help="The controller's own certificate (PEM).")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="Key of that certificate (PEM).")]
TlsName = Annotated[
    str,
    typer.Option(
        "--tls-name", help="Name in the switches' certificates; default: the host of each address."
    ),
]
ElectionId = Annotated[
    int,
    typer.Option(
        "--election-id",
        min=1,
        max=ELECTION_ID_MAX,
        help="The controller with the highest one is primary, the others are backups.",
    ),
]
AllowPipelineChange = Annotated[
    bool,
    typer.Option(
        "--allow-pipeline-change",
        help="Replace a pipeline that a switch runs: canary first, drained, and back on failure.",
    ),
]
Canary = Annotated[
    str | None, typer.Option("--canary", help="The first switch to get another pipeline.")
]
SettleS = Annotated[
    float,
    typer.Option("--settle-s", min=0, help="How long it must stay healthy before the next one."),
]
NoDrain = Annotated[
    bool, typer.Option("--no-drain", help="Do not lead traffic around a switch before its change.")
]
HealthCheck = Annotated[
    str | None,
    typer.Option(
        "--health-check", help="Command that is given the switch's name and must end with 0."
    ),
]

DEFAULT_ELECTION_ID = ELECTION_ID
DEFAULT_SETTLE_S = SETTLE_S


def make_access(
    ca: Path | None, certificate: Path | None, key: Path | None, name: str, election_id: int
) -> Access:
    """How to reach the switches; InputError for options that do not go together."""
    if ca is None:
        if certificate or key or name:
            raise InputError("--tls-cert, --tls-key and --tls-name need --tls-ca")
        return Access(election_id=election_id)
    try:
        tls = Tls(ca=ca, certificate=certificate, key=key, server_name=name)
        for path in (ca, certificate, key):
            if path is not None:
                check_certificate(path)
    except AccessError as error:
        raise InputError(str(error)) from None
    return Access(election_id=election_id, tls=tls)


def make_pipeline_change(
    fabric: Fabric,
    *,
    allowed: bool,
    canary: str | None,
    settle_s: float,
    drain: bool,
    health_check: str | None,
) -> PipelineChange | None:
    """Leave to change pipelines, if it is given."""
    if not allowed:
        if canary or health_check:
            raise InputError("--canary and --health-check need --allow-pipeline-change")
        return None
    if canary is not None and canary not in {switch.name for switch in fabric.switches}:
        raise InputError(f"--canary: there is no switch {canary}")
    return PipelineChange(canary=canary, settle_s=settle_s, drain=drain, health_check=health_check)
