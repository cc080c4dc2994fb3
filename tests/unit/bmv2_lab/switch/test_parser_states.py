# SPDX-License-Identifier: Apache-2.0
"""Parser: selects, variable lengths, lookahead, stacks, loops and errors."""

from typing import Any

import pytest

from bmv2_lab.switch.errors import ProgramError
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    call,
    const,
    egress,
    extract,
    fld,
    goto,
    meta,
    op,
    send,
)


def parsed(document: Document, frame: bytes) -> dict[str, Any]:
    """Parser error and valid headers after ingress."""
    switch = document.switch()
    (copy,) = switch.ingress(frame, 1, 0)
    layout = switch.program.layout
    error = copy.state[layout.slots.parser_error]
    names = {number: name for name, number in switch.program.error_codes.items()}
    valid = {h.name for h in layout.headers.values() if not h.metadata and copy.state[h.base]}
    return {"error": names[error], "valid": valid, "state": copy.state, "layout": layout}


def with_egress(document: Document) -> Document:
    """Send everything to port 2."""
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    return document


def two_headers() -> Document:
    """`a` (kind 8, flags 8) selects `b` or `c`."""
    document = Document()
    for name in ("a", "b", "c"):
        document.header(name, ("kind", 8), ("flags", 8))
    return document


def test_select_takes_the_first_match_with_masks_per_key() -> None:
    """Keys are byte padded and masked one by one; the order of the cases decides."""
    document = two_headers()
    document.state(
        "start",
        extract("a"),
        key=(fld("a", "kind"), fld("a", "flags")),
        go=(
            goto("to_b", "0x0180", "0xff80"),  # kind 1, top flag set
            goto("to_c", "0x0100", "0xff00"),  # kind 1, whatever the flags
            goto(None),
        ),
    )
    document.state("to_b", extract("b"), go=(goto(None),))
    document.state("to_c", extract("c"), go=(goto(None),))
    with_egress(document)
    assert parsed(document, bytes([1, 0x80, 0, 0]))["valid"] == {"a", "b"}
    assert parsed(document, bytes([1, 0x7F, 0, 0]))["valid"] == {"a", "c"}
    assert parsed(document, bytes([2, 0x80, 0, 0]))["valid"] == {"a"}


@pytest.mark.parametrize("length", range(4))
def test_short_packet_keeps_the_headers_before_it(length: int) -> None:
    """PacketTooShort leaves the unfinished header invalid and its bytes in the payload."""
    document = two_headers()
    document.state("start", extract("a"), go=(goto("more"),))
    document.state("more", extract("b"), go=(goto(None),))
    with_egress(document)
    frame = bytes(range(length))
    result = parsed(document, frame)
    assert result["error"] == "PacketTooShort"
    assert result["valid"] == ({"a"} if length >= 2 else set())
    assert send(document.switch(), frame) == [(2, frame)]


def varbit_document() -> Document:
    """`n` gives the number of option bytes of `v`, which has a field behind the options."""
    document = Document()
    document.header("n", ("count", 8))
    document.header("v", ("head", 8), ("options", "*"), ("tail", 16), max_length=7)
    length = op("<<", fld("n", "count"), const(3))
    document.state(
        "start",
        extract("n"),
        {"op": "extract_VL", "parameters": [{"type": "regular", "value": "v"}, length]},
        go=(goto(None),),
    )
    return with_egress(document)


@pytest.mark.parametrize("count", range(5))
def test_variable_length_header_is_read_and_sent_unchanged(count: int) -> None:
    """The fixed fields around a varbit field keep their places."""
    document = varbit_document()
    frame = bytes([count, 0xAA, *range(count), 0xBE, 0xEF]) + b"payload"
    result = parsed(document, frame)
    assert result["valid"] == {"n", "v"}
    field = result["layout"].headers["v"].type.fields["tail"]
    base = result["layout"].headers["v"].base
    assert result["state"][base + field.pieces[0].slot] == 0xBEEF
    assert send(document.switch(), frame) == [(2, frame)]


def test_variable_length_header_beyond_its_maximum_is_an_error() -> None:
    """5 option bytes make 8 bytes, one more than max_length: HeaderTooShort, as in BMv2."""
    assert parsed(varbit_document(), bytes([5]) + bytes(20))["error"] == "HeaderTooShort"
    assert parsed(varbit_document(), bytes([5]) + bytes(3))["error"] == "PacketTooShort"


def test_lookahead_reads_without_taking_and_advance_skips() -> None:
    """Bits ahead select the state; skipped bytes are gone from the packet, as in BMv2."""
    document = two_headers()
    document.metadata("m", ("seen", 12))
    document.state(
        "start",
        {"op": "set", "parameters": [fld("m", "seen"), {"type": "lookahead", "value": [4, 12]}]},
        key=({"type": "lookahead", "value": [0, 8]},),
        go=(goto("skip", "0x12"), goto(None)),
    )
    document.state(
        "skip", {"op": "advance", "parameters": [const(16)]}, extract("a"), go=(goto(None),)
    )
    with_egress(document)
    result = parsed(document, bytes.fromhex("1234aabb"))
    assert result["state"][result["layout"].headers["m"].base] == 0x234
    assert result["valid"] == {"a"}
    assert send(document.switch(), bytes.fromhex("1234aabbcc")) == [(2, bytes.fromhex("aabbcc"))]


def test_verify_stops_the_parser_with_its_error() -> None:
    """verify(false, error) keeps what was extracted and names the error."""
    document = two_headers()
    document.state(
        "start",
        extract("a"),
        {
            "op": "verify",
            "parameters": [op("==", fld("a", "kind"), const(1)), const(2)],
        },
        extract("b"),
        go=(goto(None),),
    )
    with_egress(document)
    assert parsed(document, bytes([1, 0, 0, 0]))["error"] == "NoError"
    result = parsed(document, bytes([9, 0, 0, 0]))
    assert (result["error"], result["valid"]) == ("NoMatch", {"a"})


def stack_document() -> Document:
    """Up to three labels; the lowest bit of a label ends the stack."""
    document = Document()
    document.stack("label", 3, ("value", 7), ("bottom", 1))
    document.header("rest", ("value", 8))
    document.state(
        "start",
        extract("label", "stack"),
        key=({"type": "stack_field", "value": ["label", "bottom"]},),
        go=(goto("start", "0x00"), goto("end", "0x01")),
    )
    document.state("end", extract("rest"), go=(goto(None),))
    return document


def test_loop_over_a_stack_ends_at_its_last_label() -> None:
    """A state that leads to itself fills the stack in order."""
    document = with_egress(stack_document())
    assert parsed(document, bytes([2, 4, 7, 9]))["valid"] == {
        "label[0]",
        "label[1]",
        "label[2]",
        "rest",
    }
    assert parsed(document, bytes([3, 9]))["valid"] == {"label[0]", "rest"}


def test_full_stack_is_an_error() -> None:
    """A fourth label gives StackOutOfBounds."""
    assert parsed(with_egress(stack_document()), bytes(6))["error"] == "StackOutOfBounds"


def test_loop_that_takes_nothing_ends_with_a_timeout() -> None:
    """BMv2 would hang; here ParserTimeout ends it."""
    document = two_headers()
    document.state("start", key=(fld("a", "kind"),), go=(goto("start", "0x00"), goto(None)))
    with_egress(document)
    assert parsed(document, b"")["error"] == "ParserTimeout"


def test_push_and_pop_move_the_whole_stack() -> None:
    """P4_16 push_front adds invalid elements in front; pop_front removes from there."""
    document = stack_document()
    stack = {"type": "header_stack", "value": "label"}
    document.always("ingress", call("push", stack, const(1)))
    document.always(
        "ingress",
        call("add_header", {"type": "header", "value": "label[0]"}),
        call("assign", fld("label[0]", "value"), const(0x55)),
    )
    with_egress(document)
    assert send(document.switch(), bytes([2, 3, 9])) == [(2, bytes([0xAA, 2, 3, 9]))]
    document = stack_document()
    document.always("ingress", call("pop", stack, const(2)))
    with_egress(document)
    assert send(document.switch(), bytes([2, 4, 7, 9])) == [(2, bytes([7, 9]))]


def test_stack_element_chosen_at_run_time() -> None:
    """label[label[0].value].value is read and written through a computed index."""
    document = stack_document()
    stack = {"type": "header_stack", "value": "label"}
    index = fld("label[0]", "value")
    element = op("dereference_header_stack", stack, index)
    target = {
        "type": "expression",
        "value": {"op": "access_field", "left": element, "right": 0},
    }
    document.always("ingress", call("assign", target, op("+", target, const(1))))
    with_egress(document)
    assert send(document.switch(), bytes([4, 8, 11, 9])) == [(2, bytes([4, 8, 13, 9]))]


def test_parse_value_set_follows_the_control_plane() -> None:
    """A transition on a value set matches what was put into it."""
    document = two_headers()
    document.json["parse_vsets"] = [{"name": "kinds", "id": 0, "compressed_bitwidth": 8}]
    edge = {"type": "parse_vset", "value": "kinds", "mask": None, "next_state": "to_b"}
    document.state("start", extract("a"), key=(fld("a", "kind"),), go=(edge, goto(None)))
    document.state("to_b", extract("b"), go=(goto(None),))
    with_egress(document)
    switch = document.switch()
    base = switch.program.layout.headers["b"].base
    assert switch.ingress(bytes([7, 0, 0, 0]), 1, 0)[0].state[base] == 0
    switch.state.value_sets["kinds"].add((7,))
    assert switch.ingress(bytes([7, 0, 0, 0]), 1, 0)[0].state[base] == 1


def test_parser_reads_the_ingress_port() -> None:
    """Standard metadata is set before the parser runs."""
    document = two_headers()
    document.state("start", key=(meta("ingress_port"),), go=(goto("to_b", "0x01fe"), goto("to_c")))
    document.state("to_b", extract("b"), go=(goto(None),))
    document.state("to_c", extract("c"), go=(goto(None),))
    with_egress(document)
    switch = document.switch()
    for port, header in ((510, "b"), (1, "c")):
        (copy,) = switch.ingress(bytes(2), port, 0)
        assert copy.state[switch.program.layout.headers[header].base] == 1
        assert len(egress(switch, copy)) == 1


def test_unsupported_parser_operation_names_parser_and_state() -> None:
    """The error says where in the JSON it stands."""
    document = two_headers()
    document.state("start", {"op": "teleport", "parameters": []}, go=(goto(None),))
    with pytest.raises(ProgramError, match=r"parsers\[parser\]\.start.*teleport"):
        document.program()
