# SPDX-License-Identifier: Apache-2.0
"""Every residence is counted once, whichever switches put theirs into correctionField."""

import numpy as np
import pytest

from correction.correction_fields import client_fields
from correction.engine import solve
from correction.injected import END_OF_TIME_NS, INJECTED_DTYPE, SCALED_PER_NS, Injected, account
from tests.support.synthetic_fabric import Run, Setup, draw
from tests.support.transparent_clocks import corrected, transparent

SOME = ("leaf1", "spine2", "leaf3")
"""Transparent clocks among others that are none."""


@pytest.fixture(scope="module")
def run() -> Run:
    """3 x 3; every path has both kinds of switches on it, or could have."""
    return draw(12, Setup(leaves=3, spines=3, hosts_per_leaf=2, windows=1, samples=6))


def injected_at(model, names) -> Injected:
    """33 ns at the first two ports of each."""
    nodes = [clock.node_id for clock in model.clocks if clock.name in names]
    rows = np.zeros(2 * len(nodes), INJECTED_DTYPE)
    rows["node_id"] = np.repeat(nodes, 2)
    rows["ingress_port"] = np.tile([1, 2], len(nodes))
    rows["delay_scaled_ns"] = 33 * SCALED_PER_NS
    rows["to_collector_ns"] = END_OF_TIME_NS
    return Injected(rows=rows)


@pytest.mark.parametrize("names", [(), SOME, None], ids=["none", "some", "all"])
def test_correction_fields_add_up_whichever_switches_are_transparent(run: Run, names) -> None:
    """Residence of the declared transparent clocks, and what was written to their ports; switches
    that correct nothing are not asked for."""
    model = transparent(run.model, names)
    injected = injected_at(model, SOME if names is None else names)
    found = account(run.packets, run.hops, corrected(run, model, injected), model, injected)
    assert found.known.all()
    assert np.abs(found.unexplained_ns).max() <= 1.0


def test_a_switch_that_is_declared_wrongly_leaves_its_residence_unexplained(run: Run) -> None:
    """It was to correct and does not: by so much the fields fall short."""
    declared, real = transparent(run.model), transparent(run.model, SOME)
    found = account(run.packets, run.hops, corrected(run, real), declared, Injected())
    assert np.median(found.unexplained_ns) < -500.0


@pytest.mark.parametrize("names", [(), SOME, None], ids=["none", "some", "all"])
def test_the_estimates_take_residence_from_telemetry_once(run: Run, names) -> None:
    """Whatever correctionFields say on top, no clock and no link moves by a bit."""
    model = transparent(run.model, names)
    plain = solve(run.packets, run.hops, run.exchanges, model, run.windows)
    found = solve(run.packets, run.hops, corrected(run, model), model, run.windows)
    assert found.table.rows.tobytes() == plain.table.rows.tobytes()
    assert found.links.a_ns.tolist() == plain.links.a_ns.tolist()


def test_a_configured_asymmetry_is_recognised_in_the_fields(run: Run) -> None:
    """ptp4l adds it to the Syncs that it receives, and sends its negative: c1 = +A, c2 = -A."""
    model = transparent(run.model, SOME)
    exchanges = corrected(run, model)
    mine = exchanges["client"] == 2
    exchanges["c1_ns"][mine] += 400
    exchanges["c2_ns"][mine] -= 400
    found = client_fields(account(run.packets, run.hops, exchanges, model, Injected()))
    assert {one.client: one.applied_asymmetry_ns for one in found if not one.explained} == {2: 400}


def test_other_leftovers_are_no_configured_asymmetry(run: Run) -> None:
    """A transparent clock that adds 300 ns too much to Syncs alone."""
    model = transparent(run.model, SOME)
    exchanges = corrected(run, model)
    exchanges["c1_ns"] += 300
    found = client_fields(account(run.packets, run.hops, exchanges, model, Injected()))
    assert len(found) == 5
    for one in found:
        assert one.unexplained_ns == pytest.approx((300.0, 0.0), abs=1.0)
        assert one.applied_asymmetry_ns is None
