# SPDX-License-Identifier: Apache-2.0
"""Tables: every match kind against a plain search, and what the control plane may do."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch import EmbeddedSwitch, errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.state import exact_match, lpm_match, range_match, ternary_match
from bmv2_lab.switch.tables import Match
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


def table_document(kind: str, *matches: str, **more: Any) -> Document:
    """A table over the fields a, b, ... (8 bits each) that sets the egress port."""
    document = Document()
    names = [chr(ord("a") + number) for number in range(len(matches))]
    document.header("h", *((name, 8) for name in names))
    document.state("start", extract("h"), go=(goto(None),))
    to_port = document.action(
        "to_port", call("assign", meta("egress_spec"), arg(0)), data=(("p", 9),)
    )
    miss = document.action("miss", call("assign", meta("egress_spec"), const(100)))
    key = tuple((match, fld("h", name)) for match, name in zip(matches, names, strict=True))
    document.table(
        "ingress", "t", [to_port, miss], key=key, kind=kind, default=miss, max_size=64, **more
    )
    return document


def port_of(switch: EmbeddedSwitch, *values: int) -> int:
    """Where a packet with these field values goes."""
    (copy,) = switch.ingress(bytes(values), 1, 0)
    return copy.egress_port


def test_exact_table_hits_only_its_values() -> None:
    """Two keys must both be equal; anything else runs the default action."""
    switch = table_document("exact", "exact", "exact").switch()
    switch.state.add_entry("t", (exact_match(1), exact_match(2)), "to_port", (5,))
    assert [port_of(switch, 1, 2), port_of(switch, 1, 3), port_of(switch, 2, 2)] == [5, 100, 100]


def test_longest_prefix_wins_beside_an_exact_key() -> None:
    """The exact key must fit; among the rest the longest prefix decides, /0 last."""
    switch = table_document("lpm", "exact", "lpm").switch()
    for value, bits, port in ((0x00, 0, 1), (0xA0, 4, 2), (0xAB, 8, 3)):
        switch.state.add_entry("t", (exact_match(7), lpm_match(value, bits, 8)), "to_port", (port,))
    assert [port_of(switch, 7, v) for v in (0x00, 0xA1, 0xAB)] == [1, 2, 3]
    assert port_of(switch, 8, 0xAB) == 100


def test_exact_key_of_a_ternary_table_is_not_a_wildcard() -> None:
    """A table that mixes exact and ternary keys compares the exact one."""
    switch = table_document("ternary", "exact", "ternary").switch()
    switch.state.add_entry("t", (exact_match(1), ternary_match(0, 0)), "to_port", (5,), priority=1)
    assert [port_of(switch, 1, 9), port_of(switch, 2, 9)] == [5, 100]


ENTRY = st.tuples(
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(1, 5),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ENTRY, max_size=8), st.lists(st.tuples(*[st.integers(0, 255)] * 2), max_size=12))
def test_ternary_and_range_table_equals_a_search_by_priority(
    rows: list[tuple[int, int, int, int, int]], probes: list[tuple[int, int]]
) -> None:
    """Highest priority wins, the older of equals; probes between writes see each new entry."""
    switch = table_document("range", "ternary", "range").switch()
    known: list[tuple[Match, Match, int, int]] = []
    for number, (value, mask, low, high, priority) in enumerate(rows):
        entry = (ternary_match(value, mask), range_match(min(low, high), max(low, high)))
        if any((a, b, p) == (*entry, priority) for a, b, p, _ in known):
            continue
        known.append((*entry, priority, number + 1))
        switch.state.add_entry("t", entry, "to_port", (number + 1,), priority=priority)
        for x, y in probes:
            fits = [
                (-p, order, port)
                for order, (a, b, p, port) in enumerate(known)
                if x & a.mask == a.value and b.value <= y <= b.high
            ]
            assert port_of(switch, x, y) == (min(fits)[2] if fits else 100)


def test_deleting_an_entry_takes_effect_at_once() -> None:
    """A remembered lookup does not outlive its entry."""
    switch = table_document("ternary", "ternary").switch()
    table = switch.state.tables["t"]
    switch.state.add_entry("t", (ternary_match(0x10, 0xF0),), "to_port", (5,), priority=1)
    assert port_of(switch, 0x15) == 5
    table.delete((ternary_match(0x10, 0xF0),), 1)
    assert port_of(switch, 0x15) == 100


def test_default_action_can_change() -> None:
    """Packets that were remembered as misses run the new default too."""
    switch = table_document("exact", "exact").switch()
    assert port_of(switch, 1) == 100
    switch.state.set_default("t", "to_port", (9,))
    assert port_of(switch, 1) == 9


def test_entries_of_the_program_are_there_and_stay() -> None:
    """Constant entries match by their order and cannot be deleted."""
    rows = [
        {
            "match_key": [{"match_type": "ternary", "key": key, "mask": mask}],
            "action_entry": {"action_id": 0, "action_data": [port]},
            "priority": priority,
        }
        for key, mask, port, priority in (("0x10", "0xf0", "0x1", 1), ("0x00", "0x00", "0x2", 2))
    ]
    switch = table_document("ternary", "ternary", entries=rows).switch()
    assert [port_of(switch, 0x12), port_of(switch, 0x22)] == [1, 2]
    table = switch.state.tables["t"]
    entry = next(iter(table.entries.values()))
    with pytest.raises(StateError) as caught:
        table.delete(entry.match, entry.priority)
    assert caught.value.code == errors.PERMISSION_DENIED


def test_full_table_refuses_and_duplicates_are_refused() -> None:
    """RESOURCE_EXHAUSTED at max_size, ALREADY_EXISTS for the same key."""
    document = table_document("exact", "exact")
    document.json["pipelines"][0]["tables"][0]["max_size"] = 2
    switch = document.switch()
    codes = []
    for value in (1, 1, 2, 3):
        try:
            switch.state.add_entry("t", (exact_match(value),), "to_port", (1,))
        except StateError as error:
            codes.append(error.code)
    assert codes == [errors.ALREADY_EXISTS, errors.RESOURCE_EXHAUSTED]


def test_direct_counters_count_packets_and_received_bytes() -> None:
    """Hits and misses count; a change of action keeps the numbers."""
    switch = table_document("exact", "exact", with_counters=True).switch()
    entry = switch.state.add_entry("t", (exact_match(1),), "to_port", (5,))
    for frame in (bytes([1, 0, 0]), bytes([1]), bytes([2, 2])):
        switch.ingress(frame, 1, 0)
    assert entry.cell[3:5] == [2, 4]
    assert switch.state.tables["t"].default[3:5] == [1, 2]


def test_hit_and_miss_lead_to_different_tables() -> None:
    """`__HIT__` and `__MISS__` of next_tables choose the branch; both meet behind it."""
    document = table_document("exact", "exact")
    document.metadata("m", ("path", 8))
    for name, value in (("hit", 1), ("miss", 2), ("end", 4)):
        document.always(
            "ingress",
            call(
                "assign",
                fld("m", "path"),
                {
                    "type": "expression",
                    "value": {"op": "|", "left": fld("m", "path"), "right": const(value)},
                },
            ),
        )
        document.json["pipelines"][0]["tables"][-1]["name"] = f"on_{name}"
    tables = document.json["pipelines"][0]["tables"]
    tables[0]["next_tables"] = {"__HIT__": "on_hit", "__MISS__": "on_miss"}
    for number, target in ((1, "on_end"), (2, "on_end"), (3, None)):
        tables[number]["next_tables"] = dict.fromkeys(tables[number]["next_tables"], target)
        tables[number]["base_default_next"] = target
    switch = document.switch()
    switch.state.add_entry("t", (exact_match(1),), "to_port", (5,))
    base = switch.program.layout.headers["m"].base
    paths = [switch.ingress(bytes([value]), 1, 0)[0].state[base] for value in (1, 2)]
    assert paths == [5, 6]


@pytest.mark.parametrize("names", [("x", "y"), ("unused", "x", "y"), ("unused", "more", "x", "y")])
def test_what_follows_depends_on_the_action_whatever_its_number(names: tuple[str, ...]) -> None:
    """`switch (t.apply().action_run)`: hit or miss do not matter, nor do the ids 0 and 1."""
    document = Document()
    document.header("h", ("a", 8))
    document.state("start", extract("h"), go=(goto(None),))
    numbers = {name: document.action(name) for name in names}
    x, y = numbers["x"], numbers["y"]
    document.table("ingress", "t", [x, y], key=(("exact", fld("h", "a")),), default=x)
    document.always("ingress", call("assign", meta("egress_spec"), const(7)))
    (table, after) = document.json["pipelines"][0]["tables"]
    table["next_tables"] = {"x": None, "y": after["name"]}
    table["base_default_next"] = None
    switch = document.switch()
    switch.state.add_entry("t", (exact_match(1),), "x")
    switch.state.add_entry("t", (exact_match(2),), "y")
    assert [port_of(switch, value) for value in (1, 2, 3)] == [0, 7, 0]
    switch.state.set_default("t", "y")
    assert [port_of(switch, value) for value in (1, 2, 3)] == [0, 7, 7]
