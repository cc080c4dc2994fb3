# SPDX-License-Identifier: Apache-2.0
"""A recording of a fabric that is too large to be solved as a whole, followed window by window."""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from controller.collector.collect_capture import CaptureCollector
from controller.collector.cores import make_core
from controller.fabric import Fabric
from controller.fabric_model import fabric_model
from controller.following.documents import (
    correction_document,
    corrections_of,
    link_estimates,
)
from controller.following.findings import findings_of
from controller.following.tails import ClockPairTail, PtpTail
from controller.telemetry.topology import telemetry_fabric
from correction.mesh.solve import PRIOR
from correction.records import Hops, Packets
from correction.stream.follow import FollowedWindow, Follower
from correction.table import CONDITIONAL_SIGMAS, Status
from tempotrace.errors import InputError
from tempotrace.strict_json import strict_text
from tempotrace.waiting import COMPILING, told_if_long
from tracing_core.model import Correction


def run_followed(
    description: Fabric,
    reports: Path,
    exchanges: Path,
    clock_pairs: Path | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """`correct run` of such a fabric."""
    sys.stderr.write(
        f"{len(description.links)} links: followed window by window, as fabrics of this size are\n"
    )
    follower = Follower(fabric_model(description))
    windows = list(follow_recording(follower, description, reports, exchanges, clock_pairs))
    found = document(windows, follower)
    if out is not None:
        out.write_text(strict_text(found) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(strict_text(found))
        return
    newest = windows[-1].tracked if windows else None
    status = [] if newest is None else newest.status.tolist()
    clocks = ", ".join(
        f"{status.count(one)} {one.name.lower()}" for one in Status if status.count(one)
    )
    typer.echo(f"{len(windows)} windows; clocks in the last one: {clocks or 'none'}")
    for link in found["links"]:
        if link["asymmetric"]:
            typer.echo(f"{link['link']}: a_uv {link['a_uv_ns']} ns, sd {link['sigma_ns']} ns")
    for one in found["findings"]:
        typer.echo(f"{one['kind']}: {one['subject']}: {one['detail']}")


def follow_recording(
    follower: Follower,
    fabric: Fabric,
    reports: Path,
    exchanges: Path,
    clock_pairs: Path | None,
    *,
    seen: Callable[[Packets, Hops], None] | None = None,
) -> Iterator[FollowedWindow]:
    """Every window of a recording, in order; `seen` is shown all packets before their windows."""
    transmitter = fabric.ptp.grandmaster
    for path in (exchanges, clock_pairs):
        if path is not None and not path.is_file():
            raise InputError(f"{path}: no such file")
    PtpTail(exchanges, time_transmitter=transmitter, warn=_refuse, whole=True).poll(follower)
    if clock_pairs is not None:
        ClockPairTail(clock_pairs, warn=_refuse, whole=True).poll(follower)
    with told_if_long(COMPILING):
        core = make_core(fabric)
    capture = CaptureCollector(telemetry_fabric(fabric), core)
    for collection in capture.collections(reports):
        if seen is not None:
            seen(collection.packets, collection.hops)
        follower.add_packets(collection.packets, collection.hops)
        yield from follower.close()
    yield from follower.rest()


def disjoint(windows: list[FollowedWindow]) -> list[Correction]:
    """The windows' rows as those of one version: where two cover a reading, the later stays."""
    rows: dict[str, list[Correction]] = {}
    for window in windows:
        for row in corrections_of(window):
            kept = []
            for old in rows.get(row.clock, []):
                low, high = old.valid_from_local_ns, old.valid_to_local_ns
                for start, end in (
                    (low, min(high, row.valid_from_local_ns)),
                    (max(low, row.valid_to_local_ns), high),
                ):
                    if start < end:
                        kept.append(replace(old, valid_from_local_ns=start, valid_to_local_ns=end))
            rows[row.clock] = [*kept, row]
    return [
        row
        for mine in rows.values()
        for row in sorted(mine, key=lambda one: one.valid_from_local_ns)
    ]


def document(windows: list[FollowedWindow], follower: Follower) -> dict[str, Any]:
    """Corrections and links in the form of `correct run` (docs/schemas/corrections.schema.json)."""
    first = windows[0].number if windows else 0
    return {
        "version": 1,
        "prior": PRIOR,
        "corrections": [correction_document(row) for row in disjoint(windows)],
        "links": [
            {
                "link": link.link,
                "a_uv_ns": _number(link.a_uv_ns),
                "sigma_ns": _number(link.sigma_ns),
                "bound_hard_ns": None,
                "bound_conditional_ns": _number(
                    CONDITIONAL_SIGMAS * link.sigma_ns if math.isfinite(link.a_uv_ns) else math.nan
                ),
                "asymmetric": link.bad,
            }
            for link in (link_estimates(windows[-1]) if windows else [])
        ],
        "findings": [
            {
                "kind": one.kind,
                "window": window.number - first,
                "subject": one.subject,
                "detail": one.detail,
            }
            for window in windows
            for one in findings_of(window)
        ],
        "correction_fields": [],
        "rejected": {
            reason.value: count for reason, count in follower.left_out.rejected.items() if count
        },
    }


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def _refuse(text: str) -> None:
    """A recording is whole: a line that cannot be used ends the command."""
    raise InputError(text)
