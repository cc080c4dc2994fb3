# SPDX-License-Identifier: Apache-2.0
"""What took no part in an analysis, and what of correctionFields nothing explains."""

import math
from typing import Any

from rich.console import Console
from rich.table import Table

from correction.correction_fields import ClientFields
from tempotrace.analysis import Analysis, fields_of_clients


def rejected_document(analysis: Analysis) -> dict[str, int]:
    """Counts by reason."""
    rejected = analysis.solution.counters.rejected
    counts = {reason.value: count for reason, count in sorted(rejected.items())}
    pairs = analysis.derived.rejected
    return counts | {reason.value: count for reason, count in sorted(pairs.items())}


def fields_document(analysis: Analysis) -> list[dict[str, Any]]:
    """Per client, medians of its exchanges."""
    return [
        {
            "client": analysis.model.clocks[one.client].name,
            "exchanges": one.exchanges,
            "unexplained": one.unexplained,
            "c1_written_ns": _number(one.written_ns[0]),
            "c2_written_ns": _number(one.written_ns[1]),
            "c1_unexplained_ns": _number(one.unexplained_ns[0]),
            "c2_unexplained_ns": _number(one.unexplained_ns[1]),
            "applied_asymmetry_ns": one.applied_asymmetry_ns,
        }
        for one in fields_of_clients(analysis)
    ]


def print_left_out(console: Console, analysis: Analysis) -> None:
    """For people: clients whose correctionFields do not add up, and rejections."""
    for one in fields_of_clients(analysis):
        if not one.explained:
            console.print(_unexplained(analysis.model.clocks[one.client].name, one))
    rejected = rejected_document(analysis)
    if rejected:
        table = Table(title="left out")
        table.add_column("reason")
        table.add_column("count", justify="right")
        for reason, count in rejected.items():
            table.add_row(reason, str(count))
        console.print(table)


def _unexplained(client: str, one: ClientFields) -> str:
    """A client's correctionFields that hold more, or less, than they should."""
    told = f"correction-field: {client}: {one.unexplained} of {one.exchanges} exchanges:"
    if one.applied_asymmetry_ns is not None:
        return f"{told} delayAsymmetry {one.applied_asymmetry_ns:.0f} ns"
    c1, c2 = one.unexplained_ns
    return f"{told} c1 {c1:.0f} ns, c2 {c2:.0f} ns that nothing explains"


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
