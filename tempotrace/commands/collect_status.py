# SPDX-License-Identifier: Apache-2.0
"""`tempotrace collect status`: why are there no reports?"""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console

from controller.collector.collect_capture import CaptureCollector
from controller.collector.cores import make_core
from controller.collector.diagnosis import Evidence, PortState, Severity
from controller.collector.outputs.pump import OutputPump
from controller.collector.sockets import port_holders
from controller.collector.status import diagnose
from controller.collector.status_page import VERSION, status_page
from controller.fabric import Fabric
from controller.fabric_file import load_fabric
from controller.telemetry.topology import telemetry_fabric
from tempotrace.commands.options import Json
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text
from tempotrace.waiting import COMPILING, told_if_long

STATUS_URL = "http://127.0.0.1:9464"
ANSWER_S = 10.0

_STYLES = {"error": "bold red", "warning": "yellow", "ok": "green"}


@one_line_errors
def status(
    context: typer.Context,
    fabric: Annotated[
        Path | None,
        typer.Option("-f", "--fabric", help="fabric.yaml: needed unless a collector answers."),
    ] = None,
    url: Annotated[
        str, typer.Option("--url", help="A collector's --metrics address.")
    ] = STATUS_URL,
    pcap: Annotated[
        Path | None, typer.Option("--pcap", help="Diagnose a capture instead (- is stdin).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say why there are no reports, or too few: what was seen, and the next step."""
    fabric = fabric or context.obj  # -f may stand before `status`, too
    if pcap is not None:
        if fabric is None:
            raise InputError("collect status: --pcap needs -f fabric.yaml")
        page = _of_capture(pcap, load_fabric(fabric))
    else:
        page = _of_collector(url, fabric)
    if as_json:
        typer.echo(strict_text(page))
    else:
        _print(page)
    if any(item["severity"] == Severity.ERROR.value for item in page["diagnoses"]):
        raise typer.Exit(EXIT_CHECK_FAILED)


def missing_ports(fabric: Fabric, bound_ports: Sequence[int]) -> list[PortState]:
    """Ports that the switches report to and nobody here has bound; none if one of them is.

    With several collectors, each machine has its own.
    """
    wanted = {item.udp_port: item.ip for item in fabric.collectors}
    if wanted.keys() & set(bound_ports):
        return []
    return [
        PortState(
            host=str(ip_address(ip)),
            udp_port=udp_port,
            bound=False,
            holders=tuple(str(holder) for holder in port_holders(udp_port)),
        )
        for udp_port, ip in sorted(wanted.items())
    ]


def _of_collector(url: str, fabric: Path | None) -> dict[str, Any]:
    """What a running collector says; without one, what its ports say."""
    base = url if "://" in url else f"http://{url}"
    try:
        answer = httpx.get(f"{base.rstrip('/')}/status", timeout=ANSWER_S, trust_env=False)
        answer.raise_for_status()
        page: dict[str, Any] = answer.json()
        if page["version"] != VERSION:
            raise InputError(f"collect status: {base}: expected version {VERSION} of the status")
        return page
    except (ValueError, KeyError, httpx.HTTPStatusError, httpx.InvalidURL):
        raise InputError(f"collect status: {base} is no collector's --metrics address") from None
    except httpx.TransportError as error:
        if fabric is None:
            raise InputError(
                f"collect status: no collector answers at {base} ({error}); with -f fabric.yaml "
                "its ports are looked at"
            ) from None
    description = load_fabric(fabric)
    ports = missing_ports(description, ())
    return status_page(diagnose(Evidence(fabric=description, ports=ports)), None)


def _of_capture(path: Path, fabric: Fabric) -> dict[str, Any]:
    with told_if_long(COMPILING):
        core = make_core(fabric)
    capture = CaptureCollector(telemetry_fabric(fabric), core)
    state = capture.run(path, OutputPump((), run=token_hex(8)), progress=lambda _share: None)
    return status_page(diagnose(Evidence(fabric=fabric, state=state, is_live=False)), state)


def _print(page: dict[str, Any]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    collector = page["collector"]
    if collector is None:
        console.print("no collector answers")
    else:
        console.print(
            f"received {collector['received']}, decoded {collector['decoded']}, lost "
            f"{collector['lost']}, whole paths {collector['packets_complete']}, incomplete "
            f"{collector['packets_incomplete']}"
        )
    for item in page["diagnoses"]:
        console.print(f"\n{item['severity'].upper()}: ", style=_STYLES[item["severity"]], end="")
        console.print(item["summary"], markup=False)
        for line in item["evidence"]:
            console.print(f"  seen: {line}", markup=False)
        console.print(f"  next: {item['next_step']}", markup=False)
