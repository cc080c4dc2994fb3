# SPDX-License-Identifier: Apache-2.0
"""Summaries of clocks as the API gives them."""

from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, Correction, FabricNode
from tracing_core.service import views


def rows_of(
    clock: str, *bounds_ns: int | None, method: str = "sparse-robust", prior: str = "p"
) -> list[tuple[int, Correction]]:
    return [
        (
            1,
            Correction(
                clock=clock,
                valid_from_local_ns=100 * index,
                valid_to_local_ns=100 * index + 100,
                anchor_local_ns=100 * index + 50,
                offset_ns=0,
                rate_ppb=0.0,
                bound_hard_ns=None if bound_ns is None else 5 * bound_ns,
                bound_conditional_ns=bound_ns,
                method=method,
                prior=prior,
                status=ClockStatus.SYNCHRONISED,
            ),
        )
        for index, bound_ns in enumerate(bounds_ns)
    ]


def nodes(**kinds: str) -> list[FabricNode]:
    return [FabricNode(name=name, kind=kind, node_id=0, ip=0) for name, kind in kinds.items()]


def test_medians_are_over_hosts_at_the_centre_without_reference_and_switches() -> None:
    """One row a clock counts, the best of its newest window; hosts that have none do not."""
    table = CorrectionTable(
        rows_of("h1", 0, method="reference")
        + rows_of("h2", 90, 20, 95)
        + rows_of("h3", 90, 24, 95)
        + rows_of("leaf1", 500),
        version=1,
    )
    fabric = nodes(h1="nic", h2="nic", h3="nic", h4="nic", leaf1="switch")
    summary = views.clock_summary(fabric, table)
    assert summary.bound_conditional_ns_median == 22
    assert summary.bound_hard_ns_median == 110
    assert summary.by_status == {"synchronised": 4, "unknown": 1}
    assert summary.total == 5


def test_an_infinite_median_is_null() -> None:
    """Unbounded clocks count as the largest; without a host there is no median at all."""
    table = CorrectionTable(rows_of("h1", None) + rows_of("h2", None) + rows_of("h3", 7), version=1)
    fabric = nodes(h1="nic", h2="nic", h3="nic")
    assert views.clock_summary(fabric, table).bound_conditional_ns_median is None
    assert views.clock_summary([], CorrectionTable([], version=0)).bound_hard_ns_median is None


def test_the_prior_is_said_once() -> None:
    """Clocks that share a prior name it once; several priors are all named."""
    table = CorrectionTable(rows_of("h1", 1) + rows_of("h2", 2), version=1)
    assert views.prior(table) == "p"
    mixed = CorrectionTable(rows_of("h1", 1) + rows_of("h2", 2, prior="q"), version=1)
    assert views.prior(mixed) == "p; or: q"
