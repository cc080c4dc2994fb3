# SPDX-License-Identifier: Apache-2.0
"""Loading: what cannot run is named, unknown keys do not matter, no packet crashes the switch."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch import EmbeddedSwitch, ProgramError, SwitchProgram
from bmv2_lab.switch.bench import HOST_PORT, UPLINK_PORT, forward, host_frames, make_path
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    call,
    const,
    fld,
    forwarding,
    meta,
    send,
)

ARTIFACT = Path(str(resources.files("p4src"))) / "artifacts" / "tempotrace.json"
DATA = Path(__file__).parents[3] / "data" / "switch"


@pytest.fixture(scope="module")
def tempotrace() -> SwitchProgram:
    """The packaged program."""
    return SwitchProgram.from_json(ARTIFACT.read_bytes())


def primitive(document: Document) -> None:
    document.always("ingress", call("divide_by_zero"))


def field(document: Document) -> None:
    document.always("ingress", call("assign", fld("h", "nothing"), const(1)))


def parameters(document: Document) -> None:
    document.always("ingress", call("assign", fld("h", "a")))


def width(document: Document) -> None:
    document.header("odd", ("bits", 7))


def match_type(document: Document) -> None:
    document.json["pipelines"][0]["tables"][0]["match_type"] = "fuzzy"


def node(document: Document) -> None:
    document.json["pipelines"][0]["tables"][0]["next_tables"] = {"act_0": "nowhere"}


def deparsed(document: Document) -> None:
    document.json["deparsers"][0]["order"].append("ghost")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (primitive, r"actions\[act_1\].*divide_by_zero"),
        (field, r"actions\[act_1\].*h\.nothing"),
        (parameters, r"actions\[act_1\].*assign"),
        (width, r"header_types\[odd_t\].*7 bits"),
        (match_type, r"tables\[tbl_0\].*fuzzy"),
        (node, r"pipelines\[ingress\].*nowhere"),
        (deparsed, r"deparsers\[deparser\].*ghost"),
    ],
)
def test_error_names_the_json_object(change: Any, named: str) -> None:
    """One line says what is wrong and where it stands in the document."""
    document = forwarding(("a", 8))
    change(document)
    with pytest.raises(ProgramError, match=named):
        document.program()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"headers": 3}', '{"actions": [{}]}', "null"])
def test_documents_that_are_no_program_are_refused(text: str) -> None:
    """ProgramError, never another exception."""
    with pytest.raises(ProgramError):
        SwitchProgram.from_json(text)


def decorated(item: Any) -> Any:
    """A document with a key more in every object; keys of `next_tables` are names of actions."""
    if isinstance(item, list):
        return [decorated(part) for part in item]
    if isinstance(item, dict):
        more = {k: v if k == "next_tables" else decorated(v) for k, v in item.items()}
        return {"x_unknown": {"a": [1]}, **more}
    return item


@pytest.mark.parametrize("path", [ARTIFACT, *sorted(DATA.glob("*.json"))], ids=lambda p: p.stem)
def test_unknown_keys_do_not_matter(path: Path) -> None:
    """Newer compilers may add keys anywhere: the same Python is made of the document."""
    text = path.read_text()
    source = SwitchProgram.from_json(text).source
    document = decorated(json.loads(text)) | {"new_section": [1]}
    assert SwitchProgram.from_json(json.dumps(document)).source == source


def test_same_text_gives_the_same_program() -> None:
    """Translated once, however many switches run it."""
    text = ARTIFACT.read_bytes()
    assert SwitchProgram.from_json(text) is SwitchProgram.from_json(text)


def test_switches_of_one_program_share_no_state() -> None:
    """A register written in one is untouched in the other."""
    document = forwarding(("a", 8))
    document.json["register_arrays"] = [{"name": "r", "id": 0, "size": 1, "bitwidth": 8}]
    register = {"type": "register_array", "value": "r"}
    document.always("ingress", call("register_write", register, const(0), fld("h", "a")))
    first, second = document.switch(), document.switch()
    first.ingress(b"\x05", 1, 0)
    assert (first.state.registers["r"], second.state.registers["r"]) == ([5], [0])


@pytest.fixture(scope="module")
def path(tempotrace: SwitchProgram) -> list[tuple[EmbeddedSwitch, int]]:
    """Source, transit and sink, shared by all examples."""
    return make_path(tempotrace)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=64), port=st.integers(0, 510))
def test_random_bytes_never_crash_the_switch(
    path: list[tuple[EmbeddedSwitch, int]], data: bytes, port: int
) -> None:
    """0 to 64 random bytes through the whole INT program."""
    for switch, _ in path:
        forward(switch, data, port, 1)


@settings(max_examples=300, deadline=None)
@given(
    damage=st.lists(st.tuples(st.integers(0, 140), st.integers(0, 255)), max_size=6),
    length=st.integers(14, 200),
)
def test_damaged_int_packets_never_crash_the_switch(
    path: list[tuple[EmbeddedSwitch, int]], damage: list[tuple[int, int]], length: int
) -> None:
    """A real INT packet with some bytes changed and cut anywhere."""
    sent, _ = forward(path[0][0], host_frames(1)[0], HOST_PORT, 1)
    assert sent is not None
    frame = bytearray(sent[:length])
    for position, value in damage:
        if position < len(frame):
            frame[position] = value
    for switch, _ in path[1:]:
        forward(switch, bytes(frame), UPLINK_PORT, 2)


def test_int_path_restores_the_packet_and_reports_it(tempotrace: SwitchProgram) -> None:
    """Source, transit and sink: what the host gets differs in MACs and TTL only."""
    path = make_path(tempotrace)
    frame = host_frames(1)[0]
    current: bytes | None = frame
    lengths = []
    reports: list[bytes] = []
    for switch, port in path:
        assert current is not None
        current, reports = forward(switch, current, port, 10**9)
        lengths.append(len(current or b""))
    assert current is not None
    hops = (lengths[1] - lengths[0], lengths[0] - len(frame))
    assert hops == (32, 16 + 32)
    assert current[34:] == frame[34:]
    assert current[14:22] == frame[14:22]
    assert len(reports) == 2


def test_assertion_of_the_program_is_an_exception() -> None:
    """BMv2 aborts the process; the lab stops with the name of the action."""
    document = forwarding(("a", 8))
    document.always("ingress", call("assert", fld("h", "a")))
    switch = document.switch()
    assert send(switch, b"\x01") == [(2, b"\x01")]
    with pytest.raises(Exception, match=r"assert in actions\[act_1\]"):
        send(switch, b"\x00")


def test_program_without_queueing_metadata_still_runs() -> None:
    """Fields that the program does not define are not stamped."""
    document = forwarding(("a", 8))
    document.json["field_aliases"] = []
    fields = document.json["header_types"][0]["fields"]
    kept = ("ingress_port", "egress_spec", "egress_port", "instance_type", "packet_length")
    document.json["header_types"][0]["fields"] = [row for row in fields if row[0] in kept]
    document.always("egress", call("assign", fld("h", "a"), meta("packet_length")))
    assert send(document.switch(), b"\x01abc") == [(2, b"\x04abc")]
