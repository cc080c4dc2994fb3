# SPDX-License-Identifier: Apache-2.0
"""Boundary clocks: PTP clocks of switches as clocks of their own, and exchanges with them."""

from dataclasses import replace

import numpy as np
import pytest

from correction.boundary_clocks import free_running_transmitters, with_boundary_clocks
from correction.engine import solve
from correction.model import BoundaryClock
from correction.records import EXCHANGE_DTYPE, HOP_DTYPE, PACKET_DTYPE, TRAFFIC_PTP
from correction.servo import ADJUSTMENT_DTYPE, ServoLog
from correction.sources import gather
from correction.table import CONDITIONAL_SIGMAS, Status
from tests.support.synthetic_fabric import PTP_BYTES, Setup, TrueClock, draw

SMALL = Setup(
    leaves=4, spines=4, hosts_per_leaf=2, windows=2, window_gap_s=1.0, bad_share=0.0,
    stamp_uncertainty_ns=4, nic_uncertainty_ns=0, asymmetry_sd_ns=0.0,
)  # fmt: skip
HOST, LEAF, CPU_PORT = 3, 9, 510
"""h4 on leaf2."""
LEAF_IP = 0x0A0000FE
BEYOND_LEAST_NS = 30.0


def boundary_run(*, reported: bool):
    """h4 exchanges with leaf2's PTP clock only, equally long ways.

    INT stamps of leaf2 are as declared but for nothing: its egress stamp is `latency_ns` before
    the wire, its ingress stamp as long after it. Not `reported`: no hop of these packets is known.
    """
    run = draw(21, SMALL)
    rng = np.random.default_rng(3)
    model = replace(run.model, boundary_clocks=(BoundaryClock(switch=LEAF, ip=LEAF_IP),))
    cable = next(link for link in model.links if link.a == HOST)
    assert cable.b == LEAF
    one_way_ns = cable.min_delay_ns + BEYOND_LEAST_NS
    duration = run.truth.centre_true_ns[-1] + 3e9
    ptp = TrueClock(rng, 1_800_000_000 * 10**9 + 77, 900.0, 5.0, duration, np.zeros(0), 0.0)
    host, leaf = run.truth.clocks[HOST], run.truth.clocks[LEAF]
    collector_ns = run.windows[0, 0]
    start = run.truth.centre_true_ns[0] - 0.5e9
    times = start + np.sort(rng.uniform(1e6, 1.98e9, 60))
    rows, packets, hops = [], [], []
    nic_out, nic_in = cable.a_egress.latency_ns, cable.a_ingress.latency_ns
    out, into = cable.b_egress.latency_ns, cable.b_ingress.latency_ns

    def at(clock, true) -> int:
        return int(clock.stamp(np.array([true]), 1)[0])

    for number, wire in enumerate(times):
        row = np.zeros(1, EXCHANGE_DTYPE)[0]
        row["client"], row["client_ip"] = HOST, model.clocks[HOST].ip
        row["time_transmitter_ip"] = LEAF_IP
        row["sync_clock_identity"], row["delay_req_clock_identity"] = 5, model.clocks[HOST].ip
        row["sync_port_number"] = row["delay_req_port_number"] = 1
        row["sync_sequence_id"] = row["delay_req_sequence_id"] = number
        back = wire + 400_000.0
        row["t1_reference_ns"] = at(ptp, wire)
        row["t2_local_ns"] = at(host, wire + one_way_ns + nic_in)
        row["t3_local_ns"] = at(host, back - nic_out)
        row["t4_reference_ns"] = at(ptp, back + one_way_ns)
        rows.append(row)
        for sync in (True, False):
            packet, hop = np.zeros(1, PACKET_DTYPE)[0], np.zeros(1, HOP_DTYPE)[0]
            packet["hop_count"], packet["complete"], packet["traffic"] = 1, True, TRAFFIC_PTP
            ends = (LEAF_IP, model.clocks[HOST].ip)
            packet["src_ip"], packet["dst_ip"] = ends if sync else ends[::-1]
            packet["ptp_message_type"] = 0 if sync else 1
            packet["ptp_clock_identity"] = 5 if sync else model.clocks[HOST].ip
            packet["ptp_port_number"], packet["ptp_sequence_id"] = 1, number
            packet["wire_bytes"] = PTP_BYTES
            packet["capture_collector_ns"] = collector_ns + int(wire - start) + 20_000
            hop["node_id"] = model.clocks[LEAF].node_id
            hop["egress_bytes"] = hop["ingress_bytes"] = PTP_BYTES
            if sync:
                hop["ingress_port"], hop["egress_port"] = CPU_PORT, cable.b_port
                hop["egress_tstamp_local_ns"] = at(leaf, wire - out)
                hop["ingress_tstamp_local_ns"] = at(leaf, wire - out - 900)
            else:
                hop["ingress_port"], hop["egress_port"] = cable.b_port, CPU_PORT
                hop["ingress_tstamp_local_ns"] = at(leaf, back + one_way_ns + into)
                hop["egress_tstamp_local_ns"] = at(leaf, back + one_way_ns + into + 900)
            packets.append(packet)
            hops.append(hop)
    exchanges = run.exchanges[run.exchanges["client"] != HOST]
    exchanges = np.concatenate([exchanges, np.array(rows, EXCHANGE_DTYPE)])
    if not reported:
        return run, model, run.packets, run.hops, exchanges, ptp
    more = np.array(packets, PACKET_DTYPE)
    more["first_hop"] = len(run.hops) + np.arange(len(more))
    return (
        run, model, np.concatenate([run.packets, more]),
        np.concatenate([run.hops, np.array(hops, HOP_DTYPE)]), exchanges, ptp,
    )  # fmt: skip


def errors_ns(run, found, clocks: dict[int, TrueClock]) -> dict[int, float]:
    """Published offset less the true one, in the first window."""
    one, reference = found.windows[0], run.truth.clocks[0]
    result = {}
    for number, clock in clocks.items():
        aim = float(int(one.anchor_local_ns[number]) - clock.epoch_ns)
        at = aim
        for _ in range(8):
            at -= float(clock.elapsed(at)) - aim
        epochs = clock.epoch_ns - reference.epoch_ns
        difference = float(clock.elapsed(at) - reference.elapsed(at))
        result[number] = int(one.offset_ns[number]) - epochs - difference
    return result


def test_reported_exchanges_join_nic_and_ptp_clock_to_the_int_clock() -> None:
    """h4 has no exchange with the grandmaster, yet both it and leaf2/ptp have bounds that hold."""
    run, model, packets, hops, exchanges, ptp = boundary_run(reported=True)
    found = solve(packets, hops, exchanges, model, run.windows)
    number = len(run.model.clocks)
    assert found.model.clocks[number].name == "leaf2/ptp"
    one = found.windows[0]
    clocks = {HOST: run.truth.clocks[HOST], number: ptp}
    for clock, error in errors_ns(run, found, clocks).items():
        assert one.status[clock] == Status.OK
        assert abs(error) <= min(one.bound_hard_ns[clock], one.bound_conditional_ns[clock])
        assert one.bound_conditional_ns[clock] < 12.0 * CONDITIONAL_SIGMAS
        assert one.bound_hard_ns[clock] < 400.0


def test_two_stamps_of_one_packet_are_two_readings_of_one_instant() -> None:
    """INT stamps, moved to the wire by the declared 359 and 40 ns, are t1 and t4's instants: by the
    truth both clocks of leaf2 are as far apart in all 120 rows, to rounding."""
    run, model, packets, hops, exchanges, ptp = boundary_run(reported=True)
    found = gather(packets, hops, exchanges, model)
    inner = next(n for n, link in enumerate(found.model.links) if link.name == "leaf2-leaf2/ptp")
    link = found.model.links[inner]
    assert link.firm
    assert link.min_delay_ns == -8  # 4 ns of either clock's stamp point
    mine = found.samples[(found.samples["link"] == inner) & ~found.samples["reverse"]]
    assert len(mine) == (found.samples["link"] == inner).sum() / 2 == 120
    leaf = run.truth.clocks[LEAF]
    times = np.array([float(stamp - ptp.epoch_ns) for stamp in mine["ingress_local_ns"].tolist()])
    for _ in range(8):
        times -= ptp.elapsed(times) - (mine["ingress_local_ns"] - ptp.epoch_ns)
    there_ns = mine["egress_local_ns"] - leaf.epoch_ns - leaf.elapsed(times)
    assert np.abs(there_ns).max() < 2.0


def test_what_leaves_the_cpu_is_enough_to_reach_the_hosts() -> None:
    """Without a report of any punted packet, h4 still has a place by way of leaf2's PTP clock."""
    run, model, packets, hops, exchanges, ptp = boundary_run(reported=True)
    punted = (packets["dst_ip"] == LEAF_IP) & (packets["traffic"] == TRAFFIC_PTP)
    assert punted.sum() == 60
    found = solve(packets[~punted], hops, exchanges, model, run.windows)
    one, number = found.windows[0], len(run.model.clocks)
    for clock, error in errors_ns(run, found, {HOST: run.truth.clocks[HOST], number: ptp}).items():
        assert one.status[clock] == Status.OK
        assert abs(error) <= min(one.bound_hard_ns[clock], one.bound_conditional_ns[clock])
        assert one.bound_conditional_ns[clock] < 12.0 * CONDITIONAL_SIGMAS


def test_a_cable_that_int_measures_both_ways_needs_no_second_edge() -> None:
    """h4's exchanges are no edge of their own while leaf2's reports show both their packets."""
    _, model, packets, hops, exchanges, _ = boundary_run(reported=True)
    for seen, expected in ((np.ones(len(packets), np.bool_), 0),
                           (packets["dst_ip"] != LEAF_IP, 120)):  # fmt: skip
        found = gather(packets[seen], hops, exchanges, model)
        names = [link.name for link in found.model.links]
        beside = names.index(f"{cable_of(model)}/ptp")
        assert (found.samples["link"] == beside).sum() == expected


def cable_of(model) -> str:
    """h4's cable."""
    return next(link.name for link in model.links if link.a == HOST)


def test_unreported_exchanges_are_edges_by_themselves() -> None:
    """Without any hop, h4 and leaf2/ptp are tied to each other, but to nothing else: floating. A
    second exchange partner with the grandmaster brings both down."""
    run, model, packets, hops, exchanges, ptp = boundary_run(reported=False)
    found = solve(packets, hops, exchanges, model, run.windows)
    number = len(run.model.clocks)
    assert found.windows[0].status[number] == Status.FLOATING

    both = np.concatenate([exchanges, run.exchanges[run.exchanges["client"] == HOST]])
    found = solve(packets, hops, both, model, run.windows)
    one = found.windows[0]
    assert one.status[number] == Status.OK
    error = errors_ns(run, found, {number: ptp})[number]
    assert abs(error) <= min(one.bound_hard_ns[number], one.bound_conditional_ns[number])


def test_a_switch_takes_the_time_from_its_neighbour_switch() -> None:
    """leaf2/ptp as client of spine1/ptp: an edge of both PTP clocks, with the cable's prior."""
    run = draw(21, replace(SMALL, windows=1))
    spine = next(n for n, clock in enumerate(run.model.clocks) if clock.name == "spine1")
    clocks = (BoundaryClock(switch=LEAF, ip=LEAF_IP), BoundaryClock(switch=spine, ip=LEAF_IP + 1))
    model = with_boundary_clocks(replace(run.model, boundary_clocks=clocks))
    upstream = next(link for link in model.links if link.name == "leaf2-spine1/ptp")
    names = {model.clocks[upstream.a].name, model.clocks[upstream.b].name}
    assert names == {"leaf2/ptp", "spine1/ptp"}
    cable = next(link for link in model.links if link.name == "leaf2-spine1")
    assert upstream.min_delay_ns == cable.min_delay_ns
    assert upstream.a_egress.latency_ns == 0


def test_a_transmitter_that_is_steered_is_taken_on_its_free_running_counter() -> None:
    """t1 of 1300 after an adjustment at 1000 to a rate of 1 + 1/2 is 200; t2 is left alone."""
    run = draw(21, replace(SMALL, windows=1))
    clocks = (BoundaryClock(switch=LEAF, ip=LEAF_IP),)
    model = with_boundary_clocks(replace(run.model, boundary_clocks=clocks))
    exchange = np.zeros(1, EXCHANGE_DTYPE)
    exchange["time_transmitter_ip"] = LEAF_IP
    exchange["t1_reference_ns"] = exchange["t2_local_ns"] = 1_300
    log = ServoLog.from_adjustments(np.array([(1_000, 0, 5e8)], ADJUSTMENT_DTYPE))
    free = free_running_transmitters(exchange, {len(run.model.clocks): log}, model)
    assert (free["t1_reference_ns"][0], free["t2_local_ns"][0]) == (200, 1_300)


def test_exchanges_with_an_undeclared_switch_are_refused() -> None:
    """The address must be the reference's or that of a boundary clock."""
    run, _, packets, hops, exchanges, _ = boundary_run(reported=True)
    found = gather(packets, hops, exchanges, run.model)
    assert found.counters.rejected["exchange_wrong_transmitter"] == pytest.approx(60)


def test_one_direction_to_the_reference_leaves_the_fabric_floating() -> None:
    """Where h1's link shows one direction only and no longest cable is declared, nothing says how
    far all other clocks are off: none has an offset, however well they are tied to each other."""
    run = draw(21, replace(SMALL, windows=1))
    links = tuple(replace(link, max_delay_ns=0) for link in run.model.links)
    run.model = replace(run.model, links=links)
    delay_reqs = (run.packets["traffic"] == TRAFFIC_PTP) & (run.packets["ptp_message_type"] == 1)
    found = solve(run.packets[~delay_reqs], run.hops, run.exchanges, run.model, run.windows)
    status = found.windows[0].status
    assert status[found.model.reference] == Status.OK
    others = np.delete(status, found.model.reference)
    assert (others == Status.FLOATING).all()
    assert np.isinf(np.delete(found.windows[0].bound_conditional_ns, found.model.reference)).all()
