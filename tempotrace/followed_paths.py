# SPDX-License-Identifier: Apache-2.0
"""`correct paths` of a fabric too large to be solved as a whole: by corrected clocks.

Windows are followed as `correct run` follows them; each association's delays come from its own
exchanges and the corrections of that window. Links are told as they stand in the last window.
"""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from controller.fabric import Fabric
from controller.fabric_model import fabric_model
from controller.following.documents import link_estimates
from correction.clocked_paths import ClockedAssociation, ClockedPaths, ClockedSpan
from correction.flow_paths import Path as SwitchPath
from correction.mesh.solve import PRIOR
from correction.records import HOP_DTYPE, PACKET_DTYPE, Hops, Packets
from correction.stream.follow import FollowedWindow, Follower
from correction.stream.pending import PtpPackets
from correction.table import CorrectionTable
from tempotrace.errors import InputError
from tempotrace.followed import follow_recording
from tempotrace.strict_json import strict_text

FOLLOWED_PATHS_VERSION = 1


def run_followed_paths(
    description: Fabric,
    reports: Path,
    exchanges: Path,
    clock_pairs: Path | None,
    client: str | None,
    *,
    as_json: bool,
) -> None:
    """Print associations, and the one-way delays of all cables."""
    sys.stderr.write(
        f"{len(description.links)} links: paths by corrected clocks, window by window\n"
    )
    follower = Follower(fabric_model(description))
    paths = ClockedPaths(follower.base)
    ptp = PtpPackets(follower.window_ns)
    last: FollowedWindow | None = None
    for window in follow_recording(
        follower, description, reports, exchanges, clock_pairs, seen=ptp.add
    ):
        last = window
        packets, hops = _around(ptp, window.number)
        paths.add(packets, hops, window.exchanges, _table(window))
    names = [clock.name for clock in follower.base.clocks]
    found = [one for one in paths.associations() if client in (None, names[one.client])]
    if client is not None and not found:
        raise InputError(f"correct paths: --ptp {client}: no exchange of it could be followed")
    if as_json:
        document = _document(description, found, names, last)
        rejected = sorted(follower.left_out.rejected.items())
        document["rejected"] = {reason.value: count for reason, count in rejected if count}
        typer.echo(strict_text(document))
    else:
        _print(found, names)


def _around(ptp: PtpPackets, number: int) -> tuple[Packets, Hops]:
    """PTP packets of a window and its neighbours: an exchange may lie across an edge."""
    packets, hops, base = [np.zeros(0, PACKET_DTYPE)], [np.zeros(0, HOP_DTYPE)], 0
    for one in (number - 1, number, number + 1):
        for some, own in ptp.packets.get(one, []):
            moved = some.copy()
            moved["first_hop"] += base
            packets.append(moved)
            hops.append(own)
            base += len(own)
    for old in [one for one in ptp.packets if one < number - 1]:
        del ptp.packets[old]
    return np.concatenate(packets), np.concatenate(hops)


def _table(window: FollowedWindow) -> CorrectionTable:
    """Corrections that this window measured."""
    names = tuple(clock.name for clock in window.model.clocks)
    return CorrectionTable(rows=window.rows[~window.held], clock_names=names, prior=PRIOR)


def _document(
    description: Fabric,
    found: list[ClockedAssociation],
    names: list[str],
    last: FollowedWindow | None,
) -> dict[str, Any]:
    switches = {switch.node_id: switch.name for switch in description.switches}
    links = [] if last is None else link_estimates(last)
    return {
        "version": FOLLOWED_PATHS_VERSION,
        "prior": PRIOR,
        "associations": [
            {
                "client": names[one.client],
                "reference": description.ptp.grandmaster,
                "spans": [_span(span, switches) for span in one.spans],
                "changes_ns": [round(change, 3) for change in one.changes_ns],
            }
            for one in found
        ],
        "links": [
            {
                "link": link.link,
                "a_uv_ns": _number(link.a_uv_ns),
                "sigma_ns": _number(link.sigma_ns),
                "delay_ab_ns": _number(link.delay_ab_ns),
                "delay_ba_ns": _number(link.delay_ba_ns),
            }
            for link in links
        ],
    }


def _span(span: ClockedSpan, switches: dict[int, str]) -> dict[str, Any]:
    return {
        "exchanges": span.exchanges,
        "first_reference_ns": str(span.first_reference_ns),
        "first_collector_ns": str(span.first_collector_ns),
        "delay_asymmetry": {
            "value_ns": _number(span.asymmetry_ns),
            "bound_conditional_ns": _number(min(span.bound_conditional_ns, span.bound_hard_ns)),
            "bound_hard_ns": _number(span.bound_hard_ns),
        },
        **{
            way: {
                "hops": _hops(path, switches),
                "link_delay_ns": _number(links),
                "residence_ns": _number(residence),
            }
            for way, path, links, residence in (
                ("forward", span.forward, span.forward_ns, span.forward_residence_ns),
                ("reverse", span.reverse, span.reverse_ns, span.reverse_residence_ns),
            )
        },
    }


def _hops(path: SwitchPath, switches: dict[int, str]) -> list[dict[str, Any]]:
    return [
        {
            "switch": switches.get(hop.node_id, str(hop.node_id)),
            "ingress_port": hop.ingress_port,
            "egress_port": hop.egress_port,
        }
        for hop in path
    ]


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def _print(found: list[ClockedAssociation], names: list[str]) -> None:
    table = Table(title="PTP associations: delayAsymmetry (half the one-way difference)")
    for name in ("client", "exchanges"):
        table.add_column(name, overflow="fold")
    for name in ("asymmetry ns", "± ns", "hard ± ns", "there ns", "back ns"):
        table.add_column(name, justify="right")
    for one in found:
        for span in one.spans:
            likely = min(span.bound_conditional_ns, span.bound_hard_ns)
            figures = (span.asymmetry_ns, likely, span.bound_hard_ns)
            delays = (span.forward_ns, span.reverse_ns)
            table.add_row(
                names[one.client],
                str(span.exchanges),
                *(f"{value:.1f}" for value in (*figures, *delays)),
            )
    Console().print(table)
