# SPDX-License-Identifier: Apache-2.0
"""`tempotrace correct paths`: delay and asymmetry of flows and PTP associations on their paths."""

import re
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from controller.fabric import PTP_EVENT_UDP_PORT, Fabric
from controller.fabric_file import load_fabric
from correction.flow_paths import Flow
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE
from tempotrace.analysis import LINKS_MAX, analyse, warn_of_refusals
from tempotrace.commands.options import FabricFile, Json, LinkDelays
from tempotrace.errors import InputError, one_line_errors
from tempotrace.followed_paths import run_followed_paths
from tempotrace.left_out import print_left_out
from tempotrace.path_session import PathSession, PtpFreedom
from tempotrace.path_tables import PathTables
from tempotrace.strict_json import strict_text

RANGE_PATTERN = re.compile(r"(\d{1,7})-(\d{1,7})")
FLOW_LABEL_MAX = 0xF_FFFF
FLOW_PATTERN = re.compile(r"(?P<src>.+):(?P<src_port>\d+)-(?P<dst>.+):(?P<dst_port>\d+)")


@one_line_errors
def paths(
    fabric: FabricFile,
    reports: Annotated[Path, typer.Option("--reports", help="pcap of telemetry reports.")],
    exchanges: Annotated[Path, typer.Option("--exchanges", help="exchanges.jsonl of the hosts.")],
    clock_pairs: Annotated[
        Path | None,
        typer.Option("--clock-pairs", help="clock_pairs.jsonl: cross-stamps of machines' NICs."),
    ] = None,
    link_delays: LinkDelays = None,
    flow: Annotated[
        str | None,
        typer.Option("--flow", help="SRC:PORT-DST:PORT; hosts by name or IPv4 address."),
    ] = None,
    ptp: Annotated[str | None, typer.Option("--ptp", help="Only this client.")] = None,
    choices: Annotated[
        bool, typer.Option("--choices", help="Rank what ECMP leads elsewhere, for --flow or --ptp.")
    ] = False,
    address: Annotated[
        list[str] | None,
        typer.Option("--address", help="Further address of the client; may be repeated."),
    ] = None,
    reference_address: Annotated[
        list[str] | None,
        typer.Option(
            "--reference-address", help="Further address of the grandmaster; may be repeated."
        ),
    ] = None,
    client_ports: Annotated[
        str | None,
        typer.Option(
            "--client-ports",
            help="FIRST-LAST: UDP ports of the client's, where the grandmaster answers to them.",
        ),
    ] = None,
    flow_labels: Annotated[
        str | None,
        typer.Option("--flow-labels", help="FIRST-LAST: IPv6 flow labels, where they are hashed."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print one-way delays, delayAsymmetry, what causes it, and what a rehash changed."""
    if flow is not None and ptp is not None:
        raise InputError("correct paths: --flow and --ptp exclude each other")
    if choices and flow is None and ptp is None:
        raise InputError("correct paths: --choices needs --flow or --ptp")
    description = load_fabric(fabric)
    if len(description.links) > LINKS_MAX:
        if flow is not None or choices or link_delays is not None:
            raise InputError(
                f"correct paths: --flow, --choices and --link-delays go with up to {LINKS_MAX} "
                f"links, {description.name} has {len(description.links)}"
            )
        run_followed_paths(description, reports, exchanges, clock_pairs, ptp, as_json=as_json)
        return
    free = PtpFreedom(
        client_addresses=_addresses(description, address, "--address"),
        reference_addresses=_addresses(description, reference_address, "--reference-address"),
        client_ports=_range(client_ports, "--client-ports", 0xFFFF),
        flow_labels=_range(flow_labels, "--flow-labels", FLOW_LABEL_MAX),
    )
    analysis = analyse(description, reports, exchanges, clock_pairs, link_delays)
    warn_of_refusals(analysis)
    session = PathSession(analysis)
    tables = PathTables(session.documents, session.check)
    if flow is not None:
        wanted = _parse_flow(flow, analysis.fabric)
        found = session.flow(wanted)
        ranked = session.roce_choices(wanted) if choices else ()
        parts = [session.documents.flow(found)]
        shifts = session.shifts(
            [change for change in session.changes if change.flow in (found.flow, found.back)]
        )
        document = session.document(flows=parts, shifts=shifts, ranked=ranked)
        if not as_json:
            tables.flow(found)
            tables.shifts(shifts)
            tables.choices(ranked)
    else:
        clients = session.associations(ptp)
        ranked = session.ptp_choices(ptp, free) if choices and ptp else ()
        shifts = () if ptp else session.shifts(session.changes)
        document = session.document(clients=clients, shifts=shifts, ranked=ranked)
        if not as_json:
            tables.associations(clients, detailed=ptp is not None)
            tables.shifts(shifts)
            tables.choices(ranked)
    if as_json:
        typer.echo(strict_text(document))
    else:
        print_left_out(Console(), analysis)


def _parse_flow(text: str, fabric: Fabric) -> Flow:
    """A 5-tuple as given; traffic follows from the ports."""
    match = FLOW_PATTERN.fullmatch(text)
    if match is None:
        raise InputError(f"correct paths: --flow {text}: not SRC:PORT-DST:PORT")
    ports = int(match["src_port"]), int(match["dst_port"])
    if max(ports) > 0xFFFF:
        raise InputError(f"correct paths: --flow {text}: no such port")
    traffic = TRAFFIC_PTP if PTP_EVENT_UDP_PORT in ports else TRAFFIC_ROCE
    ends = [_address(fabric, match[name], "--flow") for name in ("src", "dst")]
    return Flow(traffic, ends[0], ends[1], ports[0], ports[1], 0)


def _addresses(fabric: Fabric, texts: list[str] | None, option: str) -> tuple[int, ...]:
    return tuple(_address(fabric, text, option) for text in texts or ())


def _range(text: str | None, option: str, last_max: int) -> range | None:
    """FIRST-LAST, both included."""
    if text is None:
        return None
    match = RANGE_PATTERN.fullmatch(text)
    if match is None:
        raise InputError(f"correct paths: {option} {text}: not FIRST-LAST")
    first, last = int(match[1]), int(match[2])
    if not first <= last <= last_max:
        raise InputError(f"correct paths: {option} {text}: expected 0 to {last_max}, in order")
    return range(first, last + 1)


def _address(fabric: Fabric, text: str, option: str) -> int:
    """Of a host by name, or an IPv4 address."""
    for host in fabric.hosts:
        if host.name == text:
            return host.ip
    try:
        return int(IPv4Address(text))
    except AddressValueError:
        raise InputError(
            f"correct paths: {option}: {text} is neither a host nor an IPv4 address"
        ) from None
