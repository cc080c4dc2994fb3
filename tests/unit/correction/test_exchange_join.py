# SPDX-License-Identifier: Apache-2.0
"""Exchanges joined to their own packets; bad, stale and doubtful ones are counted, never used."""

from dataclasses import replace

import numpy as np
import pytest

from correction.exchange_accept import accept_exchanges
from correction.links import JoinCounters, Reject, link_samples
from correction.records import NO_TSTAMP_NS, TRAFFIC_PTP
from tests.support.synthetic_fabric import Run, Setup, draw

SMALL = Setup(leaves=3, spines=2, hosts_per_leaf=1, windows=1, samples=1, exchanges=5)


@pytest.fixture
def run() -> Run:
    """A fresh small run; tests damage it."""
    return draw(8, SMALL)


def _counters(run: Run) -> JoinCounters:
    return link_samples(run.packets, run.hops, run.exchanges, run.model)[1]


def test_each_exchange_gives_four_samples(run: Run) -> None:
    """Two on the client's access link, two on the time transmitter's."""
    counters = _counters(run)
    assert counters.access_samples == 4 * len(run.exchanges)
    assert counters.exchanges_joined == 2 * len(run.exchanges)
    assert not counters.rejected


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("c1_ns", -10_001, Reject.EXCHANGE_CORRECTION_NEGATIVE),
        ("c2_ns", 10_000_000_001, Reject.EXCHANGE_CORRECTION_TOO_LARGE),
        ("t3_local_ns", NO_TSTAMP_NS, Reject.EXCHANGE_NO_STAMP),
        ("client", 99, Reject.EXCHANGE_UNKNOWN_CLIENT),
        ("client", 4, Reject.EXCHANGE_UNKNOWN_CLIENT),  # a switch
        ("client", 2, Reject.EXCHANGE_WRONG_CLIENT),  # another host
        ("client", 0, Reject.EXCHANGE_WRONG_CLIENT),  # the reference
        ("client_ip", 0x0A000003, Reject.EXCHANGE_WRONG_CLIENT),
        ("time_transmitter_ip", 0x0A000003, Reject.EXCHANGE_WRONG_TRANSMITTER),
        ("delay_req_clock_identity", 0x0A000003, Reject.EXCHANGE_WRONG_IDENTITY),
        ("delay_req_clock_identity", 0x0A000001, Reject.EXCHANGE_WRONG_IDENTITY),  # the Sync's
    ],
)
def test_impossible_exchange_is_rejected_by_name(
    run: Run, field: str, value: int, reason: Reject
) -> None:
    """Each defect has its own reason and removes exactly that exchange."""
    run.exchanges[field][0] = value
    counters = _counters(run)
    assert counters.rejected == {reason: 1}
    assert counters.access_samples == 4 * (len(run.exchanges) - 1)


def test_configured_asymmetry_makes_a_correction_negative(run: Run) -> None:
    """A client with delayAsymmetry sends -asymmetry in its Delay_Req; that is no fault."""
    run.exchanges["c1_ns"], run.exchanges["c2_ns"] = 400, -400
    counters = _counters(run)
    assert not counters.rejected
    assert counters.access_samples == 4 * len(run.exchanges)


def test_negative_round_trip_is_a_fault(run: Run) -> None:
    """(t4 - t1) - (t3 - t2) - c1 - c2 < 0 cannot be (facebook/time pull 235)."""
    run.exchanges["t4_reference_ns"][0] -= 10_000_000
    assert _counters(run).rejected[Reject.EXCHANGE_DELAY_NEGATIVE] == 1


def test_repeated_row_counts_once(run: Run) -> None:
    """An exchange logged twice is used once."""
    run.exchanges = np.concatenate([run.exchanges, run.exchanges[:2]])
    counters = _counters(run)
    assert counters.rejected == {Reject.EXCHANGE_DUPLICATE: 2}
    assert counters.access_samples == 4 * (len(run.exchanges) - 2)


def test_two_packets_with_one_key_are_doubtful(run: Run) -> None:
    """The same key twice within the time limit joins to neither."""
    ptp = np.flatnonzero(run.packets["traffic"] == TRAFFIC_PTP)[:1]
    run.packets = np.concatenate([run.packets, run.packets[ptp]])
    counters = _counters(run)
    assert counters.rejected == {Reject.EXCHANGE_AMBIGUOUS: 1}
    assert counters.access_samples == 4 * len(run.exchanges) - 2


def test_two_exchanges_with_one_key_are_doubtful(run: Run) -> None:
    """Two different exchanges that claim one packet get neither."""
    other = run.exchanges[:1].copy()
    other["t2_local_ns"] += 1
    other["t3_local_ns"] += 1
    run.exchanges = np.concatenate([run.exchanges, other])
    counters = _counters(run)
    assert counters.rejected == {Reject.EXCHANGE_AMBIGUOUS: 4}


def test_next_round_of_a_sequence_id_is_told_by_time(run: Run) -> None:
    """The same key 65 536 Syncs later belongs to another exchange."""
    ptp = np.flatnonzero(run.packets["traffic"] == TRAFFIC_PTP)[:1]
    later = run.packets[ptp].copy()
    later["capture_collector_ns"] += 4_096_000_000_000
    run.packets = np.concatenate([run.packets, later])
    counters = _counters(run)
    assert not counters.rejected
    assert counters.access_samples == 4 * len(run.exchanges)


def test_stale_exchange_is_rejected(run: Run) -> None:
    """Stamps an hour off their packet's capture are not of that packet."""
    for field in ("t1_reference_ns", "t2_local_ns", "t3_local_ns", "t4_reference_ns"):
        run.exchanges[field][0] -= 3_600_000_000_000
    counters = _counters(run)
    assert counters.rejected == {Reject.EXCHANGE_STALE: 2}


def test_unreported_packet_leaves_the_other_direction(run: Run) -> None:
    """A lost Sync report costs two samples, not the Delay_Req's."""
    ptp = np.flatnonzero(
        (run.packets["traffic"] == TRAFFIC_PTP) & (run.packets["ptp_message_type"] == 0)
    )
    run.packets = np.delete(run.packets, ptp[0])
    counters = _counters(run)
    assert counters.rejected == {Reject.EXCHANGE_WITHOUT_PACKET: 1}
    assert counters.access_samples == 4 * len(run.exchanges) - 2


def test_packet_entering_at_a_foreign_port_is_not_the_hosts_own(run: Run) -> None:
    """A complete packet whose first hop is not the sender's port contradicts the cabling."""
    ptp = int(np.flatnonzero(run.packets["traffic"] == TRAFFIC_PTP)[0])
    run.hops["ingress_port"][run.packets["first_hop"][ptp]] = 1
    assert _counters(run).rejected == {Reject.EXCHANGE_WRONG_PORT: 1}


def test_exchanges_of_two_clients_under_each_others_names_are_of_nobody(run: Run) -> None:
    """Swapped client indices give no sample, whatever was done to t2 and t3 before."""
    client = run.exchanges["client"].copy()
    run.exchanges["client"][client == 1] = 2
    run.exchanges["client"][client == 2] = 1
    counters = _counters(run)
    assert counters.rejected == {Reject.EXCHANGE_WRONG_CLIENT: len(run.exchanges)}
    assert counters.access_samples == 0


def test_an_identity_of_two_clients_is_of_nobody(run: Run) -> None:
    """As many exchanges of either: which one it belongs to cannot be told."""
    run.exchanges["delay_req_clock_identity"] = 0x0A000002
    counters = _counters(run)
    assert counters.rejected == {Reject.EXCHANGE_WRONG_IDENTITY: len(run.exchanges)}


def test_a_host_that_two_clients_follow_is_a_time_transmitter() -> None:
    """It took over from the grandmaster: its rows are accepted. One client alone that names another
    host is refused."""
    run = draw(8, replace(SMALL, leaves=4))
    h2, h3, h4 = 1, 2, 3
    taken_over = run.model.clocks[h2]
    for followers, refused in (([h3], True), ([h3, h4], False)):
        exchanges = run.exchanges.copy()
        mine = np.isin(exchanges["client"], followers)
        exchanges["time_transmitter_ip"][mine] = taken_over.ip
        counters = JoinCounters()
        accepted = accept_exchanges(exchanges, run.model, counters)
        named = accepted["time_transmitter_ip"] == taken_over.ip
        assert np.count_nonzero(named) == (0 if refused else np.count_nonzero(mine))
        wrong = counters.rejected.get(Reject.EXCHANGE_WRONG_TRANSMITTER, 0)
        assert wrong == (np.count_nonzero(mine) if refused else 0)
