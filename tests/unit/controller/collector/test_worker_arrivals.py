# SPDX-License-Identifier: Apache-2.0
"""A worker writes sequence numbers down instead of counting them; merged, they count the same."""

from zlib import crc32

from controller.collector.arrivals import ArrivalLog
from controller.collector.batch import batch_of_payloads
from controller.collector.fast_collector import FastCollector
from controller.collector.loss_merge import LossAccount
from controller.telemetry.collector import Collector, Destination
from tests.support.telemetry_reports import (
    LEAF2,
    ReportSender,
    drop_report,
    roce_packet,
    sink_postcard,
    stack_report,
    three_switch_fabric,
)

DESTINATIONS = (Destination(1, 32766), Destination(2, 32766))


def reports() -> list[bytes]:
    """Reports of three senders with gaps, repetitions, and events that the reference decodes."""
    sender = ReportSender()
    payloads = []
    for psn in range(1, 200):
        payloads.append(sender.payload(LEAF2, 0, stack_report(psn=psn)))
        payloads.append(sender.payload(LEAF2, 1, sink_postcard(psn=psn)))
        if psn % 20 == 0:
            event = drop_report(roce_packet(psn=psn), reason=1, ingress_tstamp=5_000 + psn)
            payloads.append(sender.payload(1, 0, event))
        if psn % 30 == 0:
            payloads.append(payloads[-2])
        if psn % 50 == 0:
            payloads.pop(-2)
    return payloads


def test_two_workers_count_losses_as_one_collector_does() -> None:
    """Reports dealt out to two workers: merged totals per sender equal those of the plain
    collector that received all, and neither worker counts a loss of its own."""
    payloads = reports()
    times = [1_000 * (row + 1) for row in range(len(payloads))]
    destinations = [DESTINATIONS[row % 7 == 0] for row in range(len(payloads))]
    plain = Collector(three_switch_fabric())
    for payload, time, destination in zip(payloads, times, destinations, strict=True):
        plain.feed_payload(payload, time, destination)
    account = LossAccount(2)
    for worker in range(2):
        log = ArrivalLog()
        collector = FastCollector(three_switch_fabric(), arrivals=log)
        for first in range(0, len(payloads), 64):
            # the flow decides, so a report and its repetition go to one worker
            rows = [
                row
                for row in range(first, min(first + 64, len(payloads)))
                if crc32(payloads[row]) % 2 == worker
            ]
            collector.feed_batch(
                batch_of_payloads(
                    [payloads[row] for row in rows],
                    [times[row] for row in rows],
                    [destinations[row] for row in rows],
                )
            )
            arrivals, new_senders = log.take()
            until_ns = times[min(first + 63, len(times) - 1)]
            account.add(worker, arrivals, new_senders=new_senders, complete_until_ns=until_ns)
        assert collector.counters.lost == 0
        account.end(worker)
    assert account.senders == plain.counters.senders
    assert sum(counters.duplicate for counters in account.senders.values()) > 0
