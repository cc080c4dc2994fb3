# SPDX-License-Identifier: Apache-2.0
"""Details of primitives and fields where BMv2's rule is not the obvious one."""

from typing import Any

import pytest

from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.state import CloneSession, exact_match
from tests.unit.bmv2_lab.switch.bmv2_json import (
    STANDARD_METADATA,
    Document,
    Json,
    arg,
    call,
    const,
    extract,
    fld,
    forwarding,
    goto,
    hdr,
    meta,
    op,
    send,
)


def test_mark_to_drop_of_a_copy_of_the_metadata_drops_nothing() -> None:
    """An action that takes standard_metadata works on a copy, and copies back what it wants."""
    document = forwarding(("a", 8))
    document._add("copy", STANDARD_METADATA, metadata=True)
    document.always("ingress", call("mark_to_drop", hdr("copy")))
    document.always("ingress", call("assign", fld("h", "a"), fld("copy", "egress_spec")))
    assert send(document.switch(), b"\x01") == [(2, b"\xff")]
    document.always("ingress", call("mark_to_drop", hdr("standard_metadata")))
    assert send(document.switch(), b"\x01") == []


def test_default_action_of_a_table_with_a_profile() -> None:
    """Runs on a miss, like that of any other table."""
    document = forwarding(("a", 8))
    to = document.action("to", call("assign", meta("egress_spec"), arg(0)), data=(("port", 9),))
    document.table(
        "ingress",
        "t",
        [to],
        key=(("exact", fld("h", "a")),),
        type="indirect",
        action_profile="p",
        default_entry={"action_id": to, "action_data": ["0x7"]},
    )
    document.json["pipelines"][0]["action_profiles"] = [{"name": "p", "id": 0, "max_size": 4}]
    switch = document.switch()
    switch.state.add_route("t", (exact_match(1),), [("to", (5,))])
    assert send(switch, b"\x01") == [(5, b"\x01")]
    assert send(switch, b"\x02") == [(7, b"\x02")]


def keyed(kind: str, **key: Any) -> EmbeddedSwitch:
    """A table whose key has more to it than a field."""
    document = forwarding(("a", 8), ("b", 8))
    to = document.action("to", call("assign", meta("egress_spec"), arg(0)), data=(("port", 9),))
    document.table("ingress", "t", [to], key=((kind, fld("h", "a")),), kind=kind)
    document.json["pipelines"][0]["tables"][-1]["key"][0].update(key)
    return document.switch()


def test_mask_of_the_key_holds_for_entries_too() -> None:
    """`a & 0xf0`: an entry of 0x12 is one of 0x10."""
    switch = keyed("exact", mask="0xf0")
    switch.state.add_entry("t", (exact_match(0x12),), "to", (5,))
    assert [send(switch, bytes([a, 0]))[0][0] for a in (0x10, 0x1F, 0x20)] == [5, 5, 2]


def test_key_of_a_signed_field_is_its_bits() -> None:
    """-1 in eight bits is 0xff in the table."""
    document = forwarding(("a", 8))
    document.json["header_types"][1]["fields"][0][2] = True
    to = document.action("to", call("assign", meta("egress_spec"), arg(0)), data=(("port", 9),))
    document.table("ingress", "t", [to], key=(("exact", fld("h", "a")),))
    switch = document.switch()
    switch.state.add_entry("t", (exact_match(0xFF),), "to", (5,))
    assert send(switch, b"\xff") == [(5, b"\xff")]


@pytest.mark.parametrize(
    ("signed", "left", "right", "result"),
    [(False, 200, 100, 255), (False, 3, -5, 0), (True, 100, 100, 127), (True, -100, -100, 0x80)],
)
def test_saturating_fields_clamp_what_does_not_fit(
    signed: bool, left: int, right: int, result: int
) -> None:
    """The fourth column of a field in the JSON, from P4_14."""
    document = forwarding(("a", 8))
    document.json["header_types"][1]["fields"][0] = ["a", 8, signed, True]
    document.always("ingress", call("add", fld("h", "a"), const(left), const(right)))
    assert send(document.switch(), b"\x00") == [(2, bytes([result]))]


def test_division_by_zero_gives_zero() -> None:
    """BMv2 aborts; P4 gives no value to it."""
    document = forwarding(("a", 8), ("b", 8))
    document.always("ingress", call("assign", fld("h", "a"), op("/", const(9), fld("h", "b"))))
    document.always("ingress", call("assign", fld("h", "b"), op("%", const(9), fld("h", "b"))))
    assert send(document.switch(), b"\x07\x00") == [(2, b"\x00\x00")]
    assert send(document.switch(), b"\x07\x04") == [(2, b"\x02\x01")]


def test_register_as_operand_and_as_target() -> None:
    """`r[i]` in an expression; outside of the array it reads 0 and writes nothing."""
    document = forwarding(("a", 8), ("b", 8))
    document.json["register_arrays"] = [{"name": "r", "id": 0, "size": 2, "bitwidth": 8}]
    cell = {"type": "register", "value": ["r", fld("h", "a")]}
    document.always("ingress", call("assign", cell, op("+", cell, fld("h", "b"))))
    document.always("ingress", call("assign", fld("h", "b"), cell))
    switch = document.switch()
    assert send(switch, b"\x01\x05") == [(2, b"\x01\x05")]
    assert send(switch, b"\x01\xff") == [(2, b"\x01\x04")]
    assert send(switch, b"\x09\x05") == [(2, b"\x09\x00")]
    assert switch.state.registers["r"] == [0, 4]


def test_field_list_zero_asks_for_nothing() -> None:
    """BMv2 keeps the number of the list as the request, so that 0 is none."""
    document = forwarding(("a", 8))
    document.always("ingress", call("resubmit", const(0)))
    document.always("egress", call("recirculate", const(0)))
    assert send(document.switch(), b"\x01") == [(2, b"\x01")]


def test_field_lists_may_hold_parts_of_headers() -> None:
    """P4_14: only the bits of the field go over, its neighbours stay as they were received."""
    document = Document()
    document.header("h", ("a", 4), ("b", 4))
    document.state("start", extract("h"), go=(goto(None),))
    document.json["field_lists"] = [
        {"name": "kept", "id": 1, "elements": [fld("h", "b"), const(5)]}
    ]
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    document.always("ingress", call("assign", fld("h", "a"), const(9)))
    document.always("ingress", call("assign", fld("h", "b"), const(7)))
    document.always("ingress", call("clone_ingress_pkt_to_egress", const(3), const(1)))
    switch = document.switch()
    switch.state.clone_sessions[3] = CloneSession(session_id=3, replicas=((4, 0),))
    assert sorted(send(switch, b"\x12")) == [(2, b"\x97"), (4, b"\x17")]


def variable(**more: Any) -> Document:
    """A header with a length, a variable field and one more byte."""
    document = Document()
    document.header("v", ("words", 8), ("data", "*"), ("end", 8), **more)
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    return document


def test_length_of_a_variable_field_from_the_header_itself() -> None:
    """P4_14's `length_exp`: an expression of the fields in front of it, here words * 16 bits."""
    words = {"type": "local", "value": 0}
    document = variable(length_exp=op("<<", words, const(4)), max_length=6)
    document.state("start", extract("v"), go=(goto(None),))
    end = document.action("end", call("assign", fld("v", "end"), const(0xEE)))
    document.table("ingress", "t", [end], default=end)
    switch = document.switch()
    assert send(switch, b"\x02abcd\x01rest") == [(2, b"\x02abcd\xeerest")]
    assert send(switch, b"\x00\x01") == [(2, b"\x00\xee")]
    for refused in (b"\x02abc", b"\x04abcdefgh\x01"):  # too short, longer than max_length
        assert send(switch, refused) == [(2, refused)]


def test_variable_field_keeps_its_length_when_the_header_is_set_valid_again() -> None:
    """BMv2 zeroes the bytes that this packet had there; a new header has none."""
    document = variable(max_length=20)
    length = {"type": "expression", "value": op("*", const(8), const(3))}
    vl = {"op": "extract_VL", "parameters": [{"type": "regular", "value": "v"}, length]}
    document.state("start", vl, go=(goto(None),))
    document.always("ingress", call("remove_header", hdr("v")))
    document.always("ingress", call("add_header", hdr("v")))
    assert send(document.switch(), b"\x02abc\x01rest") == [(2, bytes(5) + b"rest")]


def ipv4_checksum(update: bool) -> Document:
    """A checksum of the old type `ipv4`: the whole header, options and all."""
    document = Document()
    document.header("ip", ("rest", 80), ("checksum", 16), ("addresses", 64), ("options", 32))
    document.state("start", extract("ip"), go=(goto(None),))
    document.json["checksums"] = [
        {
            "name": "sum",
            "id": 0,
            "type": "ipv4",
            "target": ["ip", "checksum"],
            "update": update,
            "verify": not update,
        }
    ]
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    return document


def test_checksum_of_the_old_kind_covers_its_header() -> None:
    """Computed and verified over all of it but itself (words 1 to 12 add up to 78)."""
    words = [n.to_bytes(2, "big") for n in range(1, 13)]
    words[5] = (0xFFFF - (78 - 6)).to_bytes(2, "big")
    good = b"".join(words)
    bad = good[:10] + b"\0\0" + good[12:]
    assert send(ipv4_checksum(True).switch(), bad) == [(2, good)]
    document = ipv4_checksum(False)
    slot = document.program().layout.slots.checksum_error
    for frame, wrong in ((good, 0), (bad, 1)):
        assert document.switch().ingress(frame, 1, 0)[0].state[slot] == wrong


def hashed(algorithm: str) -> EmbeddedSwitch:
    """A program that puts a hash of a into b."""
    document = forwarding(("a", 32), ("b", 16))
    document.json["calculations"] = [
        {"name": "c", "id": 0, "algo": algorithm, "input": [fld("h", "a")]}
    ]
    calculation = {"type": "calculation", "value": "c"}
    document.always(
        "ingress",
        call(
            "modify_field_with_hash_based_offset",
            fld("h", "b"),
            const(0),
            calculation,
            const(0x10000),
        ),
    )
    return document.switch()


def hash_of(switch: EmbeddedSwitch) -> int:
    """The hash of "1234"."""
    ((_, frame),) = send(switch, b"1234\0\0")
    return int.from_bytes(frame[4:], "big")


def test_custom_crc_takes_other_parameters_in_one_switch_only() -> None:
    """CRC-16/XMODEM of "1234" is 0xd789."""
    switch, other = hashed("crc16_custom"), hashed("crc16_custom")
    before = hash_of(switch)
    switch.set_crc(
        "c", polynomial=0x1021, initial=0, final_xor=0, reflected=False, reflected_output=False
    )
    assert hash_of(switch) == 0xD789
    assert hash_of(other) == before


def test_toeplitz_key_of_a_calculation() -> None:
    """Zero until a key is set; with one bit of input set, the key itself shows."""
    switch = hashed("toeplitz")
    assert hash_of(switch) == 0
    switch.set_toeplitz_key("c", bytes.fromhex("0123456789abcdef"))
    ((_, frame),) = send(switch, b"\x80\0\0\0\0\0")
    assert frame[4:] == b"\x45\x67"


def test_parameters_of_a_hash_that_has_none() -> None:
    """Refused, as an unknown calculation and a key of odd length are."""
    switch = hashed("crc16")
    crc: Json = {"polynomial": 1, "initial": 0, "final_xor": 0}
    for name in ("c", "d"):
        with pytest.raises(StateError):
            switch.set_crc(name, **crc, reflected=False, reflected_output=False)
    with pytest.raises(StateError):
        hashed("toeplitz").set_toeplitz_key("c", b"abc")


def test_log_message_with_brackets() -> None:
    """`\\{` is a bracket; what stands between brackets does not matter."""
    document = forwarding(("a", 8))
    text = {"type": "string", "value": r"\{a\} is {a}, twice {}"}
    values = {"type": "parameters_vector", "value": [fld("h", "a"), const(4)]}
    document.always("ingress", call("log_msg", text, values))
    switch = document.switch()
    send(switch, b"\x02")
    assert switch.state.log == ["{a} is 2, twice 4"]


def test_payload_of_a_checksum_is_what_truncation_leaves() -> None:
    """truncate(3) in ingress: the checksum over the payload sees three bytes of it."""
    document = Document()
    document.header("h", ("sum", 16))
    document.state("start", extract("h"), go=(goto(None),))
    document.json["calculations"] = [
        {"name": "c", "id": 0, "algo": "csum16", "input": [{"type": "payload"}]}
    ]
    document.json["checksums"] = [
        {
            "name": "sum",
            "id": 0,
            "type": "generic",
            "target": ["h", "sum"],
            "calculation": "c",
            "verify": False,
            "update": True,
        }
    ]
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    document.always("ingress", call("truncate", const(3)))
    assert send(document.switch(), b"\0\0\x01\x02\x03\x04") == [(2, b"\xfb\xfd\x01")]
