# SPDX-License-Identifier: Apache-2.0
"""The STF runner: passes, first differences and unreadable lines."""

import pytest

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
    "line",
    ["teleport 1", "packet x 00", "packet 0 0g", "add none 1 a:1 b()", "add t 1 z:1 to(port:1)"],
)
def test_unreadable_line_is_named_with_its_number(line: str) -> None:
    """A mistake in a test is not a failed test."""
    with pytest.raises(StfError, match="line 2"):
        run_stf(document().program(), f"\n{line}")


def test_program_that_cannot_be_translated_is_a_difference() -> None:
    """So that a run over many samples goes on."""
    assert run_stf_text("{}x", "").difference.startswith("program: document")
