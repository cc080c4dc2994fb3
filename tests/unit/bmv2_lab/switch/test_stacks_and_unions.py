# SPDX-License-Identifier: Apache-2.0
"""Header stacks with an index known at run time, header unions, and stacks of them."""

import pytest

from bmv2_lab.switch import EmbeddedSwitch
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    Json,
    call,
    const,
    extract,
    fld,
    goto,
    hdr,
    meta,
    op,
    send,
)


def stack(name: str) -> Json:
    """A header stack as an operand."""
    return {"type": "header_stack", "value": name}


def element(name: str, index: Json) -> Json:
    """stack[index]"""
    return op("dereference_header_stack", stack(name), index)


def field_of(header: Json, number: int) -> Json:
    """A field of a header that an expression finds."""
    return {
        "type": "expression",
        "value": {"op": "access_field", "left": header, "right": number},
    }


def stacked() -> Document:
    """h with an index and a value, then three elements of one byte, all valid."""
    made = Document()
    made.header("h", ("index", 8), ("value", 8))
    made.stack("s", 3, ("x", 8))
    elements = [extract("s", "stack")] * 3
    made.state("start", extract("h"), *elements, go=(goto(None),))
    made.always("ingress", call("assign", meta("egress_spec"), const(2)))
    return made


@pytest.mark.parametrize("index", [0, 1, 2])
def test_element_by_an_index_of_the_packet(index: int) -> None:
    """Written and read at run time."""
    document = stacked()
    document.always(
        "ingress",
        call("assign", field_of(element("s", fld("h", "index")), 0), fld("h", "value")),
    )
    ((_, frame),) = send(document.switch(), bytes([index, 9, 1, 2, 3]))
    expected = [1, 2, 3]
    expected[index] = 9
    assert list(frame[2:]) == expected


@pytest.mark.parametrize("index", [3, 4, 255])
def test_index_outside_of_the_stack_touches_no_header(index: int) -> None:
    """BMv2 aborts; here a write goes nowhere and a read finds what such a write has left."""
    document = stacked()
    outside = field_of(element("s", fld("h", "index")), 0)
    document.always("ingress", call("assign", outside, fld("h", "value")))
    document.always("ingress", call("remove_header", element("s", fld("h", "index"))))
    document.always("ingress", call("assign", fld("h", "index"), outside))
    frame = bytes([index, 9, 1, 2, 3])
    switch = document.switch()
    assert send(switch, frame) == [(2, bytes([9, 9, 1, 2, 3]))]
    document = stacked()
    document.always("ingress", call("assign", fld("h", "index"), outside))
    assert send(document.switch(), frame) == [(2, bytes([0, 9, 1, 2, 3]))], "a packet of its own"


def test_negative_index_touches_no_header() -> None:
    """An expression may be below zero before it is cut."""
    document = stacked()
    below = op("-", const(0), fld("h", "index"))
    document.always("ingress", call("assign", field_of(element("s", below), 0), const(9)))
    assert send(document.switch(), b"\x01\x00\x01\x02\x03") == [(2, b"\x01\x00\x01\x02\x03")]


def test_last_element_of_an_empty_stack_is_no_header() -> None:
    """Reading and writing `last` before anything was extracted."""
    document = Document()
    document.header("h", ("a", 8))
    document.stack("s", 2, ("x", 8))
    document.state("start", extract("h"), go=(goto(None),))
    last = {"type": "stack_field", "value": ["s", "x"]}
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    document.always("ingress", call("assign", last, const(7)))
    document.always("ingress", call("assign", fld("h", "a"), last))
    assert send(document.switch(), b"\x01\x02") == [(2, b"\x07\x02")]


def test_stack_by_an_index_in_another_stack() -> None:
    """s[s[i].x]: both indices are of the packet."""
    document = stacked()
    inner = field_of(element("s", fld("h", "index")), 0)
    outer = field_of(element("s", op("&", inner, const(3))), 0)
    document.always("ingress", call("assign", fld("h", "value"), outer))
    assert send(document.switch(), b"\x00\x00\x02\x08\x05") == [(2, b"\x00\x05\x02\x08\x05")]
    assert send(document.switch(), b"\x01\x00\x02\x03\x05") == [(2, b"\x01\x00\x02\x03\x05")]


@pytest.mark.parametrize(("op_name", "left"), [("push", [0, 1]), ("pop", [2])])
def test_moves_by_a_count_of_the_packet(op_name: str, left: list[int]) -> None:
    """The count may be any expression, here 1 for push and 2 for pop."""
    document = stacked()
    document.always("ingress", call(op_name, stack("s"), fld("h", "index")))
    count = 1 if op_name == "push" else 2
    ((_, frame),) = send(document.switch(), bytes([count, 0, 10, 11, 12]))
    assert [byte - 10 for byte in frame[2:]] == left


def united(depth: int = 0) -> Document:
    """h, then a union of a (1 byte) and b (2 bytes), or a stack of such unions."""
    made = Document()
    made.header("h", ("index", 8))
    json = made.json
    json["header_union_types"] = [{"name": "u_t", "id": 0, "headers": [["a", "a_t"], ["b", "b_t"]]}]
    names = [f"u[{number}]" for number in range(depth)] or ["u"]
    for number, name in enumerate(names):
        ids = []
        for member, bits in (("a", 8), ("b", 16)):
            made.header(f"{name}.{member}", ("x", bits))
            ids.append(json["headers"][-1]["id"])
            json["header_types"][-1]["name"] = f"{member}_t"
            json["headers"][-1]["header_type"] = f"{member}_t"
        json["header_unions"].append(
            {"name": name, "id": number, "union_type": "u_t", "header_ids": ids}
        )
    if depth:
        json["header_union_stacks"] = [
            {"name": "u", "id": 0, "union_type": "u_t", "header_union_ids": list(range(depth))}
        ]
    made.always("ingress", call("assign", meta("egress_spec"), const(2)))
    return made


@pytest.mark.parametrize("primitive", ["add_header", "add_header_fast"])
def test_one_member_of_a_union_at_a_time(primitive: str) -> None:
    """Making one valid makes the other invalid."""
    document = united()
    document.state("start", extract("h"), extract("u.a"), go=(goto(None),))
    document.always("ingress", call(primitive, hdr("u.b")))
    document.always("ingress", call("assign", fld("u.b", "x"), const(0x0102)))
    assert send(document.switch(), b"\x00\x07") == [(2, b"\x00\x01\x02")]


def next_member(name: str) -> Json:
    """extract(u.next.name)"""
    return {"op": "extract", "parameters": [{"type": "union_stack", "value": ["u", name]}]}


def pushed(*members: str) -> Document:
    """A program that extracts these members into a stack of three unions."""
    document = united(3)
    document.state("start", extract("h"), *map(next_member, members), go=(goto(None),))
    return document


def test_a_member_that_is_cut_off_leaves_the_union_as_it_was() -> None:
    """Its packet is too short: no element is taken, and no other member lost."""
    document = pushed("a", "b")
    assert send(document.switch(), b"\x00\x07\x01") == [(2, b"\x00\x07\x01")]


def test_more_unions_than_the_stack_holds() -> None:
    """StackOutOfBounds; what was extracted before stays."""
    document = pushed("a", "a", "a", "a")
    frame = b"\x00\x01\x02\x03\x04"
    assert send(document.switch(), frame) == [(2, frame)]
    copy = document.switch().ingress(frame, 1, 0)[0]
    error = document.program().layout.slots.parser_error
    assert copy.state[error] == document.program().error_codes["StackOutOfBounds"]


def union_at(index: Json) -> Json:
    """u[index]"""
    return op("dereference_union_stack", {"type": "header_union_stack", "value": "u"}, index)


def member_at(index: Json, number: int) -> Json:
    """Member of u[index]: 0 is a, 1 is b."""
    return {
        "type": "expression",
        "value": {"op": "access_union_header", "left": union_at(index), "right": number},
    }


def test_member_of_a_union_by_an_index_of_the_packet() -> None:
    """Made valid and set at run time; the other member of that element goes."""
    document = pushed("a", "a")
    chosen = member_at(fld("h", "index"), 1)
    document.always("ingress", call("add_header", chosen))
    document.always("ingress", call("assign", field_of(chosen, 0), const(0x0809)))
    assert send(document.switch(), b"\x00\x01\x02") == [(2, b"\x00\x08\x09\x02")]
    assert send(document.switch(), b"\x01\x01\x02") == [(2, b"\x01\x01\x08\x09")]
    assert send(document.switch(), b"\x05\x01\x02") == [(2, b"\x05\x01\x02")]


def test_union_assigned_from_an_element_of_the_stack() -> None:
    """Which member is valid goes over with the fields, and none if none is."""
    document = pushed("a", "b")
    document.always(
        "ingress", call("assign_union", union_at(const(2)), union_at(fld("h", "index")))
    )
    frame = b"\x01\x05\x06\x07"
    assert send(document.switch(), frame) == [(2, frame + b"\x06\x07")]
    document = pushed("a", "b")
    document.always("ingress", call("assign_union", union_at(const(0)), union_at(const(2))))
    assert send(document.switch(), frame) == [(2, b"\x01\x06\x07")]


def test_equality_of_unions_is_that_of_their_valid_members() -> None:
    """Two elements with the same member and fields; an index outside is equal to nothing."""
    document = pushed("a", "a")
    equal = op("==", union_at(const(0)), union_at(fld("h", "index")))
    document.always("ingress", call("assign", fld("h", "index"), op("b2d", None, equal)))

    def index_after(frame: bytes) -> int:
        return send(document.switch(), frame)[0][1][0]

    assert index_after(b"\x01\x05\x05") == 1
    assert index_after(b"\x01\x05\x06") == 0
    assert index_after(b"\x02\x05\x05") == 0
    assert index_after(b"\x09\x05\x05") == 0


def test_headers_are_equal_only_if_both_are_valid() -> None:
    """BMv2's rule; P4 itself calls two invalid headers equal, and p4c writes that out."""
    document = united()
    document.state("start", extract("h"), go=(goto(None),))
    equal = op("==", hdr("u.a"), hdr("u.a"))
    document.always("ingress", call("assign", fld("h", "index"), op("b2d", None, equal)))
    assert send(document.switch(), b"\x07") == [(2, b"\x00")]


def test_elements_of_a_union_stack_go_round() -> None:
    """What pop takes out at the front comes in at the end, as valid as it was (BMv2)."""
    document = pushed("a", "b")
    unions = {"type": "header_union_stack", "value": "u"}
    document.always("ingress", call("pop", unions, const(1)))
    assert send(document.switch(), b"\x00\x05\x06\x07") == [(2, b"\x00\x06\x07\x05")]
    document = pushed("a", "b")
    document.always("ingress", call("push", unions, const(1)))
    assert send(document.switch(), b"\x00\x05\x06\x07") == [(2, b"\x00\x05\x06\x07")]


def test_last_index_of_an_empty_stack_is_64_ones() -> None:
    """BMv2 counts in 64 bits and cuts the number when it is stored."""
    document = stacked()
    document.json["parsers"][0]["parse_states"][0]["parser_ops"] = [extract("h")]
    last = op("last_stack_index", None, stack("s"))
    above = op(">", last, const((1 << 63) - 1))
    document.always("ingress", call("assign", fld("h", "index"), last))
    document.always("ingress", call("assign", fld("h", "value"), op("b2d", None, above)))
    assert send(EmbeddedSwitch(document.program()), b"\x00\x00") == [(2, b"\xff\x01")]
