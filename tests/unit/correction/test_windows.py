# SPDX-License-Identifier: Apache-2.0
"""A recording is cut where instrumented traffic pauses, and every second within it."""

import numpy as np
from numpy.typing import NDArray

from correction.records import PACKET_DTYPE, TRAFFIC_PTP, TRAFFIC_ROCE
from correction.windows import telemetry_windows

S_NS = 1_000_000_000


def _packets(seconds: NDArray[np.float64], traffic: int) -> NDArray[np.void]:
    packets = np.zeros(len(seconds), PACKET_DTYPE)
    packets["traffic"] = traffic
    packets["capture_collector_ns"] = (seconds * S_NS).astype(np.int64)
    return packets


def test_bursts_of_traffic_are_windows_of_their_own() -> None:
    """Two bursts of 0.9 s five seconds apart give two windows of one second."""
    bursts = np.r_[np.linspace(10.0, 10.9, 200), np.linspace(15.0, 15.9, 200)]
    packets = np.concatenate(
        [_packets(bursts, TRAFFIC_ROCE), _packets(np.linspace(0, 60, 500), TRAFFIC_PTP)]
    )
    windows = telemetry_windows(packets)
    assert (windows[:, 1] - windows[:, 0]).tolist() == [S_NS, S_NS]
    assert windows[:, 0].tolist() == [10 * S_NS, 15 * S_NS]


def test_continuous_traffic_is_cut_every_second_and_nothing_is_left_out() -> None:
    """4.1 s make four windows; the short rest joins the last, and all packets are inside."""
    packets = _packets(np.linspace(0.0, 4.1, 4_000), TRAFFIC_ROCE)
    windows = telemetry_windows(packets)
    assert len(windows) == 4
    assert np.all(windows[1:, 0] == windows[:-1, 1])
    assert windows[-1, 1] > packets["capture_collector_ns"].max()


def test_ptp_alone_still_gives_windows_and_nothing_gives_none() -> None:
    """Without RoCEv2 traffic PTP packets decide; an empty recording has no window."""
    assert len(telemetry_windows(_packets(np.linspace(0, 3, 50), TRAFFIC_PTP))) == 3
    assert telemetry_windows(np.zeros(0, PACKET_DTYPE)).shape == (0, 2)
