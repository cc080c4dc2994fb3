# SPDX-License-Identifier: Apache-2.0
"""Reports through an AF_PACKET ring: the same as from a socket. Without CAP_NET_RAW: skipped."""

import socket
import time
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from controller.collector.packet_filter import Instruction, report_program
from controller.collector.ring import RingSource
from controller.telemetry.collector import Destination

SECOND_NS = 1_000_000_000


def opened(host: str, **options: int) -> Iterator[RingSource]:
    """A ring on the loopback interface."""
    try:
        ring = RingSource(host, 0, interface="lo", block_bytes=1 << 16, **options)
    except PermissionError:
        pytest.skip("needs CAP_NET_RAW")
    yield ring
    ring.close()


@pytest.fixture
def ring() -> Iterator[RingSource]:
    """A ring for one IPv4 address."""
    yield from opened("127.0.0.1", blocks=8)


@pytest.fixture
def wildcard() -> Iterator[RingSource]:
    """A ring for all IPv4 addresses."""
    yield from opened("0.0.0.0", blocks=8)


@pytest.fixture
def ring6() -> Iterator[RingSource]:
    """A ring for an IPv6 address."""
    yield from opened("::1", blocks=8)


@pytest.fixture
def small() -> Iterator[RingSource]:
    """A ring that is soon full."""
    yield from opened("127.0.0.1", blocks=2)


def take(ring: RingSource, count: int) -> list[tuple[bytes, int, Destination]]:
    """(payload, capture time, destination) of the next `count` reports."""
    taken: list[tuple[bytes, int, Destination]] = []
    while len(taken) < count:
        batch = ring.receive()
        if batch is None:
            assert ring.wait(10 * SECOND_NS)
            continue
        for row in range(batch.count):
            destination = batch.destinations[batch.destination[row]]
            time_ns = int(batch.capture_collector_ns[row])
            taken.append((bytes(batch.payload(row)), time_ns, destination))
    return taken


def send(payloads: list[bytes], address: tuple[str, int]) -> None:
    """Send one datagram per payload."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        for payload in payloads:
            sender.sendto(payload, address)


def test_reports_arrive_whole_in_order_and_stamped(ring: RingSource) -> None:
    """Datagrams of all lengths, an empty one too, come with the kernel's time of arrival."""
    payloads = [bytes([number % 251]) * number for number in (0, 1, 7, 100, 1400, 9000, 3)]
    before_ns = time.time_ns()
    send(payloads, ring.address)
    taken = take(ring, len(payloads))
    assert [payload for payload, _, _ in taken] == payloads
    times = [time_ns for _, time_ns, _ in taken]
    assert times == sorted(times)
    assert before_ns <= times[0] <= time.time_ns()
    destination = Destination(int(ip_address("127.0.0.1")), ring.address[1])
    assert {item for _, _, item in taken} == {destination}


def test_other_ports_and_addresses_are_not_received(ring: RingSource) -> None:
    """The filter lets through what is for the address and port, and nothing else."""
    host, port = ring.address
    send([b"other port"], (host, port - 1))
    send([b"other address"], ("127.0.0.2", port))
    send([b"report"], (host, port))
    assert [payload for payload, _, _ in take(ring, 1)] == [b"report"]


def test_ipv6(ring6: RingSource) -> None:
    """The same over IPv6."""
    send([b"one", b"two"], ring6.address)
    destination = Destination(1, ring6.address[1])
    assert [(payload, item) for payload, _, item in take(ring6, 2)] == [
        (b"one", destination),
        (b"two", destination),
    ]


def test_destinations_of_a_wildcard_address(wildcard: RingSource) -> None:
    """On all addresses, each report says which one it was sent to."""
    port = wildcard.address[1]
    for host in ("127.0.0.1", "127.0.0.2", "127.0.0.1"):
        send([host.encode()], (host, port))
    for payload, _, destination in take(wildcard, 3):
        assert destination == Destination(int(ip_address(payload.decode())), port)


def test_a_full_ring_is_counted(small: RingSource) -> None:
    """What the ring has no room for is counted: taken + dropped is what was sent."""
    sent = 1000
    send([number.to_bytes(4, "big") * 50 for number in range(sent)], small.address)
    taken = 0
    while (batch := small.receive()) is not None or small.wait(SECOND_NS // 20):
        taken += batch.count if batch is not None else 0
    assert 0 < taken < sent
    assert taken + small.receive_counters.kernel_drops == sent


def test_the_port_is_held(ring: RingSource) -> None:
    """Nobody else can bind the port meanwhile, and senders get no ICMP errors."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
        pytest.raises(OSError, match="in use"),
    ):
        other.bind(ring.address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(ring.address)
        sender.send(b"one")
        take(ring, 1)
        sender.send(b"two")  # a refusal would be raised here


def test_an_interface_that_does_not_exist_is_an_error(ring: RingSource) -> None:
    """The port is free again after the error."""
    with pytest.raises(OSError, match="No such device"):
        RingSource("127.0.0.1", ring.address[1] - 1, interface="nonexistent0")
    RingSource("127.0.0.1", ring.address[1] - 1, interface="lo").close()


def run(program: list[Instruction], packet: bytes) -> int:
    """What a filter returns, by the rules of classic BPF."""
    a = x = at = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x30:
            a = packet[value]
        elif code == 0x28:
            a = int.from_bytes(packet[value : value + 2], "big")
        elif code == 0x20:
            a = int.from_bytes(packet[value : value + 4], "big")
        elif code == 0xB1:
            x = 4 * (packet[value] & 0xF)
        elif code == 0x48:
            a = int.from_bytes(packet[x + value : x + value + 2], "big")
        elif code == 0x15:
            at += if_true if a == value else if_false
        else:
            assert code == 0x06
            return value


def ipv4(dst: str, dst_port: int, protocol: int = 17, options: int = 0) -> bytes:
    """An IPv4 packet, as far as the filter looks."""
    head = bytes([0x45 + options]) + bytes(8) + bytes([protocol]) + bytes(6)
    packed = ip_address(dst).packed
    return head + packed + bytes(4 * options) + bytes(2) + dst_port.to_bytes(2, "big") + bytes(8)


def ipv6(dst: str, dst_port: int, next_header: int = 17) -> bytes:
    """An IPv6 packet, as far as the filter looks."""
    head = b"\x60" + bytes(5) + bytes([next_header]) + bytes(17)
    return head + ip_address(dst).packed + bytes(2) + dst_port.to_bytes(2, "big") + bytes(8)


@pytest.mark.parametrize(
    ("packet", "accepted"),
    [
        (ipv4("10.0.0.1", 32766), True),
        (ipv4("10.0.0.1", 32766, options=3), True),
        (ipv4("10.0.0.1", 32765), False),
        (ipv4("10.0.0.2", 32766), False),
        (ipv4("10.0.0.1", 32766, protocol=6), False),
    ],
)
def test_filter_of_ipv4(packet: bytes, accepted: bool) -> None:
    """Protocol, address and port decide, wherever the options put the port."""
    program = report_program(socket.AF_INET, ("10.0.0.1", 32766))
    assert bool(run(program, packet)) is accepted


@pytest.mark.parametrize(
    ("packet", "accepted"),
    [
        (ipv6("2001:db8::1", 32766), True),
        (ipv6("2001:db8::2", 32766), False),
        (ipv6("2001:db8:1::1", 32766), False),
        (ipv6("2001:db8::1", 1), False),
        (ipv6("2001:db8::1", 32766, next_header=6), False),
    ],
)
def test_filter_of_ipv6(packet: bytes, accepted: bool) -> None:
    """All words of the address decide."""
    program = report_program(socket.AF_INET6, ("2001:db8::1", 32766))
    assert bool(run(program, packet)) is accepted


def test_filter_of_a_wildcard_address_takes_any() -> None:
    """Bound to all addresses, only the port decides."""
    program = report_program(socket.AF_INET, ("0.0.0.0", 32766))
    assert run(program, ipv4("10.9.8.7", 32766))
