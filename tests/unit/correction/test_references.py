# SPDX-License-Identifier: Apache-2.0
"""Several reference clocks with errors of their own, held against one time scale."""

from dataclasses import replace

import numpy as np
import pytest

from correction.engine import solve
from correction.model import UNCALIBRATED_NS, Reference
from correction.references import TIMESCALE, with_references
from correction.sources import gather
from correction.table import CONDITIONAL_SIGMAS, Status
from tests.support.rail_fabric import true_error_ns
from tests.support.synthetic_fabric import Setup, draw

SMALL = Setup(leaves=4, spines=4, hosts_per_leaf=2, windows=2, bad_share=0.0, asymmetry_sd_ns=5.0)
GRADIENT_NS = 60.0
SECOND, ITS_LEAF, NEIGHBOUR = 6, 11, 7
"""h7 on leaf4, and h8 beside it."""
SD_NS = 4.0


def gradient_run(ahead_ns: int = 0):
    """All uplinks of leaf4 are slower towards it by 60 ns; h7 shows what h1 does, or nearly.

    Uplinks are declared with an sd of 80 ns, so that this is nothing unusual."""
    uplinks = {f"leaf4-spine{spine + 1}": -GRADIENT_NS for spine in range(4)}
    run = draw(11, SMALL, a_ns=uplinks, beside={SECOND: (0, ahead_ns)})
    wide = tuple(
        link if link.access else replace(link, asymmetry_sd_ns=80.0) for link in run.model.links
    )
    return run, replace(run.model, links=wide)


def two(model, sd_ns: float = SD_NS, hard_ns: float = 20.0):
    """h1 and h7 as references."""
    return replace(
        model,
        references=tuple(
            Reference(clock=clock, sd_ns=sd_ns, hard_ns=hard_ns) for clock in (0, SECOND)
        ),
    )


def test_two_references_pin_the_gradient_between_them() -> None:
    """A gradient shows in no loop of cables: the leaf is off by it. A second reference sees it."""
    run, model = gradient_run()
    alone = solve(run.packets, run.hops, run.exchanges, model, run.windows)
    assert abs(true_error_ns(run, alone, 0, ITS_LEAF)) > 40.0

    found = solve(run.packets, run.hops, run.exchanges, two(model), run.windows)
    for clock in (ITS_LEAF, SECOND, NEIGHBOUR):
        error = abs(true_error_ns(run, found, 0, clock))
        assert error < 20.0
        assert error <= found.windows[0].bound_hard_ns[clock]
        assert found.windows[0].status[clock] == Status.OK
    of_the_leaf = found.windows[0].bound_conditional_ns[ITS_LEAF]
    assert of_the_leaf < 0.5 * alone.windows[0].bound_conditional_ns[ITS_LEAF]


def test_a_references_bound_is_its_declared_error() -> None:
    """3.29 x 4 / sqrt(2) to 3.29 x 4 ns, and hard at most 20 ns, quantum and rounding."""
    run, model = gradient_run()
    found = solve(run.packets, run.hops, run.exchanges, two(model), run.windows)
    one = found.windows[0]
    for clock in (0, SECOND):
        assert (
            CONDITIONAL_SIGMAS * SD_NS / np.sqrt(2.0)
            <= one.bound_conditional_ns[clock]
            <= 1.05 * CONDITIONAL_SIGMAS * SD_NS
        )
        assert 20.0 <= one.bound_hard_ns[clock] <= 26.0
    scale = len(run.model.clocks)
    assert found.model.clocks[scale].name == TIMESCALE
    assert one.bound_hard_ns[scale] == 0.0


def test_references_are_believed_by_their_deviations() -> None:
    """One is 60 ns ahead of the other; sds of 1 and 60 ns put the truth beside the first one."""
    run = draw(11, SMALL, beside={SECOND: (0, 60)})
    model = replace(
        run.model,
        references=(
            Reference(clock=0, sd_ns=1.0, hard_ns=10.0),
            Reference(clock=SECOND, sd_ns=60.0, hard_ns=200.0),
        ),
    )
    found = solve(run.packets, run.hops, run.exchanges, model, run.windows)
    # offsets are against the time scale, which is h1 to within its 1 ns; cables add some more
    assert abs(true_error_ns(run, found, 0, 0)) < 3.0
    assert true_error_ns(run, found, 0, SECOND) == pytest.approx(0.0, abs=20.0)


def test_references_that_contradict_their_limits_are_found() -> None:
    """30 us apart, 20 ns allowed: causality is contradicted, and no window is published."""
    run, model = gradient_run(ahead_ns=30_000)
    found = solve(run.packets, run.hops, run.exchanges, two(model), run.windows)
    assert any(finding.kind == "impossible-cycle" for finding in found.findings)
    scale = len(run.model.clocks)
    others = [c for c in range(scale) if c not in (0, SECOND)]
    assert all(found.windows[0].bound_hard_ns[c] == np.inf for c in (0, SECOND)) or all(
        found.windows[0].status[c] == Status.INCONSISTENT for c in others
    )


def test_without_declared_references_nothing_changes() -> None:
    """The model stays the same object, and the reference has no error."""
    run, model = gradient_run()
    assert with_references(model) is model
    all_of = gather(run.packets, run.hops, run.exchanges, model)
    assert all_of.model.reference == 0


def test_clients_may_take_the_time_from_any_reference() -> None:
    """Exchanges that name the second reference's address are accepted, others are not."""
    run, model = gradient_run()
    exchanges = run.exchanges.copy()
    some = exchanges["client"] == NEIGHBOUR
    exchanges["time_transmitter_ip"][some] = model.clocks[SECOND].ip
    alone = gather(run.packets, run.hops, exchanges, model)
    assert alone.counters.rejected["exchange_wrong_transmitter"] == some.sum()
    both = gather(run.packets, run.hops, exchanges, two(model))
    assert "exchange_wrong_transmitter" not in both.counters.rejected


def test_uncalibrated_points_widen_the_hard_bound_and_it_holds() -> None:
    """Stamp points off by 400 ns that nobody calibrated: hard bounds grow by what they may be off
    and cover the truth; declared as calibrated to 4 ns, they would not."""
    run = draw(4, replace(SMALL, windows=1))
    shift = 400

    def off(point):
        return replace(point, latency_ns=point.latency_ns - shift)

    def unknown(point):
        return replace(off(point), uncertainty_ns=UNCALIBRATED_NS, calibrated=False)

    # egress of the switches alone: then access links look asymmetric, and no loop tells
    links = run.model.links
    wrong, told = (
        replace(
            run.model,
            links=tuple(
                replace(link, b_egress=change(link.b_egress)) if link.access else link
                for link in links
            ),
        )
        for change in (off, unknown)
    )
    right, bad, good = (
        solve(run.packets, run.hops, run.exchanges, model, run.windows).windows[0]
        for model in (run.model, wrong, told)
    )
    hosts = range(1, 8)
    assert all(
        good.bound_hard_ns[h] >= right.bound_hard_ns[h] + UNCALIBRATED_NS - shift for h in hosts
    )
    found = solve(run.packets, run.hops, run.exchanges, told, run.windows)
    assert all(abs(true_error_ns(run, found, 0, h)) <= good.bound_hard_ns[h] for h in hosts)
    assert bad.bound_hard_ns[8] < good.bound_hard_ns[8]
