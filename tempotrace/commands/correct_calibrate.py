# SPDX-License-Identifier: Apache-2.0
"""`tempotrace correct calibrate`: stamp-point constants from loopback cables and fibre swaps."""

import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.fabric import DeviceModel, Fabric, StampPoints, Switch
from controller.fabric_file import load_fabric
from controller.telemetry.collector import collect
from controller.telemetry.pcap import read_pcap
from correction.calibration import (
    CalibrationError,
    Constants,
    Interval,
    Loop,
    SwapResult,
    calibrate,
    loop_sum,
    loop_values,
    swapped_parts,
)
from correction.engine import selected
from correction.model import StampPoint
from tempotrace.analysis import analyse
from tempotrace.commands.options import FabricFile, Json
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text

CALIBRATION_VERSION = 1
_LOOPBACK = re.compile(
    r"(?P<a>[^:]+):(?P<p>\d+)-(?P<b>[^:]+):(?P<q>\d+):(?P<length>[\d.]+)m"
    r"(?:\+-(?P<tolerance>[\d.]+)m)?@(?P<speed>\d+)G"
)


@one_line_errors
def calibrate_command(
    fabric: FabricFile,
    reports: Annotated[Path, typer.Option("--reports", help="pcap of telemetry reports.")],
    loopback: Annotated[
        list[str] | None,
        typer.Option(
            "--loopback",
            help="A cable between ports of one switch, SWITCH:PORT-SWITCH:PORT:LENGTHm+-TOLm@SPEEDG"
            " (one port twice: a loop on it). Repeat for more.",
        ),
    ] = None,
    exchanges: Annotated[
        Path | None, typer.Option("--exchanges", help="exchanges.jsonl; for --swapped.")
    ] = None,
    swapped: Annotated[
        list[str] | None,
        typer.Option("--swapped", help="A link whose fibres were swapped. Repeat for more."),
    ] = None,
    after_reports: Annotated[
        Path | None, typer.Option("--after-reports", help="Reports after the swap.")
    ] = None,
    after_exchanges: Annotated[
        Path | None, typer.Option("--after-exchanges", help="Exchanges after the swap.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure stamp-point constants; print them as a part of fabric.yaml.

    Exit 1: the measurements contradict what is declared, and the text names where.
    """
    described = load_fabric(fabric)
    if not loopback and not swapped:
        raise InputError("calibrate: expected --loopback or --swapped")
    swaps: list[SwapResult] = []
    try:
        constants = _from_loops(described, reports, loopback or [])
        if swapped:
            if exchanges is None or after_reports is None or after_exchanges is None:
                raise InputError("--swapped needs --exchanges, --after-reports, --after-exchanges")
            after = (after_reports, after_exchanges)
            swaps = _from_swaps(described, (reports, exchanges), after, swapped)
    except CalibrationError as error:
        typer.echo(f"contradiction: {error}")
        raise typer.Exit(EXIT_CHECK_FAILED) from None
    if as_json:
        typer.echo(strict_text(calibration_document(constants, swaps)))
        return
    if constants:
        typer.echo(fabric_snippet(described, constants))
    if swaps:
        typer.echo("links:")
    for swap in swaps:
        typer.echo("\n".join(swap_lines(described, swap)))


def calibration_document(
    constants: dict[str, Constants], swaps: list[SwapResult]
) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "version": CALIBRATION_VERSION,
        "constants": [
            {
                "model": name.rpartition("/")[0],
                "speed_gbps": int(name.rpartition("/")[2].removesuffix("G")),
                "egress_latency_ns": found.egress.middle_ns,
                "egress_uncertainty_ns": found.egress.half_ns,
                "ingress_latency_ns": found.ingress.middle_ns,
                "ingress_uncertainty_ns": found.ingress.half_ns,
                "sum_low_ns": found.sum_of_both.low_ns,
                "sum_high_ns": found.sum_of_both.high_ns,
                "loops": found.loops,
            }
            for name, found in sorted(constants.items())
        ],
        "swaps": [asdict(swap) for swap in swaps],
    }


def fabric_snippet(fabric: Fabric, constants: dict[str, Constants]) -> str:
    """`stamp_points` of the models that were measured, whole ns that hold the limits."""
    lines = ["models:"]
    for model in fabric.models:
        mine = [p for p in model.stamp_points if _group(model.name, p.speed_gbps) in constants]
        if not mine:
            continue
        lines += [f"  - name: {model.name}", "    stamp_points:"]
        for points in mine:
            found = constants[_group(model.name, points.speed_gbps)]
            lines += [
                f"      - speed_gbps: {points.speed_gbps}",
                f"        ingress: {_point(points.ingress, found.ingress)}",
                f"        egress: {_point(points.egress, found.egress)}",
            ]
    return "\n".join(lines)


def _point(declared: StampPoint, found: Interval) -> str:
    latency_ns = round(found.middle_ns)
    off_ns = max(found.high_ns - latency_ns, latency_ns - found.low_ns)
    end = ", at_frame_end: true" if declared.at_frame_end else ""
    return f"{{latency_ns: {latency_ns}, uncertainty_ns: {math.ceil(off_ns)}{end}}}"


def _group(model: str, speed_gbps: int) -> str:
    return f"{model}/{speed_gbps}G"


def _from_loops(fabric: Fabric, reports: Path, texts: list[str]) -> dict[str, Constants]:
    if not texts:
        return {}
    loops, declared = [], {}
    for text in texts:
        loop, points = _loop(fabric, text)
        loops.append(loop)
        declared[loop.model] = (_declared(points.egress), _declared(points.ingress))
    collection = collect(read_pcap(reports), fabric)
    values = loop_values(collection.packets, collection.hops, loops)
    return calibrate(declared, [(loop, loop_sum(loop, values[loop.name])) for loop in loops])


def _declared(point: StampPoint) -> Interval:
    """Limits of one latency; nobody vouches for those of a point that is not calibrated."""
    if not point.calibrated:
        return Interval(low_ns=0.0, high_ns=math.inf)
    low = float(point.latency_ns - point.uncertainty_ns)
    return Interval(low_ns=low, high_ns=float(point.latency_ns + point.uncertainty_ns))


def _loop(fabric: Fabric, text: str) -> tuple[Loop, StampPoints]:
    found = _LOOPBACK.fullmatch(text)
    if found is None or found["a"] != found["b"]:
        raise InputError(
            f"--loopback {text}: expected SWITCH:PORT-SWITCH:PORT:LENGTHm+-TOLm@SPEEDG, one switch"
        )
    switch = next((one for one in fabric.switches if one.name == found["a"]), None)
    if switch is None:
        raise InputError(f"--loopback {text}: {found['a']} is no switch of the fabric")
    model, points = _points(fabric, switch, int(found["speed"]), text)
    length_m, tolerance_m = float(found["length"]), float(found["tolerance"] or 0.0)
    ends = int(points.ingress.at_frame_end) - int(points.egress.at_frame_end)
    loop = Loop(
        name=text,
        node_id=switch.node_id,
        ports=(int(found["p"]), int(found["q"])),
        model=_group(model.name, points.speed_gbps),
        fibre_low_ns=max(0.0, length_m - tolerance_m) * fabric.propagation_ns_per_m_min,
        fibre_high_ns=(length_m + tolerance_m) * fabric.propagation_ns_per_m_max,
        quantum_ns=model.stamp_unit_ns,
        jitter_ns=float(model.stamp_jitter_ns),
        serialisation_ns_per_byte=ends * 8.0 / points.speed_gbps,
    )
    return loop, points


def _points(
    fabric: Fabric, switch: Switch, speed_gbps: int, text: str
) -> tuple[DeviceModel, StampPoints]:
    model = fabric.model(switch.model)
    points = model.stamp_points_at(speed_gbps)
    if points is None:
        raise InputError(
            f"--loopback {text}: {model.name} has no stamp points at {speed_gbps} Gb/s"
        )
    return model, points


def _from_swaps(
    fabric: Fabric, before: tuple[Path, Path], after: tuple[Path, Path], names: list[str]
) -> list[SwapResult]:
    first, second = (analyse(fabric, *files).solution for files in (before, after))
    number = {link.name: index for index, link in enumerate(first.model.links)}
    for name in names:
        if name not in number:
            raise InputError(f"--swapped {name}: is no link of the fabric")
        if not (first.links.observable[number[name]] and second.links.observable[number[name]]):
            raise InputError(f"--swapped {name}: lies in no loop, its asymmetry is not seen")
    measured = [(one.measured, selected(one.measured)) for one in (first, second)]
    return list(swapped_parts(measured[0], measured[1], tuple(number[name] for name in names)))


def swap_lines(fabric: Fabric, swap: SwapResult) -> list[str]:
    """What was found, and the link's line of fabric.yaml for the fibres as they lie now."""
    link = next(one for one in fabric.links if one.name == swap.link)
    asymmetry_ns = link.asymmetry_ns - swap.fibre_ns
    return [
        f"# {swap.link}: half the one-way difference before the swap: "
        f"fibres {swap.fibre_ns:+.1f} ns (sd {swap.fibre_sd_ns:.1f}), "
        f"ports {swap.ports_ns:+.1f} ns (sd {swap.ports_sd_ns:.1f})",
        f"  - {{a: {link.a}, b: {link.b}, asymmetry_ns: {asymmetry_ns:.1f}, "
        f"asymmetry_sd_ns: {max(swap.fibre_sd_ns, 0.1):.1f}}}",
    ]
