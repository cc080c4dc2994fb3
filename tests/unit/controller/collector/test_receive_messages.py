# SPDX-License-Identifier: Apache-2.0
"""Messages as recvmmsg leaves them, split into report rows; the kernel is played by hand."""

import struct
from collections.abc import Sequence
from ipaddress import ip_address

import numpy as np
import pytest

from controller.collector.messages import (
    CONTROL_BYTES,
    SLOT_STRIDE_BYTES,
    AddressRows,
    Messages,
    Told,
)

NOW_NS = 1_764_000_000_000_000_000
ONE_ADDRESS = AddressRows(np.zeros((0, 2), np.uint64), np.zeros(0, np.int32), 3)

# (level, type, data) as <linux/in.h>, <linux/udp.h> and <asm-generic/socket.h> number them
Item = tuple[int, int, bytes]


def segment_size(byte_count: int) -> Item:
    """UDP_GRO: an int, see udp(7)."""
    return (17, 104, struct.pack("=i", byte_count))


def kernel_time(seconds: int, nanoseconds: int) -> Item:
    """SO_TIMESTAMPNS: a struct timespec."""
    return (1, 35, struct.pack("=qq", seconds, nanoseconds))


def drop_counter(count: int) -> Item:
    """SO_RXQ_OVFL: an unsigned 32-bit count."""
    return (1, 40, struct.pack("=I", count))


def ipv4_packet_info(sent_to: str, routed_to: str) -> Item:
    """IP_PKTINFO: interface, local address of the route, destination address of the header."""
    local, header = ip_address(routed_to).packed, ip_address(sent_to).packed
    return (0, 8, struct.pack("=i", 1) + local + header)


def ipv6_packet_info(sent_to: str) -> Item:
    """IPV6_PKTINFO: destination address, interface."""
    return (41, 50, ip_address(sent_to).packed + struct.pack("=I", 1))


def put(
    messages: Messages, number: int, data: bytes, items: Sequence[Item], flags: int = 0
) -> None:
    """What the kernel writes for one message."""
    control = b""
    for level, kind, value in items:
        control += struct.pack("=Qii", 16 + len(value), level, kind) + value
        control += bytes(-len(control) % 8)
    assert len(control) <= CONTROL_BYTES
    start = number * SLOT_STRIDE_BYTES
    messages.batch.buffer[start : start + len(data)] = np.frombuffer(data, np.uint8)
    messages.control[number].view(np.uint8)[: len(control)] = np.frombuffer(control, np.uint8)
    header = struct.pack("=QiiI4x", len(control), flags, 0, len(data))
    messages.headers[number, 5:8] = np.frombuffer(header, np.uint64)


def rows(messages: Messages) -> list[bytes]:
    """The payload of every row of the batch."""
    return [bytes(messages.batch.payload(row)) for row in range(messages.batch.count)]


def test_a_message_without_control_data_is_one_row() -> None:
    """A datagram that was not coalesced is a row with the collector's time and the socket's
    destination."""
    messages = Messages.prepare(message_count=2)
    put(messages, 0, b"first", [])
    put(messages, 1, b"second one", [])
    messages.split(2, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert rows(messages) == [b"first", b"second one"]
    assert messages.batch.capture_collector_ns[:2].tolist() == [NOW_NS, NOW_NS]
    assert messages.batch.destination[:2].tolist() == [3, 3]
    assert messages.told[Told.CUT] == 0
    assert messages.told[Told.DROP_COUNTER] == -1


def test_a_coalesced_message_is_split_by_its_segment_size() -> None:
    """UDP_GRO: all segments have the stated size but the last, which may be shorter."""
    messages = Messages.prepare(message_count=1)
    put(messages, 0, b"aaaabbbbccccdd", [segment_size(4)])
    messages.split(1, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert rows(messages) == [b"aaaa", b"bbbb", b"cccc", b"dd"]


@pytest.mark.parametrize("size", [0, -1, 15, 2**31 - 1])
def test_a_segment_size_that_cannot_be_makes_one_row(size: int) -> None:
    """Nothing outside the message becomes a row, whatever its segment size says."""
    messages = Messages.prepare(message_count=1)
    put(messages, 0, b"a report, whole", [segment_size(size)])
    messages.split(1, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert rows(messages) == [b"a report, whole"]


def test_an_empty_datagram_is_a_row() -> None:
    """A datagram without payload reaches the decoder, which counts why it is refused."""
    messages = Messages.prepare(message_count=1)
    put(messages, 0, b"", [])
    messages.split(1, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert rows(messages) == [b""]


def test_control_messages_in_any_order() -> None:
    """Time, drop counter and segment size are found whatever stands before them."""
    messages = Messages.prepare(message_count=1)
    unknown = (1, 99, b"xyz")
    items = [unknown, segment_size(2), kernel_time(1_764_000_001, 5), drop_counter(7)]
    put(messages, 0, b"aabb", items)
    messages.split(1, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert rows(messages) == [b"aa", b"bb"]
    assert messages.batch.capture_collector_ns[:2].tolist() == [1_764_000_001_000_000_005] * 2
    assert messages.told[Told.DROP_COUNTER] == 7


def test_the_newest_drop_counter_is_told() -> None:
    """The counter of the last message that carries one holds for the socket."""
    messages = Messages.prepare(message_count=3)
    put(messages, 0, b"a", [drop_counter(0xFFFFFFFE)])
    put(messages, 1, b"b", [drop_counter(3)])
    put(messages, 2, b"c", [])
    messages.split(3, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert messages.told[Told.DROP_COUNTER] == 3


@pytest.mark.parametrize("flag", [0x08, 0x20])
def test_a_cut_message_is_counted_and_makes_no_row(flag: int) -> None:
    """MSG_CTRUNC loses the segment size and MSG_TRUNC the data: neither can be split safely."""
    messages = Messages.prepare(message_count=2)
    put(messages, 0, b"cut", [], flags=flag)
    put(messages, 1, b"whole", [])
    messages.split(2, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert rows(messages) == [b"whole"]
    assert messages.told[Told.CUT] == 1


@pytest.mark.parametrize("length", [0, 15, 1 << 40, (1 << 64) - 1])
def test_a_control_message_of_impossible_length_ends_the_list(length: int) -> None:
    """Control data is never followed past its end."""
    messages = Messages.prepare(message_count=1)
    put(messages, 0, b"abcd", [segment_size(2)])
    messages.control[0, 0] = np.uint64(length)
    messages.split(1, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert rows(messages) == [b"abcd"]


def test_rows_grow_with_the_segments() -> None:
    """More segments than any kernel coalesces today still all become rows."""
    messages = Messages.prepare(message_count=1)
    data = bytes(range(250)) * 4
    put(messages, 0, data, [segment_size(1)])
    messages.split(1, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert b"".join(rows(messages)) == data
    assert messages.batch.count == 1000


def test_control_buffers_are_offered_again_after_a_split() -> None:
    """The kernel shortens each control length to what it wrote; the next call gets all of it."""
    messages = Messages.prepare(message_count=2)
    put(messages, 0, b"aabb", [segment_size(2)])
    messages.split(1, now_ns=NOW_NS, where=ONE_ADDRESS)
    assert messages.headers[:, 5].tolist() == [CONTROL_BYTES] * 2


def test_addresses_of_a_wildcard_socket() -> None:
    """Rows are told apart by the destination address in the IP header, not by the route's."""
    messages = Messages.prepare(message_count=3)
    put(messages, 0, b"a", [ipv4_packet_info("10.0.0.1", "127.0.0.1")])
    put(messages, 1, b"b", [ipv4_packet_info("10.0.0.2", "127.0.0.1")])
    put(messages, 2, b"c", [ipv4_packet_info("10.0.0.1", "127.0.0.1")])
    none_yet = AddressRows(np.zeros((0, 2), np.uint64), np.zeros(0, np.int32), -1)
    messages.split(3, now_ns=NOW_NS, where=none_yet)
    assert messages.batch.count == 0
    assert messages.told[Told.NEW_ADDRESS] == 0
    first = messages.address_of(0)
    assert first.tobytes()[:4] == ip_address("10.0.0.1").packed
    known = np.stack([first, messages.address_of(1)])
    both = AddressRows(known, np.array([5, 6], np.int32), -1)
    messages.split(3, now_ns=NOW_NS, where=both)
    assert messages.batch.destination[:3].tolist() == [5, 6, 5]


def test_ipv6_addresses_of_a_wildcard_socket() -> None:
    """All 128 bits of an IPv6 destination count."""
    messages = Messages.prepare(message_count=2)
    put(messages, 0, b"a", [ipv6_packet_info("2001:db8::1:1")])
    put(messages, 1, b"b", [ipv6_packet_info("2001:db8::2:1")])
    known = np.stack([messages.address_of(0), messages.address_of(1)])
    assert known[0].tobytes() == ip_address("2001:db8::1:1").packed
    both = AddressRows(known, np.array([1, 2], np.int32), -1)
    messages.split(2, now_ns=NOW_NS, where=both)
    assert messages.batch.destination[:2].tolist() == [1, 2]


def test_addresses_beyond_the_limit_share_a_row() -> None:
    """With a fallback row a new address needs none of its own."""
    messages = Messages.prepare(message_count=1)
    put(messages, 0, b"a", [ipv4_packet_info("10.0.0.9", "127.0.0.1")])
    known = AddressRows(np.array([[1, 0]], np.uint64), np.array([4], np.int32), 0)
    messages.split(1, now_ns=NOW_NS, where=known)
    assert messages.batch.destination[0] == 0


def test_calls_ask_for_more_messages_when_they_are_short() -> None:
    """A batch is about as many bytes whether its reports come coalesced or one by one."""
    messages = Messages.prepare()
    messages.offer_again(16, 16 * 25_000)
    coalesced = messages.limit
    messages.offer_again(16, 16 * 200)
    assert coalesced == 16
    assert messages.limit == 1024
    messages.offer_again(10, 0)
    assert messages.limit == 1024


def test_a_call_never_asks_for_more_messages_than_there_is_room_for() -> None:
    """The limit stays within the buffers that were made."""
    messages = Messages.prepare(message_count=4)
    messages.offer_again(1, 1)
    assert messages.limit == 4
