# SPDX-License-Identifier: Apache-2.0
"""The STF runner: passes, first differences and unreadable lines."""

import pytest

from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.stf import StfError, run_stf, run_stf_text
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    arg,
    call,
    const,
    extract,
    fld,
    goto,
    meta,
)


def document() -> Document:
    """A ternary table that sets the port, with direct counters."""
    made = Document()
    made.header("h", ("a", 8), ("b", 8))
    made.state("start", extract("h"), go=(goto(None),))
    to = made.action("C.to", call("assign", meta("egress_spec"), arg(0)), data=(("port", 9),))
    miss = made.action("C.miss", call("assign", meta("egress_spec"), const(9)))
    made.table(
        "ingress",
        "C.t",
        [to, miss],
        key=(("ternary", fld("h", "a")),),
        kind="ternary",
        default=miss,
        with_counters=True,
    )
    return made


GOOD = """
# comment
add t 10 h.a:0x1* to(port:3) = $first
add t 20 h.a:0x12 to(port:0x4)
packet 0 12 00 ff
expect 4 12 ** ff $
packet 0 13 00
expect 3 13
packet 0 22 00
expect 9
check_counter ctr($first) packets == 1
setdefault t to(port:5)
packet 0 30 00
expect 5 3000 $
wait
"""


def test_good_test_passes() -> None:
    """Priorities, wildcards, handles, defaults and exact lengths."""
    result = run_stf(document().program(), GOOD)
    assert result.passed, result.difference
    assert (result.packets_in, result.packets_out) == (4, 4)


@pytest.mark.parametrize(
    ("lines", "difference"),
    [
        ("packet 0 1200\nexpect 9 1300", "port 9, packet 0: digit 1 differs"),
        ("packet 0 120001\nexpect 9 1200 $", "too long"),
        ("packet 0 1200\nexpect 9 120000", "too short"),
        ("packet 0 1200", "port 9: expected 0 packets, got 1"),
        ("expect 9 12", "port 9: expected 1 packets, got 0"),
        ("add t 1 h.a:0x01 to(port:1) = $a\ncheck_counter c($a) packets == 4", "counter c is 0"),
    ],
)
def test_first_difference_is_named(lines: str, difference: str) -> None:
    """The result says where and how."""
    assert difference in run_stf(document().program(), lines).difference


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("teleport 1", "teleport: unknown command"),
        ("packet x 00", "packet: port 'x' is not a number"),
        ("packet 0 0g", "packet: packet '0g' is not pairs of hexadecimal digits"),
        ("expect 0 0g", "expect: expected packet '0g' has other signs than digits and *"),
        ("add none 1 a:1 b()", "add: no table called 'none'"),
        ("add t 1 z:1 to(port:1)", "add: table C.t has no key 'z'"),
        ("add t 1 h.a:1 fro(port:1)", "add: table C.t has no action 'fro'"),
        ("add t 1 h.a:1 to(gate:1)", "add: action C.to needs 'port'"),
        ("add t 1 h.a:many to(port:1)", "add: key h.a 'many' is not a number"),
        ("setdefault t", "setdefault: table C.t has no action ''"),
        ("mirroring_add 1", "mirroring_add: too few words; mirroring_add SESSION PORT"),
        ("mc_node_associate 1 0", "mc_node_associate: no group 1 or no node 0"),
        ("register_write r 0 1", "register_write: no register called 'r'"),
        ("check_counter ((", "check_counter: usage: check_counter NAME(INDEX or $HANDLE)"),
        ("set_crc16_parameters calc 1 2", "set_crc16_parameters: too few words"),
    ],
)
def test_unreadable_line_is_named_with_its_number(line: str, said: str) -> None:
    """A mistake in a test is not a failed test; the error is one line in plain words."""
    with pytest.raises(StfError) as caught:
        run_stf(document().program(), f"\n{line}")
    assert str(caught.value).startswith(f"line 2: {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}x", "line 1: not JSON: Extra data"),
        ('{\n"a": }', "line 2: not JSON: Expecting value"),
        ("{}", "parsers: there is none called 'parser'"),
        ("[]", "document: not a JSON object"),
    ],
)
def test_what_is_no_program_is_an_error_of_its_own(text: str, said: str) -> None:
    """An empty document is no program that passes a test without packets."""
    with pytest.raises(ProgramError) as caught:
        run_stf_text(text, "")
    assert str(caught.value) == said


ARRAYS = """
register_write r 1 7
packet 0 01 00
expect 3 07
mirroring_add 5 9
mc_mgrp_create 4
mc_node_create 1 3 4
mc_node_associate 4 0
mirroring_add_mc 6 4
mirroring_delete 5
counter_write c 0 10 20
check_counter c(0) packets == 10
check_counter c(0) bytes == 20
meter_set_rates m 0 0.001:1 0.002:1
meter_array_set_rates m 0.001:1 0.002:1
register_reset r
register_read r 1
set_crc16_parameters hash 0x1021 0xffff 0 false false
"""


def test_commands_of_the_command_line() -> None:
    """Registers, counters, meters, mirroring, multicast and CRC parameters."""
    made = Document()
    made.header("h", ("a", 8), ("b", 8))
    made.state("start", extract("h"), go=(goto(None),))
    made.json["register_arrays"] = [{"name": "r", "id": 0, "size": 2, "bitwidth": 8}]
    made.json["counter_arrays"] = [{"name": "C.c", "id": 0, "size": 2, "is_direct": False}]
    made.json["meter_arrays"] = [{"name": "C.m", "id": 0, "size": 2, "type": "packets"}]
    made.json["calculations"] = [
        {"name": "hash", "id": 0, "algo": "crc16_custom", "input": [fld("h", "b")]}
    ]
    register = {"type": "register_array", "value": "r"}
    made.always("ingress", call("assign", meta("egress_spec"), const(3)))
    made.always("ingress", call("register_read", fld("h", "a"), register, fld("h", "a")))
    result = run_stf(made.program(), ARRAYS)
    assert result.passed, result.difference
