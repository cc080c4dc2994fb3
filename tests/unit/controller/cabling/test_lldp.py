# SPDX-License-Identifier: Apache-2.0
"""LLDP frames byte by byte, as IEEE Std 802.1AB-2016 has them."""

import pytest

from controller.cabling.lldp import LldpError, LldpFrame, decode_lldp, encode_lldp
from controller.cabling.lldp import switch_lldp_frame as own_frame

HEADER = bytes.fromhex("0180c200000e 020000000001 88cc")
CHASSIS = bytes.fromhex("0207 04 020000000001")
PORT = bytes.fromhex("0403 07 3131")
TTL = bytes.fromhex("0602 0079")
END = bytes(2)


def test_own_frame_byte_by_byte() -> None:
    """Chassis id a MAC (subtype 4), port id local (7), TTL, system name, end, padded to 60 bytes:
    type in the upper 7 bits of a TLV's head, length in the lower 9."""
    frame = encode_lldp(own_frame(name="leaf1", mac=0x02_00_00_00_00_01, port=11, ttl_s=121))
    name = bytes.fromhex("0a05") + b"leaf1"
    assert frame == (HEADER + CHASSIS + PORT + TTL + name + END).ljust(60, b"\0")
    assert decode_lldp(frame) == own_frame(name="leaf1", mac=0x020000000001, port=11, ttl_s=121)


def test_other_tlvs_and_a_priority_tag_are_passed_over() -> None:
    """A host's frame: interface name, capabilities, an organisation's own TLV, no end TLV."""
    tag = bytes.fromhex("8100 e000")
    port = bytes.fromhex("0405 05") + b"eth0"
    others = bytes.fromhex("0e04 0080 0080 fe04 00120f 04")
    frame = HEADER[:12] + tag + HEADER[12:] + CHASSIS + port + TTL + others
    heard = decode_lldp(frame)
    assert (heard.port_subtype, heard.port_id, heard.ttl_s, heard.system_name) == (
        5,
        b"eth0",
        0x79,
        "",
    )
    assert heard.label == "02:00:00:00:00:01 port eth0"


def test_port_id_that_is_a_mac_is_read_as_one() -> None:
    """What Linux NICs in hardware say of themselves: subtype 3."""
    frame = HEADER + CHASSIS + bytes.fromhex("0407 03 0200deadbeef") + TTL + END
    assert decode_lldp(frame).port_mac == 0x0200DEADBEEF


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (HEADER[:13], "ends inside"),
        (HEADER[:12] + b"\x08\x00" + CHASSIS + PORT + TTL, "EtherType"),
        (HEADER + CHASSIS + TTL + PORT + END, "does not begin"),
        (HEADER + CHASSIS + PORT + END, "does not begin"),
        (HEADER + CHASSIS + PORT + TTL + CHASSIS + END, "twice"),
        (HEADER + CHASSIS + PORT + TTL + b"\x0a\xff", "past the end"),
        (HEADER + CHASSIS + PORT + TTL + b"\x0a", "ends inside"),
        (HEADER + CHASSIS + bytes.fromhex("0401 07") + TTL + END, "impossible length"),
        (HEADER + CHASSIS + PORT + bytes.fromhex("0601 79") + END, "ends inside"),
    ],
)
def test_wrong_frames_are_refused(frame: bytes, why: str) -> None:
    """Clause 9.2.7.7: order and number of the mandatory TLVs, and lengths."""
    with pytest.raises(LldpError, match=why):
        decode_lldp(frame)


def test_every_cut_of_a_frame_is_read_or_refused() -> None:
    """Nothing but `LldpError`, wherever the frame ends."""
    frame = encode_lldp(own_frame(name="leaf1", mac=1 << 41, port=1, ttl_s=1))
    for end in range(len(frame)):
        try:
            assert isinstance(decode_lldp(frame[:end]), LldpFrame)
        except LldpError:
            assert end < 42  # the end TLV begins there


def test_names_of_others_cannot_write_to_a_terminal() -> None:
    """Control characters are shown as numbers."""
    name = b"\x1b[2Jevil"
    frame = HEADER + CHASSIS + PORT + TTL + bytes([0x0A, len(name)]) + name + END
    assert decode_lldp(frame).system_name == "1b:5b:32:4a:65:76:69:6c"


def test_ids_that_do_not_fit_are_refused() -> None:
    """Clause 8.5.2: 1 to 255 bytes."""
    with pytest.raises(ValueError, match="255"):
        encode_lldp(own_frame(name="x" * 256, mac=1, port=1, ttl_s=1))
