# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy`: init, plan, apply, status, topology, shell and run."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from controller.client import compare
from controller.client import deploy as deploy_fabric
from controller.deploy_report import (
    difference_json,
    format_result,
    format_status,
    result_json,
)
from controller.fabric_comments import carry_comments
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric, load_fabric_and_paths
from controller.keeper.backoff import WaitLimits
from controller.keeper.keeper import KeeperOptions
from controller.plan_report import format_plan
from tempotrace.commands.deploy_companions import (
    DEFAULT_TOPOLOGY_INTERVAL_S,
    LinkDelayPlanFile,
    LinkDelaysLog,
    LinkSamplesFile,
    ReportBudget,
    TopologyIntervalS,
    make_companions,
)
from tempotrace.commands.deploy_drain import drain, undrain
from tempotrace.commands.deploy_options import (
    DEFAULT_SETTLE_S,
    AccessOptions,
    AllowPipelineChange,
    Canary,
    ElectionId,
    HealthCheck,
    NoDrain,
    NoTls,
    ReconnectFirstMs,
    ReconnectMaxS,
    RoleName,
    SettleS,
    TlsCa,
    TlsCertificate,
    TlsKey,
    TlsName,
    make_pipeline_change,
)
from tempotrace.commands.deploy_shell import shell
from tempotrace.commands.deploy_topology import topology
from tempotrace.commands.options import FabricFile, Json
from tempotrace.deploy_init import InitTopology, generate
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text
from tempotrace.terminal import fitted

Size = Annotated[int | None, typer.Option(min=1)]
PORT_MAX = 65_535

app = typer.Typer(help="Program the switches over P4Runtime.", no_args_is_help=True)
app.command("topology")(topology)
app.command("drain")(drain)
app.command("undrain")(undrain)
app.command("shell")(shell)


@app.command("init")
@one_line_errors
def init(
    fabric: FabricFile = Path("fabric.yaml"),
    topology: Annotated[
        InitTopology, typer.Option(help="Each has sizes of its own.")
    ] = InitTopology.LEAF_SPINE,
    leaves: Size = None,
    spines: Size = None,
    hosts_per_leaf: Size = None,
    pods: Size = None,
    leaves_per_pod: Size = None,
    spines_per_pod: Size = None,
    cores_per_plane: Size = None,
    units: Size = None,
    machines_per_unit: Size = None,
    nics_per_machine: Size = None,
    speed_gbps: Annotated[int, typer.Option(min=1)] = 100,
    first_port: Annotated[
        int,
        typer.Option(min=1, max=65535, help="P4Runtime port of the first switch on 127.0.0.1."),
    ] = 9559,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the file; its comments stay.")
    ] = False,
) -> None:
    """Write a fabric.yaml to start from; edit it, or try it with `lab switches`.

    leaf-spine: --leaves 8 --spines 4 --hosts-per-leaf 2. three-tier: --pods 2 --leaves-per-pod 4
    --spines-per-pod 2 --cores-per-plane 2 --hosts-per-leaf 2. rails: --units 1 --machines-per-unit
    4 --nics-per-machine 8 --spines 4.
    """
    from tempotrace.analysis import with_addresses  # loads all that corrects

    if fabric.exists() and not force:
        raise InputError(f"{fabric}: is there already; --force overwrites it")
    try:
        sizes = {
            "leaves": leaves,
            "spines": spines,
            "hosts_per_leaf": hosts_per_leaf,
            "pods": pods,
            "leaves_per_pod": leaves_per_pod,
            "spines_per_pod": spines_per_pod,
            "cores_per_plane": cores_per_plane,
            "units": units,
            "machines_per_unit": machines_per_unit,
            "nics_per_machine": nics_per_machine,
        }
        generated = generate(topology, sizes, speed_gbps=speed_gbps)
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
    text = dump_fabric(with_addresses(generated, addresses))
    if fabric.exists():
        text = carry_comments(fabric.read_text(encoding="utf-8", errors="replace"), text)
    fabric.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {fabric}: {len(generated.switches)} switches, {len(generated.links)} links")


@app.command("plan")
@one_line_errors
def plan(
    fabric: FabricFile,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every entry, not the first few of a table.")
    ] = False,
    tls_ca: TlsCa = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    no_tls: NoTls = False,
    as_json: Json = False,
) -> None:
    """Show what `apply` would change, by switch and table; writes nothing."""
    reach = _reach(tls_ca, tls_cert, tls_key, tls_name, no_tls)
    description = load_fabric(fabric, check=reach.check_deployable)
    difference = asyncio.run(compare(description, access=reach.access(description.controller)))
    if as_json:
        typer.echo(strict_text(difference_json(difference)))
    else:
        typer.echo(fitted(format_plan(difference, description, verbose=verbose)))
    _fail_if(bool(difference.errors))


@app.command("apply")
@one_line_errors
def apply(
    fabric: FabricFile,
    election_id: ElectionId = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    no_tls: NoTls = False,
    role: RoleName = None,
    allow_pipeline_change: AllowPipelineChange = False,
    canary: Canary = None,
    settle_s: SettleS = DEFAULT_SETTLE_S,
    no_drain: NoDrain = False,
    health_check: HealthCheck = None,
    as_json: Json = False,
) -> None:
    """Make the switches hold what the fabric asks for, and read everything back."""
    reach = _reach(tls_ca, tls_cert, tls_key, tls_name, no_tls, election_id, role)
    description = load_fabric(fabric, check=reach.check_deployable)
    change = make_pipeline_change(
        description,
        allowed=allow_pipeline_change,
        canary=canary,
        settle_s=settle_s,
        drain=not no_drain,
        health_check=health_check,
    )
    result = asyncio.run(
        deploy_fabric(
            description,
            access=reach.access(description.controller),
            pipeline_change=change,
            note=lambda kind, name, message: typer.echo(
                f"{name}: {kind.replace('_', ' ')}: {message}", err=True
            ),
        )
    )
    if as_json:
        typer.echo(strict_text(result_json(result)))
    else:
        typer.echo(fitted(format_result(result)))
    _fail_if(not result.ok)


@app.command("status")
@one_line_errors
def status(
    fabric: FabricFile,
    tls_ca: TlsCa = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    no_tls: NoTls = False,
    as_json: Json = False,
) -> None:
    """Show drift; exit 1 when a switch does not hold what the fabric asks for."""
    reach = _reach(tls_ca, tls_cert, tls_key, tls_name, no_tls)
    description = load_fabric(fabric, check=reach.problems)
    difference = asyncio.run(compare(description, access=reach.access(description.controller)))
    if as_json:
        typer.echo(strict_text(difference_json(difference)))
    else:
        typer.echo(fitted(format_status(difference)))
    _fail_if(not difference.in_sync)


@app.command("run")
@one_line_errors
def run(
    fabric: FabricFile,
    election_id: ElectionId = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", help="Serve /metrics, /status and /healthz on HOST:PORT."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="Append events to this file, as JSON lines.")
    ] = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    no_tls: NoTls = False,
    role: RoleName = None,
    allow_pipeline_change: AllowPipelineChange = False,
    canary: Canary = None,
    settle_s: SettleS = DEFAULT_SETTLE_S,
    no_drain: NoDrain = False,
    health_check: HealthCheck = None,
    topology_interval_s: TopologyIntervalS = DEFAULT_TOPOLOGY_INTERVAL_S,
    report_budget: ReportBudget = None,
    reconnect_first_ms: ReconnectFirstMs = None,
    reconnect_max_s: ReconnectMaxS = None,
    link_delays: LinkDelayPlanFile = None,
    link_delays_log: LinkDelaysLog = None,
    link_samples: LinkSamplesFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Events as JSON lines.")] = False,
) -> None:
    """Keep the switches as the fabric asks for, until Ctrl-C; follows changes of the file."""
    from tempotrace.commands.deploy_run import keep_fabric

    reach = _reach(tls_ca, tls_cert, tls_key, tls_name, no_tls, election_id, role)
    description, paths = load_fabric_and_paths(fabric, check=reach.check_deployable)
    change = make_pipeline_change(
        description,
        allowed=allow_pipeline_change,
        canary=canary,
        settle_s=settle_s,
        drain=not no_drain,
        health_check=health_check,
    )
    declared = description.controller
    keep_fabric(
        fabric,
        description,
        paths,
        KeeperOptions(
            access=reach.access(declared),
            pipeline_change=change,
            reconnect=WaitLimits(
                first_ns=(reconnect_first_ms or declared.reconnect_first_ms) * 1_000_000,
                max_ns=round((reconnect_max_s or declared.reconnect_max_s) * 1_000_000_000),
            ),
        ),
        metrics=metrics,
        log=log,
        companions=make_companions(
            topology_interval_s=topology_interval_s,
            report_budget_rps=declared.report_budget_rps
            if report_budget is None
            else report_budget,
            link_delays=link_delays,
            link_delays_log=link_delays_log,
            link_samples=link_samples,
        ),
        as_json=as_json,
    )


def _reach(
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
    name: str | None,
    no_tls: bool,
    election_id: int | None = None,
    role: str | None = None,
) -> AccessOptions:
    return AccessOptions(
        ca=ca,
        certificate=certificate,
        key=key,
        server_name=name,
        no_tls=no_tls,
        election_id=election_id,
        role=role,
    )


def _fail_if(failed: bool) -> None:
    if failed:
        raise typer.Exit(EXIT_CHECK_FAILED)
