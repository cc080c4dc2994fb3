# SPDX-License-Identifier: Apache-2.0
"""Parts: exact both ways, self-describing, clear about damage, whole packets in each."""

import io
import json
from contextlib import suppress
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from controller.collector.outputs.part import (
    PREFIX,
    Part,
    PartError,
    decode_part,
    encode_part,
    read_parts,
)
from controller.collector.outputs.rows import EventKind, part_arrays
from tests.support.collected import collection, part

SCHEMA = Path(__file__).parents[4] / "docs" / "schemas" / "part.schema.json"


def _header(data):
    _magic, _version, _zero, header_bytes, _body, _crc = PREFIX.unpack(data[: PREFIX.size])
    return json.loads(data[PREFIX.size : PREFIX.size + header_bytes])


def test_decoding_inverts_encoding():
    """Every array keeps its name, dtype and rows; run, number and totals stay."""
    original = part(3)
    decoded = decode_part(encode_part(original))
    assert (decoded.run, decoded.number, decoded.totals) == ("r1", 3, {"received": 15})
    assert list(decoded.arrays) == list(original.arrays)
    for name, rows in original.arrays.items():
        assert decoded.arrays[name].dtype == rows.dtype
        assert (decoded.arrays[name] == rows).all()
    assert encode_part(decoded) == encode_part(original)


def test_the_header_follows_the_published_schema():
    """docs/schemas/part.schema.json describes what is written."""
    schema = json.loads(SCHEMA.read_text())
    for arrays in part_arrays(collection(), bytes_max=1 << 20):
        header = _header(encode_part(Part(run="r", number=0, arrays=arrays)))
        jsonschema.validate(header, schema)


def test_a_reader_needs_nothing_but_the_bytes():
    """The header's dtypes alone give the rows back, without this package."""
    data = encode_part(part())
    header = _header(data)
    at = len(data) - sum(
        item["rows"] * np.dtype([tuple(f) for f in item["dtype"]]).itemsize
        for item in header["arrays"]
    )
    first = header["arrays"][0]
    dtype = np.dtype([tuple(f) for f in first["dtype"]])
    packets = np.frombuffer(data, dtype, first["rows"], at)
    assert first["name"] == "packets"
    assert packets["psn"].tolist() == [1, 2, 3, 4, 5]


def test_the_id_is_of_the_content_alone():
    """Sent again or collected again: the same id. Other packets: another."""
    assert part(0, run="a").part_id == part(0, run="b").part_id
    assert part(0).part_id != part(1).part_id


def test_a_file_cut_at_any_length_gives_its_whole_parts():
    """A killed writer costs the part it was writing, nothing before it."""
    first, second = encode_part(part(0, packets=1)), encode_part(part(1, packets=1))
    whole = first + second
    for size in range(len(whole) + 1):
        numbers = [found.number for found in read_parts(io.BytesIO(whole[:size]))]
        assert numbers == [0, 1][: (size >= len(first)) + (size == len(whole))]


def test_every_flipped_byte_is_noticed():
    """Damage is an error that names the offset, or a cut part; never other data."""
    whole = encode_part(part(0, packets=1))
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x01
        with pytest.raises(PartError) as caught:
            decode_part(bytes(damaged), "p")
        assert str(caught.value).startswith("p: byte ")
        with suppress(PartError):
            assert list(read_parts(io.BytesIO(bytes(damaged)))) == []


@pytest.mark.parametrize("bytes_max", [1, 20_000, 18_000, 1 << 20])
def test_split_collections_keep_packets_with_their_hops(bytes_max):
    """All pieces together are the collection; in each, hop rows are counted from its first."""
    whole = collection(packets=40, drops=3)
    pieces = list(part_arrays(whole, bytes_max=bytes_max))
    packets, hops = [], []
    for arrays in pieces:
        if "packets" not in arrays:
            continue
        for row in arrays["packets"]:
            first, count = int(row["first_hop"]), int(row["hop_count"])
            assert 0 <= first <= first + count <= len(arrays["hops"])
            hops.append(arrays["hops"][first : first + count])
            packets.append(int(row["psn"]))
        size = len(encode_part(Part(run="r", number=0, arrays=arrays)))
        assert size <= max(bytes_max, 18_000)
    assert packets == whole.packets["psn"].tolist()
    assert (np.concatenate(hops) == whole.hops).all()
    assert sum(len(arrays.get("events", ())) for arrays in pieces) == 3
    assert (len(pieces) > 3) == (bytes_max < 1 << 20)


def test_events_say_what_was_not_reported():
    """A drop before routing has no egress port and no queue depth: -1."""
    (arrays,) = part_arrays(collection(packets=0, drops=1), bytes_max=1 << 20)
    (event,) = arrays["events"]
    assert event["kind"] == EventKind.DROP
    assert event["reason"] == b"no_route"
    assert (event["node_id"], event["ingress_port"], event["egress_port"]) == (101, 1, -1)
    assert (event["queue_depth"], event["egress_tstamp_local_ns"]) == (-1, -1)
    assert event["src_addr_low"] == 0x0A000101


def test_nothing_collected_is_no_part():
    """An idle collector writes nothing."""
    assert list(part_arrays(collection(packets=0, drops=0), bytes_max=1 << 20)) == []
