# SPDX-License-Identifier: Apache-2.0
"""The end-to-end transparent clock (IEEE 1588-2019 section 10.2), with link delays if told."""

import pytest

from bmv2_lab.switch.state import exact_match
from tests.p4.dissect import expect_frame
from tests.p4.frames import ptp, roce
from tests.p4.harness import RESIDENCE, Node
from tests.p4.int_headers import expected_hop
from tests.p4.nodes import SPINE_IN, SPINE_OUT, sink_node, source_node, transit_node, walk
from tests.p4.reports import ExpectedReport
from tests.p4.rewrite import ip_packet, routed, with_udp_field
from tests.p4.wire import Offsets, replaced, udp_checksum_is_right

CORRECTED, TOO_BIG = 6, 7
UNIT_NS, UNIT_US = 65536, 65536000
"""Scaled ns (2^-16 ns) per stamp unit."""
LIMIT = (1 << 63) - 1
MASK = (1 << 64) - 1
CORRECTION_FIELD = 8
"""Byte of the PTP message at which correctionField starts."""
LINK_DELAY = 123_456_789
OVER = pytest.mark.parametrize("over", ["ipv4", "ipv6", "ethernet"])


def clock(
    *,
    unit: int = UNIT_NS,
    offset: int = 0,
    delays: dict[int, int] | None = None,
    node: Node | None = None,
) -> Node:
    """A transparent clock; `delays`: ingress port -> scaled ns."""
    node = node or transit_node()
    arguments = (unit, offset & MASK)
    node.set_default("transparent_clock", "set_transparent_clock", *arguments)
    for port, delay in (delays or {}).items():
        node.add("ptp_link_delay", [exact_match(port)], "set_link_delay", delay & MASK)
    node.add("l2_ptp", node.ternary("l2_ptp", {}), "forward_l2", SPINE_OUT, priority=1)
    return node


def corrected(frame: bytes, change: int) -> bytes:
    """The frame as forwarded, with correctionField raised and the UDP checksum updated."""
    if frame[12:14] == b"\x88\xf7" or frame[16:18] == b"\x88\xf7":
        place = (18 if frame[12:14] == b"\x81\x00" else 14) + CORRECTION_FIELD
        value = int.from_bytes(frame[place : place + 8], "big") + change
        return replaced(frame, place, (value & MASK).to_bytes(8, "big"))
    out = routed(frame, SPINE_OUT)
    place = Offsets.of(out).payload + CORRECTION_FIELD
    value = int.from_bytes(out[place : place + 8], "big") + change
    return with_udp_field(out, CORRECTION_FIELD, (value & MASK).to_bytes(8, "big"))


def correction_of(frame: bytes, over: str) -> int:
    """correctionField, signed."""
    place = (14 if over == "ethernet" else Offsets.of(frame).payload) + CORRECTION_FIELD
    return int.from_bytes(frame[place : place + 8], "big", signed=True)


@OVER
@pytest.mark.parametrize("message_type", [0, 1, 2, 3])
@pytest.mark.parametrize("two_step", [False, True], ids=["one-step", "two-step"])
def test_event_message_collects_its_residence(message_type: int, two_step: bool, over: str) -> None:
    """Residence in scaled ns is added, also when twoStepFlag is set; nothing else changes."""
    node = clock()
    frame = ptp(message_type, over=over, two_step=two_step, correction=0x12345678)
    out = node.send(frame, SPINE_IN).frame
    expect_frame(out, corrected(frame, RESIDENCE << 16))
    assert node.egress_event(CORRECTED) == 1


@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
@pytest.mark.parametrize("correction", [0, 1, -1, 0x7FFF_0000, -(1 << 40), 0xFFFF_FFFF])
def test_udp_checksum_follows_and_zero_stays_zero(correction: int, over: str) -> None:
    """The checksum is updated incrementally; a datagram without one still has none."""
    for udp_checksum in (False, True):
        frame = ptp(over=over, udp_checksum=udp_checksum, correction=correction)
        out = clock().send(frame, SPINE_IN, residence=98765).frame
        expect_frame(out, corrected(frame, 98765 << 16))
        assert udp_checksum_is_right(out)
        at = Offsets.of(out)
        assert (out[at.l4 + 6 : at.l4 + 8] != b"\0\0") == udp_checksum


@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
def test_wrong_checksum_is_not_repaired(over: str) -> None:
    """Corruption on the way in shows on the way out."""
    frame = ptp(over=over, udp_checksum=True)
    frame = replaced(frame, Offsets.of(frame).l4 + 6, b"\x12\x34")
    out = clock().send(frame, SPINE_IN).frame
    expect_frame(out, corrected(frame, RESIDENCE << 16))
    assert not udp_checksum_is_right(out)


@OVER
@pytest.mark.parametrize("message_type", [8, 9, 0xA, 0xB, 0xC, 0xD])
def test_general_messages_are_left_alone(message_type: int, over: str) -> None:
    """Follow_Up and the like do not wait for anything that matters."""
    node = clock(delays={SPINE_IN: LINK_DELAY})
    frame = ptp(message_type, over=over, udp_checksum=over != "ethernet")
    out = node.send(frame, SPINE_IN).frame
    expect_frame(out, frame if over == "ethernet" else routed(frame, SPINE_OUT))
    assert node.counts("egress_events") == {}


@OVER
def test_switch_without_configuration_is_no_clock(over: str) -> None:
    """Link delays alone change nothing: the unit of the stamps must be known first."""
    node = clock(delays={SPINE_IN: LINK_DELAY})
    node.set_default("transparent_clock", "NoAction")
    frame = ptp(over=over)
    out = node.send(frame, SPINE_IN).frame
    expect_frame(out, frame if over == "ethernet" else routed(frame, SPINE_OUT))


@OVER
@pytest.mark.parametrize("unit", [UNIT_NS, UNIT_US, 1, (1 << 32) - 1])
@pytest.mark.parametrize("residence", [0, 1, 1500, 70_000])
def test_unit_of_the_stamps_is_configuration(unit: int, residence: int, over: str) -> None:
    """Residence counts in stamp units: BMv2 in us, others in ns, fractions included."""
    node = clock(unit=unit)
    frame = ptp(over=over, correction=77)
    out = node.send(frame, SPINE_IN, residence=residence).frame
    expect_frame(out, corrected(frame, residence * unit))


@OVER
@pytest.mark.parametrize("offset", [1, -1, 250 << 16, -(250 << 16), (1 << 50), -(1 << 50)])
def test_residence_offset_moves_the_stamp_points_to_the_wire(offset: int, over: str) -> None:
    """What lies between the stamps and the wire is added to every message, of either sign."""
    node = clock(offset=offset)
    frame = ptp(over=over, udp_checksum=over != "ethernet")
    out = node.send(frame, SPINE_IN).frame
    expect_frame(out, corrected(frame, (RESIDENCE << 16) + offset))


@OVER
@pytest.mark.parametrize("delay", [LINK_DELAY, -LINK_DELAY, 1, -1, 0])
def test_link_delay_of_the_ingress_port_is_added(delay: int, over: str) -> None:
    """Each message collects the correction of the link it came over, negative ones included."""
    node = clock(delays={SPINE_IN: delay, 7: 999})
    frame = ptp(over=over, correction=-5)
    out = node.send(frame, SPINE_IN).frame
    expect_frame(out, corrected(frame, (RESIDENCE << 16) + delay))
    out = node.send(frame, 8).frame
    expect_frame(out, corrected(frame, RESIDENCE << 16))


def test_path_is_the_sum_of_its_hops() -> None:
    """Three clocks with their own units, offsets and links add up, whatever the order."""
    path = [
        clock(node=source_node(), delays={11: 1000}),
        clock(delays={SPINE_IN: -2000}, unit=UNIT_US),
        clock(node=sink_node(), delays={1: 3000}, offset=-70),
    ]
    out = walk(path, ptp(correction=5 << 16, udp_checksum=True))[-1].frame
    total = (5 << 16) + (RESIDENCE << 16) * 1002 + 1000 - 2000 + 3000 - 70
    assert correction_of(out, "ipv4") == total
    assert udp_checksum_is_right(out)


@pytest.mark.parametrize("mode", ["md", "mx", "xd"])
@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
def test_traced_message_is_corrected_all_the_same(mode: str, over: str) -> None:
    """INT in front of a PTP message does not hide it: every hop still adds its residence."""
    path = [
        clock(node=source_node(), delays={11: 10}),
        clock(delays={SPINE_IN: 200}),
        clock(node=sink_node(), delays={1: 3000}),
    ]
    if mode == "md":
        path[0].watch(marked_dscp=1)
    elif mode == "mx":
        path[0].watch_mx(marked_dscp=1)
    else:
        for node in path:
            node.watch_xd()
    frame = ptp(over=over, udp_checksum=True, correction=4)
    out = walk(path, frame)[-1].frame
    assert correction_of(out, over) == 4 + 3 * (RESIDENCE << 16) + 3210
    assert udp_checksum_is_right(out)
    assert len(out) == len(frame)


def test_residence_is_modular_in_48_bits() -> None:
    """A stamp counter that wraps between ingress and egress makes no jump."""
    node = clock()
    frame = ptp()
    out = node.send(frame, SPINE_IN, at=(1 << 48) - 500).frame
    expect_frame(out, corrected(frame, RESIDENCE << 16))


@OVER
def test_field_at_its_limit_stays_there(over: str) -> None:
    """The largest value says "too big to be stated" (section 13.3.2.9) and is never touched."""
    node = clock(delays={SPINE_IN: -LINK_DELAY})
    frame = ptp(over=over, correction=LIMIT, udp_checksum=over != "ethernet")
    out = node.send(frame, SPINE_IN).frame
    expect_frame(out, corrected(frame, 0))
    assert node.egress_event(TOO_BIG) == 1
    assert node.egress_event(CORRECTED) == 0


@OVER
def test_sum_never_wraps_to_a_negative_value(over: str) -> None:
    """A sum beyond the range becomes or stays the limit; it is not a large negative correction."""
    for correction in (LIMIT - 1, LIMIT - (RESIDENCE << 16) + 1):
        out = clock().send(ptp(over=over, correction=correction), SPINE_IN).frame
        assert correction_of(out, over) == LIMIT
    fits = LIMIT - (RESIDENCE << 16) - 1
    out = clock().send(ptp(over=over, correction=fits), SPINE_IN).frame
    assert correction_of(out, over) == LIMIT - 1


@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
def test_other_versions_are_left_alone(over: str) -> None:
    """PTP version 1 has another header there."""
    frame = ptp(over=over, version=1)
    expect_frame(clock().send(frame, SPINE_IN).frame, routed(frame, SPINE_OUT))


@pytest.mark.parametrize("vlan", [0x0064, 0xE123])
@pytest.mark.parametrize("over", ["ipv4", "ethernet"])
def test_tagged_message_is_corrected_too(vlan: int, over: str) -> None:
    """The tag moves the message, not the rule."""
    frame = ptp(over=over, vlan=vlan, correction=3)
    out = clock().send(frame, SPINE_IN).frame
    expect_frame(out, corrected(frame, RESIDENCE << 16))


def test_event_port_with_other_content_is_left_alone() -> None:
    """Only PTP of version 2 on the event port, or by EtherType, is touched."""
    node = clock()
    for frame in (replaced(ptp(0), 42, b"\x08"), ptp(8), roce()):
        expect_frame(node.send(frame, SPINE_IN).frame, routed(frame, SPINE_OUT))
    assert node.counts("egress_events") == {}


def test_fragment_is_left_alone() -> None:
    """A fragment's bytes may be no PTP header at all."""
    frame = bytearray(ptp())
    frame[20:22] = b"\x20\x00"
    frame[24:26] = bytes(2)
    total = sum(int.from_bytes(frame[i : i + 2], "big") for i in range(14, 34, 2))
    frame[24:26] = (0xFFFF - (total & 0xFFFF) - (total >> 16)).to_bytes(2, "big")
    expect_frame(clock().send(bytes(frame), SPINE_IN).frame, routed(bytes(frame), SPINE_OUT))


@OVER
def test_postcard_shows_the_corrected_message(over: str) -> None:
    """The report has the packet as it leaves, and the same stamps that the correction used."""
    node = clock()
    node.set_report_config(truncate_bytes=200)
    node.watch_ptp()
    sent = node.send(ptp(over=over), SPINE_IN)
    assert correction_of(sent.frame, over) == RESIDENCE << 16
    l2 = over == "ethernet"
    node.expect_reports(
        sent,
        ExpectedReport(
            bits=0x7C00,
            metadata=expected_hop(node, sent, 0x7C00, SPINE_IN, SPINE_OUT, 0),
            inner=sent.frame if l2 else ip_packet(sent.frame),
            inner_type=3 if l2 else 0,
        ),
    )


def test_every_multicast_copy_is_corrected_by_its_own_residence() -> None:
    """Copies leave at their own times."""
    node = transit_node()
    node.set_default("transparent_clock", "set_transparent_clock", UNIT_NS, 0)
    node.multicast_group(3, 2, 3)
    node.add("l2_ptp", node.ternary("l2_ptp", {}), "multicast_l2", 3, priority=1)
    frame = ptp(over="ethernet")
    for _, out in node.send(frame, SPINE_IN).forwarded:
        expect_frame(out, corrected(frame, RESIDENCE << 16))


def test_message_from_the_controller_is_sent_as_it_is() -> None:
    """A packet-out has no ingress stamp of its own, so it has no residence."""
    node = clock(delays={510: 99})
    frame = ptp(over="ethernet")
    assert node.packet_out(frame, 7).forwarded == [(7, frame)]
