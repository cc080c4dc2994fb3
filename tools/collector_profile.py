# SPDX-License-Identifier: Apache-2.0
"""Where the collector's time goes, per report and stage, from memory on one core.

    .venv/bin/python tools/collector_profile.py [--batch 2048] [--batches 64] [--rounds 8]

Each stage is timed with all that comes before it; what is printed is the difference, in ns of
processor time per report, the best of the rounds.
"""

import argparse
import time
from itertools import pairwise

import numpy as np

from controller.collector import join_state as j
from controller.collector.batch import ReportBatch
from controller.collector.bench_reports import ReportKind, ReportLoad, bench_fabric
from controller.collector.decode_reports import BATCH_COLUMNS, DECODE, decode_all
from controller.collector.fast_collector import FastCollector
from controller.collector.loads import address_of
from controller.fabric_model import fabric_model
from controller.telemetry.topology import telemetry_fabric
from correction.links import JoinCounters
from correction.links_fast import FabricSampler


class Stages:
    """One collector and one sampler, timed stage by stage."""

    def __init__(self) -> None:
        fabric = bench_fabric()
        self.collector = FastCollector(telemetry_fabric(fabric))
        self.sampler = FabricSampler(fabric_model(fabric))
        self.rejects = JoinCounters()
        self.totals = np.zeros(4, np.int64)
        self.batch = np.zeros(BATCH_COLUMNS, np.int64)
        self.spent_ns = {"decode": 0, "feed": 0, "drain": 0, "samples": 0}

    def run(self, batches: list[ReportBatch]) -> None:
        """Take the batches; adds to `spent_ns`."""
        for batch in batches:
            self.batch[:] = *batch.addresses(), batch.count, len(batch.buffer)
            rows = self.collector._decoded_rows.row
            arguments = (
                DECODE.address,
                address_of(self.batch),
                self.collector._arrays.addresses.at,
                address_of(rows),
                address_of(self.totals),
            )
            now = time.process_time_ns
            times = [now()]
            decode_all(*arguments)
            times.append(now())
            self.collector.feed_batch(batch)
            times.append(now())
            finished = self.collector.drain()
            times.append(now())
            self.sampler.samples(finished.packets, finished.hops, self.rejects)
            times.append(now())
            for stage, (start, end) in zip(self.spent_ns, pairwise(times), strict=True):
                self.spent_ns[stage] += end - start


def main() -> None:
    """Print a table of all kinds of reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    print(f"{'':18}{'decode':>8}{'account+join':>14}{'drain':>8}{'samples':>9}{'total':>8}")
    for kind in ReportKind:
        load = ReportLoad(kind)
        rounds = max(1, options.batch // load.reports_per_round)
        rows = [load.room(rounds) for _ in range(options.batches)]
        stages = Stages()
        best: dict[str, float] = {}
        for turn in range(options.rounds + 2):
            batches = []
            for item in rows:
                now_ns = time.monotonic_ns()
                load.fill(item, now_ns=now_ns)
                count = len(item.start)
                batches.append(
                    ReportBatch(
                        buffer=item.buffer,
                        start=item.start,
                        byte_count=item.byte_count,
                        capture_collector_ns=np.full(count, now_ns, np.int64),
                        destination=np.zeros(count, np.int32),
                        count=count,
                    )
                )
            stages.spent_ns = dict.fromkeys(stages.spent_ns, 0)
            stages.run(batches)
            reports = sum(batch.count for batch in batches)
            if turn < 2:  # compiles, and touches the tables for the first time
                continue
            for stage, spent_ns in stages.spent_ns.items():
                best[stage] = min(best.get(stage, 1e9), spent_ns / reports)
        decode, feed, drain, samples = best.values()
        total = feed + drain + samples
        columns = f"{decode:8.0f}{feed - decode:14.0f}{drain:8.0f}{samples:9.0f}{total:8.0f}"
        print(f"{kind.value:18}{columns}")
        counters = stages.collector.counters
        waiting = int(stages.collector._join_tables.state[j.J_PENDING])
        assert counters.decoded == counters.received, counters
        assert counters.incomplete == 0, counters
        assert waiting == 0, waiting


if __name__ == "__main__":
    main()
