# SPDX-License-Identifier: Apache-2.0
"""Stamp-point constants from loopback cables; fibre and port parts from a swap; signs by hand."""

from dataclasses import replace

import numpy as np
import pytest

from correction.calibration import (
    CalibrationError,
    Interval,
    Loop,
    calibrate,
    loop_sum,
    loop_values,
    swapped_parts,
)
from correction.engine import selected, solve
from correction.planned_edges import planned_fabric
from correction.planning import Kind, plan
from correction.records import HOP_DTYPE, NO_TSTAMP_NS, PACKET_DTYPE
from correction.table import CONDITIONAL_SIGMAS, Status
from tests.support.rail_fabric import true_error_ns
from tests.support.synthetic_fabric import Setup, draw

EGRESS_NS, INGRESS_NS, FIBRE_NS = 360, 120, 10
LOOP = Loop(
    name="loop", node_id=7, ports=(5, 6), model="sw/100G", fibre_low_ns=9.8, fibre_high_ns=10.4,
    quantum_ns=1, jitter_ns=3.0,
)  # fmt: skip
UNKNOWN = (Interval(low_ns=0.0, high_ns=np.inf), Interval(low_ns=0.0, high_ns=np.inf))


def looped(count: int, *, jitter_ns: float = 0.0, ports=(5, 6), seed: int = 1):
    """Packets that leave by one port and come back by the other, huge epoch and all."""
    rng = np.random.default_rng(seed)
    packets, hops = np.zeros(count, PACKET_DTYPE), np.zeros(2 * count, HOP_DTYPE)
    packets["first_hop"], packets["hop_count"] = 2 * np.arange(count), 2
    hops["node_id"] = 7
    epoch = 1_800_000_000_000_000_001
    sent = epoch + 1_000_000 * np.arange(count)
    late = np.rint(rng.exponential(jitter_ns, count)).astype(np.int64) if jitter_ns else 0
    hops["egress_port"][0::2], hops["ingress_port"][1::2] = ports
    hops["egress_tstamp_local_ns"][0::2] = sent
    hops["ingress_tstamp_local_ns"][1::2] = sent + EGRESS_NS + FIBRE_NS + INGRESS_NS + late
    hops["egress_bytes"] = 1_000
    return packets, hops


def test_a_loop_shows_the_sum_of_both_latencies() -> None:
    """x = 360 + 10 + 120 = 490; less 9.8 to 10.4 ns of fibre and a quantum: 478.6 to 481.2."""
    packets, hops = looped(50)
    x = loop_values(packets, hops, [LOOP])["loop"]
    assert set(x) == {490.0}
    found = loop_sum(replace(LOOP, jitter_ns=0.0), x)
    assert (found.low_ns, found.high_ns) == (pytest.approx(478.6), pytest.approx(481.2))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_sums_limits_hold_under_jitter(seed: int) -> None:
    """360 + 120 = 480 lies between them with 20 packets of 3 ns jitter, within 7 ns."""
    packets, hops = looped(20, jitter_ns=3.0, seed=seed)
    found = loop_sum(LOOP, loop_values(packets, hops, [LOOP])["loop"])
    assert found.low_ns <= 480.0 <= found.high_ns
    assert found.half_ns < 3.5


def test_serialisation_between_the_stamps_is_taken_off() -> None:
    """An ingress stamp at the frame's end: 1000 B at 0.08 ns a byte are 80 ns less."""
    packets, hops = looped(5)
    loop = replace(LOOP, serialisation_ns_per_byte=0.08)
    assert set(loop_values(packets, hops, [loop])["loop"]) == {410.0}


def test_only_packets_over_the_loop_count() -> None:
    """Other ports, other nodes and missing stamps are left out; both ways over it are in."""
    packets, hops = looped(8)
    hops["egress_port"][0] = 9
    hops["node_id"][3] = 8
    hops["ingress_tstamp_local_ns"][5] = NO_TSTAMP_NS
    hops["egress_port"][6], hops["ingress_port"][7] = 6, 5
    assert len(loop_values(packets, hops, [LOOP])["loop"]) == 5


def test_without_any_declaration_each_latency_is_at_most_the_sum() -> None:
    """Sum 478 to 482: both lie in 0 to 482, since neither is negative."""
    total = Interval(low_ns=478.0, high_ns=482.0)
    found = calibrate({"sw/100G": UNKNOWN}, [(LOOP, total)])["sw/100G"]
    assert (found.egress.low_ns, found.egress.high_ns) == (0.0, 482.0)
    assert found.egress.middle_ns == found.egress.half_ns == 241.0


def test_one_declared_latency_gives_the_other() -> None:
    """Egress 355 to 365 and the sum 478 to 482: ingress 113 to 127, by hand."""
    total = Interval(low_ns=478.0, high_ns=482.0)
    declared = (Interval(low_ns=355.0, high_ns=365.0), UNKNOWN[1])
    found = calibrate({"sw/100G": declared}, [(LOOP, total)])["sw/100G"]
    assert (found.ingress.low_ns, found.ingress.high_ns) == (113.0, 127.0)
    assert (found.egress.low_ns, found.egress.high_ns) == (355.0, 365.0)


def test_ports_that_differ_are_all_covered() -> None:
    """Two loops of one model, 470 to 474 and 478 to 482: the sum is 470 to 482."""
    sums = [
        (LOOP, Interval(low_ns=470.0, high_ns=474.0)),
        (replace(LOOP, name="other"), Interval(low_ns=478.0, high_ns=482.0)),
    ]
    found = calibrate({"sw/100G": UNKNOWN}, sums)["sw/100G"]
    assert (found.sum_of_both.low_ns, found.sum_of_both.high_ns, found.loops) == (470.0, 482.0, 2)


def test_a_declaration_that_the_loop_refutes_is_named() -> None:
    """Egress of 600 to 610 exceeds a sum of 482."""
    declared = (Interval(low_ns=600.0, high_ns=610.0), UNKNOWN[1])
    with pytest.raises(CalibrationError, match="sw/100G: egress"):
        calibrate({"sw/100G": declared}, [(LOOP, Interval(low_ns=478.0, high_ns=482.0))])


def test_too_few_packets_show_nothing() -> None:
    """Two are not enough."""
    with pytest.raises(CalibrationError, match="2 packets"):
        loop_sum(LOOP, np.array([490.0, 490.0]))


UPLINK = "leaf2-spine3"
SWAP = Setup(leaves=4, spines=4, hosts_per_leaf=1, windows=2, bad_share=0.0)


def solved(a_ns: float, *, setup=SWAP, uplink=UPLINK, seed=31, known_ns=0.0, sd_ns=None):
    """A run with this asymmetry on one uplink, and its solve; other cables stay as they are."""
    run = draw(seed, setup, a_ns={uplink: a_ns})
    links = tuple(
        replace(
            link,
            asymmetry_ns=known_ns,
            asymmetry_sd_ns=link.asymmetry_sd_ns if sd_ns is None else sd_ns,
        )
        if link.name == uplink
        else link
        for link in run.model.links
    )
    model = replace(run.model, links=links)
    return run, solve(run.packets, run.hops, run.exchanges, model, run.windows)


def parts_of(first, second, uplink=UPLINK):
    """Of a swap of this uplink between two solves."""
    at = next(n for n, link in enumerate(first.model.links) if link.name == uplink)
    one, two = ((found.measured, selected(found.measured)) for found in (first, second))
    (parts,) = swapped_parts(one, two, (at,))
    return parts


def test_a_fibre_swap_splits_fibres_from_ports() -> None:
    """Ports +40, fibres +60 (a -> b slower by both): 100 before, -20 after. Fibres to within the
    measurement, ports to within what the rest of the fabric says."""
    (_, before), (_, after) = solved(100.0), solved(-20.0)
    parts = parts_of(before, after)
    assert parts.link == UPLINK
    assert parts.fibre_ns == pytest.approx(60.0, abs=3.0 * parts.fibre_sd_ns)
    assert parts.fibre_sd_ns < 2.0
    assert parts.ports_ns == pytest.approx(40.0, abs=3.0 * parts.ports_sd_ns)


def test_a_swap_determines_a_leaf_in_doubt_once_it_is_declared() -> None:
    """4 x 2, one of leaf3's two uplinks off by 200 ns, all of it fibres: the leaf is in doubt
    before, and after the swap; what the swap shows, declared, determines it, with the deviation
    that the plan predicts with it, but for rivals: two uplinks have many."""
    setup = replace(SWAP, spines=2)
    uplink = "leaf3-spine1"
    _, before = solved(200.0, setup=setup, uplink=uplink, seed=5)
    leaf = next(n for n, clock in enumerate(before.model.clocks) if clock.name == "leaf3")
    assert before.windows[0].status[leaf] == Status.AMBIGUOUS
    _, after = solved(-200.0, setup=setup, uplink=uplink, seed=5)
    parts = parts_of(before, after, uplink)
    assert parts.fibre_ns == pytest.approx(200.0, abs=4.0 * parts.fibre_sd_ns)

    run, told = solved(
        -200.0,
        setup=setup,
        uplink=uplink,
        seed=5,
        known_ns=-parts.fibre_ns,
        sd_ns=parts.fibre_sd_ns,
    )
    one = told.windows[0]
    assert one.status[leaf] == Status.OK
    error = abs(true_error_ns(run, told, 0, leaf))
    assert error <= one.bound_conditional_ns[leaf] <= one.bound_hard_ns[leaf]
    planned = planned_fabric(before.measured, selected(before.measured), {})
    found = plan(planned.edges, 0, planned.candidates, planned.counts)
    assert found.steps[0].candidate.kind is Kind.FIBRE_SWAP
    predicted_ns = found.steps[0].bounds_ns[leaf]
    assert CONDITIONAL_SIGMAS * one.sd_ns[leaf] == pytest.approx(predicted_ns, rel=0.35)


def test_a_declared_asymmetry_moves_no_hard_interval() -> None:
    """It is taken off the samples and given back to causality: both ends of every clock's hard
    interval stay, to a quantum, whether it is right or wrong."""
    run, without = solved(100.0)
    _, with_it = solved(100.0, known_ns=100.0, sd_ns=1.0)
    _, wrong = solved(100.0, known_ns=-300.0, sd_ns=1.0)
    for found in (with_it, wrong):
        for w in (0, 1):
            one, other = found.windows[w], without.windows[w]
            for clock in range(1, len(run.model.clocks)):
                error = abs(true_error_ns(run, found, w, clock))
                assert error <= one.bound_hard_ns[clock]
                far = abs(int(one.offset_ns[clock]) - int(other.offset_ns[clock]))
                assert one.bound_hard_ns[clock] <= other.bound_hard_ns[clock] + far + 2.5
