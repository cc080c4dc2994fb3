# SPDX-License-Identifier: Apache-2.0
"""Spans on clocks that no packet carries, corrected when they are read."""

from collections import Counter
from dataclasses import replace

import pytest

from controller.following.derived_rows import derived_corrections
from correction.derived.chain import derive
from correction.derived.readings import PairReject
from correction.table import Status
from tests.support.paired_clocks import FREE, PARENT_NS, S, pairs_of, parent_rows
from tracing_core.model import ClockStatus, Correction, Span, SpanKind
from tracing_core.service import views
from tracing_core.store import Store

COUNTER = replace(FREE, settable=False)
GPU_BEHIND_NS = 50 * S
"""The GPU's timer against the system clock, which is UTC and 250 ns ahead."""
STAMP_NS = PARENT_NS + 5 * S - 37 * S + 250 - GPU_BEHIND_NS
"""What the GPU reads when the NIC reads PARENT_NS + 5 s."""


def published(phc_offset_ns: int, status: Status = Status.OK) -> list[Correction]:
    """Rows of the GPU and the system clock of host h3, of whose NIC one row is known."""
    phc = parent_rows((-100 * S, 100 * S, phc_offset_ns, 0.0, 9, 7, status, "in doubt"))
    seconds = [second * S for second in range(11)]
    system = pairs_of(seconds, lambda _: -37 * S + 250)
    gpu = pairs_of(
        [at - 37 * S + 250 for at in seconds],
        lambda _: -GPU_BEHIND_NS,
        half_ns=1_000,
        clock="h3/gpu0",
        behaviour=COUNTER,
        parent="h3/system",
    )
    rejected: Counter[PairReject] = Counter()
    found = derive([system, gpu], {"h3": phc}, rejected)
    assert not rejected
    return derived_corrections(found, prior="p")


def span(clock: str) -> Span:
    """A kernel of 1 us."""
    return Span(
        tenant="t", trace_id="1" * 32, span_id="2" * 16, parent_span_id="", name="kernel",
        kind=SpanKind.INTERNAL, start_local_ns=STAMP_NS, end_local_ns=STAMP_NS + 1_000,
        clock_domain=clock, host="h3", service="s",
    )  # fmt: skip


def test_a_kernels_stamps_are_raw_and_corrected_with_bounds_and_chain(store: Store) -> None:
    """Raw beside corrected, both bounds at least the sum of the chain's, the method names all
    clocks and the difference of TAI and UTC."""
    store.corrections.append(published(phc_offset_ns=40))
    start = views.span(span("h3/gpu0"), store.corrections.table()).start
    assert start.raw_local_ns == STAMP_NS
    assert start.corrected_reference_ns == PARENT_NS + 5 * S - 40
    assert start.bound_hard_ns is not None
    assert 1_000 + 100 + 9 <= start.bound_hard_ns <= 1_000 + 100 + 9 + 30
    assert start.bound_conditional_ns is not None
    assert 1_000 + 100 + 7 <= start.bound_conditional_ns <= start.bound_hard_ns
    assert start.method == ("clock-pairs h3/gpu0 -> h3/system -> h3 (TAI-UTC 37 s) -> reference")
    assert start.status == ClockStatus.SYNCHRONISED.value


def test_late_corrections_retime_spans_and_old_answers_come_back(store: Store) -> None:
    """Version 1 knows nothing, 2 has the NIC 40 ns ahead, 3 has it 55 ns ahead: the stored stamp
    stays, and each version answers as it did."""
    store.corrections.append([])
    store.corrections.append(published(phc_offset_ns=40))
    before = store.corrections.table(2).correct_one("h3/gpu0", STAMP_NS)
    store.corrections.append(published(phc_offset_ns=55))
    newest = store.corrections.table().correct_one("h3/gpu0", STAMP_NS)
    assert newest.raw_local_ns == before.raw_local_ns == STAMP_NS
    assert newest.corrected_reference_ns == PARENT_NS + 5 * S - 55
    assert store.corrections.table(2).correct_one("h3/gpu0", STAMP_NS) == before
    assert before.corrected_reference_ns == PARENT_NS + 5 * S - 40
    nothing = store.corrections.table(1).correct_one("h3/gpu0", STAMP_NS)
    assert (nothing.corrected_reference_ns, nothing.status) == (None, ClockStatus.UNKNOWN)


def test_a_clock_without_readings_stays_unknown_and_says_why(store: Store) -> None:
    """Another GPU of the same host, and a monotonic clock of another boot: no value, no bound, no
    zero."""
    store.corrections.append(published(phc_offset_ns=40))
    for clock in ("h3/gpu1", "h3/monotonic/b2"):
        found = store.corrections.table().correct_one(clock, STAMP_NS)
        assert found.corrected_reference_ns is None
        assert (found.bound_hard_ns, found.bound_conditional_ns) == (None, None)
        assert found.reason == (
            f"no correction exists for clock {clock}: no clock pair ties it to a NIC"
        )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.AMBIGUOUS, ClockStatus.FLAGGED),
        (Status.INCONSISTENT, ClockStatus.DISRUPTED),
        (Status.FLOATING, ClockStatus.UNKNOWN),
    ],
)
def test_the_nics_status_reaches_the_gpus_spans(
    store: Store, status: Status, expected: ClockStatus
) -> None:
    """Two steps down the chain, with the NIC's reason."""
    store.corrections.append(published(40, status))
    found = store.corrections.table().correct_one("h3/gpu0", STAMP_NS)
    assert found.status is expected
    assert "h3: in doubt" in found.reason


def test_medians_are_of_nics_and_kinds_of_clocks_are_told(store: Store) -> None:
    """A summary of the fabric's clocks is not about GPUs whose readings take microseconds."""
    store.corrections.append(published(40))
    table = store.corrections.table()
    assert views.clock_summary([], table).bound_hard_ns_median is None
    kinds = {item.clock: item.kind for item in views.clocks([], table)}
    assert kinds == {"h3/gpu0": "gpu", "h3/system": "system"}
