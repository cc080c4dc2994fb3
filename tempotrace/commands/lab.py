# SPDX-License-Identifier: Apache-2.0
"""`tempotrace lab`: list scenarios, run one and write its files; start embedded switches."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer

from bmv2_lab.backends.needs import NEEDS, BackendError, check_needs
from bmv2_lab.backends.real_time_run import run_real_time
from bmv2_lab.backends.refusals import check_supported, refusals
from bmv2_lab.cabled_switches import CabledSwitches
from bmv2_lab.lab_run import LabRun, Progress, make_switches, run_lab
from bmv2_lab.scenarios import SCENARIOS, Scenario
from bmv2_lab.scenarios.description import described
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.p4runtime import Server, serve
from bmv2_lab.switch.stf import StfError, run_stf_text
from controller.access import AccessError, read_certificate
from controller.fabric import Fabric, cabling, programmed_switches
from controller.fabric_file import load_fabric
from controller.pipeline import load_pipeline
from controller.targets import BMV2
from tempotrace.commands.lab_delays import delays
from tempotrace.commands.lab_scale import scale
from tempotrace.commands.options import DEFAULT_SEED, FabricFile, Json, Seed
from tempotrace.demo_run import RunScenario, run_demo
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.interrupt import Interrupts
from tempotrace.reporting import ProgressDisplay, checked, print_summary
from tempotrace.strict_json import strict_text

app = typer.Typer(help="The lab: list scenarios, run one.", no_args_is_help=True)
app.command("scale")(scale)
app.command("delays")(delays)

VIRTUAL = "virtual"
"""The backend that needs nothing."""


@app.command("list")
def list_scenarios(
    as_json: Json = False,
) -> None:
    """List the scenarios; --json adds parameters, disturbances, limits and refusals."""
    if as_json:
        typer.echo(strict_text([_listed(scenario) for scenario in SCENARIOS.values()]))
        return
    for scenario in SCENARIOS.values():
        number = "" if scenario.number is None else f"{scenario.number}"
        typer.echo(f"{number:>2} {scenario.name:26} {scenario.summary}")


def _listed(scenario: Scenario) -> dict[str, Any]:
    """Its description, and by backend what of it cannot be had on real packets, and why."""
    refused = {backend: refusals(scenario, backend) for backend in NEEDS}
    return {**described(scenario), "refused": {b: why for b, why in refused.items() if why}}


@app.command("run")
@one_line_errors
def run(
    scenario: Annotated[str, typer.Argument(help="A name from `lab list`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    seed: Seed = DEFAULT_SEED,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            help="virtual: seeded discrete-event simulation; veth: embedded switches on veth "
            "ports in real time, with the real ptp4l; bmv2: simple_switch_grpc in Mininet.",
        ),
    ] = "virtual",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run a scenario, score it against its truth, and write all files."""
    chosen = scenario_named(scenario)
    run_scenario = _runner(backend, chosen)
    with (
        Interrupts() as interrupts,
        ProgressDisplay(quiet=as_json) as display,
        run_demo(
            chosen,
            seed,
            out,
            checked(display.update, interrupts),
            run_scenario=run_scenario,
        ) as finished,
    ):
        if as_json:
            typer.echo(strict_text(finished.summary))
        else:
            display.close()
            print_summary(finished.summary)
        broken = broken_limits(finished.summary)
    for line in broken:
        typer.echo(line, err=True)
    if broken:
        raise typer.Exit(EXIT_CHECK_FAILED)


def broken_limits(summary: dict[str, Any]) -> list[str]:
    """A line for each limit of the scenario, or of a real-time run, that was not kept."""
    limits = [
        *summary.get("limits", []),
        *summary.get("estimate_limits", []),
        *summary.get("real_time", {}).get("limits", []),
    ]
    return [
        f"limit not kept: {one['name']}: {_figure(one['found'])}, expected {one['range']}"
        for one in limits
        if not one["passed"]
    ]


def _figure(found: float | None) -> str:
    return "not measured" if found is None else f"{found:g}"


def _runner(backend: str, chosen: Scenario) -> RunScenario:
    """What runs a scenario on a backend; a one-line error where backend or machine cannot."""
    if backend == VIRTUAL:
        return run_lab
    if backend not in NEEDS:
        raise InputError(
            f"lab run: no backend {backend!r}; there are: {', '.join((VIRTUAL, *NEEDS))}"
        )
    try:
        check_supported(chosen, backend)
        check_needs(backend)
    except BackendError as error:
        raise InputError(str(error)) from None

    def run_scenario(scenario: Scenario, seed: int, progress: Progress) -> LabRun:
        try:
            return run_real_time(scenario, backend, seed, progress)
        except BackendError as error:
            raise InputError(str(error)) from None

    return run_scenario


@app.command("switches")
@one_line_errors
def switches(
    fabric: FabricFile,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", help="Serve TLS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key (PEM).")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option("--tls-client-ca", help="Ask clients for a certificate of these authorities."),
    ] = None,
) -> None:
    """Start an embedded switch per switch of the fabric, cabled as in the file, on their P4Runtime
    addresses."""
    credentials = _server_credentials(tls_cert, tls_key, tls_client_ca)
    description = load_fabric(fabric)
    programmed = programmed_switches(description)
    for switch in programmed:
        target = description.model(switch.model).target
        if target != BMV2.name:
            raise InputError(
                f"{fabric}: {switch.name}: model {switch.model} is a {target}; "
                f"expected target {BMV2.name}, which embedded switches are"
            )
    listening = {s.name: _local_address(s.name, s.p4runtime) for s in programmed}
    try:
        asyncio.run(_serve_switches(description, listening, credentials))
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)


def _server_credentials(
    certificate: Path | None, key: Path | None, client_ca: Path | None
) -> grpc.ServerCredentials | None:
    if certificate is None or key is None:
        if certificate or key or client_ca:
            raise InputError("lab switches: TLS needs --tls-cert and --tls-key")
        return None
    try:
        return grpc.ssl_server_credentials(
            [(read_certificate(key), read_certificate(certificate))],
            None if client_ca is None else read_certificate(client_ca),
            require_client_auth=client_ca is not None,
        )
    except AccessError as error:
        raise InputError(str(error)) from None


async def _serve_switches(
    fabric: Fabric,
    listening: dict[str, tuple[str, int]],
    credentials: grpc.ServerCredentials | None,
) -> None:
    made = make_switches(fabric, load_pipeline())
    running = {name: made[name] for name in listening}
    CabledSwitches(running, cabling(fabric))
    servers: list[Server] = []
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        for name, switch in running.items():
            host, port = listening[name]
            try:
                server = await serve([switch], host=host, first_port=port, credentials=credentials)
                servers.append(server)
            except (OSError, RuntimeError):
                raise InputError(f"{name}: cannot listen on {host}:{port}") from None
            typer.echo(f"{name:10} {host}:{port}")
        typer.echo(f"{len(running)} switches serve P4Runtime; Ctrl-C ends them")
        await stop.wait()
    finally:
        for server in servers:
            await server.stop()


def _local_address(name: str, address: str | None) -> tuple[str, int]:
    host, _, port = (address or "").rpartition(":")
    if not host or not (port.isascii() and port.isdigit()):
        raise InputError(f"{name}: no P4Runtime address; set p4runtime in the file")
    return host, int(port)


@app.command("stf")
@one_line_errors
def stf(
    program: Annotated[Path, typer.Option("--json", help="BMv2 JSON of a program.")],
    test: Annotated[Path, typer.Option("--stf", help="A switch test in STF.")],
) -> None:
    """Run a switch test; prints pass or the first difference (exit 1)."""
    try:
        result = run_stf_text(program.read_text(encoding="utf-8"), test.read_text(encoding="utf-8"))
    except StfError as error:
        raise InputError(f"{test}: {error}") from None
    except ProgramError as error:
        raise InputError(f"{program}: {error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{program} or {test}: not text: {error.reason}") from None
    if result.passed:
        typer.echo(f"pass: {result.packets_in} packets in, {result.packets_out} packets out")
        return
    typer.echo(result.difference)
    raise typer.Exit(EXIT_CHECK_FAILED)


def scenario_named(name: str) -> Scenario:
    """The scenario, or a one-line error with the names there are."""
    if name not in SCENARIOS:
        raise InputError(f"no scenario called {name!r}; there are: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
