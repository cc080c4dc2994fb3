# SPDX-License-Identifier: Apache-2.0
"""Link samples from consecutive hops, and what is rejected on the way."""

import numpy as np
import pytest

from correction.links import JoinCounters, Reject, link_samples, port_index, residence_time_ns
from correction.model import ClockKind
from correction.records import EXCHANGE_DTYPE, NO_TSTAMP_NS, TRAFFIC_ROCE
from tests.support.synthetic_fabric import Run, Setup, draw

SMALL = Setup(leaves=3, spines=2, hosts_per_leaf=1, windows=1, samples=2, exchanges=3)


@pytest.fixture
def run() -> Run:
    """A fresh small run; tests damage it."""
    return draw(7, SMALL)


def _samples(run: Run) -> tuple[np.ndarray, JoinCounters]:
    return link_samples(run.packets, run.hops, run.exchanges, run.model)


def test_every_hop_pair_becomes_one_sample(run: Run) -> None:
    """Each packet gives hops - 1 fabric samples, in the direction it travelled."""
    samples, counters = _samples(run)
    pairs = int((run.packets["hop_count"] - 1).sum())
    assert counters.fabric_samples == pairs
    assert not counters.rejected
    first = run.hops[run.packets["first_hop"][0]]
    second = run.hops[run.packets["first_hop"][0] + 1]
    link = run.model.links[samples["link"][0]]
    assert run.model.clocks[link.a].node_id == first["node_id"]
    assert not samples["reverse"][0]  # links are listed leaf -> spine
    assert samples["egress_local_ns"][0] == first["egress_tstamp_local_ns"]
    assert samples["ingress_local_ns"][0] == second["ingress_tstamp_local_ns"]
    assert samples["reverse"][1]


def test_stamps_keep_every_bit(run: Run) -> None:
    """Access stamps at a TAI epoch come through as integers."""
    samples, _ = _samples(run)
    access = np.array([link.access for link in run.model.links])[samples["link"]]
    nic_ns = np.where(samples["reverse"], samples["ingress_local_ns"], samples["egress_local_ns"])
    known = np.concatenate(
        [run.exchanges[n] for n in run.exchanges.dtype.names if n[0] == "t" and n[1].isdigit()]
    )
    assert set(nic_ns[access].tolist()) <= set(known.tolist())
    assert access.sum() == 4 * len(run.exchanges)


def test_missing_hop_is_not_bridged(run: Run) -> None:
    """Two hops that no cable joins give no sample, and are counted."""
    packet = int(np.flatnonzero(run.packets["hop_count"] == 3)[0])
    run.hops["egress_port"][run.packets["first_hop"][packet]] = 2 - (
        run.hops["egress_port"][run.packets["first_hop"][packet]] - 1
    )
    _, counters = _samples(run)
    assert counters.rejected == {Reject.NOT_ADJACENT: 1}


def test_undeclared_port_is_counted(run: Run) -> None:
    """A port that the model does not cable cannot be attributed to a link."""
    packet = int(np.flatnonzero(run.packets["hop_count"] == 3)[0])
    run.hops["egress_port"][run.packets["first_hop"][packet]] = 77
    _, counters = _samples(run)
    assert counters.rejected == {Reject.UNKNOWN_PORT: 1}


def test_absent_stamp_never_becomes_a_sample(run: Run) -> None:
    """NO_TSTAMP_NS is counted and left out."""
    packet = int(np.flatnonzero(run.packets["traffic"] == TRAFFIC_ROCE)[0])
    run.hops["egress_tstamp_local_ns"][run.packets["first_hop"][packet]] = NO_TSTAMP_NS
    samples, counters = _samples(run)
    assert counters.rejected == {Reject.NO_STAMP: 1}
    assert (samples["egress_local_ns"] != NO_TSTAMP_NS).all()


@pytest.mark.parametrize("residence_ns", [-5, 11_000_000_000])
def test_impossible_residence_disqualifies_the_hop(run: Run, residence_ns: int) -> None:
    """A packet that left before it came, or stayed 11 s, has wrong stamps."""
    packet = int(np.flatnonzero(run.packets["traffic"] == TRAFFIC_ROCE)[0])
    hop = run.packets["first_hop"][packet] + 1
    run.hops["egress_tstamp_local_ns"][hop] = (
        run.hops["ingress_tstamp_local_ns"][hop] + residence_ns
    )
    _, counters = _samples(run)
    assert counters.rejected == {Reject.RESIDENCE_IMPOSSIBLE: 2}


def test_lengths_must_agree_on_a_link(run: Run) -> None:
    """Serialisation depends on the length, so a contradiction is no sample."""
    packet = int(np.flatnonzero(run.packets["traffic"] == TRAFFIC_ROCE)[0])
    run.hops["ingress_bytes"][run.packets["first_hop"][packet] + 1] += 8
    _, counters = _samples(run)
    assert counters.rejected == {Reject.LENGTH_DISAGREES: 1}


def test_one_known_length_suffices(run: Run) -> None:
    """Zero means that a node did not tell; the other end's length serves."""
    packet = int(np.flatnonzero(run.packets["traffic"] == TRAFFIC_ROCE)[0])
    hop = run.packets["first_hop"][packet]
    length = int(run.hops["egress_bytes"][hop])
    run.hops["egress_bytes"][hop] = 0
    samples, counters = _samples(run)
    assert not counters.rejected
    assert samples["frame_bytes"][0] == length


def test_residence_wraps_with_the_stamp_width(run: Run) -> None:
    """A 48-bit counter may wrap inside a switch."""
    from dataclasses import replace

    clocks = tuple(
        replace(clock, stamp_bits=48) if clock.kind is ClockKind.SWITCH else clock
        for clock in run.model.clocks
    )
    model = replace(run.model, clocks=clocks)
    hops = run.hops[:1].copy()
    hops["ingress_tstamp_local_ns"], hops["egress_tstamp_local_ns"] = 2**48 - 100, 900
    assert residence_time_ns(hops, model).tolist() == [1_000]


def test_empty_input_gives_empty_output(run: Run) -> None:
    """No packets, no samples, no error."""
    samples, counters = link_samples(
        run.packets[:0], run.hops[:0], np.zeros(0, EXCHANGE_DTYPE), run.model
    )
    assert len(samples) == 0
    assert not counters.rejected


def test_port_index_knows_both_ends(run: Run) -> None:
    """Every switch port of every link is found, with its end."""
    index = port_index(run.model)
    link = run.model.links[0]
    node = np.array([run.model.clocks[link.a].node_id, run.model.clocks[link.b].node_id])
    at = index.find(node, np.array([link.a_port, link.b_port]))
    assert index.link[at].tolist() == [0, 0]
    assert index.at_a[at].tolist() == [True, False]
