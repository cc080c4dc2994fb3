# SPDX-License-Identifier: Apache-2.0
"""`tempotrace correct plan`: the cheapest extra measurement, and the bound after it."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from controller.fabric_file import load_fabric
from correction.engine import selected
from correction.model import FabricModel
from correction.planned_edges import names_of, planned_fabric
from correction.planning import COSTS, Kind, Plan, plan
from tempotrace.analysis import analyse
from tempotrace.commands.options import FabricFile, Json
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text

PLAN_VERSION = 1
COST_MAX = 1e9
_WHAT = {
    Kind.PROBE: "probe",
    Kind.CROSS_STAMPS: "take cross-stamps of",
    Kind.FIBRE_SWAP: "swap the fibres of",
    Kind.SECOND_ATTACHMENT: "cable",
    Kind.REFERENCE_CLOCK: "give a receiver to",
}


@one_line_errors
def plan_command(
    fabric: FabricFile,
    reports: Annotated[Path, typer.Option("--reports", help="pcap of telemetry reports.")],
    exchanges: Annotated[Path, typer.Option("--exchanges", help="exchanges.jsonl of the hosts.")],
    clock_pairs: Annotated[
        Path | None, typer.Option("--clock-pairs", help="clock_pairs.jsonl: cross-stamps.")
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            "--cost",
            help="KIND=COST, 0 to leave a kind out; kinds: "
            + ", ".join(kind.value for kind in Kind),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Name what to measure next, and the bound to expect after it.

    It determines the clocks that are not, or where all are, halves the largest conditional bound.
    Exit 1: no measurement that can be named does.
    """
    costs = _costs(cost or [])
    described = load_fabric(fabric)
    analysis = analyse(described, reports, exchanges, clock_pairs)
    model, measured = analysis.model, analysis.solution.measured
    if not len(analysis.windows):
        raise InputError(f"{reports}: no window holds telemetry: nothing to plan from")
    selection = selected(measured)
    index = {clock.name: number for number, clock in enumerate(model.clocks)}
    machines = {index[host.name]: host.machine for host in described.hosts if host.machine}
    given = planned_fabric(measured, selection, machines)
    candidates = tuple(one for one in given.candidates if one.kind in costs)
    found = plan(given.edges, model.reference, candidates, given.counts, costs=costs)
    if as_json:
        typer.echo(strict_text(plan_document(found, model)))
    else:
        for line in plan_lines(found, model):
            typer.echo(line)
    if not found.reached:
        raise typer.Exit(EXIT_CHECK_FAILED)


def plan_document(found: Plan, model: FabricModel) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "version": PLAN_VERSION,
        "undetermined": names_of(model, found.undetermined),
        "largest_bound_conditional_ns": _finite(found.largest_ns),
        "reached": found.reached,
        "steps": [
            {
                "kind": step.candidate.kind.value,
                "subject": step.candidate.subject,
                "cost": step.cost,
                "determines": names_of(model, step.determines),
                "largest_bound_conditional_ns": _finite(step.largest_ns),
                "bound_conditional_ns": {
                    clock.name: _finite(float(bound))
                    for clock, bound in zip(model.clocks, step.bounds_ns, strict=True)
                },
            }
            for step in found.steps
        ],
    }


def plan_lines(found: Plan, model: FabricModel) -> list[str]:
    """The same for a reader."""
    lines = []
    if found.undetermined:
        lines.append(f"not determined: {', '.join(names_of(model, found.undetermined))}")
    lines.append(f"largest conditional bound: {_shown(found.largest_ns)}")
    for number, step in enumerate(found.steps, start=1):
        what = f"{_WHAT[step.candidate.kind]} {step.candidate.subject}"
        then = f"largest bound {_shown(step.largest_before_ns)} -> {_shown(step.largest_ns)}"
        lines.append(f"{number}. {what} (cost {step.cost:g}): {then}")
        if step.determines:
            lines.append(f"   determines {', '.join(names_of(model, step.determines))}")
    if not found.reached:
        lines.append("no further measurement of these kinds helps")
    return lines


def _costs(texts: list[str]) -> dict[Kind, float]:
    costs = dict(COSTS)
    for text in texts:
        name, _, value = text.partition("=")
        try:
            kind, amount = Kind(name), float(value)
        except ValueError:
            raise InputError(f"--cost {text}: expected KIND=COST") from None
        if not 0.0 <= amount <= COST_MAX:
            raise InputError(f"--cost {text}: expected a cost from 0 to {COST_MAX:g}")
        costs[kind] = amount
    return {kind: amount for kind, amount in costs.items() if amount > 0.0}


def _finite(value: float) -> float | None:
    return round(value, 1) if np.isfinite(value) else None


def _shown(value: float) -> str:
    return f"{value:.0f} ns" if np.isfinite(value) else "unlimited"
