# SPDX-License-Identifier: Apache-2.0
"""What is said of a window, in the forms that leave the process: rows of the store, a JSON object,
arrays of a part. All three hold the same."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.collector.outputs.rows import PARTS_OVERHEAD_BYTES
from controller.following.clock_status import CLOCK_STATUS
from controller.following.derived_rows import DERIVED_PRIOR, derived_corrections
from controller.following.findings import findings_of
from correction.mesh.solve import PRIOR
from correction.records import NO_TSTAMP_NS, Exchanges
from correction.solution import SolveOptions
from correction.stream.answer import REASONS, TrackedWindow
from correction.stream.follow import FollowedWindow
from correction.table import UNBOUNDED_NS, Method, Status
from tracing_core.model import Correction, LinkEstimate

HELD = "held over: not reached in this window"
SHOWN_TWICE = "a reading that the clock may have shown twice, or while it moved unseen"
RECORD_VERSION = 1
"""`version` of the header line."""
NAME_BYTES_MAX = 64
"""Of a clock's or link's name in a part; longer ones are cut."""
ASYMMETRIC_NS = SolveOptions().asymmetric_ns

CORRECTION_PART_DTYPE = np.dtype(
    [
        ("clock", f"S{NAME_BYTES_MAX}"),
        ("window", np.int64),
        ("correction_version", np.int64),
        ("valid_from_local_ns", np.int64),
        ("valid_to_local_ns", np.int64),
        ("anchor_local_ns", np.int64),
        ("offset_ns", np.int64),
        ("rate_ppb", np.float64),
        ("bound_hard_ns", np.int64),  # the largest within the validity; 2^63 - 1: infinite
        ("bound_conditional_ns", np.int64),
        ("status", np.uint8),  # a `correction.table.Status`
        ("held", np.bool_),
    ]
)
LINK_PART_DTYPE = np.dtype(
    [
        ("link", f"S{NAME_BYTES_MAX}"),
        ("a_uv_ns", np.float64),
        ("sigma_ns", np.float64),
    ]
)
FINDING_PART_DTYPE = np.dtype(
    [("kind", "S24"), ("subject", f"S{NAME_BYTES_MAX}"), ("detail", "S96")]
)


def link_estimates(window: FollowedWindow) -> list[LinkEstimate]:
    """What is known of every declared cable; NaN where it lies in no loop."""
    tracked = window.tracked
    if tracked is None:
        return []
    asymmetric = set(asymmetric_links(tracked).tolist())
    in_loop = set(tracked.links[tracked.solution.core.edges].tolist())
    made = []
    for edge, number in enumerate(tracked.links.tolist()):
        link = window.model.links[number]
        if not link.cable:
            continue
        a_ns = float(tracked.solution.a_ns[edge]) + link.asymmetry_ns
        half = float(tracked.half_round_trip_ns[number])
        made.append(
            LinkEstimate(
                link=link.name,
                a_uv_ns=a_ns if number in in_loop else math.nan,
                sigma_ns=float(tracked.solution.a_sd_ns[edge]),
                bad=number in asymmetric,
                delay_ab_ns=half + a_ns,
                delay_ba_ns=half - a_ns,
            )
        )
    return made


def asymmetric_links(tracked: TrackedWindow) -> NDArray[np.int64]:
    """Links, in loops, that are bad by at least the reporting threshold."""
    solution = tracked.solution
    chosen = solution.bad & (np.abs(solution.a_ns) >= ASYMMETRIC_NS)
    in_loop = np.zeros(len(chosen), np.bool_)
    in_loop[solution.core.edges] = True
    found: NDArray[np.int64] = tracked.links[chosen & in_loop]
    return found


def corrections_of(window: FollowedWindow) -> list[Correction]:
    """Rows of the store, each with the worst bound within its validity."""
    reported = _client_offsets(window.exchanges)
    made = []
    reference = window.model.reference
    for row, held in zip(window.rows, window.held.tolist(), strict=True):
        clock, status = int(row["clock"]), Status(int(row["status"]))
        method = Method.REFERENCE if clock == reference else Method.SPARSE_ROBUST
        made.append(
            Correction(
                clock=window.model.clocks[clock].name,
                valid_from_local_ns=int(row["valid_from_local_ns"]),
                valid_to_local_ns=int(row["valid_to_local_ns"]),
                anchor_local_ns=int(row["anchor_local_ns"]),
                offset_ns=int(row["offset_ns"]),
                rate_ppb=float(row["rate_ppb"]),
                bound_hard_ns=_bound(int(row["bound_hard_worst_ns"])),
                bound_conditional_ns=_bound(int(row["bound_conditional_worst_ns"])),
                method=Method.HOLDOVER.value if held else method.value,
                prior=PRIOR,
                status=CLOCK_STATUS[status],
                reason=_reason(window, clock, status, held=held),
                ptp_offset_ns=_nearest(reported.get(clock), int(row["anchor_local_ns"])),
                window_index=window.number,
            )
        )
    prior = f"{PRIOR}; {DERIVED_PRIOR}"
    return made + derived_corrections(window.derived, prior=prior, window=window.number)


def window_record(window: FollowedWindow) -> dict[str, Any]:
    """The object of one line of `corrections.jsonl`."""
    tracked = window.tracked
    return {
        "record": "window",
        "window": window.number,
        "correction_version": window.version,
        "start_collector_ns": str(window.start_collector_ns),
        "end_collector_ns": str(window.end_collector_ns),
        "prior": PRIOR,
        "inputs": _inputs(window),
        "corrections": [correction_document(one) for one in corrections_of(window)],
        "links": []
        if tracked is None
        else [
            {"link": name, "a_uv_ns": round(a_ns, 3), "sigma_ns": round(sigma_ns, 3)}
            for name, a_ns, sigma_ns in _asymmetric(window, tracked)
        ],
        "findings": [
            {"kind": one.kind, "subject": one.subject, "detail": one.detail}
            for one in findings_of(window)
        ],
    }


def correction_document(row: Correction) -> dict[str, Any]:
    """One row, stamps in strings."""
    return {
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


def header_record() -> dict[str, Any]:
    """The first line of `corrections.jsonl`."""
    return {"record": "header", "version": RECORD_VERSION}


def part_arrays(window: FollowedWindow, *, bytes_max: int) -> Iterator[dict[str, NDArray[np.void]]]:
    """The arrays of one part, or of several that each take about `bytes_max` at most."""
    rows = np.zeros(len(window.rows), CORRECTION_PART_DTYPE)
    names = np.array([clock.name.encode() for clock in window.model.clocks])
    rows["clock"] = names[window.rows["clock"]]
    rows["window"], rows["correction_version"] = window.number, window.version
    for name in ("valid_from_local_ns", "valid_to_local_ns", "anchor_local_ns", "offset_ns"):
        rows[name] = window.rows[name]
    for name in ("rate_ppb", "status"):
        rows[name] = window.rows[name]
    for name in ("bound_hard", "bound_conditional"):
        rows[f"{name}_ns"] = window.rows[f"{name}_worst_ns"]
    rows["held"] = window.held
    tables = {"corrections": rows}
    if window.tracked is not None:
        links = [(name.encode(), *rest) for name, *rest in _asymmetric(window, window.tracked)]
        tables["asymmetric_links"] = np.array(links, LINK_PART_DTYPE)
    findings = [
        (one.kind.encode(), one.subject.encode(), one.detail.encode())
        for one in findings_of(window)
    ]
    tables["findings"] = np.array(findings, FINDING_PART_DTYPE)
    room = max(bytes_max - PARTS_OVERHEAD_BYTES, 1)
    if sum(table.nbytes for table in tables.values()) <= room:
        yield tables
        return
    for name, table in tables.items():
        step = max(room // table.dtype.itemsize, 1)
        for first in range(0, len(table), step):
            yield {name: table[first : first + step]}


def _inputs(window: FollowedWindow) -> dict[str, int]:
    """What the window's answer rests on."""
    tracked = window.tracked
    return {
        "links_measured": 0 if tracked is None else tracked.links_measured,
        "links_known": 0 if tracked is None else len(tracked.links),
        "exchanges": len(window.exchanges),
    }


def _asymmetric(window: FollowedWindow, tracked: TrackedWindow) -> list[tuple[str, float, float]]:
    """(name, a_uv, its sd) of the links that are asymmetric."""
    place = {link: edge for edge, link in enumerate(tracked.links.tolist())}
    made = []
    for number in asymmetric_links(tracked).tolist():
        link, edge = window.model.links[number], place[number]
        a_ns = float(tracked.solution.a_ns[edge]) + link.asymmetry_ns
        made.append((link.name, a_ns, float(tracked.solution.a_sd_ns[edge])))
    return made


def _reason(window: FollowedWindow, clock: int, status: Status, *, held: bool) -> str:
    if held:
        return HELD
    if status is Status.INCONSISTENT:
        return SHOWN_TWICE
    return "" if window.tracked is None else REASONS[int(window.tracked.reason[clock])]


def _bound(bound_ns: int) -> int | None:
    return None if bound_ns == UNBOUNDED_NS else bound_ns


def _client_offsets(
    exchanges: Exchanges,
) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """By client: t2 in order, and what it computed as its offset."""
    usable = exchanges[
        np.all([exchanges[f"{t}_ns"] != NO_TSTAMP_NS for t in ("t2_local", "t3_local")], axis=0)
    ]
    if not len(usable):
        return {}
    usable = usable[np.lexsort((usable["t2_local_ns"], usable["client"]))]
    there = usable["t2_local_ns"] - usable["t1_reference_ns"] - usable["c1_ns"]
    back = usable["t4_reference_ns"] - usable["t3_local_ns"] - usable["c2_ns"]
    offset = (there - back) // 2
    clients, first = np.unique(usable["client"], return_index=True)
    ends = [*first[1:].tolist(), len(usable)]
    return {
        client: (usable["t2_local_ns"][low:high], offset[low:high])
        for client, low, high in zip(clients.tolist(), first.tolist(), ends, strict=True)
    }


def _nearest(known: tuple[NDArray[np.int64], NDArray[np.int64]] | None, at_ns: int) -> int | None:
    if known is None:
        return None
    times_ns, values = known
    after = min(int(np.searchsorted(times_ns, at_ns)), len(times_ns) - 1)
    before = max(after - 1, 0)
    near = min((before, after), key=lambda one: abs(int(times_ns[one]) - at_ns))
    return int(values[near])
