# SPDX-License-Identifier: Apache-2.0
"""Several collector processes on one port count and join like one collector."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from controller.collector.outputs.file_output import read_folder
from controller.collector.steering import worker_of
from controller.collector.workers import WorkerGroup
from controller.telemetry.collector import Collector, Destination
from tests.support.telemetry_reports import (
    LEAF2,
    PATH_HOPS,
    ReportSender,
    delayed,
    three_switch_fabric,
    xd_postcard,
)

FLOWS = 40
PACKETS = 6


def traffic() -> Iterator[tuple[int, bytes]]:
    """(report source port, payload): flows over all three switches; one report is never sent."""
    sender = ReportSender()
    for packet in range(PACKETS):
        for flow in range(FLOWS):
            psn = 1 + packet * FLOWS + flow
            later = psn * 10_000
            for node_id, values in PATH_HOPS:
                postcard = xd_postcard(delayed(values, later), psn=psn)
                payload = sender.payload(node_id, 1, postcard)
                if psn != 77 or node_id != LEAF2:
                    yield 0xC000 + flow, payload


def send(address: tuple[str, int]) -> list[bytes]:
    """Send the traffic; the payloads in order."""
    sockets: dict[int, socket.socket] = {}
    payloads = []
    for source_port, payload in traffic():
        if source_port not in sockets:
            sockets[source_port] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sockets[source_port].bind(("127.0.0.1", source_port))
        sockets[source_port].sendto(payload, address)
        payloads.append(payload)
    for sock in sockets.values():
        sock.close()
    return payloads


def once_ready(group: WorkerGroup, action: Callable[[], None]) -> Callable[[], bool]:
    """Ends the group as soon as `action` is done, which waits until all workers are at work."""

    def is_ended() -> bool:
        if not group.is_ready:
            return False
        action()
        return True

    return is_ended


@pytest.mark.timeout(600)
def test_workers_count_and_join_like_one_collector(tmp_path: Path) -> None:
    """Reports to two workers that are told to end at once: all that the kernel had accepted is
    decoded, joined, accounted for and written, as by one collector that got all in order."""
    group = WorkerGroup(
        three_switch_fabric(),
        [("127.0.0.1", 0)],
        workers=2,
        outputs=[f"file:{tmp_path}"],
        run="test",
        collector_clock_ns=time.time_ns,
    )
    sent: list[bytes] = []
    group.serve(is_ended=once_ready(group, lambda: sent.extend(send(group.addresses[0]))))
    destination = Destination(0x7F000001, group.addresses[0][1])
    alone = Collector(three_switch_fabric())
    now_ns = time.time_ns()
    for payload in sent:
        alone.feed_payload(payload, now_ns, destination)
    expected = alone.flush()
    counters = group.state.counters
    assert group.state.receive.kernel_drops == 0
    assert counters.received == len(sent)
    assert counters.senders == expected.counters.senders
    for name in ("decoded", "complete", "incomplete", "duplicates", "lost", "rejected"):
        assert getattr(counters, name) == getattr(expected.counters, name), name
    assert counters.lost == 1
    parts = [part for folder in sorted(tmp_path.iterdir()) for part in read_folder(folder)]
    written = np.concatenate([part.arrays["packets"] for part in parts])
    assert sorted(written["psn"].tolist()) == sorted(expected.packets["psn"].tolist())
    assert len({part.run for part in parts}) == 2  # both had work


@pytest.mark.timeout(600)
def test_a_worker_that_dies_is_replaced() -> None:
    """The place of a killed worker is taken by a new one on the same socket: what arrives in
    between waits there, and the loss accounting of the other goes on."""
    group = WorkerGroup(
        three_switch_fabric(),
        [("127.0.0.1", 0)],
        workers=2,
        run="test",
        collector_clock_ns=time.time_ns,
    )
    killed: list[int] = []
    sent: list[bytes] = []

    def is_ended() -> bool:
        if not group.is_ready:
            return False
        if not killed:
            killed.append(group.process_ids[0])
            os.kill(killed[0], signal.SIGKILL)
            sent.extend(send(group.addresses[0]))
            return False
        return group.restarts == 1

    group.serve(is_ended=is_ended)
    assert group.restarts == 1
    counters = group.state.counters
    assert counters.received == len(sent)
    assert counters.lost == 1


def test_the_reports_of_the_traffic_reach_both_workers() -> None:
    """The traffic of these tests is one in which every sender's numbers are shared."""
    workers = {worker_of(source_port, 2) for source_port, _payload in traffic()}
    assert workers == {0, 1}
    ports = [source_port for source_port, _payload in traffic()]
    assert any(worker_of(a, 2) != worker_of(b, 2) for a, b in pairwise(ports))
