# SPDX-License-Identifier: Apache-2.0
"""pcapng and link types: every block and resolution read, damage named."""

import io
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter

from controller.telemetry.datagram import wrap_udp
from controller.telemetry.pcap import PcapError, decode_pcap, read_pcap
from tests.support.captures import (
    NULL,
    RAW,
    SLL,
    SLL2,
    block,
    cooked,
    enhanced,
    interface,
    obsolete,
    pcap,
    section,
    simple,
)

A, B = b"\x01" * 61, b"\x02" * 64


def _read(data):
    return list(decode_pcap(io.BytesIO(data), "x.pcapng"))


def _udp(ip_version=4):
    return wrap_udp(
        b"payload",
        src_mac=0,
        dst_mac=0,
        src_ip=1,
        dst_ip=2,
        src_port=3,
        dst_port=4,
        ip_version=ip_version,
    )


@pytest.mark.parametrize("order", "<>")
def test_all_packet_blocks_of_both_byte_orders_are_read(order):
    """Enhanced, obsolete and simple packets; unknown blocks are passed over; SPB has no time."""
    data = section(order) + interface(order=order) + block(0x0BAD, bytes(20), order)
    data += enhanced(A, 1_000_001, order) + obsolete(B, 2_000_002, order) + simple(A, order)
    assert _read(data) == [(1_000_001_000, A), (2_000_002_000, B), (2_000_002_000, A)]


@pytest.mark.parametrize(
    ("resolution", "units", "time_ns"),
    [
        (None, 5, 5_000),
        (9, 1_800_000_000_123_456_789, 1_800_000_000_123_456_789),
        (3, 1_500, 1_500_000_000),
        (12, 1_234_567, 1_234),
        (0, 1_800_000_000, 1_800_000_000 * 10**9),
        (0x80 | 30, 3 << 29, 1_500_000_000),
        (0x80 | 63, 1 << 62, 500_000_000),
    ],
)
def test_time_units_are_powers_of_ten_or_two(resolution, units, time_ns):
    """if_tsresol: 10^-n or 2^-n seconds, microseconds by default."""
    assert _read(section() + interface(resolution=resolution) + enhanced(A, units)) == [
        (time_ns, A)
    ]


def test_each_interface_has_its_own_unit_offset_and_link_type():
    """Packets name their interface; a section has its own list, and its own byte order."""
    data = section() + interface(resolution=9) + interface(RAW, offset_s=7)
    data += enhanced(_udp()[14:], 1, number=1) + enhanced(A, 1, number=0)
    data += section(">") + interface(order=">", resolution=3) + enhanced(B, 1, ">")
    assert _read(data) == [
        (7_000_001_000, bytes(12) + _udp()[12:]),
        (1, A),
        (1_000_000, B),
    ]


@pytest.mark.parametrize("link_type", [RAW, SLL, SLL2, NULL])
@pytest.mark.parametrize("ip_version", [4, 6])
def test_other_link_types_give_the_same_ip_packet(link_type, ip_version):
    """Raw IP, Linux cooked captures and loopback come as Ethernet frames without addresses."""
    frame = _udp(ip_version)
    assert _read(pcap([(5, cooked(frame, link_type))], link_type=link_type)) == [(5, frame)]


def test_a_simple_packet_is_as_long_as_the_snap_length():
    """Its captured length is the smaller of the packet's and the interface's."""
    data = section() + interface(snap_bytes=10) + simple(A[:10], wire_bytes=61)
    assert _read(data) == [(0, A[:10])]


def test_a_file_written_by_scapy_is_read(tmp_path):
    """An independent writer's pcapng gives its frames; its times are whole microseconds."""
    path = tmp_path / "s.pcapng"
    writer = PcapNgWriter(str(path))
    packet = Ether(_udp())
    packet.time = 1_800_000_000.25
    writer.write(packet)
    writer.close()
    assert list(read_pcap(path)) == [(1_800_000_000_250_000_000, _udp())]


_HEAD = section() + interface()


@pytest.mark.parametrize(
    ("data", "offset", "expected"),
    [
        (section(major=2), 12, "pcapng version 1, got 2.0"),
        (section() + enhanced(A, 1), 36, "one of 0 described interfaces, got number 0"),
        (_HEAD + struct.pack("<II", 6, 30), 52, "the length of a block of type 6"),
        (_HEAD + struct.pack("<II", 6, 8), 52, "the length of a block of type 6"),
        (_HEAD + struct.pack("<II", 99, 13), 52, "the length of a block of type 99"),
        (_HEAD + block(99, b"")[:-4] + b"\x10\0\0\0", 56, "the block's length 12 again, got 16"),
        (
            _HEAD + block(6, struct.pack("<IIIII", 0, 0, 0, 99, 99) + b"abcd"),
            68,
            "a captured length of at most 4, got 99",
        ),
        (section() + interface(resolution=0x80 | 64), 56, "a time resolution, got 2^-64 s"),
        (section() + interface(resolution=0) + enhanced(A, 10**10), 80, "a time between"),
    ],
)
def test_damage_is_named_with_file_and_offset(data, offset, expected):
    """One line that says where to look and what should be there."""
    with pytest.raises(PcapError) as caught:
        _read(data)
    assert str(caught.value).startswith(f"x.pcapng: byte {offset}: expected {expected}")


def test_a_capture_cut_at_any_length_keeps_its_whole_frames():
    """The cut packet comes short, and is counted as truncated later; nothing is made up."""
    data = _HEAD + enhanced(A, 1)
    end = len(_HEAD) + 28 + len(A)
    for size in range(len(_HEAD) + 1, len(data)):
        (frame,) = (frame for _time, frame in _read(data[:size]))
        if size < end:
            assert len(frame) < len(A)
        else:
            assert frame == A


@given(st.binary(max_size=200), st.sampled_from([b"", _HEAD, _HEAD + enhanced(A, 1)]))
def test_random_bytes_raise_nothing_but_a_pcap_error(data, head):
    """Behind valid blocks as well as without them."""
    with suppress(PcapError):
        _read(head + data)
