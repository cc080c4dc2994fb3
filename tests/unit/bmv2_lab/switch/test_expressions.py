# SPDX-License-Identifier: Apache-2.0
"""Generated expressions against a direct evaluation with unlimited integers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.runtime import sat_cast, shift_left, two_comp_mod, usat_cast
from tests.unit.bmv2_lab.switch.bmv2_json import call, const, fld, forwarding, meta, op

WIDTH = 16
MASK = (1 << WIDTH) - 1
BINARY = ("+", "-", "*", "&", "|", "^")
COMPARE = ("==", "!=", "<", "<=", ">", ">=")


def leaves() -> st.SearchStrategy[Any]:
    """A field a or b, or a constant."""
    return st.one_of(
        st.sampled_from([fld("h", "a"), fld("h", "b")]), st.integers(0, 1 << 20).map(const)
    )


def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Operators over smaller expressions."""
    width = st.integers(2, 40).map(const)
    condition = st.tuples(st.sampled_from(COMPARE), inner, inner).map(lambda t: op(*t))
    return st.one_of(
        st.tuples(st.sampled_from(BINARY), inner, inner).map(lambda t: op(*t)),
        st.tuples(st.sampled_from(("<<", ">>")), inner, st.integers(0, 40).map(const)).map(
            lambda t: op(*t)
        ),
        inner.map(lambda e: op("~", None, e)),
        st.tuples(st.sampled_from(("two_comp_mod", "sat_cast", "usat_cast")), inner, width).map(
            lambda t: op(*t)
        ),
        condition.map(lambda c: op("b2d", None, c)),
        st.tuples(condition, inner, inner).map(lambda t: op("?", t[1], t[2], cond=t[0])),
    )


def evaluate(item: Any, values: dict[str, int]) -> int:
    """What BMv2 computes, written down directly."""
    while item.get("type") == "expression":
        item = item["value"]
    if item.get("type") == "hexstr":
        return int(item["value"], 16)
    if item.get("type") == "field":
        return values[item["value"][1]]
    operator = item["op"]
    if operator == "?":
        chosen = item["left"] if evaluate(item["cond"], values) else item["right"]
        return evaluate(chosen, values)
    right = evaluate(item["right"], values)
    if operator == "~":
        return ~right
    if operator == "b2d":
        return int(bool(right))
    left = evaluate(item["left"], values)
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<":
            return left << right
        case ">>":
            return left >> right
        case "two_comp_mod":
            return int.from_bytes((left % (1 << right)).to_bytes(16, "big"), "big") - (
                (1 << right) if left % (1 << right) >> (right - 1) else 0
            )
        case "usat_cast":
            return max(0, min(left, (1 << right) - 1))
        case "sat_cast":
            return max(-(1 << (right - 1)), min(left, (1 << (right - 1)) - 1))
    return int(
        {
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[operator]
    )


@settings(max_examples=150, deadline=None)
@given(st.recursive(leaves(), grow, max_leaves=8), st.integers(0, MASK), st.integers(0, MASK))
def test_generated_expression_equals_direct_evaluation(tree: Any, a: int, b: int) -> None:
    """A stored value is the unlimited result cut to the field, whatever the bounds said."""
    document = forwarding(("a", WIDTH), ("b", WIDTH))
    document.metadata("m", ("result", WIDTH), ("wide", 64))
    document.always(
        "ingress",
        call("assign", fld("m", "result"), tree),
        call("assign", fld("m", "wide"), tree),
    )
    switch = document.switch()
    (copy,) = switch.ingress(a.to_bytes(2, "big") + b.to_bytes(2, "big"), 1, 0)
    base = switch.program.layout.headers["m"].base
    expected = evaluate(tree, {"a": a, "b": b})
    assert copy.state[base] == expected & MASK
    assert copy.state[base + 1] == expected & (1 << 64) - 1


def test_casts_at_their_limits() -> None:
    """The examples of BMv2's JSON format, and both ends of the saturating casts."""
    assert (two_comp_mod(257, 8), two_comp_mod(-129, 8)) == (1, 127)
    assert (usat_cast(256, 8), usat_cast(-1, 8)) == (255, 0)
    assert (sat_cast(128, 8), sat_cast(-129, 8)) == (127, -128)


def test_huge_shift_gives_zero_not_a_huge_integer() -> None:
    """A shift amount from a packet cannot exhaust the memory."""
    assert shift_left(1, 1 << 31) == 0


def test_signed_fields_read_negative() -> None:
    """A third true in a field row makes it two's complement."""
    document = forwarding(("a", 8))
    document.json["header_types"][1]["fields"] = [["a", 8, True]]
    document.metadata("m", ("less", 1))
    document.always(
        "ingress",
        call("assign", fld("m", "less"), op("b2d", None, op("<", fld("h", "a"), const(0)))),
    )
    switch = document.switch()
    base = switch.program.layout.headers["m"].base
    assert [switch.ingress(bytes([v]), 1, 0)[0].state[base] for v in (0x7F, 0x80)] == [0, 1]


def test_unknown_operator_names_the_action() -> None:
    """An operator that BMv2 does not have stops the load, naming where it stands."""
    document = forwarding(("a", 8))
    document.always("ingress", call("assign", meta("priority"), op("**", const(1), const(2))))
    with pytest.raises(ProgramError, match=r"actions\[act_1\].*\*\*"):
        document.program()
