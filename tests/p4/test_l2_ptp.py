# SPDX-License-Identifier: Apache-2.0
"""PTP over Ethernet (IEEE 1588-2019 annex E): bridged by its own table, reported as Ethernet."""

import pytest

from tests.p4.dissect import expect_frame
from tests.p4.frames import ptp
from tests.p4.harness import CPU_PORT, Node
from tests.p4.int_headers import expected_hop
from tests.p4.reports import ETHERNET, ExpectedReport

NOT_FORWARDED = 132
PTP_MULTICAST = 0x011B19000000
PEER_DELAY_MULTICAST = 0x0180C200000E


def bridge() -> Node:
    """Sends PTP from port 1 to port 2."""
    node = Node(101)
    keys = {"ingress_port": (1, 0x1FF)}
    node.add("l2_ptp", node.ternary("l2_ptp", keys), "forward_l2", 2, priority=1)
    return node


@pytest.mark.parametrize("vlan", [None, 0x2064], ids=["untagged", "tagged"])
@pytest.mark.parametrize("message_type", [0, 1, 2, 3, 8, 9, 0xA, 0xB])
def test_message_is_bridged_unchanged(message_type: int, vlan: int | None) -> None:
    """No MAC, tag or PTP byte changes on the way from port to port."""
    node = bridge()
    frame = ptp(message_type, over="ethernet", vlan=vlan)
    sent = node.send(frame, 1)
    assert sent.port == 2
    expect_frame(sent.frame, frame)
    assert node.hits("l2_ptp") == 1
    assert node.drops == {}


def test_message_without_an_entry_is_dropped_and_counted() -> None:
    """PTP over Ethernet is not flooded by default."""
    node = bridge()
    assert node.send(ptp(over="ethernet"), 5).emitted == []
    assert node.drops == {NOT_FORWARDED: 1}


def test_keys_are_port_destination_and_message_type() -> None:
    """Peer delay stays on its link while Sync is forwarded; the higher priority wins."""
    node = bridge()
    keys = {"dst_addr": (PEER_DELAY_MULTICAST, (1 << 48) - 1)}
    node.add("l2_ptp", node.ternary("l2_ptp", keys), "punt_l2", priority=5)
    keys = {"message_type": (1, 0xF)}
    node.add("l2_ptp", node.ternary("l2_ptp", keys), "forward_l2", 3, priority=4)
    peer = bytearray(ptp(2, over="ethernet"))
    peer[:6] = PEER_DELAY_MULTICAST.to_bytes(6, "big")
    punted = node.send(bytes(peer), 1)
    assert punted.port == CPU_PORT
    assert punted.frame == (1 << 7).to_bytes(2, "big") + bytes(peer)
    assert node.send(ptp(1, over="ethernet"), 1).port == 3
    assert node.send(ptp(0, over="ethernet"), 1).port == 2


def test_drop_entry_drops_and_counts() -> None:
    """A deliberate drop is counted like every other drop."""
    node = bridge()
    keys = {"ingress_port": (1, 0x1FF)}
    node.add("l2_ptp", node.ternary("l2_ptp", keys), "drop_l2", priority=9)
    assert node.send(ptp(over="ethernet"), 1).emitted == []
    assert node.drops == {NOT_FORWARDED: 1}


def test_multicast_reaches_every_port_of_the_group() -> None:
    """One Sync becomes one copy per group member but the port it came from, each the same."""
    node = Node(101)
    node.multicast_group(7, 1, 2, 3, 4)
    match = node.ternary("l2_ptp", {"dst_addr": (PTP_MULTICAST, (1 << 48) - 1)})
    node.add("l2_ptp", match, "multicast_l2", 7, priority=1)
    frame = ptp(over="ethernet")
    sent = node.send(frame, 1)
    assert sorted(sent.forwarded) == [(2, frame), (3, frame), (4, frame)]


@pytest.mark.parametrize("vlan", [None, 0x0064], ids=["untagged", "tagged"])
def test_postcard_has_the_ethernet_frame(vlan: int | None) -> None:
    """The inner packet is Ethernet, tag included, and the addresses in the key are 0."""
    node = bridge()
    node.set_report_config(truncate_bytes=200)
    node.watch_ptp(src_addr=(0, 0xFFFFFFFF), message_type=(0, 0xF), domain_number=(24, 0xFF))
    frame = ptp(over="ethernet", vlan=vlan, length=46)
    sent = node.send(frame, 1)
    metadata = expected_hop(node, sent, 0x7C00, 1, 2, 0)
    node.expect_reports(
        sent, ExpectedReport(bits=0x7C00, metadata=metadata, inner=frame, inner_type=ETHERNET)
    )


def test_every_multicast_copy_has_a_postcard() -> None:
    """Each copy is a hop of its own, with its own egress port."""
    node = Node(101)
    node.multicast_group(7, 2, 3)
    node.add("l2_ptp", node.ternary("l2_ptp", {}), "multicast_l2", 7, priority=1)
    node.watch_ptp(bits=0x4000)
    sent = node.send(ptp(over="ethernet"), 1)
    assert len(sent.forwarded) == 2
    assert [report.metadata.hex() for report in sent.reports] == ["00010002", "00010003"]
    assert [report.sequence for report in sent.reports] == [0, 1]


@pytest.mark.parametrize(
    "frame",
    [ptp(8, over="ethernet"), ptp(0, over="ethernet", version=1)],
    ids=["Follow_Up", "version 1"],
)
def test_general_messages_and_other_versions_have_no_postcard(frame: bytes) -> None:
    """Only event messages of PTP version 2 are reported."""
    node = bridge()
    node.watch_ptp()
    sent = node.send(frame, 1)
    expect_frame(sent.frame, frame)
    assert sent.reports == []


def test_all_reports_of_a_message_go_to_one_collector() -> None:
    """Every bridge on the way chooses the same destination: the MAC addresses do not change."""
    message = ptp(over="ethernet")
    ports = set()
    for node_id in (101, 102, 103):
        node = bridge()
        node.set_default("int_node", "set_int_node", node_id, 0x5454)
        node.watch_ptp()
        (report,) = node.send(message, 1).reports
        ports.add(report.src_port)
    assert len(ports) == 1


def retagged(frame: bytes, tag: int | None) -> bytes:
    """The frame with another 802.1Q tag (16 bits: priority and VLAN), or none."""
    bare = frame[:12] + (frame[16:] if frame[12:14] == b"\x81\x00" else frame[12:])
    return bare if tag is None else bare[:12] + b"\x81\x00" + tag.to_bytes(2, "big") + bare[12:]


@pytest.mark.parametrize(
    ("arrived", "at_2", "at_3", "at_4"),
    [(None, 0x0064, None, None), (0x6005, 0x6064, None, 0x6005)],
    ids=["untagged", "tagged with priority 3"],
)
def test_copies_leave_with_the_tag_of_their_link(
    arrived: int | None, at_2: int | None, at_3: int | None, at_4: int | None
) -> None:
    """Instance 100 is VLAN 100, 4095 no tag, 0 the tag that it came with; priority bits stay."""
    node = Node(101)
    node.set_report_config(truncate_bytes=200)
    node.multicast_group(7, 1, 2, 3, 4, tags={1: 9, 2: 100, 3: 4095})
    node.add("l2_ptp", node.ternary("l2_ptp", {}), "multicast_l2", 7, priority=1)
    node.watch_ptp(bits=0x4000)
    frame = ptp(over="ethernet", vlan=arrived, length=46)
    sent = node.send(frame, 1)
    expected = [retagged(frame, tag) for tag in (at_2, at_3, at_4)]
    assert sorted(sent.forwarded) == list(zip((2, 3, 4), expected, strict=True))
    inner = [report.inner for report in sorted(sent.reports, key=lambda report: report.sequence)]
    assert inner == [copy[: len(copy) // 4 * 4] for copy in expected]
