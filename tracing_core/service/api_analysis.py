# SPDX-License-Identifier: Apache-2.0
"""API v1: transfers, attribution, inversions and the summary."""

from dataclasses import asdict
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from tracing_core.access import Need
from tracing_core.analysis import Analysis
from tracing_core.attribution import Attribution, TransferAnswer
from tracing_core.clock_evidence import clock_evidence
from tracing_core.ordering import CausalPairs, JudgedPairs, PairKind, Verdict
from tracing_core.service import examples, schemas, views
from tracing_core.service.api import AsOf, SpanId, Tenant, Text, TraceId, as_version
from tracing_core.service.guard import Asking
from tracing_core.service.paging import Cursor, decode_cursor, link_next, page_of
from tracing_core.service.problems import not_found
from tracing_core.store import Store

LIST_LIMIT_MAX = 1000
TRANSFERS_LIMIT_MAX = 10_000
"""Of a trace; the default, so that most come whole."""
EXAMPLES_MAX = 200
"""Pairs shown with the inversion counts."""

Limit = Annotated[int, Query(ge=1, le=LIST_LIMIT_MAX)]


def analysis_router(store: Store, analysis: Analysis) -> APIRouter:
    """Everything that needs the attribution index or the causal pairs."""
    router = APIRouter(prefix="/v1")

    @router.get(
        "/traces/{trace_id}/transfers",
        tags=["traces"],
        responses=examples.shown(examples.TRANSFERS),
    )
    def transfers(
        request: Request,
        response: Response,
        trace_id: TraceId,
        tenant: Tenant = "",
        limit: Annotated[int, Query(ge=1, le=TRANSFERS_LIMIT_MAX)] = TRANSFERS_LIMIT_MAX,
        cursor: Cursor = "",
        as_of: AsOf = None,
    ) -> schemas.TransferList:
        """Transfers of a trace with corrected latency and excess over the usual one, by the raw
        start of the send."""
        after = decode_cursor(cursor, "transfers", (int, str, str))
        index = analysis.attribution(as_version(store, as_of))
        rows = index.rows_of_trace(trace_id.lower(), tenant=tenant)
        if not rows and not store.spans.trace(trace_id.lower(), tenant=tenant):
            raise not_found(f"there is no trace {trace_id.lower()}")
        found = index.transfers

        def place(row: int) -> tuple[int, str, str]:
            started_ns = int(found.send_start_local_ns[row])
            return started_ns, str(found.tenant[row]), str(found.send_span_id[row])

        page = page_of(
            sorted(rows, key=place), kind="transfers", key=place, after=after, limit=limit
        )
        return schemas.TransferList(
            correction_version=index.correction_version,
            transfers=[transfer_item(index.transfer(row)) for row in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get(
        "/attribution/{trace_id}/{span_id}",
        tags=["attribution"],
        responses=examples.shown(examples.ATTRIBUTION),
    )
    def attribution(
        trace_id: TraceId, span_id: SpanId, tenant: Tenant = "", as_of: AsOf = None
    ) -> schemas.AttributionAnswer:
        """Which hop, link or host made this transfer slow, or why that cannot be told."""
        index = analysis.attribution(as_version(store, as_of))
        row = index.find(trace_id.lower(), span_id.lower(), tenant=tenant)
        if row is None:
            raise not_found(f"span {span_id.lower()} of this trace is not part of a transfer")
        return attribution_answer(index.attribute(row))

    @router.get(
        "/slow-transfers", tags=["attribution"], responses=examples.shown(examples.SLOW_TRANSFERS)
    )
    def slow_transfers(
        request: Request,
        response: Response,
        tenant: Tenant = "",
        job: Text = "",
        step: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
        limit: Limit = 100,
        cursor: Cursor = "",
        as_of: AsOf = None,
    ) -> schemas.SlowTransferList:
        """Transfers that took clearly longer than usual, the largest excess first."""
        after = decode_cursor(cursor, "slow", (float, str, str, str))
        index = analysis.attribution(as_version(store, as_of))
        rows = index.slow_rows(tenant=tenant, job=job, step=step)
        items = sorted((transfer_item(index.transfer(row)) for row in rows), key=_by_excess)
        page = page_of(items, kind="slow", key=_by_excess, after=after, limit=limit)
        return schemas.SlowTransferList(
            correction_version=index.correction_version,
            total=len(rows),
            compared=index.count(tenant=tenant),
            transfers=list(page.items),
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/inversions", tags=["traces"], responses=examples.shown(examples.INVERSIONS))
    def inversions(
        tenant: Tenant = "",
        limit: Annotated[int, Query(ge=0, le=EXAMPLES_MAX)] = 20,
        as_of: AsOf = None,
    ) -> schemas.Inversions:
        """Causal pairs that contradict their stamps: raw, corrected, undecided; with examples."""
        version = as_version(store, as_of)
        pairs, judged = analysis.judged_pairs(version, tenant=tenant)
        counts = analysis.inversions(version, tenant=tenant)
        table = store.corrections.table(version)
        return schemas.Inversions(
            correction_version=table.version,
            examples=_examples(pairs, judged, limit),
            **asdict(counts),
        )

    @router.get(
        "/clock-evidence", tags=["fabric"], responses=examples.shown(examples.CLOCK_EVIDENCE)
    )
    def evidence(tenant: Tenant = "") -> schemas.ClockEvidenceList:
        """Clocks that spans of callers and called prove to be off, and by how much at least.

        Raw stamps and causality only: it finds hosts that nothing corrects, and is a check of
        those that something does.
        """
        pairs, _ = analysis.judged_pairs(tenant=tenant)
        return schemas.ClockEvidenceList(
            correction_version=store.corrections.latest_version(),
            clocks=[schemas.ClockEvidenceItem(**asdict(item)) for item in clock_evidence(pairs)],
        )

    @router.get("/summary", tags=["service"], responses=examples.shown(examples.SUMMARY))
    def summary(asking: Asking, tenant: Tenant = "", as_of: AsOf = None) -> schemas.Summary:
        """What is stored, how good the clocks are, and what correction changed."""
        version = as_version(store, as_of)
        table = store.corrections.table(version)
        index = analysis.attribution(version)
        counts = analysis.inversions(version, tenant=tenant)
        sees_fabric = asking.may(Need.FABRIC_READ)
        return schemas.Summary(
            correction_version=table.version,
            spans=store.spans.count(tenant=tenant),
            packets=store.telemetry.count() if sees_fabric else None,
            hops=store.telemetry.hop_count() if sees_fabric else None,
            clocks=views.clock_summary(store.fabric.nodes(), table) if sees_fabric else None,
            links=_link_summary(store, table.version) if sees_fabric else None,
            inversions=schemas.InversionSummary(
                raw=counts.raw,
                corrected=counts.corrected,
                undecided=counts.undecided,
                left_out=counts.left_out,
            ),
            transfers=index.count(tenant=tenant),
            transfers_slow=len(index.slow_rows(tenant=tenant)),
        )

    return router


def _link_summary(store: Store, version: int) -> schemas.LinkSummary:
    estimates = store.corrections.links(version)
    links = [link for link in store.fabric.links() if not link.access]
    return schemas.LinkSummary(
        fabric=len(links),
        asymmetric_found=sum(link.name in estimates and estimates[link.name].bad for link in links),
    )


def _by_excess(item: schemas.TransferItem) -> tuple[float, str, str, str]:
    return -float(item.excess_ns or 0.0), item.tenant, item.trace_id, item.send_span_id


def transfer_item(value: TransferAnswer) -> schemas.TransferItem:
    """One transfer of a list."""
    return schemas.TransferItem(**asdict(value))


def attribution_answer(value: Attribution) -> schemas.AttributionAnswer:
    """A verdict with its components."""
    return schemas.AttributionAnswer(
        correction_version=value.correction_version,
        transfer=transfer_item(value.transfer),
        kind=value.kind.value,
        entity=value.entity,
        entity_id=value.entity_id,
        side=value.side,
        share=value.share,
        reason=value.reason,
        evidence=list(value.evidence),
        components=[
            schemas.ComponentItem(
                **{
                    **asdict(part),
                    "clocks": list(part.clocks),
                    "notes": list(part.notes),
                }
            )
            for part in value.components
        ],
        clock_status=value.clock_status,
    )


def _examples(pairs: CausalPairs, judged: JudgedPairs, limit: int) -> list[schemas.PairItem]:
    """Contradictions first, then raw inversions, then undecided pairs."""
    rank = np.select([judged.contradicted, judged.raw_inverted, judged.undecided], [0, 1, 2], 3)
    rows = np.argsort(rank, kind="stable")
    return [_pair(pairs, judged, int(row)) for row in rows[:limit] if rank[row] < 3]


def _pair(pairs: CausalPairs, judged: JudgedPairs, row: int) -> schemas.PairItem:
    bound_ns = float(judged.bound_ns[row])
    if judged.invalid[row]:
        verdict = Verdict.INVALID_CLOCK
    elif judged.undecided[row]:
        verdict = Verdict.INCONCLUSIVE
    else:
        verdict = Verdict.AFTER_TIME if judged.contradicted[row] else Verdict.BEFORE_TIME
    return schemas.PairItem(
        rule=PairKind(int(pairs.kind[row])).name.lower(),
        trace_id=str(pairs.trace_id[row]),
        first_span_id=str(pairs.first_span_id[row]),
        second_span_id=str(pairs.second_span_id[row]),
        first_clock=pairs.clocks[int(pairs.first_clock[row])],
        second_clock=pairs.clocks[int(pairs.second_clock[row])],
        raw_gap_ns=int(pairs.second_local_ns[row] - pairs.first_local_ns[row]),
        corrected_gap_ns=None if judged.invalid[row] else int(judged.gap_reference_ns[row]),
        bound_ns=bound_ns if np.isfinite(bound_ns) else None,
        raw_inverted=bool(judged.raw_inverted[row]),
        verdict=verdict.value,
    )
