# SPDX-License-Identifier: Apache-2.0
"""Stores that the writer joins do what the same stores do one by one."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch.known_values import KnownValues
from bmv2_lab.switch.stores import ContainerStore, in_brackets
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
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

WIDTHS = (3, 5, 12, 4, 16, 48, 1, 7, 32)
NAMES = [f"f{number}" for number in range(len(WIDTHS))]
SIZE_BYTES = sum(WIDTHS) // 8
Steps = list[tuple[str, Any]]


def targets() -> st.SearchStrategy[Any]:
    """A field of one of two headers of the same type."""
    return st.tuples(st.sampled_from(("h", "g")), st.integers(0, len(WIDTHS) - 1))


def steps() -> st.SearchStrategy[Steps]:
    """Header g made valid or not, and fields set to constants, fields and sums, in any order."""
    sources = st.integers(0, 1 << 48) | targets()
    store = st.tuples(st.just("store"), st.tuples(targets(), sources, sources))
    change = st.tuples(st.sampled_from(("add", "remove")), st.sampled_from(("h", "g")))
    return st.lists(st.one_of(store, store, store, change), max_size=14)


def value(source: Any) -> Any:
    """A source as JSON."""
    return const(source) if isinstance(source, int) else fld(source[0], NAMES[source[1]])


def document(work: Steps) -> Document:
    """A program that parses h, does the steps in one action and sends both headers."""
    made = Document()
    for name in ("h", "g"):
        made.header(name, *zip(NAMES, WIDTHS, strict=True))
    made.state("start", extract("h"), go=(goto(None),))
    primitives = [call("assign", meta("egress_spec"), const(2))]
    for what, detail in work:
        if what == "store":
            (header, field), left, right = detail
            total = op("+", value(left), value(right))
            primitives.append(call("assign", fld(header, NAMES[field]), total))
        else:
            primitives.append(call(f"{what}_header", hdr(detail)))
    made.always("ingress", *primitives)
    return made


class Model:
    """Both headers as dicts, changed one step at a time."""

    def __init__(self, frame: bytes) -> None:
        number = int.from_bytes(frame, "big")
        self.fields: dict[str, list[int]] = {"g": [0] * len(WIDTHS), "h": []}
        for width in reversed(WIDTHS):
            self.fields["h"].insert(0, number & (1 << width) - 1)
            number >>= width
        self.valid = {"h": True, "g": False}

    def source(self, item: Any) -> int:
        return item if isinstance(item, int) else self.fields[item[0]][item[1]]

    def run(self, work: Steps) -> None:
        for what, detail in work:
            if what == "store":
                (header, field), left, right = detail
                total = self.source(left) + self.source(right)
                self.fields[header][field] = total & (1 << WIDTHS[field]) - 1
            elif what == "add":
                if not self.valid[detail]:
                    self.fields[detail] = [0] * len(WIDTHS)
                self.valid[detail] = True
            else:
                self.valid[detail] = False

    def frame(self) -> bytes:
        out = b""
        for header in ("h", "g"):
            if self.valid[header]:
                number = 0
                for width, field in zip(WIDTHS, self.fields[header], strict=True):
                    number = number << width | field
                out += number.to_bytes(SIZE_BYTES, "big")
        return out


@settings(max_examples=150, deadline=None)
@given(steps(), st.binary(min_size=SIZE_BYTES, max_size=SIZE_BYTES))
def test_joined_stores_do_what_single_ones_do(work: Steps, frame: bytes) -> None:
    """Fields in part of a container, across containers, of headers made valid just before."""
    model = Model(frame)
    model.run(work)
    assert send(document(work).switch(), frame) == [(2, model.frame())]


def test_a_header_that_is_filled_completely_is_one_statement() -> None:
    """setValid and nine fields: the words of the header in one slice."""
    work: Steps = [("add", "g")]
    work += [("store", (("g", number), number, 0)) for number in range(len(WIDTHS))]
    source = document(work).program().source
    layout = document(work).program().layout.headers["g"]
    first = layout.base
    assert f"P[{first}:{first + layout.type.slots}] = (1, " in source


def test_an_expression_that_a_slot_holds_is_not_computed_again() -> None:
    """The compiler repeats it; the slot is read while no operand changes."""
    known = KnownValues()
    text = "((P[3] + P[4]) & 4294967295)"
    known.at(1)
    known.learn(ContainerStore("P[9]", 9, 0xFFFFFFFF, 0xFFFFFFFF, 0, (text,)))
    assert known.use(f"if ({text} > P[5]):") == "if (P[9] > P[5]):"
    known.written("P[8] = 1")
    assert known.use(text) == "P[9]"
    known.written("P[4] = 1")
    assert known.use(text) == text


def test_what_a_branch_has_found_ends_with_it() -> None:
    """Behind the branch it may not hold."""
    known = KnownValues()
    text = "((P[3] + P[4]) & 4294967295)"
    known.at(2)
    known.learn(ContainerStore("P[9]", 9, 0xFF, 0xFF, 0, (text,)))
    known.at(3)
    assert known.use(text) == "P[9]"
    known.at(1)
    assert known.use(text) == text


def test_only_an_expression_in_one_pair_of_brackets_is_a_unit() -> None:
    """`(a) + (b)` begins and ends with brackets, too."""
    assert in_brackets("((P[1] + 2) & 3)")
    assert not in_brackets("(P[1]) + (P[2])")
    assert not in_brackets("P[1]")
