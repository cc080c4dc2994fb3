# SPDX-License-Identifier: Apache-2.0
"""Statistics of windows leave with the packets, as arrays that describe themselves."""

import numpy as np

from controller.collector.aggregation import Aggregation
from controller.collector.outputs.part import decode_part, encode_part
from controller.collector.outputs.pump import OutputPump
from controller.collector.outputs.queue_output import QueueOutput
from controller.collector.outputs.statistics_rows import flat
from controller.telemetry.collector import Collector
from correction.link_windows import LINK_WINDOW_DTYPE
from tests.support.telemetry_reports import ReportSender, three_switch_fabric
from tests.support.three_switch_model import three_switch_model


def test_quantiles_become_fields_of_their_own():
    """Names by percent, values unchanged."""
    rows = np.zeros(2, LINK_WINDOW_DTYPE)
    rows["above_ns"] = np.arange(12).reshape(2, 6)
    rows["count"] = 7
    names = tuple(f"q{k}" for k in range(6))
    result = flat(rows, {"above_ns": names})
    assert [result[name].tolist() for name in names] == [[k, k + 6.0] for k in range(6)]
    assert result["count"].tolist() == [7, 7]
    assert "above_ns" not in (result.dtype.names or ())


def test_ended_windows_and_the_rest_reach_the_output():
    """Forty packets over two links: their rows are in parts that can be read without this code."""
    sender = ReportSender()
    collector = Collector(three_switch_fabric())
    start_ns = 1_790_000_000_000_000_000
    for k in range(40):
        for frame in sender.xd_path(psn=k, later=1_000_000 * k):
            collector.feed(frame, start_ns + 1_000_000 * k)
    queue = QueueOutput()
    pump = OutputPump([queue], run="r1", aggregation=Aggregation(three_switch_model()))
    pump.write(collector.flush())
    pump.close()
    parts = [
        decode_part(encode_part(part)) for part in iter(lambda: queue.read(timeout_s=0.0), None)
    ]
    arrays = {name: rows for part in parts for name, rows in part.arrays.items()}
    assert arrays["link_windows"]["count"].tolist() == [40, 40]
    assert arrays["link_windows"]["difference_ns_min"].tolist() == [6_000_000 - 500, -4_000_700]
    assert arrays["hop_windows"]["count"].tolist() == [40, 40, 40]
    assert arrays["hop_windows"]["residence_p50_ns"].tolist() == [500, 900, 700]
    assert [part.number for part in parts] == list(range(len(parts)))
    counters = pump.aggregation.counters
    assert (counters.link_samples, counters.link_windows, counters.hop_windows) == (80, 2, 3)
