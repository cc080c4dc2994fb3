# SPDX-License-Identifier: Apache-2.0
"""Telemetry reports: sequence numbers, sizes, and what must never be reported."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch.state import exact_match
from tests.p4.harness import COLLECTOR_IP, COLLECTOR_PORT, REPORT_PORT, IntStack, Node, ptp, roce


def leaf() -> Node:
    """A leaf: hosts on ports 11 and 12, the fabric on port 1, the collector's flow exempt."""
    node = Node(2, host_ports=(11, 12))
    node.route("10.0.1.0", 24, 1)
    node.route("10.0.2.1", 32, 12)
    node.route("10.255.0.0", 16, 1)
    node.watch()
    node.watch_ptp()
    node.exempt_collector()
    return node


def marked_frame() -> bytes:
    """What a source leaf sends into the fabric for 10.0.2.1."""
    node = Node(1, host_ports=(11,))
    node.route("10.0.2.0", 24, 1)
    node.watch()
    return node.send(roce(payload=bytes(400)), 11).frame


def test_sequence_numbers_count_per_hw_id_without_gaps() -> None:
    """Each hw id counts its own reports from 0, whatever order the packets come in."""
    node = leaf()
    marked = marked_frame()
    seen: dict[int, list[int]] = {0: [], 1: []}
    for number in range(30):
        frame = ptp(dst="10.0.2.1") if number % 3 == 0 else marked
        for report in node.send(frame, 1).reports:
            seen[report.hw_id].append(report.sequence)
    assert seen == {0: list(range(20)), 1: list(range(30))}


def test_lost_report_shows_as_a_gap() -> None:
    """The number is taken by the original packet, so a clone that the queue drops is missed."""
    node = leaf()
    marked = marked_frame()
    node.send(marked, 1)
    node.send(marked, 1, drop_clones=True)
    last = node.send(marked, 1).reports
    assert [report.sequence for report in last] == [2, 2]


def test_sequence_wraps_at_22_bits() -> None:
    """After 2^22 - 1 comes 0, and the hw id next to it is not touched."""
    node = leaf()
    for register in node.state.registers.values():
        register[0] = (1 << 22) - 1
    marked = marked_frame()
    first, second = node.send(marked, 1).reports, node.send(marked, 1).reports
    assert [(r.hw_id, r.sequence) for r in first] == [(0, 0x3FFFFF), (1, 0x3FFFFF)]
    assert [(r.hw_id, r.sequence) for r in second] == [(0, 0), (1, 0)]


def test_report_envelope_is_addressed_as_configured() -> None:
    """MACs, addresses and ports are those of report_config; the IP checksum is right."""
    report = leaf().send(marked_frame(), 1).reports[0]
    assert report.frame[:12].hex() == "02ff0000000102ee00000002"
    assert (report.ip.src, report.ip.dst) == ("10.254.0.2", COLLECTOR_IP)
    assert report.udp.dport == COLLECTOR_PORT
    assert report.udp.chksum == 0
    assert report.ip.flags == "DF"


@settings(max_examples=60, deadline=None)
@given(
    truncate_bytes=st.integers(0, 1500),
    payload=st.integers(0, 600),
    ethernet_padding=st.integers(0, 46),
)
def test_lengths_fit_the_truncated_packet(
    truncate_bytes: int, payload: int, ethernet_padding: int
) -> None:
    """All three lengths describe the frame as cut; INT is never cut, and padding never reported."""
    source = Node(1, host_ports=(11,))
    source.route("10.0.2.0", 24, 1)
    source.watch()
    frame = roce(payload=bytes(payload))
    marked = source.send(frame + bytes(ethernet_padding), 11).frame
    node = leaf()
    node.set_report_config(truncate_bytes)
    sent = node.send(marked, 1)
    assert sent.frame[34:] == frame[34:] + bytes(ethernet_padding)
    whole = (len(frame) - 14) & ~3
    for report, int_bytes in zip(sent.reports, (48, 0), strict=True):
        report.check_lengths()
        limit = max(truncate_bytes, 40) + int_bytes & ~3
        assert len(report.inner) == min(limit, whole + int_bytes)
    assert len(IntStack.of(sent.reports[0].inner).hops()) == 1


def test_report_frames_are_never_reported() -> None:
    """A report that passes a switch, from a host port or the fabric, makes no further report."""
    report = leaf().send(marked_frame(), 1).reports[0].frame
    node = leaf()
    for port in (1, 11):
        sent = node.send(report, port)
        assert sent.reports == []
        assert sent.frame[34:] == report[34:]
        assert sent.frame[15] == report[15]


def test_collector_address_is_exempt_without_its_watchlist_entry() -> None:
    """A forgotten exempt entry does not make reports of reports: the node knows its collector."""
    node = Node(1, host_ports=(11, 12))
    node.route("10.255.0.0", 16, 1)
    node.watch()
    node.watch_ptp()
    for frame in (roce(dst=COLLECTOR_IP), ptp(dst=COLLECTOR_IP)):
        sent = node.send(frame, 11)
        assert sent.reports == []
        assert len(sent.frame) == len(frame)
    behind_host_port = Node(1, host_ports=(11, 12))
    behind_host_port.route(COLLECTOR_IP, 32, 12)
    behind_host_port.watch()
    assert behind_host_port.send(roce(dst=COLLECTOR_IP), 11).reports == []


def test_clones_are_dropped_until_the_collector_is_known() -> None:
    """Without report_config no half-made report leaves, and the packet itself is restored."""
    node = leaf()
    node.set_default("report_config", "NoAction")
    sent = node.send(marked_frame(), 1)
    assert [port for port, _ in sent.emitted] == [12]
    assert (REPORT_PORT, 0) in sent.queues


def test_report_is_one_per_clone_session_replica() -> None:
    """One packet makes one report A and one report B, in the best-effort queue."""
    sent = leaf().send(marked_frame(), 1)
    assert sorted(sent.queues) == [(12, 1), (REPORT_PORT, 0), (REPORT_PORT, 0)]


def test_sink_port_without_reports_still_reports_ptp() -> None:
    """set_int_strip silences the sink, not the postcards of PTP."""
    node = Node(2)
    node.add("int_sink_ports", [exact_match(12)], "set_int_strip")
    node.route("10.0.2.1", 32, 12)
    node.watch_ptp()
    assert node.send(marked_frame(), 1).reports == []
    assert len(node.send(ptp(), 1).reports) == 1
