# SPDX-License-Identifier: Apache-2.0
"""Containers: every header layout reads, writes and emits the same bits as the wire format."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch.containers import header_layout
from tests.unit.bmv2_lab.switch.bmv2_json import call, const, fld, forwarding, send

WIDTHS = st.lists(st.integers(1, 130), min_size=1, max_size=9).map(
    lambda widths: [*widths, -sum(widths) % 8] if sum(widths) % 8 else widths
)


def bit_slice(data: bytes, start: int, width: int) -> int:
    """The bits of a field, counted from the first bit of the data."""
    return int.from_bytes(data, "big") >> (len(data) * 8 - start - width) & (1 << width) - 1


@settings(max_examples=40, deadline=None)
@given(WIDTHS, st.data())
def test_fields_of_random_headers_are_bit_slices(widths: list[int], data: st.DataObject) -> None:
    """A field is copied to metadata and one is overwritten; all other bits stay as received."""
    names = [f"f{number}" for number in range(len(widths))]
    source = data.draw(st.integers(0, len(widths) - 1))
    target = data.draw(st.integers(0, len(widths) - 1))
    value = data.draw(st.integers(0, (1 << widths[target]) - 1))
    length = sum(widths) // 8
    frame = data.draw(st.binary(min_size=length, max_size=length))
    document = forwarding(*zip(names, widths, strict=True))
    document.metadata("m", ("copy", widths[source]))
    document.always(
        "ingress",
        call("assign", fld("m", "copy"), fld("h", names[source])),
        call("assign", fld("h", names[target]), const(value)),
    )
    switch = document.switch()
    (copy,) = switch.ingress(frame, 1, 0)
    layout = switch.program.layout
    slot = layout.headers["m"].base
    assert copy.state[slot] == bit_slice(frame, sum(widths[:source]), widths[source])
    shift = length * 8 - sum(widths[: target + 1])
    mask = ((1 << widths[target]) - 1) << shift
    expected = int.from_bytes(frame, "big") & ~mask | value << shift
    assert send(switch, frame) == [(2, expected.to_bytes(length, "big"))]


def test_common_headers_have_whole_fields_in_containers() -> None:
    """IPv4's addresses, lengths and checksum need no shifts."""
    layout = header_layout(
        {
            "name": "ipv4_t",
            "fields": [
                ["version", 4],
                ["ihl", 4],
                ["tos", 8],
                ["total_length", 16],
                ["identification", 16],
                ["flags", 3],
                ["fragment_offset", 13],
                ["ttl", 8],
                ["protocol", 8],
                ["checksum", 16],
                ["src", 32],
                ["dst", 32],
            ],
        }
    )
    assert layout.fixed_bytes == 20
    for name in ("tos", "total_length", "ttl", "protocol", "checksum", "src", "dst"):
        (piece,) = layout.fields[name].pieces
        assert piece.bits == piece.container_bits
