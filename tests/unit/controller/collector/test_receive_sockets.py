# SPDX-License-Identifier: Apache-2.0
"""Receiving over loopback: what is sent arrives, whole, stamped and with its destination."""

import socket
import struct
import time
from ipaddress import ip_address

import pytest

from controller.collector.receive import (
    BatchReceiver,
    ReceiveOptions,
    ReportSocket,
    bind_udp,
    wrapped_increase,
)
from controller.telemetry.collector import Destination

SECOND_NS = 1_000_000_000


def receiver_at(*hosts: str, **options: object) -> BatchReceiver:
    """A receiver with a socket per host, on free ports."""
    return BatchReceiver(
        [bind_udp(host, 0) for host in hosts],
        collector_clock_ns=lambda: 77,
        options=ReceiveOptions(receive_buffer_bytes=1 << 20, **options),  # type: ignore[arg-type]
    )


def take(receiver: BatchReceiver, count: int) -> list[tuple[bytes, int, Destination]]:
    """(payload, capture time, destination) of the next `count` reports."""
    messages = receiver.prepare()
    taken: list[tuple[bytes, int, Destination]] = []
    while len(taken) < count:
        assert receiver.wait(10 * SECOND_NS)
        receiver.receive(messages)
        batch = messages.batch
        for row in range(batch.count):
            destination = batch.destinations[batch.destination[row]]
            time_ns = int(batch.capture_collector_ns[row])
            taken.append((bytes(batch.payload(row)), time_ns, destination))
    return taken


@pytest.mark.parametrize("coalesce", [True, False])
def test_coalesced_datagrams_arrive_as_they_were_sent(coalesce: bool) -> None:
    """A run that the sender hands over as one (UDP_SEGMENT) arrives as single reports, whether
    the kernel splits it or the receiver does."""
    receiver = receiver_at("127.0.0.1", coalesce=coalesce)
    payloads = [bytes([number]) * 100 for number in range(50)] + [b"the last, shorter"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(receiver.sockets[0].sock.getsockname())
        segments = (17, 103, struct.pack("=H", 100))
        sender.sendmsg([b"".join(payloads)], [segments])
    assert [payload for payload, _, _ in take(receiver, 51)] == payloads
    receiver.close()


def test_kernel_time_is_the_real_time_clock() -> None:
    """SO_TIMESTAMPNS gives the time of arrival on the clock that `time.time_ns` reads."""
    receiver = receiver_at("127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        before_ns = time.time_ns()
        sender.sendto(b"report", receiver.sockets[0].sock.getsockname())
        after_ns = time.time_ns()
    [(_, captured_ns, _)] = take(receiver, 1)
    assert before_ns <= captured_ns <= after_ns + SECOND_NS
    receiver.close()


def test_collector_time_on_request() -> None:
    """Without kernel time a report has the time of the call that received it."""
    receiver = receiver_at("127.0.0.1", kernel_time=False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"report", receiver.sockets[0].sock.getsockname())
    [(_, captured_ns, _)] = take(receiver, 1)
    assert captured_ns == 77
    receiver.close()


def test_destination_is_the_bound_address() -> None:
    """Reports to two sockets, IPv4 and IPv6, are told apart by the address they were sent to."""
    receiver = receiver_at("127.0.0.1", "::1")
    ports = [report_socket.udp_port for report_socket in receiver.sockets]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as four,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six,
    ):
        four.sendto(b"four", ("127.0.0.1", ports[0]))
        six.sendto(b"six", ("::1", ports[1]))
    arrived = {payload: destination for payload, _, destination in take(receiver, 2)}
    assert arrived == {
        b"four": Destination(int(ip_address("127.0.0.1")), ports[0]),
        b"six": Destination(1, ports[1]),
    }
    receiver.close()


def test_destinations_of_a_wildcard_socket() -> None:
    """A socket bound to all addresses tells for each report which of them it was sent to."""
    receiver = receiver_at("0.0.0.0")
    port = receiver.sockets[0].udp_port
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for host in hosts:
            sender.sendto(host.encode(), (host, port))
    for payload, _, destination in take(receiver, 3):
        assert destination == Destination(int(ip_address(payload.decode())), port)
    receiver.close()


def test_ipv6_wildcard_socket_tells_the_address() -> None:
    """The same over IPv6."""
    receiver = receiver_at("::")
    port = receiver.sockets[0].udp_port
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"report", ("::1", port))
    [(_, _, destination)] = take(receiver, 1)
    assert destination == Destination(1, port)
    receiver.close()


def test_full_receive_buffer_is_counted() -> None:
    """What the kernel drops because the socket's buffer is full is counted: taken + dropped is
    what was sent."""
    receiver = BatchReceiver(
        [bind_udp("127.0.0.1", 0)],
        collector_clock_ns=lambda: 0,
        options=ReceiveOptions(receive_buffer_bytes=4096),
    )
    sent = 500
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(receiver.sockets[0].sock.getsockname())
        for number in range(sent):
            sender.send(number.to_bytes(4, "big") * 50)
    messages = receiver.prepare()
    taken = 0
    while receiver.receive(messages):
        taken += messages.batch.count
    assert 0 < taken < sent
    assert taken + receiver.kernel_drops == sent
    receiver.close()


@pytest.mark.parametrize(
    ("counter", "before", "grown"),
    [(5, 5, 0), (6, 5, 1), (0, 0xFFFFFFFF, 1), (9, 0xFFFFFFF0, 25), (0xFFFFFFFF, 0, 0xFFFFFFFF)],
)
def test_drop_counter_wraps_at_32_bits(counter: int, before: int, grown: int) -> None:
    """SO_RXQ_OVFL is an unsigned 32-bit counter."""
    assert wrapped_increase(counter, before) == grown


def test_drop_counter_that_comes_late_is_not_a_wrap() -> None:
    """A message queued before the counter was last read tells an older count; that adds nothing."""
    sock = bind_udp("127.0.0.1", 0)
    report_socket = ReportSocket(sock, destinations=[], options=ReceiveOptions())
    for counter in (10, 8, 12):
        report_socket.see_drop_counter(counter)
    assert report_socket.kernel_drops == 12
    report_socket.see_drop_counter(2**31)
    report_socket.see_drop_counter(2**32 - 1)
    report_socket.see_drop_counter(4)
    assert report_socket.kernel_drops == 2**32 + 4
    sock.close()


def test_buffer_size_is_what_the_kernel_granted() -> None:
    """The kernel doubles what is asked for (socket(7)), and says so."""
    sock = bind_udp("127.0.0.1", 0)
    options = ReceiveOptions(receive_buffer_bytes=100_000)
    report_socket = ReportSocket(sock, destinations=[], options=options)
    assert report_socket.receive_buffer_bytes == 200_000
    report_socket.close()
