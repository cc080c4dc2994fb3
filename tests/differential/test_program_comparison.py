# SPDX-License-Identifier: Apache-2.0
"""The comparison of compiled programs: what is defined counts, nothing else does. Needs no BMv2."""

import json
import random
from pathlib import Path

from bmv2_lab.switch import EmbeddedSwitch
from tests.support.bmv2_programs import CompiledProgram
from tests.support.parser_walk import ProgramFrames
from tests.support.switch_variants import StaleVariant, Variant, agree
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    call,
    const,
    extract,
    fld,
    goto,
    meta,
)

HEADERS_MISSED_MAX = 3
"""A temporary of the compiler, and the third union of a stack, which takes three lucky labels."""
DATA = Path(__file__).parents[1] / "data" / "switch"


def program() -> Document:
    """One byte that names the next header, if it is 7; its field is sent on whether it is there or
    not, and so is the ingress stamp."""
    made = Document()
    made.header("h", ("kind", 8), ("copy", 8), ("stamp", 48))
    made.header("next", ("x", 8), ("y", 8))
    made.state(
        "start",
        extract("h"),
        key=(fld("h", "kind"),),
        go=(goto("more", "0x07"), goto(None)),
    )
    made.state("more", extract("next"), go=(goto(None),))
    made.always("ingress", call("assign", meta("egress_spec"), const(2)))
    made.always("ingress", call("assign", fld("h", "copy"), fld("next", "x")))
    stamp = {"type": "field", "value": ["standard_metadata", "ingress_global_timestamp"]}
    made.always("ingress", call("assign", fld("h", "stamp"), stamp))
    return made


def variants() -> list[Variant]:
    """The three that a comparison uses."""
    return [
        Variant(program().switch(), None, 0),
        Variant(program().switch(), None, -1),
        Variant(program().switch(), random.Random(1), 0),
    ]


def test_every_defined_byte_counts() -> None:
    """The stamp may be any; without its header so may the copied field; nothing else may."""
    for kind, open_places in ((7, range(2, 8)), (8, range(1, 8))):
        frame = bytes([kind, 1, 2, 3, 4, 5, 6, 7, 0x55, 0x66])
        results = [variant.send(1, frame) for variant in variants()]
        ((port, out),) = results[0]
        assert (port, len(out)) == (2, len(frame))
        for place in range(len(out)):
            changed = bytearray(out)
            changed[place] ^= 0x10
            assert agree(results, [(port, bytes(changed))]) == (place in open_places)
        assert not agree(results, [(port + 1, out)])
        assert not agree(results, [(port, out + b"\0")])
        assert not agree(results, [])


def test_a_stale_field_is_that_of_the_packet_before() -> None:
    """As in BMv2, whose packets take their headers from a pool."""
    variant = StaleVariant(program().switch())
    variant.send(1, bytes([7, 0, 0, 0, 0, 0, 0, 0, 0x55, 0x66]))
    ((_, out),) = variant.send(1, bytes([8, 0, 0, 0, 0, 0, 0, 0]))
    assert out[:2] == b"\x08\x55"


def test_walks_go_through_the_whole_parser() -> None:
    """Nearly all headers of the program are seen valid, and every frame has at least a byte."""
    compiled = CompiledProgram.read(DATA / "features.json")
    frames = compiled.frames(3)
    switch = EmbeddedSwitch(compiled.switch().program)
    layout = switch.program.layout
    never = {h.name for h in layout.headers.values() if not h.metadata}
    start, parse = switch.namespace["start"], switch.namespace["parse_packet"]
    for _ in range(3000):
        _, frame = frames.next()
        assert frame
        packet = start(frame, len(frame))
        parse(packet)
        never -= {name for name in never if packet[layout.headers[name].base]}
    assert len(never) <= HEADERS_MISSED_MAX, never


def test_equal_seeds_give_equal_frames() -> None:
    """And other seeds others."""
    document = json.loads((DATA / "kinds.json").read_text())
    first, same, other = (ProgramFrames(document, seed) for seed in (1, 1, 2))
    rows = [[frames.next() for _ in range(50)] for frames in (first, same, other)]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def test_random_entries_fill_all_kinds_of_tables() -> None:
    """Ternary, exact and LPM keys, a profile and a selector; the same for equal names."""
    compiled = CompiledProgram.read(DATA / "kinds.json", random_entries=True)
    first, second = compiled.switch().state.tables, compiled.switch().state.tables
    filled = {name.rpartition(".")[2] for name, table in first.items() if table.entries}
    assert filled == {"acl", "profiled", "selected", "fixed"}
    for name, table in first.items():
        assert list(table.entries) == list(second[name].entries)
