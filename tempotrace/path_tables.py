# SPDX-License-Identifier: Apache-2.0
"""Path delays and asymmetries as tables for people."""

import numpy as np
from rich.console import Console
from rich.table import Table

from controller.path_prediction import HashCheck
from controller.ptp_paths import Choice
from correction.association_delays import Association
from correction.flow_delays import FlowDelay, FlowShift
from correction.path_asymmetry import PathAsymmetry
from tempotrace.path_documents import PathDocuments, flow_name

LINES_MAX = 20
"""Of a table of changes or choices; JSON has all."""


class PathTables:
    """Prints; names come from `documents`."""

    def __init__(self, documents: PathDocuments, check: HashCheck) -> None:
        self._documents = documents
        self._check = check
        self._console = Console()

    def associations(self, found: tuple[Association, ...], *, detailed: bool) -> None:
        """One line a span."""
        console = self._console
        table = Table(title="PTP associations: delayAsymmetry (half the one-way difference)")
        for name in ("client", "exchanges"):
            table.add_column(name, overflow="fold")
        for name in ("asymmetry ns", "± ns", "hard ± ns", "left by correctionField ns"):
            table.add_column(name, justify="right")
        table.add_column("cause")
        for one in found:
            name = self._documents.clock(one.client)
            for span in one.spans:
                table.add_row(
                    name,
                    str(span.exchanges),
                    *_estimate_cells(span.asymmetry),
                    _text(span.left_ns),
                    _cause(span.asymmetry),
                )
            if one.predicted is not None:
                table.add_row(
                    name, "predicted", *_estimate_cells(one.predicted), "", _cause(one.predicted)
                )
            elif not one.spans:
                table.add_row(name, "0", "unknown", "", "", "", one.reason)
        console.print(table)
        self._association_changes(found)
        for one in found if detailed else ():
            if one.asymmetry is not None:
                self._pair(one.asymmetry)

    def _association_changes(self, found: tuple[Association, ...]) -> None:
        """Where messages have gone another way since."""
        changes = [(one, shift) for one in found for shift in one.shifts]
        if not changes:
            return
        table = Table(title="changes of an association's paths")
        table.add_column("client")
        table.add_column("collector's time ns", overflow="fold")
        for name in ("asymmetry before ns", "after ns", "change ns", "± ns"):
            table.add_column(name, justify="right")
        for one, shift in changes[:LINES_MAX]:
            table.add_row(
                self._documents.clock(one.client),
                str(shift.at_collector_ns),
                _text(shift.before.asymmetry.value_ns),
                _text(shift.after.asymmetry.value_ns),
                _text(shift.asymmetry_change.value_ns),
                _text(shift.asymmetry_change.bound_hard_ns),
            )
        self._console.print(table)

    def flow(self, found: FlowDelay) -> None:
        """Paths and shares of one flow."""
        console = self._console
        console.print(f"flow {flow_name(found.flow)}: {len(found.uses)} paths seen")
        if found.back is not None:
            console.print(f"way back ({found.way_back.value}): {flow_name(found.back)}")
        if found.reason:
            console.print(f"unknown: {found.reason}")
        if found.asymmetry is not None:
            self._pair(found.asymmetry)
        elif found.forward is not None:
            estimate = found.forward.link_delay
            console.print(
                f"links {_text(estimate.value_ns)} ± {_text(estimate.bound_conditional_ns)} ns, "
                f"residence {_text(found.forward.residence_ns)} ns"
            )

    def shifts(self, shifts: tuple[FlowShift, ...]) -> None:
        """The largest changes of delay."""
        told = [one for one in shifts if one.delay_change is not None and one.delay_change.known]
        if not told:
            return
        told.sort(key=lambda one: -abs(one.delay_change.value_ns if one.delay_change else 0.0))
        table = Table(title=f"changes of path: the largest of {len(shifts)}")
        table.add_column("flow", overflow="fold")
        for name in ("delay change ns", "± ns", "asymmetry before ns", "after ns"):
            table.add_column(name, justify="right")
        for one in told[:LINES_MAX]:
            assert one.delay_change is not None
            table.add_row(
                flow_name(one.change.flow),
                _text(one.delay_change.value_ns),
                _text(one.delay_change.bound_hard_ns),
                *(
                    _text(pair.asymmetry.value_ns) if pair else ""
                    for pair in (one.asymmetry_before, one.asymmetry_after)
                ),
            )
        self._console.print(table)

    def choices(self, ranked: tuple[Choice, ...]) -> None:
        """The best choices, and how far to trust them."""
        if not ranked:
            return
        console = self._console
        if not self._check.trusted:
            console.print(f"predictions are not to be trusted: {self._check.reason}")
        table = Table(title=f"choices: the best of {len(ranked)} pairs of paths")
        for name in ("source", "destination"):
            table.add_column(name)
        for name in ("alike", "asymmetry ns", "± ns", "hard ± ns"):
            table.add_column(name, justify="right")
        table.add_column("same cables")
        for document, choice in zip(self._documents.choices(ranked), ranked, strict=True):
            if table.row_count == LINES_MAX:
                break
            table.add_row(
                f"{document['source_ip']}:{document['source_port']}",
                f"{document['destination_ip']}:{document['destination_port']}",
                str(choice.alike),
                *_estimate_cells(choice.asymmetry),
                "yes" if choice.asymmetry.same_links else "",
            )
        console.print(table)

    def _pair(self, pair: PathAsymmetry) -> None:
        console = self._console
        for name, path in (("forward", pair.forward), ("reverse", pair.reverse)):
            way = " ".join(
                f"{hop['ingress_port']}:{hop['switch']}:{hop['egress_port']}"
                for hop in self._documents.path(path.path)
            )
            console.print(
                f"{name} ({path.source.value}): {way}; links {_text(path.link_delay.value_ns)} "
                f"± {_text(path.link_delay.bound_conditional_ns)} ns, "
                f"residence {_text(path.residence_ns)} ns, total {_text(path.total_ns)} ns"
            )
        value, bound, hard = _estimate_cells(pair)
        console.print(f"delayAsymmetry {value} ± {bound} ns (hard ± {hard} ns)")
        if pair.asymmetry.reason:
            console.print(f"  {pair.asymmetry.reason}")
        table = Table(title="shares of the asymmetry")
        for name in ("what", "where", "direction"):
            table.add_column(name)
        for name in ("share ns", "cable ns", "its asymmetry ns", "sd ns"):
            table.add_column(name, justify="right")
        for share in (*pair.shares, *pair.hop_shares):
            table.add_row(
                share.kind.value,
                share.subject,
                share.travel.value,
                *map(
                    _text,
                    (share.contribution_ns, share.route_ns, share.asymmetry_ns, share.sd_ns),
                ),
            )
        console.print(table)


def _estimate_cells(pair: PathAsymmetry) -> tuple[str, str, str]:
    estimate = pair.asymmetry
    return (
        _text(estimate.value_ns),
        _text(estimate.bound_conditional_ns),
        _text(estimate.bound_hard_ns),
    )


def _cause(pair: PathAsymmetry) -> str:
    if pair.cause is None:
        return pair.asymmetry.reason
    return f"{pair.cause.subject} ({pair.cause.travel.value}): {_text(pair.cause.contribution_ns)}"


def _text(value_ns: float | None) -> str:
    if value_ns is None or np.isnan(value_ns):
        return "unknown"
    return "infinite" if np.isinf(value_ns) else f"{round(value_ns, 1) + 0.0:.1f}"  # no -0.0
