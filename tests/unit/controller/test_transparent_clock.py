# SPDX-License-Identifier: Apache-2.0
"""Link delays for the transparent clock: values, constants, validity, and what they do to a client.

The client is plain PTP arithmetic on synthetic stamps; its correctionField is added up here, hop by
hop, as the switches would.
"""

from dataclasses import replace

import numpy as np
import pytest

from controller.ptp_entries import SCALED_PER_NS
from controller.transparent_clock import (
    NO_DELAYS,
    VALIDITY_NS,
    Basis,
    LinkDelayPlan,
    plan_link_delays,
)
from controller.written_delays import WrittenDelays
from correction.engine import solve
from correction.exchange_join import DELAY_REQ, SYNC
from correction.injected import END_OF_TIME_NS, account
from correction.model import ClockKind
from correction.records import NO_TSTAMP_NS, TRAFFIC_PTP
from correction.solution import FabricSolution
from tests.support.synthetic_fabric import Run, Setup, draw
from tests.support.transparent_clocks import transparent

STEADY = Setup(
    leaves=4, spines=4, windows=2, bad_share=0.0, rate_sd_ppb=0.0, wander=0.0, exchanges=10
)
NOW_NS = 1_700_000_008 * 10**9
"""On the collector's clock, just after the last window."""


@pytest.fixture(scope="module")
def run() -> Run:
    """A fabric with unequal cables and one bad link; clocks that do not drift."""
    made = draw(5, STEADY, a_ns={"leaf2-spine3": 180.0})
    return replace(made, model=transparent(made.model))


@pytest.fixture(scope="module")
def solution(run: Run) -> FabricSolution:
    """What the engine makes of it."""
    return solve(run.packets, run.hops, run.exchanges, run.model, run.windows)


def _plan(solution: FabricSolution, **options) -> LinkDelayPlan:
    return plan_link_delays(solution, **options)


def _with_corrections(run: Run, delays: dict[str, dict[int, int]], offset: int = 0):
    """The exchanges as the hosts would have logged them behind transparent clocks."""
    names = {clock.node_id: clock.name for clock in run.model.clocks if clock.node_id}
    totals = {}
    for packet in run.packets[run.packets["traffic"] == TRAFFIC_PTP]:
        scaled = 0
        first = int(packet["first_hop"])
        for hop in run.hops[first : first + int(packet["hop_count"])]:
            residence = hop["egress_tstamp_local_ns"] - hop["ingress_tstamp_local_ns"]
            scaled += int(residence) * SCALED_PER_NS + offset
            scaled += delays.get(names[int(hop["node_id"])], {}).get(int(hop["ingress_port"]), 0)
        key = (int(packet["ptp_message_type"]), int(packet["src_ip"]), int(packet["dst_ip"]))
        totals[*key, int(packet["ptp_sequence_id"])] = scaled >> 16
    exchanges = run.exchanges.copy()
    for row in exchanges:
        there, back = int(row["time_transmitter_ip"]), int(row["client_ip"])
        row["c1_ns"] = totals[SYNC, there, back, int(row["sync_sequence_id"])]
        row["c2_ns"] = totals[DELAY_REQ, back, there, int(row["delay_req_sequence_id"])]
    return exchanges


def _client_errors_ns(run: Run, exchanges) -> np.ndarray:
    """Per client, where its servo would leave it: its own offset estimate less its true offset."""
    there = exchanges["t2_local_ns"] - exchanges["t1_reference_ns"] - exchanges["c1_ns"]
    back = exchanges["t4_reference_ns"] - exchanges["t3_local_ns"] - exchanges["c2_ns"]
    estimate = (there - back) / 2
    clocks = run.truth.clocks
    errors = []
    for client in np.unique(exchanges["client"]):
        true_ns = clocks[client].epoch_ns - clocks[0].epoch_ns
        errors.append(np.median(estimate[exchanges["client"] == client] - true_ns))
    return np.array(errors)


def _rms(values) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def test_clients_come_out_right_on_unequal_cables(run: Run, solution: FabricSolution) -> None:
    """Residence alone leaves over 100 ns rms; with link delays a few ns, those of the access
    cables, remain."""
    residence_only = _client_errors_ns(run, _with_corrections(run, {}))
    delays = _plan(solution).in_force(NOW_NS)
    corrected = _client_errors_ns(run, _with_corrections(run, delays))
    assert _rms(residence_only) > 100.0
    assert _rms(corrected) < 12.0


def test_values_are_the_links_delay_less_one_constant(run: Run, solution: FabricSolution) -> None:
    """Both ends of a link differ by twice a_uv, and all fabric ports share the constant."""
    plan = _plan(solution)
    value = {(d.switch, d.ingress_port): d.delay_scaled_ns / SCALED_PER_NS for d in plan.delays}
    constant_ns = plan.fabric_constant_scaled_ns / SCALED_PER_NS
    for index, link in enumerate(run.model.links):
        if link.access:
            continue
        a, b = run.model.clocks[link.a].name, run.model.clocks[link.b].name
        into_b, into_a = value[b, link.b_port], value[a, link.a_port]
        assert (into_b - into_a) / 2 == pytest.approx(run.truth.a_ns[index], abs=12.0)
        latencies = link.a_egress.latency_ns + link.b_ingress.latency_ns
        half = solution.links.half_round_trip_ns[index]
        assert (into_b + into_a) / 2 == pytest.approx(half + latencies - constant_ns, abs=1.0)


def test_no_value_is_negative_and_the_smallest_is_near_zero(solution: FabricSolution) -> None:
    """The constant is the largest that allows it, but for a little headroom."""
    values = [one.delay_scaled_ns for one in _plan(solution).delays]
    assert 0 <= min(values) < 10 * SCALED_PER_NS


def test_host_ports_of_one_nic_model_add_nothing(solution: FabricSolution) -> None:
    """Access cables stay in both directions; equal stamp points cancel between client and
    reference."""
    assert not [one for one in _plan(solution).delays if one.basis is Basis.ACCESS]


def test_another_nic_models_stamp_points_go_in_twice(run: Run, solution: FabricSolution) -> None:
    """A NIC whose egress latency is 30 ns more on its way in has that whole difference added."""
    links = list(run.model.links)
    index = next(i for i, link in enumerate(links) if link.access and link.a == 5)
    nic = replace(links[index].a_egress, latency_ns=links[index].a_egress.latency_ns + 30)
    links[index] = replace(links[index], a_egress=nic)
    changed = replace(solution, model=replace(solution.model, links=tuple(links)))
    access = [one for one in _plan(changed).delays if one.basis is Basis.ACCESS]
    assert [one.delay_scaled_ns for one in access] == [30 * SCALED_PER_NS]
    assert access[0].ingress_port == links[index].b_port
    # its transmit stamps are 30 ns earlier before the wire; with the plan its client stays as right
    late = replace(run, exchanges=run.exchanges.copy())
    late.exchanges["t3_local_ns"][late.exchanges["client"] == 5] -= 30
    plain = _client_errors_ns(run, _with_corrections(run, _plan(solution).in_force(NOW_NS)))
    blind = _client_errors_ns(late, _with_corrections(late, _plan(solution).in_force(NOW_NS)))
    told = _client_errors_ns(late, _with_corrections(late, _plan(changed).in_force(NOW_NS)))
    assert np.flatnonzero(np.abs(blind - plain) > 1.0).tolist() == [4]
    assert blind[4] - plain[4] == pytest.approx(-15.0, abs=1.0)
    assert np.abs(told - plain).max() <= 1.0


def test_residence_offsets_of_the_switches_are_not_counted_twice(
    run: Run, solution: FabricSolution
) -> None:
    """What a switch adds to each residence for its stamp points is taken off its ports."""
    offset = 480 * SCALED_PER_NS
    names = [c.name for c in run.model.clocks if c.kind is ClockKind.SWITCH]
    plain = _plan(solution).in_force(NOW_NS)
    spared = _plan(solution, residence_offset_scaled_ns=dict.fromkeys(names, offset))
    a = _client_errors_ns(run, _with_corrections(run, plain))
    b = _client_errors_ns(run, _with_corrections(run, spared.in_force(NOW_NS), offset))
    assert np.abs(a - b).max() <= 1.0


def test_unequal_hop_counts_forbid_a_constant(solution: FabricSolution) -> None:
    """Then every port adds the whole delay of its link."""
    plan = _plan(solution, equal_hop_counts=False)
    assert plan.fabric_constant_scaled_ns == plan.access_constant_scaled_ns == 0
    constant = _plan(solution).fabric_constant_scaled_ns
    with_constant = {(d.switch, d.ingress_port): d.delay_scaled_ns for d in _plan(solution).delays}
    for one in plan.delays:
        if one.basis is Basis.MEASURED:
            reduced = with_constant[one.switch, one.ingress_port]
            assert one.delay_scaled_ns - reduced == constant


def test_a_link_that_is_not_measured_is_withdrawn(run: Run, solution: FabricSolution) -> None:
    """No value is invented; the others stay."""
    half = solution.links.half_round_trip_ns.copy()
    half[0] = np.nan
    links = replace(solution.links, half_round_trip_ns=half)
    plan = _plan(replace(solution, links=links))
    gone = {(one.switch, one.ingress_port) for one in plan.withdrawn}
    link = run.model.links[0]
    names = [run.model.clocks[clock].name for clock in (link.a, link.b)]
    assert gone == {(names[0], link.a_port), (names[1], link.b_port)}
    assert len(plan.in_force(NOW_NS)[names[1]]) == STEADY.leaves - 1


def test_an_undetermined_difference_leaves_the_round_trip(solution: FabricSolution) -> None:
    """A link outside every loop is taken as alike in both directions, and says so."""
    observable = solution.links.observable.copy()
    observable[2] = False
    changed = replace(solution, links=replace(solution.links, observable=observable))
    ends = {
        (solution.model.clocks[link.a].name, link.a_port) for link in solution.model.links[2:3]
    } | {(solution.model.clocks[link.b].name, link.b_port) for link in solution.model.links[2:3]}
    mine = [d for d in _plan(changed).delays if (d.switch, d.ingress_port) in ends]
    assert {one.basis for one in mine} == {Basis.ROUND_TRIP}
    assert abs(mine[0].delay_scaled_ns - mine[1].delay_scaled_ns) <= SCALED_PER_NS


def test_expired_values_are_withdrawn_everywhere(solution: FabricSolution) -> None:
    """After its validity a plan asks for empty tables on every switch."""
    plan = _plan(solution, validity_ns=10)
    end_ns = solution.windows[-1].end_collector_ns
    assert all(plan.in_force(end_ns + 9).values())
    late = plan.in_force(end_ns + 10)
    assert set(late) == set(plan.in_force(NOW_NS))
    assert not any(late.values())


def test_a_link_that_falls_silent_expires_alone(run: Run) -> None:
    """Its value holds from the last window that saw it, the others' from the newest."""
    hops = run.hops.copy()
    link = run.model.links[0]
    leaf = run.model.clocks[link.a].node_id
    packets = run.packets.copy()
    late = np.repeat(
        packets["capture_collector_ns"] > run.windows[1, 0], packets["hop_count"].astype(int)
    )
    silent = late & (hops["node_id"] == leaf)
    hops["egress_tstamp_local_ns"][silent & (hops["egress_port"] == link.a_port)] = NO_TSTAMP_NS
    hops["ingress_tstamp_local_ns"][silent & (hops["ingress_port"] == link.a_port)] = NO_TSTAMP_NS
    plan = _plan(solve(packets, hops, run.exchanges, run.model, run.windows))
    expiry = {(d.switch, d.ingress_port): d.valid_to_collector_ns for d in plan.delays}
    first, second = (int(end) + VALIDITY_NS for end in run.windows[:, 1])
    ends = (("leaf1", link.a_port), (run.model.clocks[link.b].name, link.b_port))
    assert {expiry.pop(end) for end in ends} == {first}
    assert set(expiry.values()) == {second}


def test_a_steady_fabric_is_not_written_to(solution: FabricSolution) -> None:
    """Noise below the threshold keeps values and constant; a real change is let through."""
    plan = _plan(solution)
    noisy = solution.links.half_round_trip_ns + 0.3
    noisy[3] += 40.0
    again = _plan(
        replace(solution, links=replace(solution.links, half_round_trip_ns=noisy)), previous=plan
    )
    moved = {
        (one.switch, one.ingress_port)
        for one, old in zip(again.delays, plan.delays, strict=True)
        if one.delay_scaled_ns != old.delay_scaled_ns
    }
    link = solution.model.links[3]
    assert again.fabric_constant_scaled_ns == plan.fabric_constant_scaled_ns
    assert moved == {
        (solution.model.clocks[link.a].name, link.a_port),
        (solution.model.clocks[link.b].name, link.b_port),
    }


def test_nothing_is_in_force_before_the_first_estimate() -> None:
    """The empty plan writes nothing."""
    assert NO_DELAYS.in_force(NOW_NS) == {}


def test_injected_delays_never_reach_the_estimates(run: Run, solution: FabricSolution) -> None:
    """With correctionFields full of injected delays the engine finds the same links and clocks."""
    delays = _plan(solution).in_force(NOW_NS)
    with_delays = _with_corrections(run, delays)
    again = solve(run.packets, run.hops, with_delays, run.model, run.windows)
    assert np.array_equal(again.links.a_ns, solution.links.a_ns)
    assert np.array_equal(again.links.half_round_trip_ns, solution.links.half_round_trip_ns)
    assert np.array_equal(again.table.rows, solution.table.rows)
    assert not again.counters.rejected


def test_what_was_injected_is_taken_off_and_nothing_is_left_over(
    run: Run, solution: FabricSolution
) -> None:
    """correctionField = residence of the packet's own hops + delays in force, to the ns."""
    delays = _plan(solution).in_force(NOW_NS)
    node_ids = {c.name: c.node_id for c in run.model.clocks if c.kind is ClockKind.SWITCH}
    written = WrittenDelays(node_ids)
    assert written.record(delays, int(run.windows[0, 0]) - 10**9) > 0
    assert written.record(delays, int(run.windows[0, 0])) == 0
    result = account(
        run.packets,
        run.hops,
        _with_corrections(run, delays),
        run.model,
        written.injected(),
    )
    assert result.known.all()
    assert np.abs(result.unexplained_ns).max() <= 1.0
    plain = _with_corrections(run, {})
    for name in ("c1_ns", "c2_ns"):
        assert np.abs(result.exchanges[name] - plain[name]).max() <= 1


def test_packets_near_a_change_are_left_as_they_are(run: Run, solution: FabricSolution) -> None:
    """Which value such a packet met is not known, so its correction is not touched."""
    delays = _plan(solution).in_force(NOW_NS)
    node_ids = {c.name: c.node_id for c in run.model.clocks if c.kind is ClockKind.SWITCH}
    written = WrittenDelays(node_ids)
    middle_ns = int(run.windows[0].mean())
    written.record(delays, middle_ns)
    result = account(
        run.packets,
        run.hops,
        _with_corrections(run, {}),
        run.model,
        written.injected(),
    )
    assert 0 < np.count_nonzero(~result.known) < result.known.size / 10
    # before the change nothing was injected; the later exchanges claim too little, and are found
    assert np.nanmax(np.abs(result.unexplained_ns[result.injected_ns == 0.0])) <= 1.0
    assert np.nanmax(np.abs(result.unexplained_ns)) > 100.0


def test_a_record_forgets_what_ended_before_it_is_asked_for() -> None:
    """Spans that ended earlier do not matter to later packets."""
    written = WrittenDelays({"leaf1": 1})
    written.record({"leaf1": {1: 5, 2: 7}}, 100)
    written.record({"leaf1": {1: 6}}, 200)
    rows = written.injected(150).rows.tolist()
    assert sorted(rows) == [
        (1, 1, 5, 100, 200),
        (1, 1, 6, 200, END_OF_TIME_NS),
        (1, 2, 7, 100, 200),
    ]
    assert written.injected(201).rows.tolist() == [(1, 1, 6, 200, END_OF_TIME_NS)]
