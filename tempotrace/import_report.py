# SPDX-License-Identifier: Apache-2.0
"""The account of an import, as JSON and as lines: per file what was taken, what was refused and
why, which clocks it used, and how well their relation to the reference is known."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracing_core.importers import ClockUse, FileReport

REPORT_VERSION = 1
Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Correction rows of the service by clock."""


def file_document(report: FileReport, rows: Rows | None) -> dict[str, Any]:
    """One file; `rows` are the service's corrections, None if it was not asked."""
    return {
        "file": report.name,
        "format": report.format,
        "spans": report.span_count,
        "refused": [
            {"reason": reason, "count": count, "example": report.examples.get(reason, "")}
            for reason, count in report.refused.most_common()
        ],
        "ignored": dict(report.ignored.most_common()),
        "flagged": dict(report.flagged.most_common()),
        "counts": report.counts,
        "clocks": [_clock_document(use, rows) for use in report.clocks.values()],
        "notes": report.notes,
        "error": report.error,
    }


def _clock_document(use: ClockUse, rows: Rows | None) -> dict[str, Any]:
    clock = use.clock
    lowest, highest = use.against_host or (None, None)
    return {
        "clock": clock.name,
        "kind": clock.kind.value,
        "reason": clock.reason,
        "alignment": clock.alignment,
        "base_ns": None if clock.base_ns is None else str(clock.base_ns),
        "quantum_ns": clock.quantum_ns,
        "spans": use.span_count,
        "first_local_ns": str(use.first_local_ns),
        "last_local_ns": str(use.last_local_ns),
        "offset_to_host_ns_min": lowest,
        "offset_to_host_ns_max": highest,
        **_correction(use, rows),
    }


def _correction(use: ClockUse, rows: Rows | None) -> dict[str, Any]:
    """The bound against the reference over all stamps of the file, and why there is none."""
    unknown = {"bound_hard_ns": None, "bound_conditional_ns": None}
    if rows is None:
        return {"correction": "not asked for", **unknown}
    if not use.clock.name:
        return {"correction": use.clock.reason, **unknown}
    own = rows.get(use.clock.name)
    if not own:
        return {"correction": f"there is no correction of clock {use.clock.name}", **unknown}
    covering = [
        row
        for row in own
        if int(row["valid_to_local_ns"]) > use.first_local_ns
        and int(row["valid_from_local_ns"]) <= use.last_local_ns
    ]
    covered_to_ns = use.first_local_ns
    for row in sorted(covering, key=lambda row: int(row["valid_from_local_ns"])):
        if int(row["valid_from_local_ns"]) > covered_to_ns:
            break
        covered_to_ns = max(covered_to_ns, int(row["valid_to_local_ns"]))
    if covered_to_ns <= use.last_local_ns:
        return {"correction": "corrections do not cover all of its time", **unknown}
    statuses = {str(row["status"]) for row in covering}
    return {
        "correction": ", ".join(sorted(statuses)),
        "bound_hard_ns": _largest([row["bound_hard_ns"] for row in covering]),
        "bound_conditional_ns": _largest([row["bound_conditional_ns"] for row in covering]),
    }


def _largest(bounds_ns: Sequence[int | None]) -> int | None:
    """The largest bound; None, unbounded, if one of them is."""
    known = [bound for bound in bounds_ns if bound is not None]
    return max(known) if len(known) == len(bounds_ns) else None


def file_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for reading."""
    yield f"{document['file']}: {document['format']}, {document['spans']} spans"
    for clock in document["clocks"]:
        name = clock["clock"] or f"unknown clock ({clock['reason']})"
        yield f"  {clock['spans']} spans on {name}, kind {clock['kind']}"
        base = "" if clock["base_ns"] is None else f"; base {clock['base_ns']} ns"
        yield f"    time: {clock['alignment']}{base}; resolution {clock['quantum_ns']} ns"
        bound = clock["bound_conditional_ns"]
        known = "unbounded" if bound is None else f"± {bound} ns (conditional)"
        yield f"    against the reference: {known}; {clock['correction']}"
        limits = (clock["offset_to_host_ns_min"], clock["offset_to_host_ns_max"])
        if limits != (None, None):
            low, high = ("unlimited" if limit is None else f"{limit} ns" for limit in limits)
            yield f"    against the host's clock, by launches: from {low} to {high}"
    if document["counts"]:
        yield "  " + ", ".join(f"{key} {value}" for key, value in document["counts"].items())
    for flag, count in document["flagged"].items():
        yield f"  flagged: {count} x {flag}"
    for item in document["refused"]:
        example = f" (first: {item['example']})" if item["example"] else ""
        yield f"  refused: {item['count']} x {item['reason']}{example}"
    for kind, count in document["ignored"].items():
        yield f"  not spans: {count} {kind}"
    for note in document["notes"]:
        yield f"  note: {note}"
    if document["error"]:
        yield f"  NOT READ: {document['error']}"
