# SPDX-License-Identifier: Apache-2.0
"""Packets from and to the controller: packet-out, and what is punted."""

import pytest

from tests.p4.dissect import expect_frame
from tests.p4.frames import HOST_V6, ethernet, ip_frame, ptp, roce, udp_frame
from tests.p4.harness import CPU_PORT, Node
from tests.p4.wire import ARP, LLDP, ip


def router() -> Node:
    """A leaf with four uplinks towards 10.0.2.0/24 and fd00:0:2::/48 and a local host."""
    node = Node(1, host_ports=(11, 12))
    node.route("10.0.2.0", 24, 1, 2, 3, 4)
    node.route("fd00:0:2::", 48, 1, 2, 3, 4)
    node.route("10.0.1.2", 32, 12)
    return node


def test_packet_out_leaves_on_its_port_as_it_is() -> None:
    """A packet-out names its egress port; nothing in it is changed."""
    node = router()
    for frame in (
        roce(),
        roce(v6=True),
        ptp(over="ethernet"),
        ethernet(LLDP, b"\x02\x07" + bytes(44)),
    ):
        assert node.packet_out(frame, 7).forwarded == [(7, frame)]


def test_packet_out_submitted_to_ingress_is_routed() -> None:
    """With submit_to_ingress the packet takes its route and is traced like a host's packet."""
    node = router()
    node.watch_ptp()
    sent = node.send((1 << 6).to_bytes(2, "big") + ptp(dst="10.0.1.2"), CPU_PORT)
    assert sent.port == 12
    assert len(sent.reports) == 1


NEIGHBOUR_SOLICITATION = ip_frame(
    bytes([135, 0, 0, 0]) + bytes(20), 58, src="fe80::1", dst="ff02::1:ff00:1", ttl=255
)


@pytest.mark.parametrize(
    ("keys", "frame"),
    [
        ({"ether_type": (ARP, 0xFFFF)}, ethernet(ARP, bytes(28), dst=(1 << 48) - 1)),
        ({"ether_type": (LLDP, 0xFFFF)}, ethernet(LLDP, b"\x02\x07" + bytes(44))),
        ({"ether_type": (ARP, 0xFFFF)}, ethernet(ARP, bytes(28), dst=(1 << 48) - 1, vlan=100)),
        ({"protocol": (58, 0xFF), "icmp_type": (135, 0xFF)}, NEIGHBOUR_SOLICITATION),
        ({"ipv6_dst_addr": (0xFF02 << 112, 0xFFFF << 112)}, NEIGHBOUR_SOLICITATION),
        ({"dst_addr": (ip("10.0.1.2"), 0xFFFFFFFF), "l4_dst_port": (179, 0xFFFF)},
         udp_frame(b"open", sport=9, dport=179, dst="10.0.1.2")),
        ({"ipv6_dst_addr": (ip(HOST_V6[1]), (1 << 128) - 1)}, roce(v6=True)),
    ],
    ids=["ARP", "LLDP", "tagged ARP", "ND by type", "ND by group", "own IPv4", "own IPv6"],
)  # fmt: skip
def test_punted_packet_reaches_the_controller_with_its_port(
    keys: dict[str, tuple[int, int]], frame: bytes
) -> None:
    """The CPU port gets the ingress port in front of a frame that is not changed."""
    node = router()
    node.add("punt", node.ternary("punt", keys), "punt_to_cpu", priority=1)
    sent = node.send(frame, 11)
    assert [port for port, _ in sent.forwarded] == [CPU_PORT]
    assert sent.frame[:2] == (11 << 7).to_bytes(2, "big")
    expect_frame(sent.frame[2:], frame)
    assert node.hits("punt") == 1
    assert node.drops == {}


def test_punt_by_ingress_port_and_priority() -> None:
    """Only the named port is punted."""
    node = router()
    keys = {"ingress_port": (11, 0x1FF)}
    node.add("punt", node.ternary("punt", keys), "punt_to_cpu", priority=1)
    assert node.send(roce(), 11).port == CPU_PORT
    assert node.send(roce(), 1).port != CPU_PORT
