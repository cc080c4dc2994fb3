# SPDX-License-Identifier: Apache-2.0
"""Reports of one source port go to one worker, whatever switch sends them."""

import socket

import pytest

from controller.collector.receive import bind_udp
from controller.collector.steering import steer_by_source_port, worker_of

WORKERS = 3


@pytest.mark.parametrize(
    ("host", "senders"), [("127.0.0.1", ["127.0.0.1", "127.0.0.2", "127.0.0.3"]), ("::1", ["::1"])]
)
def test_source_port_alone_chooses_the_socket(host: str, senders: list[str]) -> None:
    """Datagrams from several addresses and one source port arrive at the socket that the port
    belongs to; in the kernel the same as in `worker_of`."""
    first = bind_udp(host, 0, reuse_port=True)
    port = first.getsockname()[1]
    sockets = [first, *(bind_udp(host, port, reuse_port=True) for _ in range(WORKERS - 1))]
    steer_by_source_port(first, WORKERS)
    for sock in sockets:
        sock.settimeout(5)
    reached = set()
    for source_port in range(49152, 49172):
        for address in senders:
            with socket.socket(first.family, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sender.bind((address, source_port))
                sender.sendto(b"report", (host, port))
                worker = worker_of(source_port, WORKERS)
                reached.add(worker)
                _data, source = sockets[worker].recvfrom(100)
                assert source[:2] == (address, source_port)
    assert reached == set(range(WORKERS))
    for sock in sockets:
        sock.close()


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_source_ports_of_switches_spread_evenly(workers: int) -> None:
    """Of the source ports that switches use (0xC000 and 14 bits of the flow's hash) each worker
    gets its share, within a tenth."""
    counts = [0] * workers
    for port in range(0xC000, 0x10000):
        counts[worker_of(port, workers)] += 1
    assert max(counts) < 1.1 * min(counts)
