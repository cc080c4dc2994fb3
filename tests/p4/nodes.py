# SPDX-License-Identifier: Apache-2.0
"""The three switches that a traced packet meets, and walks over several of them."""

import functools
from collections.abc import Sequence

from tests.p4.dissect import expect_frame
from tests.p4.frames import roce
from tests.p4.harness import Node, Sent
from tests.p4.rewrite import routed, with_class
from tests.p4.wire import icrc_is_right, replaced

HOST_PORT, LEAF_UPLINK = 11, 1
SPINE_IN, SPINE_OUT = 1, 2
SINK_IN, SINK_PORT = 1, 12


def source_node(node_id: int = 1) -> Node:
    """A leaf with a host on port 11 and a fabric link on port 1."""
    node = Node(node_id, host_ports=(HOST_PORT,))
    node.route("10.0.2.0", 24, LEAF_UPLINK)
    node.route("fd00:0:2::", 48, LEAF_UPLINK)
    return node


def transit_node(node_id: int = 101) -> Node:
    """A spine: in on 1, out on 2."""
    node = Node(node_id)
    node.route("10.0.2.0", 24, SPINE_OUT)
    node.route("fd00:0:2::", 48, SPINE_OUT)
    return node


def sink_node(node_id: int = 2) -> Node:
    """A leaf with the addressed host on port 12."""
    node = Node(node_id, host_ports=(SINK_PORT,))
    node.route("10.0.2.1", 32, SINK_PORT)
    node.route("fd00:0:2::1", 128, SINK_PORT)
    return node


def local_node(node_id: int = 1) -> Node:
    """A leaf with sender (port 11) and receiver (port 12)."""
    node = Node(node_id, host_ports=(HOST_PORT, SINK_PORT))
    node.route("10.0.2.1", 32, SINK_PORT)
    node.route("fd00:0:2::1", 128, SINK_PORT)
    return node


def walk(path: Sequence[Node], frame: bytes) -> list[Sent]:
    """Send a frame from the host through all switches in turn."""
    sent: list[Sent] = []
    for number, node in enumerate(path):
        sent.append(node.send(frame, HOST_PORT if number == 0 else SPINE_IN))
        frame = sent[-1].frame
    return sent


@functools.cache
def _md_source() -> Node:
    node = source_node()
    node.watch()
    return node


def marked_frame(sport: int = 0xC123, payload: int = 400) -> bytes:
    """A RoCEv2 packet for 10.0.2.1 as a source leaf sends it into the fabric, with one hop."""
    return _md_source().send(roce(payload=bytes(payload), sport=sport), HOST_PORT).frame


def expect_restored(frame: bytes, out: bytes, *, hops: int, ecn: int | None = None) -> None:
    """The frame as a router chain delivers it to the sink's port; a valid ICRC stays valid."""
    expected = with_class(routed(frame, SINK_PORT, hops=hops), ecn=ecn)
    # the last switch sends from the address that the one before it used
    expect_frame(out, replaced(expected, 6, out[6:12]))
    assert icrc_is_right(out) == icrc_is_right(frame)
