# SPDX-License-Identifier: Apache-2.0
"""Values of the core as answers of the API. Pure: store contents in, schema objects out."""

import ipaddress
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from correction.table import Method
from tracing_core.clock_domains import derived_kind
from tracing_core.corrections import CorrectionTable
from tracing_core.model import (
    ClockStatus,
    CorrectedInstant,
    Correction,
    FabricLink,
    FabricNode,
    LinkEstimate,
    Span,
)
from tracing_core.plain_values import plain_attributes
from tracing_core.service import schemas
from tracing_core.store import TraceSummary

METHOD_REFERENCE = Method.REFERENCE.value
"""Method of the reference clock's own rows, which are exact by definition."""


def instant(value: CorrectedInstant) -> schemas.Instant:
    """A stamp, raw and corrected."""
    return schemas.Instant(
        raw_local_ns=value.raw_local_ns,
        corrected_reference_ns=value.corrected_reference_ns,
        bound_hard_ns=value.bound_hard_ns,
        bound_conditional_ns=value.bound_conditional_ns,
        status=value.status.value,
        method=value.method,
        reason=value.reason,
    )


def span(value: Span, table: CorrectionTable) -> schemas.SpanAnswer:
    """A span with every stamp corrected."""

    def corrected(raw_local_ns: int) -> schemas.Instant:
        return instant(table.correct_one(value.clock_domain, raw_local_ns))

    duration_ns = value.end_local_ns - value.start_local_ns
    return schemas.SpanAnswer(
        tenant=value.tenant,
        trace_id=value.trace_id,
        span_id=value.span_id,
        parent_span_id=value.parent_span_id,
        name=value.name,
        kind=value.kind.name.lower(),
        host=value.host,
        service=value.service,
        clock_domain=value.clock_domain,
        start=corrected(value.start_local_ns),
        end=corrected(value.end_local_ns),
        duration_raw_ns=duration_ns if duration_ns >= 0 else None,
        attributes=plain_attributes(value.attributes),
        resource=plain_attributes(value.resource),
        events=[
            schemas.Event(
                name=event.name,
                time=corrected(event.time_local_ns),
                attributes=plain_attributes(event.attributes),
            )
            for event in value.events
        ],
        status_code=value.status_code,
        status_message=value.status_message,
    )


def trace_item(value: TraceSummary) -> schemas.TraceItem:
    """One row of a trace list."""
    return schemas.TraceItem(
        tenant=value.tenant,
        trace_id=value.trace_id,
        root_name=value.root_name,
        start_local_ns=value.start_local_ns,
        end_local_ns=value.end_local_ns,
        span_count=value.span_count,
        hosts=list(value.hosts),
        job=value.job,
        step=value.step,
    )


def clocks(
    nodes: Iterable[FabricNode], table: CorrectionTable, *, every_row: bool = False
) -> list[schemas.ClockItem]:
    """Every clock, fabric order first, then by name: its newest window, or every row in force."""
    newest = table.newest_windows()
    known = {node.name: node for node in nodes}
    names = list(known) + sorted(set(newest) - set(known))

    def item(name: str) -> schemas.ClockItem:
        window = newest.get(name)
        rows: Sequence[Correction] = window.rows if window else ()
        if every_row:
            in_force = table.effective_rows_of(name)
            rows = sorted(in_force, key=lambda row: row.valid_from_local_ns)
        return schemas.ClockItem(
            clock=name,
            kind=known[name].kind if name in known else derived_kind(name),
            node_id=known[name].node_id if name in known else 0,
            centre=correction(window.centre) if window else None,
            corrections=[correction(row) for row in rows],
            corrections_in_force=table.effective_count(name),
        )

    return [item(name) for name in names]


def prior(table: CorrectionTable) -> str:
    """The prior of the newest windows; if clocks were estimated under several, all of them."""
    windows = table.newest_windows().values()
    return "; or: ".join(dict.fromkeys(w.centre.prior for w in windows if w.centre.prior))


def clock_summary(nodes: Iterable[FabricNode], table: CorrectionTable) -> schemas.ClockSummary:
    """Clocks by status; medians over the NIC clocks, the reference's own left out, and hosts'
    other clocks, which are only as good as their readings."""
    items = clocks(nodes, table)
    statuses = Counter(
        item.centre.status if item.centre else ClockStatus.UNKNOWN.value for item in items
    )
    centres = [
        item.centre
        for item in items
        if item.centre
        and item.kind != "switch"
        and not derived_kind(item.clock)
        and item.centre.method != METHOD_REFERENCE
    ]
    return schemas.ClockSummary(
        total=len(items),
        by_status=dict(sorted(statuses.items())),
        bound_conditional_ns_median=_median(row.bound_conditional_ns for row in centres),
        bound_hard_ns_median=_median(row.bound_hard_ns for row in centres),
    )


def _median(values_ns: Iterable[int | None]) -> float | None:
    """None, an infinite bound, counts as the largest; an infinite median is None."""
    values = [math.inf if value is None else float(value) for value in values_ns]
    return _finite(statistics.median(values)) if values else None


def nodes(values: Iterable[FabricNode], table: CorrectionTable) -> list[schemas.NodeItem]:
    """Nodes with the status of their clock at the centre of its newest window."""
    newest = {clock: window.centre for clock, window in table.newest_windows().items()}
    return [
        schemas.NodeItem(
            name=node.name,
            kind=node.kind,
            node_id=node.node_id,
            ip=str(ipaddress.IPv4Address(node.ip)) if node.ip else "",
            status=(newest[node.name].status if node.name in newest else ClockStatus.UNKNOWN).value,
        )
        for node in values
    ]


def links(
    values: Iterable[FabricLink], estimates: Mapping[str, LinkEstimate]
) -> list[schemas.LinkItem]:
    """Links with their newest estimate."""
    return [_link(value, estimates.get(value.name)) for value in values]


def correction(row: Correction) -> schemas.CorrectionRow:
    """One row of a clock."""
    return schemas.CorrectionRow(
        valid_from_local_ns=row.valid_from_local_ns,
        valid_to_local_ns=row.valid_to_local_ns,
        anchor_local_ns=row.anchor_local_ns,
        offset_ns=row.offset_ns,
        rate_ppb=row.rate_ppb,
        bound_hard_ns=row.bound_hard_ns,
        bound_conditional_ns=row.bound_conditional_ns,
        method=row.method,
        status=row.status.value,
        reason=row.reason,
        ptp_offset_ns=row.ptp_offset_ns,
        window_index=row.window_index,
    )


def _link(value: FabricLink, estimate: LinkEstimate | None) -> schemas.LinkItem:
    return schemas.LinkItem(
        name=value.name,
        a=value.a,
        a_port=value.a_port,
        b=value.b,
        b_port=value.b_port,
        rate_bps=value.rate_bps,
        access=value.access,
        a_uv_ns=_finite(estimate.a_uv_ns) if estimate else None,
        sigma_ns=_finite(estimate.sigma_ns) if estimate else None,
        bad=estimate.bad if estimate else False,
        delay_ab_ns=_finite(estimate.delay_ab_ns) if estimate else None,
        delay_ba_ns=_finite(estimate.delay_ba_ns) if estimate else None,
        samples_ab=estimate.samples_ab if estimate else 0,
        samples_ba=estimate.samples_ba if estimate else 0,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
