# SPDX-License-Identifier: Apache-2.0
"""Captures in batches: the same reports, refusals and errors as the plain reader gives."""

import gzip
import io
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.collector.captures import CaptureReader, read_capture
from controller.telemetry.codec import DecodeError, DecodeReason
from controller.telemetry.collector import Destination
from controller.telemetry.datagram import unwrap_udp, wrap_udp
from controller.telemetry.pcap import PcapError, decode_pcap
from controller.telemetry.profiles import DIALECTS
from controller.telemetry.topology import TelemetryFabric, TelemetryNode
from tests.support.captures import (
    ETHERNET,
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

PORTS = frozenset({32766, 6000})
FABRIC = TelemetryFabric(nodes={}, neighbours={}, report_udp_ports=PORTS)


def _frame(payload=b"report", *, port=32766, dst_ip=5, ip_version=4, tags=0, checksum=True):
    frame = wrap_udp(
        payload,
        src_mac=1,
        dst_mac=2,
        src_ip=3,
        dst_ip=dst_ip,
        src_port=4,
        dst_port=port,
        ip_version=ip_version,
        udp_checksum=checksum,
    )
    tag = b"\x88\xa8\x00\x05" * (tags > 1) + b"\x81\x00\x00\x07" * (tags > 0)
    return frame[:12] + tag + frame[12:]


def _plain(data):
    """(rows, refused, error) as the plain reader and `unwrap_udp` judge."""
    rows, refused = [], Counter()
    try:
        for time_ns, frame in decode_pcap(io.BytesIO(data), "x"):
            try:
                datagram = unwrap_udp(frame)
                if datagram.udp.dst_port not in PORTS:
                    raise DecodeError(DecodeReason.UDP_PORT, 0)
            except DecodeError as error:
                refused[error.reason] += 1
                continue
            payload = bytes(frame[datagram.payload_start : datagram.payload_end])
            destination = Destination(datagram.ip.dst_addr, datagram.udp.dst_port)
            rows.append((time_ns, payload, destination))
    except PcapError as error:
        return rows, refused, str(error)
    return rows, refused, None


def _batched(data, **options):
    rows, refused = [], Counter()
    options = {"piece_bytes": 1 << 20, "frames_max": 256} | options
    try:
        for part in CaptureReader(io.BytesIO(data), "x", FABRIC, **options).batches():
            refused.update(part.refused)
            batch = part.batch
            rows += [
                (
                    int(batch.capture_collector_ns[row]),
                    bytes(batch.payload(row)),
                    batch.destinations[batch.destination[row]],
                )
                for row in range(batch.count)
            ]
    except PcapError as error:
        return rows, refused, str(error)
    return rows, refused, None


FRAMES = [
    _frame(),
    _frame(b"odd", checksum=False),
    _frame(ip_version=6, dst_ip=0x20010DB8 << 96 | 7),
    _frame(tags=1),
    _frame(tags=2),
    _frame(port=6000, dst_ip=9),
    _frame(port=53),
]


@pytest.mark.parametrize("link_type", [ETHERNET, RAW, SLL, SLL2, NULL])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("nanoseconds", [True, False])
def test_pcaps_give_what_the_plain_reader_gives(link_type, order, nanoseconds):
    """Every link type, byte order and resolution; untagged, tagged and QinQ; IPv4 and IPv6."""
    frames = [frame for frame in FRAMES if link_type in (ETHERNET, SLL, SLL2) or frame[12] != 0x88]
    data = pcap(
        [(10**18 + 1000 * n, cooked(frame, link_type)) for n, frame in enumerate(frames)],
        order=order,
        nanoseconds=nanoseconds,
        link_type=link_type,
    )
    rows, refused, error = _batched(data)
    assert (rows, refused, error) == _plain(data)
    assert error is None
    assert len(rows) + refused.total() == len(frames)
    if link_type == ETHERNET:
        assert (len(rows), refused) == (6, Counter({DecodeReason.UDP_PORT: 1}))
        assert rows[2][2] == Destination(0x20010DB8 << 96 | 7, 32766)


def _pcapng(order):
    data = section(order) + interface(order=order, resolution=9) + block(77, bytes(400), order)
    data += interface(RAW, order, resolution=0x80 | 40, offset_s=-3)
    for number, frame in enumerate(FRAMES):
        data += enhanced(frame, 10**18 + number, order)
        data += obsolete(frame[14:], (5 << 40) + 987_654_321 * number, order, number=1)
        data += simple(frame, order)
    return data


def test_pcapngs_give_what_the_plain_reader_gives():
    """Two sections of either byte order, two interfaces with their own units, all blocks."""
    data = _pcapng("<") + _pcapng(">")
    assert _batched(data) == _plain(data)
    assert len(_batched(data)[0]) > 20


@pytest.mark.parametrize(
    "make", [lambda: _pcapng("<"), lambda: pcap([(5, f) for f in FRAMES])], ids=["pcapng", "pcap"]
)
def test_pieces_and_full_batches_change_nothing(make):
    """Records over the border of a piece and more frames than a batch holds: the same rows."""
    data = make()
    for piece_bytes in (256, 300, 301, 512):
        assert _batched(data, piece_bytes=piece_bytes, frames_max=2) == _plain(data)


def test_a_block_longer_than_a_piece_is_passed_over():
    """Names and secrets of a pcapng may be megabytes; the packets behind them are read."""
    data = section() + block(10, bytes(10_000)) + interface() + enhanced(FRAMES[0], 9)
    rows, refused, error = _batched(data, piece_bytes=1024)
    assert [(row[0], row[1]) for row in rows] == [(9000, b"report")]
    assert (refused.total(), error) == (0, None)


def test_more_destinations_than_a_table_holds_are_all_told_apart(monkeypatch):
    """The batch ends early and goes on with a fresh table."""
    monkeypatch.setattr("controller.collector.captures.DESTINATIONS_MAX", 2)
    data = pcap([(n, _frame(dst_ip=n % 5)) for n in range(20)])
    assert _batched(data) == _plain(data)


@pytest.mark.parametrize(
    "make", [lambda: _pcapng("<"), lambda: pcap([(5, f) for f in FRAMES])], ids=["pcapng", "pcap"]
)
def test_a_capture_cut_at_any_length_is_read_alike(make):
    """The cut record is counted as truncated by both readers."""
    whole = make()
    for size in range(len(whole) - 300, len(whole)):
        assert _batched(whole[:size]) == _plain(whole[:size])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_captures_are_judged_alike(data):
    """Changed bytes give the same reports, the same refusals and the same error text."""
    whole = bytearray(
        data.draw(st.sampled_from([_pcapng("<"), _pcapng(">"), pcap([(5, f) for f in FRAMES])]))
    )
    for _change in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(whole) - 1, 900)))
        whole[at] = data.draw(st.integers(0, 255))
    rows, refused, error = _batched(bytes(whole))
    plain_rows, plain_refused, plain_error = _plain(bytes(whole))
    assert error == plain_error
    if error is None:
        assert (rows, refused) == (plain_rows, plain_refused)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FRAMES), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 255))))
def test_damaged_frames_are_refused_for_the_same_reason(frame, changes):
    """Headers with any bytes: the reason is that of the plain path."""
    damaged = bytearray(frame)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    data = pcap([(1, bytes(damaged))] + [(1, bytes(damaged[:n])) for n in range(0, 60, 7)])
    assert _batched(data) == _plain(data)


def test_gzip_is_unpacked_and_progress_reaches_the_end(tmp_path):
    """A packed capture is read in place; the share of the file read only grows, up to 1."""
    path = tmp_path / "a.pcap.gz"
    path.write_bytes(gzip.compress(pcap([(5, frame) for frame in FRAMES * 50])))
    shares = []
    batches = read_capture(path, FABRIC, progress=shares.append, piece_bytes=4096)
    assert sum(part.batch.count for part in batches) == 300
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_damaged_gzip_is_named(tmp_path):
    """Not a traceback of the unpacker."""
    path = tmp_path / "a.pcap.gz"
    packed = bytearray(gzip.compress(pcap([(5, frame) for frame in FRAMES * 50])))
    packed[30] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(PcapError, match="expected intact gzip data"):
        list(read_capture(path, FABRIC))


def test_reports_longer_than_their_ip_packet_are_read_to_the_end_of_the_frame():
    """Some devices state too short a length; only nodes whose profile says so are read so."""
    dialect = next(item for item in DIALECTS.values() if item.payload_beyond_ip_length)
    nodes = {
        1: TelemetryNode(node_id=1, stamp_unit_ns=1, stamp_width_bits=48, dialect=dialect),
        2: TelemetryNode(node_id=2, stamp_unit_ns=1, stamp_width_bits=48),
    }
    fabric = TelemetryFabric(nodes=nodes, neighbours={}, report_udp_ports=PORTS)
    heads = [b"\x20\0\0\0\0\0\0" + bytes([node_id]) for node_id in (1, 2)]
    data = pcap([(5, _frame(head, checksum=False) + b"behind") for head in heads])
    (part,) = CaptureReader(io.BytesIO(data), "x", fabric).batches()
    payloads = [bytes(part.batch.payload(row)) for row in range(part.batch.count)]
    assert payloads == [heads[0] + b"behind", heads[1]]
