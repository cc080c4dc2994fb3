# SPDX-License-Identifier: Apache-2.0
"""`tempotrace correct`: corrections with bounds from a recording."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from controller.fabric_file import load_fabric
from controller.int_policy.delay_plan_file import publish_link_delays
from controller.ptp_entries import residence_offset_scaled
from correction.link_bounds import link_bounds
from tempotrace.analysis import (
    LINKS_MAX,
    Analysis,
    analyse,
    correction_rows,
    link_estimates,
    warn_of_refusals,
)
from tempotrace.commands.correct_calibrate import calibrate_command
from tempotrace.commands.correct_explain import explain_command
from tempotrace.commands.correct_follow import follow
from tempotrace.commands.correct_paths import paths
from tempotrace.commands.correct_plan import plan_command
from tempotrace.commands.options import FabricFile, Json, LinkDelays
from tempotrace.errors import InputError, one_line_errors
from tempotrace.followed import run_followed
from tempotrace.left_out import fields_document, print_left_out, rejected_document
from tempotrace.strict_json import strict_text
from tracing_core.corrections import CorrectionTable

app = typer.Typer(help="Estimate clocks and asymmetries.", no_args_is_help=True)

app.command("calibrate")(calibrate_command)
app.command("plan")(plan_command)
app.command("explain")(explain_command)
app.command("follow")(follow)

CORRECTIONS_VERSION = 1
FIRST_VERSION = 1
"""Correction version of a single recording's rows."""


@app.command("run")
@one_line_errors
def run(
    fabric: FabricFile,
    reports: Annotated[Path, typer.Option("--reports", help="pcap of telemetry reports.")],
    exchanges: Annotated[Path, typer.Option("--exchanges", help="exchanges.jsonl of the hosts.")],
    clock_pairs: Annotated[
        Path | None,
        typer.Option(
            "--clock-pairs",
            help="clock_pairs.jsonl: cross-stamps of NICs, pairs of hosts' other clocks.",
        ),
    ] = None,
    link_delays: LinkDelays = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write corrections as JSON.")] = None,
    link_delay_plan: Annotated[
        Path | None,
        typer.Option(
            "--link-delay-plan",
            help="Publish what transparent clocks should add, for `deploy run`.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="Write the proof of the verdicts, for `verify`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Decode, join and solve; print clocks and asymmetric links."""
    description = load_fabric(fabric)
    if len(description.links) > LINKS_MAX:
        if (certificate, link_delays, link_delay_plan) != (None, None, None):
            raise InputError(
                "correct run: --certificate, --link-delays and --link-delay-plan go with up to "
                f"{LINKS_MAX} links"
            )
        run_followed(description, reports, exchanges, clock_pairs, out, as_json=as_json)
        return
    analysis = analyse(description, reports, exchanges, clock_pairs, link_delays)
    warn_of_refusals(analysis)
    document = corrections_document(analysis)
    if out is not None:
        out.write_text(strict_text(document) + "\n", encoding="utf-8")
    if certificate is not None:
        proof = strict_text(analysis.solution.certificate)
        certificate.write_text(proof + "\n", encoding="utf-8")
    if link_delay_plan is not None:
        offsets = {
            one.name: residence_offset_scaled(description, one) for one in description.switches
        }
        publish_link_delays(link_delay_plan, analysis.solution, offsets)
    if as_json:
        typer.echo(strict_text(document))
    else:
        _print(analysis)


def corrections_document(analysis: Analysis) -> dict[str, Any]:
    """Corrections and link estimates in their file form (docs/schemas/corrections.schema.json)."""
    return {
        "version": CORRECTIONS_VERSION,
        "prior": analysis.table.prior,
        "corrections": [
            {
                "clock": row.clock,
                "valid_from_local_ns": str(row.valid_from_local_ns),
                "valid_to_local_ns": str(row.valid_to_local_ns),
                "anchor_local_ns": str(row.anchor_local_ns),
                "offset_ns": str(row.offset_ns),
                "rate_ppb": row.rate_ppb,
                "bound_hard_ns": row.bound_hard_ns,
                "bound_conditional_ns": row.bound_conditional_ns,
                "method": row.method,
                "status": row.status.value,
                "reason": row.reason,
            }
            for row in correction_rows(analysis)
        ],
        "links": _link_documents(analysis),
        "findings": [
            {"kind": f.kind, "window": f.window, "subject": f.subject, "detail": f.detail}
            for f in analysis.solution.findings
        ],
        "correction_fields": fields_document(analysis),
        "rejected": rejected_document(analysis),
    }


def _link_documents(analysis: Analysis) -> list[dict[str, Any]]:
    bounds = link_bounds(analysis.solution)
    documents: list[dict[str, Any]] = []
    for number, link in enumerate(link_estimates(analysis)):
        known = math.isfinite(link.a_uv_ns)
        documents.append(
            {
                "link": link.link,
                "a_uv_ns": _number(link.a_uv_ns),
                "sigma_ns": _number(link.sigma_ns),
                "bound_hard_ns": _number(float(bounds.hard_ns[number])) if known else None,
                "bound_conditional_ns": (
                    _number(float(bounds.conditional_ns[number])) if known else None
                ),
                "asymmetric": link.bad,
            }
        )
    return documents


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def _print(analysis: Analysis) -> None:
    console = Console()
    if not len(analysis.windows):
        console.print("no window holds telemetry: nothing to correct")
        print_left_out(console, analysis)
        return
    clocks = Table(
        title=f"clocks at the centre of the last of {len(analysis.windows)} windows, "
        "as they read (servo adjustments included)"
    )
    for name in ("clock", "status", "offset ns", "rate ppb", "hard ± ns", "conditional ± ns"):
        clocks.add_column(
            name, justify="left" if name in ("clock", "status") else "right", overflow="fold"
        )
    rows = [(FIRST_VERSION, row) for row in correction_rows(analysis)]
    newest = CorrectionTable(rows, version=FIRST_VERSION).newest_windows()
    derived = (clock.clock for clock in analysis.derived.clocks)
    for name in (*(clock.name for clock in analysis.model.clocks), *derived):
        row = newest[name].centre if name in newest else None
        if row is None:
            clocks.add_row(name, "unknown", "", "", "", "")
            continue
        clocks.add_row(
            name,
            row.status.value,
            str(row.offset_ns),
            f"{row.rate_ppb:.1f}",
            _bound(row.bound_hard_ns),
            _bound(row.bound_conditional_ns),
        )
    console.print(clocks)
    for reason in analysis.derived.unknown.values():
        console.print(f"unknown: {reason}")
    _print_links(console, analysis)
    for finding in analysis.solution.findings:
        console.print(f"{finding.kind}: {finding.subject}: {finding.detail}")
    print_left_out(console, analysis)


def _print_links(console: Console, analysis: Analysis) -> None:
    """The asymmetric ones, and of how many links the asymmetry shows at all."""
    table = Table(title="asymmetric links (half the one-way difference)")
    table.add_column("link")
    for name in ("a_uv ns", "hard ± ns", "conditional ± ns"):
        table.add_column(name, justify="right")
    bounds = link_bounds(analysis.solution)
    found = link_estimates(analysis)
    for number, link in enumerate(found):
        if link.bad:
            numbers = (link.a_uv_ns, bounds.hard_ns[number], bounds.conditional_ns[number])
            table.add_row(link.link, *(f"{value:.1f}" for value in numbers))
    console.print(table)
    for kind, access in (("links between switches", False), ("links of hosts", True)):
        of_kind = [
            math.isfinite(link.a_uv_ns)
            for link, declared in zip(found, analysis.declared.links, strict=True)
            if declared.access is access
        ]
        if of_kind:
            console.print(f"{kind}: {len(of_kind)}, {sum(of_kind)} of them in loops")


def _bound(bound_ns: int | None) -> str:
    return "infinite" if bound_ns is None else str(bound_ns)


app.command("paths")(paths)
