# SPDX-License-Identifier: Apache-2.0
"""What a real-time run says of itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bmv2_lab.backends.cable_delays import WireStatistics
from bmv2_lab.backends.chronyd import NtpMeasurement
from bmv2_lab.backends.record import RealTimeRecord, Telemetry, check_limits, real_time_record
from bmv2_lab.simulator.rdma import QueuePair, Transfer
from bmv2_lab.truth import TrueWindow
from controller.fabric_generate import leaf_spine
from correction.records import EXCHANGE_DTYPE

FABRIC = leaf_spine(leaves=2, spines=2)
NS_PER_S = 1_000_000_000
WINDOW = TrueWindow(centre_true_ns=0, reference_ns=5 * NS_PER_S, clocks=())
WIRES = WireStatistics(frames=10, lost=0, late_ns_p50=1, late_ns_p99=2, late_ns_max=3)
GOOD = Telemetry(
    reports_received=1_000,
    reports_lost=0,
    reports_rejected=0,
    report_loss_share=0.0,
    cables_fail=False,
    icrc_errors=0,
    links_sampled_share=1.0,
)


def exchange(at_ns: int, there_ns: int, back_ns: int) -> np.void:
    """An exchange between two clocks that agree."""
    row: np.void = np.zeros(1, dtype=EXCHANGE_DTYPE)[0]
    row["t1_reference_ns"], row["t2_local_ns"] = at_ns - there_ns, at_ns
    row["t3_local_ns"], row["t4_reference_ns"] = at_ns + 10, at_ns + 10 + back_ns
    return row


def transfer(*, done: bool) -> Transfer:
    """A message between two hosts."""
    qp = QueuePair(local=FABRIC.hosts[0], remote=FABRIC.hosts[1], local_qpn=1, remote_qpn=2)
    return Transfer(qp=qp, psn_first=1, psn_last=2, bytes=8, done=done, received_local_ns=int(done))


def record(**changes: Any) -> RealTimeRecord:
    """A run with three exchanges of one client, two of them inside of the window."""
    times_ns = (5 * NS_PER_S, 5 * NS_PER_S + 1, 7 * NS_PER_S)
    values: dict[str, Any] = {
        "backend": "veth",
        "cable_delays": "forwarder",
        "exchanges": [("h2", exchange(at, 3_000, 1_000)) for at in times_ns],
        "clients": ["h2"],
        "windows": [WINDOW],
        "window_ns": NS_PER_S,
        "ntp": {"h2": [NtpMeasurement(offset_ns=-40.0, round_trip_ns=1.0)]},
        "transfers": [transfer(done=True)] * 9,
        "wires": WIRES,
        "transmit_stamps_lost": 0,
        **changes,
    }
    return real_time_record(**values)


def test_what_ptp4l_reports_is_error() -> None:
    """3 us there and 1 us back make an offset of 1 us between clocks that agree."""
    found = record()
    assert found.ptp_reported_error_ns_rms == 1_000.0
    assert found.ntp_reported_error_ns_rms == 40.0
    assert found.ntp_measurements == 1


def test_exchanges_count_by_client_and_window() -> None:
    """The worst client and window count; those outside of windows do not."""
    assert record().ptp_exchanges_per_client_min == 2
    assert record(clients=["h2", "h3"]).ptp_exchanges_per_client_min == 0


def test_silent_daemons_give_no_figure() -> None:
    """None, not zero."""
    silent = record(exchanges=[], ntp={})
    assert silent.ptp_reported_error_ns_rms is None
    assert silent.ntp_reported_error_ns_rms is None


def test_a_good_run_keeps_all_limits() -> None:
    """Nine of them, seven where the kernel delays."""
    limits = check_limits(record(), GOOD)
    assert len(limits) == 9
    assert all(limit.passed for limit in limits)
    assert len(check_limits(record(wires=None, cable_delays="netem"), GOOD)) == 7


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"reports_rejected": 1}, "reports rejected"),
        ({"reports_lost": 100}, "reports lost, share"),
        ({"icrc_errors": 1}, "frames with a wrong ICRC"),
        ({"links_sampled_share": 0.5}, "fabric links with samples, share of both directions"),
    ],
)
def test_each_limit_is_checked(change: dict[str, int], name: str) -> None:
    """One figure out of its range breaks its limit and no other."""
    limits = check_limits(record(), replace(GOOD, **change))
    assert [limit.name for limit in limits if not limit.passed] == [name]


def test_losses_of_the_scenario_are_allowed() -> None:
    """10 % and a little more where the scenario loses 10 %."""
    lossy = replace(GOOD, reports_lost=111, report_loss_share=0.1)
    assert all(limit.passed for limit in check_limits(record(), lossy))


def test_transfers_must_be_done() -> None:
    """One in ten that did not arrive is too much."""
    found = record(transfers=[transfer(done=False), *[transfer(done=True)] * 9])
    assert (found.transfers, found.transfers_incomplete) == (10, 1)
    broken = [limit.name for limit in check_limits(found, GOOD) if not limit.passed]
    assert broken == ["transfers incomplete, share"]


def test_late_and_lossy_cables_break_limits() -> None:
    """The forwarder must be punctual and lose nothing."""
    wires = replace(WIRES, lost=1, late_ns_p99=NS_PER_S)
    broken = [limit.name for limit in check_limits(record(wires=wires), GOOD) if not limit.passed]
    assert broken == ["frames lost on cables", "99th percentile of cables' lateness, ns"]


def test_a_cable_that_fails_may_lose_frames() -> None:
    """What was on it when it failed; how late frames are still counts."""
    failing = replace(GOOD, cables_fail=True)
    limits = check_limits(record(wires=replace(WIRES, lost=3)), failing)
    assert len(limits) == 8
    assert all(limit.passed for limit in limits)
