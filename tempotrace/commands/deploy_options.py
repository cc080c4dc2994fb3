# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that talk to switches: TLS, election id, pipeline changes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from controller.access import Access, AccessError, Tls
from controller.access import read_certificate as check_certificate
from controller.arbitration import ELECTION_ID, ELECTION_ID_MAX
from controller.fabric import Fabric
from controller.fabric_controller import ControllerSettings, TlsFiles, unusable_certificates
from controller.fabric_problem import FabricProblem
from controller.fabric_treatment import unequal_treatment
from controller.rollout import SETTLE_S, PipelineChange
from tempotrace.commands.options import DAY_S
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
    str | None,
    typer.Option(
        "--tls-name", help="Name in the switches' certificates; default: the host of each address."
    ),
]
NoTls = Annotated[
    bool, typer.Option("--no-tls", help="Plain TCP, whatever the fabric file says of TLS.")
]
ElectionId = Annotated[
    int | None,
    typer.Option(
        "--election-id",
        min=1,
        max=ELECTION_ID_MAX,
        help="The controller with the highest one is primary, the others are backups; default: "
        f"the fabric file's, or {ELECTION_ID}.",
    ),
]
RoleName = Annotated[
    str | None,
    typer.Option("--role", help="P4Runtime role; default: the fabric file's, or full access."),
]
ReconnectFirstMs = Annotated[
    int | None,
    typer.Option(min=10, max=60_000, help="First wait before a switch is tried again."),
]
ReconnectMaxS = Annotated[
    float | None,
    typer.Option(min=1, max=3_600, help="Longest wait before a switch is tried again."),
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
    typer.Option(
        "--settle-s", min=0, max=DAY_S, help="How long it must stay healthy before the next one."
    ),
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

DEFAULT_SETTLE_S = SETTLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Options that take the place of single keys of the file's section `controller`."""

    ca: Path | None
    certificate: Path | None
    key: Path | None
    server_name: str | None
    no_tls: bool = False
    election_id: int | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        if self.no_tls and (self.ca or self.certificate or self.key or self.server_name):
            raise InputError("--no-tls does not go with other TLS options")

    def settings(self, declared: ControllerSettings) -> ControllerSettings:
        """What holds: the option where it is given, else the file's key."""
        return replace(
            declared,
            tls=self._tls(declared.tls),
            election_id=self.election_id or declared.election_id,
            role=declared.role if self.role is None else self.role,
        )

    def _tls(self, declared: TlsFiles | None) -> TlsFiles | None:
        if self.no_tls:
            return None
        ca = self.ca or (declared.ca if declared else None)
        if ca is None:
            if self.certificate or self.key or self.server_name:
                raise InputError("--tls-cert, --tls-key and --tls-name need --tls-ca")
            return None
        own = (self.certificate, self.key)
        if declared is not None and own == (None, None):
            own = (declared.certificate, declared.key)
        name = self.server_name
        if name is None:
            name = declared.server_name if declared else ""
        return TlsFiles(ca=ca, certificate=own[0], key=own[1], server_name=name)

    def problems(self, fabric: Fabric) -> Iterator[FabricProblem]:
        """Certificates of the file that cannot be used, unless options take their place."""
        declared = fabric.controller
        used = self.settings(declared).tls
        for path, message in unusable_certificates(declared):
            file = declared.tls.paths()[str(path[-1])] if declared.tls else None
            if used is not None and file in used.paths().values():
                yield FabricProblem(path, message)

    def access(self, declared: ControllerSettings, *, election_id: int | None = None) -> Access:
        """How to reach the switches; InputError for files that cannot be used.

        election_id: bid this, whatever is declared.
        """
        chosen = self.settings(declared)
        try:
            tls = None
            if chosen.tls is not None:
                tls = Tls(
                    ca=chosen.tls.ca,
                    certificate=chosen.tls.certificate,
                    key=chosen.tls.key,
                    server_name=chosen.tls.server_name,
                )
                for path in chosen.tls.paths().values():
                    check_certificate(path)
        except AccessError as error:
            raise InputError(str(error)) from None
        return Access(
            election_id=election_id or chosen.election_id or ELECTION_ID, role=chosen.role, tls=tls
        )

    def check_deployable(self, fabric: Fabric) -> Iterator[FabricProblem]:
        """What keeps a sound fabric file from being deployed."""
        return chain(unequal_treatment(fabric), self.problems(fabric))


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
