# SPDX-License-Identifier: Apache-2.0
"""One hop's values by bitmap: order, lengths and what counts as not available."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.telemetry.codec import DecodeError, DecodeReason
from controller.telemetry.metadata import (
    BIT_EGRESS_TSTAMP,
    BIT_INGRESS_TSTAMP,
    BIT_LAST,
    BIT_LEVEL1_PORTS,
    BIT_LEVEL2_PORTS,
    HopMetadata,
    bitmap_words,
    decode_report_metadata,
    decode_stack_entry,
    encode_report_metadata,
    encode_stack_entry,
)

_FULL = HopMetadata(
    node_id=0x01020304,
    ingress_port=0x0506,
    egress_port=0x0708,
    hop_latency=0x090A0B0C,
    queue_id=0x0D,
    queue_depth=0x0E0F10,
    ingress_tstamp=0x1112131415161718,
    egress_tstamp=0x191A1B1C1D1E1F20,
    ingress_interface=0x21222324,
    egress_interface=0x25262728,
    tx_utilization=0x292A2B2C,
    buffer_id=0x2D,
    buffer_depth=0x2E2F30,
    checksum_complement=0x31323334,
)
_BITMAPS = st.integers(0, 0xFFFF)


def test_a_full_entry_is_these_bytes():
    """All nine values in bit order, six reserved words of ones, the complement last."""
    wire = encode_stack_entry(0xFFFF, _FULL)
    assert wire == bytes(range(1, 0x31)) + b"\xff" * 24 + bytes.fromhex("31323334")
    assert decode_stack_entry(0xFFFF, 0, wire, 0) == _FULL


def test_domain_specific_words_stand_before_the_checksum_complement():
    """INT v2.1 5.7: the complement is always the last word of a hop."""
    hop = HopMetadata(node_id=7, checksum_complement=9, domain_specific=b"DSDSdsds")
    wire = encode_stack_entry(0x8001, hop)
    assert wire == bytes.fromhex("00000007") + b"DSDSdsds" + bytes.fromhex("00000009")
    assert decode_stack_entry(0x8001, 2, wire, 0) == hop


def test_bit_15_of_a_report_is_the_drop_information():
    """Queue 3, reason 80, pad; then domain specific words."""
    hop = HopMetadata(hop_latency=1, drop_queue_id=3, drop_reason=80, domain_specific=b"abcd")
    wire = encode_report_metadata(0x2001, hop)
    assert wire == bytes.fromhex("0000000103500000") + b"abcd"
    assert decode_report_metadata(0x2001, 1, wire, 0) == hop


@pytest.mark.parametrize(("bitmap", "words"), [(0xFF80, 12), (0xFC00, 8), (0x7C00, 7), (0, 0)])
def test_words_of_a_bitmap(bitmap, words):
    """One word a bit, two for the stamps and the level 2 ports."""
    assert bitmap_words(bitmap) == words


@given(_BITMAPS, st.integers(0, 3), st.data())
def test_decoding_inverts_encoding_for_every_bitmap(bitmap, ds_words, data):
    """What a node puts on the stack is read back; not available stays not available."""
    size = bitmap_words(bitmap) * 4 + ds_words * 4
    wire = data.draw(st.binary(min_size=size, max_size=size))
    hop = decode_stack_entry(bitmap, ds_words, wire, 0)
    assert decode_stack_entry(bitmap, ds_words, encode_stack_entry(bitmap, hop), 0) == hop
    report = decode_report_metadata(bitmap & 0x7F81, ds_words, bytes(8) + wire + bytes(60), 8)
    again = encode_report_metadata(bitmap & 0x7F81, report)
    assert decode_report_metadata(bitmap & 0x7F81, ds_words, again, 0) == report


@given(_BITMAPS, st.integers(0, 3), st.data())
def test_an_entry_cut_anywhere_before_its_domain_words_is_truncated(bitmap, ds_words, data):
    """No value is read past the end."""
    size = bitmap_words(bitmap & ~BIT_LAST) * 4
    end = data.draw(st.integers(0, max(size - 1, 0)))
    if end < size:
        with pytest.raises(DecodeError) as caught:
            decode_stack_entry(bitmap, ds_words, bytes(end), 0)
        assert caught.value.reason is DecodeReason.TRUNCATED


@pytest.mark.parametrize(
    ("bitmap", "wire"),
    [
        (BIT_LEVEL1_PORTS, b"\xff" * 4),
        (BIT_LEVEL2_PORTS, b"\xff" * 8),
        (BIT_INGRESS_TSTAMP, b"\xff" * 8),
        (BIT_INGRESS_TSTAMP, bytes(8)),
        (BIT_EGRESS_TSTAMP, bytes(8)),
        (BIT_LAST, b"\xff" * 4),
    ],
)
def test_all_ones_and_zero_stamps_are_not_available(bitmap, wire):
    """The values are None and the bit says which; a zero elsewhere is a value."""
    assert decode_stack_entry(bitmap, 0, wire, 0) == HopMetadata(unavailable_bits=bitmap)


def test_a_value_that_is_all_ones_in_one_half_only_is_a_value():
    """Port 0xFFFF next to port 1: only the whole word means not available."""
    hop = decode_stack_entry(BIT_LEVEL1_PORTS, 0, bytes.fromhex("ffff0001"), 0)
    assert (hop.ingress_port, hop.egress_port, hop.unavailable_bits) == (0xFFFF, 1, 0)
