# SPDX-License-Identifier: Apache-2.0
"""Header codecs: exact both ways, never past the buffer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.telemetry.codec import DecodeError, DecodeReason, decode, encode
from controller.telemetry.layout import ALL_LAYOUTS, INT_MD, IPV4, IntMd, ReportGroup, ReportMain

_BY_NAME = {"ids": lambda layout: layout.name}


def _values(layout):
    return st.tuples(*(st.integers(0, row.value_max) for row in layout.fields)).map(layout.make)


@pytest.mark.parametrize("layout", ALL_LAYOUTS, **_BY_NAME)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_decoding_inverts_encoding_for_every_header(layout, data):
    """Any field values survive the wire."""
    value = data.draw(_values(layout))
    prefix = data.draw(st.binary(max_size=5))
    wire = prefix + encode(value) + data.draw(st.binary(max_size=5))
    assert decode(layout, wire, len(prefix)) == value


@pytest.mark.parametrize("layout", ALL_LAYOUTS, **_BY_NAME)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_encoding_inverts_decoding_for_every_header(layout, data):
    """Any bytes survive the values: no bit of a header is without a field."""
    wire = data.draw(st.binary(min_size=layout.byte_count, max_size=layout.byte_count))
    assert encode(decode(layout, wire)) == wire


@pytest.mark.parametrize("layout", ALL_LAYOUTS, **_BY_NAME)
def test_a_header_cut_anywhere_is_a_decode_error(layout):
    """Every proper prefix gives TRUNCATED with the header's offset, never another exception."""
    wire = bytes(range(3, 3 + layout.byte_count + 3))
    for end in range(3 + layout.byte_count):
        with pytest.raises(DecodeError) as caught:
            decode(layout, wire[:end], 3)
        assert caught.value.reason is DecodeReason.TRUNCATED
        assert caught.value.offset == 3


@pytest.mark.parametrize("layout", ALL_LAYOUTS, **_BY_NAME)
def test_a_value_too_wide_for_its_field_names_the_field(layout):
    """One more than the field holds, and less than nothing, are refused."""
    zeros = layout.make(0 for _ in layout.fields)
    for row in layout.fields:
        for wrong in (row.value_max + 1, -1):
            with pytest.raises(ValueError, match=rf"{layout.name}\.{row.name}"):
                encode(zeros._replace(**{row.name: wrong}))


def test_int_md_first_word_as_the_standard_gives_it():
    """HopML 10 and remaining hop count 7 make 0x20000A07 (INT v2.1)."""
    value = IntMd(2, 0, 0, 0, 0, 10, 7, 0xFE00, 0, 0, 0)
    assert encode(value)[:4] == bytes.fromhex("20000a07")
    assert decode(INT_MD, encode(value)) == value


def test_report_group_packs_version_hw_id_and_sequence_into_one_word():
    """Ver << 28 | hw_id << 22 | sequence, then the node id (Telemetry Report v2.0)."""
    wire = encode(ReportGroup(version=2, hw_id=5, sequence_number=0x3ABCDE, node_id=101))
    assert wire == (2 << 28 | 5 << 22 | 0x3ABCDE).to_bytes(4, "big") + (101).to_bytes(4, "big")


def test_decode_takes_any_buffer():
    """bytes, bytearray and memoryview give the same values."""
    wire = bytes(range(20))
    assert decode(IPV4, bytearray(wire)) == decode(IPV4, memoryview(wire)) == decode(IPV4, wire)


def test_encode_finds_the_table_by_the_value_type():
    """Two headers of equal shape are still told apart by name in errors."""
    with pytest.raises(ValueError, match="report_main_t"):
        encode(ReportMain(1 << 16, 0, 0, 0))


def test_decode_error_states_reason_and_offset():
    """The text is enough to find the byte."""
    error = DecodeError(DecodeReason.INT_VERSION, 62)
    assert str(error) == "int_version at byte 62"
    assert DecodeReason("int_version") is DecodeReason.INT_VERSION
    assert all(reason.meaning.endswith(".") for reason in DecodeReason)
