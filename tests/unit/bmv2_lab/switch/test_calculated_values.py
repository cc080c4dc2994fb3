# SPDX-License-Identifier: Apache-2.0
"""Checksums, hashes and selectors over packed fields."""

import binascii
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.hashes import csum16
from bmv2_lab.switch.state import exact_match
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    Json,
    arg,
    call,
    const,
    extract,
    fld,
    forwarding,
    goto,
    meta,
    op,
    send,
)

IPV4 = (
    ("version", 4),
    ("ihl", 4),
    ("dscp", 6),
    ("ecn", 2),
    ("total_length", 16),
    ("identification", 16),
    ("flags", 3),
    ("fragment_offset", 13),
    ("ttl", 8),
    ("protocol", 8),
    ("checksum", 16),
    ("src", 32),
    ("dst", 32),
)


def ipv4_document() -> Document:
    """Ethernet and IPv4: checksum verified, TTL lowered, checksum updated."""
    document = Document()
    document.header("eth", ("dst", 48), ("src", 48), ("type", 16))
    document.header("ip", *IPV4)
    document.state("start", extract("eth"), extract("ip"), go=(goto(None),))
    fields = [fld("ip", name) for name, _ in IPV4 if name != "checksum"]
    document.json["calculations"] = [{"name": "sum", "id": 0, "algo": "csum16", "input": fields}]
    valid = op("valid", None, {"type": "header", "value": "ip"})
    document.json["checksums"] = [
        {
            "name": f"checksum_{number}",
            "id": number,
            "target": ["ip", "checksum"],
            "type": "generic",
            "calculation": "sum",
            "verify": number == 0,
            "update": number == 1,
            "if_cond": valid,
        }
        for number in range(2)
    ]
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), op("+", meta("checksum_error"), const(2))),
        call("assign", fld("ip", "ttl"), op("-", fld("ip", "ttl"), const(1))),
    )
    return document


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 255), st.integers(0, (1 << 32) - 1), st.integers(0, 255))
def test_ipv4_checksum_is_verified_and_updated_as_scapy_computes_it(
    ttl: int, source: int, tos: int
) -> None:
    """A correct packet leaves on port 2 with scapy's checksum; a wrong one sets the error."""
    switch = ipv4_document().switch()
    dotted = ".".join(str(byte) for byte in source.to_bytes(4, "big"))
    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    packet = link / IP(src=dotted, dst="10.0.0.1", ttl=ttl, tos=tos) / UDP(sport=1, dport=2)
    frame = bytes(packet)
    packet[IP].ttl = ttl - 1
    del packet[IP].chksum
    expected = bytes(packet)
    assert send(switch, frame) == [(2, expected[:34] + frame[34:])]
    broken = frame[:24] + bytes([frame[24] ^ 1]) + frame[25:]
    assert send(switch, broken)[0][0] == 3


def hash_document(algo: str, inputs: list[Json], *fields: tuple[str, int]) -> EmbeddedSwitch:
    """Puts the hash of the inputs into metadata."""
    document = forwarding(*fields)
    document.header("never", ("x", 8))
    document.metadata("m", ("result", 64))
    document.json["calculations"] = [{"name": "c", "id": 0, "algo": algo, "input": inputs}]
    document.always(
        "ingress",
        call(
            "modify_field_with_hash_based_offset",
            fld("m", "result"),
            const(0),
            {"type": "calculation", "value": "c"},
            const(1 << 32),
        ),
    )
    return document.switch()


def result_of(switch: EmbeddedSwitch, frame: bytes) -> int:
    """The hash in the metadata."""
    (copy,) = switch.ingress(frame, 1, 0)
    return int(copy.state[switch.program.layout.headers["m"].base])


FIVE = (("src", 32), ("dst", 32), ("proto", 8), ("sport", 16), ("dport", 16))


@given(st.binary(min_size=13, max_size=13))
@settings(max_examples=30, deadline=None)
def test_five_tuple_hash_equals_the_hash_of_its_bytes(frame: bytes) -> None:
    """Byte-wide fields are packed as they stand on the wire."""
    inputs = [fld("h", name) for name, _ in FIVE]
    assert result_of(hash_document("crc32", inputs, *FIVE), frame) == zlib.crc32(frame)


@given(st.integers(0, (1 << 16) - 1))
@settings(max_examples=30, deadline=None)
def test_odd_widths_are_packed_without_gaps_and_filled_on_the_right(value: int) -> None:
    """9 + 3 + a constant of 5 bits give 17 bits, so three bytes."""
    inputs = [fld("h", "a"), fld("h", "c"), {"type": "hexstr", "value": "0x15", "bitwidth": 5}]
    switch = hash_document("crc32", inputs, ("a", 9), ("b", 4), ("c", 3))
    packed = (value >> 7) << 8 | (value & 7) << 5 | 0x15
    data = (packed << 7).to_bytes(3, "big")
    assert result_of(switch, value.to_bytes(2, "big")) == zlib.crc32(data)


def test_fields_of_invalid_headers_are_left_out() -> None:
    """As in BMv2: an invalid header adds no bytes, not zeros."""
    switch = hash_document("crc32", [fld("h", "a"), fld("never", "x")], ("a", 8))
    assert result_of(switch, b"\x42") == zlib.crc32(b"\x42")


def test_payload_and_checksum_over_headers_and_payload() -> None:
    """The rest of the packet is part of the input; an odd length is filled with zero."""
    inputs = [fld("h", "a"), {"type": "payload", "value": None}]
    switch = hash_document("csum16", inputs, ("a", 16))
    for frame in (b"\x12\x34", b"\x12\x34\x56", b"\x12\x34\x56\x78\x9a"):
        assert result_of(switch, frame) == csum16(frame)


def test_crc_ccitt_and_offset() -> None:
    """base + hash % size."""
    document = forwarding(("a", 32))
    document.json["calculations"] = [
        {"name": "c", "id": 0, "algo": "crcCCITT", "input": [fld("h", "a")]}
    ]
    document.always(
        "ingress",
        call(
            "modify_field_with_hash_based_offset",
            meta("egress_spec"),
            const(10),
            {"type": "calculation", "value": "c"},
            const(7),
        ),
    )
    (copy,) = document.switch().ingress(b"1234", 1, 0)
    assert copy.egress_port == 10 + binascii.crc_hqx(b"1234", 0xFFFF) % 7


def selector_document() -> Document:
    """A table whose entries choose a member by crc16 of the second byte."""
    document = Document()
    document.header("h", ("key", 8), ("flow", 8))
    document.state("start", extract("h"), go=(goto(None),))
    number = document.action("to", call("assign", meta("egress_spec"), arg(0)), data=(("p", 9),))
    document.table(
        "ingress",
        "t",
        [number],
        key=(("exact", fld("h", "key")),),
        type="indirect_ws",
        action_profile="p",
    )
    document.json["pipelines"][0]["action_profiles"] = [
        {
            "name": "p",
            "id": 0,
            "max_size": 16,
            "selector": {"algo": "crc16", "input": [fld("h", "flow")]},
        }
    ]
    return document


def test_selector_takes_member_hash_modulo_group_size() -> None:
    """The member is hash % n in the order in which the members were given."""
    switch = selector_document().switch()
    ports = (3, 4, 5)
    switch.state.add_route("t", (exact_match(1),), [("to", (port,)) for port in ports])
    for flow in range(64):
        (copy,) = switch.ingress(bytes([1, flow]), 1, 0)
        assert copy.egress_port == ports[_crc16_arc(bytes([flow])) % 3]


def test_selector_over_a_hash_of_the_program_takes_it_as_it_is() -> None:
    """With the identity the bucket is a 32-bit field of the program modulo the group's size."""
    document = selector_document()
    document.metadata("m", ("hash", 32))
    pipeline = document.json["pipelines"][0]
    selector = {"algo": "identity", "input": [fld("m", "hash")]}
    pipeline["action_profiles"][0]["selector"] = selector
    mix = document.action(
        "mix",
        call(
            "assign",
            fld("m", "hash"),
            op("&", op("*", fld("h", "flow"), const(0x9E3779B9)), const(0xFFFFFFFF)),
        ),
    )
    document.table("ingress", "mix_table", [mix], default=mix)
    pipeline["init_table"] = "mix_table"
    (table,) = [item for item in pipeline["tables"] if item["name"] == "mix_table"]
    table["next_tables"] = dict.fromkeys(table["next_tables"], "t")
    table["base_default_next"] = "t"
    (last,) = [item for item in pipeline["tables"] if item["name"] == "t"]
    last["next_tables"] = dict.fromkeys(last["next_tables"])
    last["base_default_next"] = None
    switch = document.switch()
    ports = tuple(range(20, 84))
    switch.state.add_route("t", (exact_match(1),), [("to", (port,)) for port in ports])
    for flow in range(256):
        (copy,) = switch.ingress(bytes([1, flow]), 1, 0)
        assert copy.egress_port == ports[(flow * 0x9E3779B9 & 0xFFFFFFFF) % 64]


def _crc16_arc(data: bytes) -> int:
    register = 0
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xA001 if register & 1 else 0)
    return register


def test_empty_group_does_nothing() -> None:
    """No action runs; the packet goes where the fields say without it."""
    switch = selector_document().switch()
    switch.state.add_route("t", (exact_match(1),), [])
    (copy,) = switch.ingress(b"\x01\x02", 1, 0)
    assert copy.egress_port == 0
