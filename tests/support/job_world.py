# SPDX-License-Identifier: Apache-2.0
"""Spans of a small training job whose true times are chosen, stamped by the clocks of a world."""

from collections.abc import Mapping, Sequence

from tests.support.tracing_world import EPOCH_NS, World
from tracing_core.model import Span, SpanKind

STEP_NS = 1_000_000
"""From one step's start to the next one's."""


def rank_span(
    world: World,
    *,
    job: str,
    step: int,
    rank: int,
    start_ns: int,
    end_ns: int,
    host: str = "",
    tenant: str = "alpha",
    further: Mapping[str, str | int] | None = None,
) -> Span:
    """A rank's part of a step, its true times relative to the step's; rank r is on host r + 1."""
    host = host or f"h{rank + 1}"
    offset_ns = EPOCH_NS + step * STEP_NS + world.offset_ns.get(host, 0)
    trace = f"{abs(hash_of(job)):012x}{step + 1:020x}"
    return Span(
        tenant=tenant,
        trace_id=trace,
        span_id=f"{step * 1000 + rank + 2:016x}",
        parent_span_id=f"{step * 1000 + 1:016x}",
        name="allreduce",
        kind=SpanKind.INTERNAL,
        start_local_ns=start_ns + offset_ns,
        end_local_ns=end_ns + offset_ns,
        clock_domain=host,
        host=host,
        service="trainer",
        attributes={
            "tempotrace.job": job,
            "tempotrace.step": step,
            "tempotrace.rank": rank,
            **(further or {}),
        },
    )


def root_span(world: World, *, job: str, step: int, end_ns: int, tenant: str = "alpha") -> Span:
    """The span above all ranks, reported by rank 0: it speaks for the step."""
    below = rank_span(world, job=job, step=step, rank=0, start_ns=0, end_ns=end_ns, tenant=tenant)
    return Span(
        **{
            **{name: getattr(below, name) for name in Span.__slots__},
            "name": "step",
            "span_id": below.parent_span_id,
            "parent_span_id": "",
        }
    )


def step_spans(
    world: World,
    *,
    job: str,
    step: int,
    times: Sequence[tuple[int, int]],
    tenant: str = "alpha",
) -> list[Span]:
    """A step of len(times) ranks with true (start, end) each, as one collective, and its root."""
    further: dict[str, str | int] = {
        "tempotrace.communicator": "0:default_pg",
        "tempotrace.sequence": step,
    }
    spans = [
        rank_span(
            world, job=job, step=step, rank=rank, start_ns=start, end_ns=end, tenant=tenant,
            further=further,
        )
        for rank, (start, end) in enumerate(times)
    ]  # fmt: skip
    last = max(end for _, end in times) + 10_000
    return [root_span(world, job=job, step=step, end_ns=last, tenant=tenant), *spans]


def hash_of(text: str) -> int:
    """The same number for a text every time."""
    return int.from_bytes(text.encode(), "little") % (2**47 - 115)
