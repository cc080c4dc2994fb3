# SPDX-License-Identifier: Apache-2.0
"""pcap files: exact both ways, deterministic, and clear about damage."""

import io
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import rdpcap

from controller.telemetry.pcap import PcapError, decode_pcap, encode_pcap, read_pcap, write_pcap

_FRAMES = [(1_800_000_000_123_456_789, b"\x01" * 60), (1_800_000_001_000_000_000, b"\x02" * 61)]


def _file(frames=_FRAMES):
    stream = io.BytesIO()
    encode_pcap(stream, frames)
    return stream.getvalue()


def _read(data, name="x.pcap"):
    return list(decode_pcap(io.BytesIO(data), name))


@given(st.lists(st.tuples(st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=100)), max_size=10))
def test_reading_inverts_writing(frames):
    """Times keep their nanoseconds, frames their bytes, the list its order."""
    assert _read(_file(frames)) == frames


def test_scapy_reads_what_we_write(tmp_path):
    """An independent reader sees the same frames at the same nanosecond."""
    path = tmp_path / "a.pcap"
    assert write_pcap(path, _FRAMES) == 2
    packets = rdpcap(str(path))
    assert [bytes(packet) for packet in packets] == [frame for _time, frame in _FRAMES]
    assert [round(packet.time * 10**9) for packet in packets] == [time for time, _ in _FRAMES]
    assert list(read_pcap(path)) == _FRAMES


def test_the_same_frames_give_the_same_bytes():
    """No time, host or process leaks into the file."""
    assert _file() == _file()
    assert _file()[:4] == bytes.fromhex("4d3cb2a1")


@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize(("magic", "ns_per_fraction"), [(0xA1B23C4D, 1), (0xA1B2C3D4, 1000)])
def test_both_byte_orders_and_both_resolutions_are_read(byte_order, magic, ns_per_fraction):
    """Captures of other machines and of tcpdump without nanoseconds."""
    data = struct.pack(byte_order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    data += struct.pack(byte_order + "IIII", 7, 999_999, 3, 60) + b"abc"
    assert _read(data) == [(7 * 10**9 + 999_999 * ns_per_fraction, b"abc")]


_HEADER = _file([])


@pytest.mark.parametrize(
    ("data", "offset", "expected"),
    [
        (b"", 0, "a pcap file header"),
        (b"\x00" * 30, 0, "a pcap or pcapng magic number, got 00000000"),
        (bytes.fromhex("0a0d0d0a") + bytes(30), 8, "byte-order magic 1a2b3c4d, got 00000000"),
        (_HEADER[:23], 23, "a 24-byte file header"),
        (_HEADER[:4] + b"\x03" + _HEADER[5:], 4, "pcap version 2.4, got 3.4"),
        (_HEADER[:20] + b"\x69\x00\x00\x00", 20, "a link type of 0 (BSD loopback), 1 (Ethernet)"),
        (_HEADER + struct.pack("<IIII", 0, 0, 300_000, 0), 32, "a captured length of at most"),
        (_HEADER + struct.pack("<IIII", 0, 10**9, 0, 0), 28, "a fraction below one second"),
    ],
)
def test_damage_is_named_with_file_and_offset(data, offset, expected):
    """One line that says where to look and what should be there."""
    with pytest.raises(PcapError) as caught:
        _read(data)
    assert str(caught.value).startswith(f"x.pcap: byte {offset}: expected {expected}")
    assert (caught.value.name, caught.value.offset) == ("x.pcap", offset)


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_a_pcap_error(data):
    """Behind a valid header as well as without one."""
    for content in (data, _HEADER + data):
        with suppress(PcapError):
            _read(content)


@pytest.mark.parametrize("time_ns", [-1, 2**32 * 10**9])
def test_a_time_that_pcap_cannot_hold_is_refused(time_ns):
    """Seconds are 32 bits, unsigned."""
    with pytest.raises(ValueError, match="does not fit a pcap record"):
        _file([(time_ns, b"")])


def test_a_capture_cut_at_any_length_keeps_its_whole_frames(tmp_path):
    """What was written whole is delivered; the cut frame comes short, and is counted later."""
    whole = _file()
    path = tmp_path / "cut.pcap"
    starts = [len(_HEADER)]
    for _, frame in _FRAMES:
        starts.append(starts[-1] + 16 + len(frame))
    for size in range(len(_HEADER), len(whole)):
        path.write_bytes(whole[:size])
        frames = list(read_pcap(path))
        complete = sum(end <= size for end in starts[1:])
        assert frames[:complete] == _FRAMES[:complete]
        cut = frames[complete:]
        assert len(cut) == (size not in starts)
        assert all(len(frame) < len(_FRAMES[complete][1]) for _, frame in cut)
