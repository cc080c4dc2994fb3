# SPDX-License-Identifier: Apache-2.0
"""Numbers in P4Runtime messages, and digest messages as P4Data."""

import pytest
from finsy.proto import p4i, p4t
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from bmv2_lab.switch import errors
from bmv2_lab.switch.bytestrings import decode_value, encode_count, encode_signed, encode_value
from bmv2_lab.switch.digest_format import DigestFormat
from bmv2_lab.switch.errors import StateError


@pytest.mark.parametrize(
    ("bits", "value", "text"),
    [
        (8, 0x63, "63"),
        (8, -0x63, "9d"),
        (12, -0x2E3, "fd1d"),
        (16, 0, "00"),
        (16, -1, "ff"),
        (16, 128, "0080"),
        (16, -128, "80"),
        (1, -1, "ff"),
    ],
)
def test_signed_numbers_take_the_shortest_form(bits: int, value: int, text: str) -> None:
    """The table of P4Runtime 8.4, and its edges."""
    assert encode_signed(value & (1 << bits) - 1, bits) == bytes.fromhex(text)


@given(st.integers(1, 80), st.data())
def test_signed_numbers_keep_their_value(bits: int, data: st.DataObject) -> None:
    """Sign extension gives the number back, and one byte less would not."""
    value = data.draw(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
    encoded = encode_signed(value & (1 << bits) - 1, bits)
    assert int.from_bytes(encoded, "big", signed=True) == value
    assert len(encoded) == 1 or int.from_bytes(encoded[1:], "big", signed=True) != value


@given(st.integers(0, 1 << 80), st.integers(0, 3))
def test_unsigned_numbers_may_be_padded_but_must_fit(value: int, padding: int) -> None:
    """OUT_OF_RANGE for a bit too much; leading zeros do not matter."""
    bits = max(value.bit_length(), 1)
    assert decode_value(bytes(padding) + encode_value(value), bits, "x") == value
    if value > 1:
        with pytest.raises(StateError) as caught:
            decode_value(encode_value(value), bits - 1, "x")
        assert caught.value.code == errors.OUT_OF_RANGE


def test_counters_wrap_into_int64() -> None:
    """BMv2's counters have 64 bits without sign; the message has int64."""
    assert [encode_count(n) for n in (5, -5, 1 << 63, (1 << 64) - 1, 1 << 64)] == [
        5,
        -5,
        -(1 << 63),
        -1,
        0,
    ]


TYPES = """
structs { key: "signed_t" value {
  members { name: "a" type_spec { bitstring { bit { bitwidth: 8 } } } }
  members { name: "b" type_spec { bitstring { int { bitwidth: 16 } } } }
} }
structs { key: "nested_t" value {
  members { name: "s" type_spec { struct { name: "signed_t" } } }
} }
"""


@pytest.mark.parametrize(
    ("spec", "kind", "values", "expected"),
    [
        ('struct { name: "signed_t" }', "struct", (7, 0xFFFE), [b"\7", b"\xfe"]),
        (
            "tuple { members { bitstring { bit { bitwidth: 9 } } } }",
            "tuple",
            (0x1FF,),
            [b"\x01\xff"],
        ),
        ("bitstring { bit { bitwidth: 9 } }", "bitstring", (3,), b"\3"),
    ],
)
def test_digest_messages_follow_their_type(
    spec: str, kind: str, values: tuple[int, ...], expected: object
) -> None:
    """Structs, tuples and plain bit strings."""
    digest = text_format.Parse(f"type_spec {{ {spec} }}", p4i.Digest())
    form = DigestFormat.of(digest, text_format.Parse(TYPES, p4t.P4TypeInfo()))
    assert form is not None
    data = form.encode(values)
    assert data.WhichOneof("data") == kind
    if kind == "bitstring":
        assert data.bitstring == expected
    else:
        assert [member.bitstring for member in getattr(data, kind).members] == expected


@pytest.mark.parametrize(
    "spec",
    ['struct { name: "nested_t" }', 'struct { name: "nobody" }', "bool { }", ""],
)
def test_digest_types_that_are_not_supported_have_no_format(spec: str) -> None:
    """They cannot be enabled; the pipeline runs all the same."""
    digest = text_format.Parse(f"type_spec {{ {spec} }}", p4i.Digest())
    assert DigestFormat.of(digest, text_format.Parse(TYPES, p4t.P4TypeInfo())) is None
