# SPDX-License-Identifier: Apache-2.0
"""What a document must hold: anything else is refused, and the object named."""

import json
from typing import Any

import pytest

from bmv2_lab.switch import EmbeddedSwitch, ProgramError, SwitchProgram
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    Json,
    arg,
    call,
    const,
    fld,
    forwarding,
    goto,
    meta,
    send,
)


def refusal(document: Json | Document) -> str:
    """The error of loading it."""
    text = json.dumps(document.json if isinstance(document, Document) else document)
    with pytest.raises(ProgramError) as caught:
        SwitchProgram.from_json(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("section", "name", "said"),
    [
        ("parsers", "parser", "parsers: there is none called 'parser'"),
        ("deparsers", "deparser", "deparsers: there is none called 'deparser'"),
        ("pipelines", "ingress", "pipelines: there is none called 'ingress'"),
        ("pipelines", "egress", "pipelines: there is none called 'egress'"),
    ],
)
def test_the_objects_of_the_target_must_be_there(section: str, name: str, said: str) -> None:
    """simple_switch asks for them by these names."""
    document = forwarding(("a", 8)).json
    document[section] = [item for item in document[section] if item["name"] != name]
    assert refusal(document) == said


@pytest.mark.parametrize("name", ["ingress_port", "egress_spec", "packet_length"])
def test_the_fields_of_the_target_must_be_there(name: str) -> None:
    """BMv2 refuses a program without them as well."""
    document = forwarding(("a", 8)).json
    document["header_types"][0]["fields"] = [
        [f"{row[0]}_x" if row[0] == name else row[0], *row[1:]]
        for row in document["header_types"][0]["fields"]
    ]
    for action in document["actions"]:
        action["primitives"] = []
    assert refusal(document) == f"headers: standard_metadata.{name} is missing"


def extern(document: Json) -> None:
    document["extern_instances"] = [{"name": "cipher", "id": 0, "type": "aes"}]


def version(document: Json) -> None:
    document["__meta__"] = {"version": [3, 0]}


def huge(document: Json) -> None:
    document["register_arrays"] = [{"name": "r", "id": 0, "size": 1 << 32, "bitwidth": 8}]


def twice(document: Json) -> None:
    array = {"name": "r", "id": 0, "size": 1, "bitwidth": 8}
    document["register_arrays"] = [array, array]


def no_bits(document: Json) -> None:
    document["header_types"].append({"name": "t", "id": 9, "fields": [["f", 0, False]]})
    document["headers"].append({"name": "t", "id": 9, "header_type": "t", "metadata": False})


def same_header(document: Json) -> None:
    document["headers"].append(document["headers"][0])


def no_type(document: Json) -> None:
    del document["headers"][1]["header_type"]


def no_table_id(document: Json) -> None:
    del document["pipelines"][0]["tables"][0]["id"]


def jump_back(document: Json) -> None:
    document["actions"][0]["primitives"].append(call("_jump", const(0)))


def profile(document: Json) -> None:
    table = document["pipelines"][0]["tables"][0]
    table.update({"type": "indirect", "action_profile": "spread"})


def checksum(document: Json) -> None:
    document["checksums"] = [
        {"name": "sum", "id": 0, "type": "fletcher", "target": ["h", "a"], "calculation": "c"}
    ]


def list_element(document: Json) -> None:
    document["field_lists"] = [
        {"name": "kept", "id": 1, "elements": [{"type": "header", "value": "h"}]}
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (extern, "extern_instances[cipher]: unsupported extern type aes"),
        (version, "__meta__: version 3 of the format; 2 is known"),
        (huge, "register_arrays[r]: size 4294967296 is above 4194304"),
        (twice, "register_arrays[r]: two arrays have this name"),
        (no_bits, "header_types[t]: field f of 0 bits"),
        (same_header, "headers[standard_metadata]: two headers have this name"),
        (no_type, "headers[h]: 'header_type' is missing or unknown"),
        (no_table_id, "tables[tbl_0]: 'id' is missing or unknown"),
        (jump_back, "actions[act_0]: a jump from 1 to 0"),
        (profile, "tables[tbl_0]: unknown profile spread"),
        (checksum, "checksums[sum]: unsupported checksum type fletcher"),
        (list_element, "field_lists[kept]: unsupported element of type header"),
    ],
)
def test_error_names_the_object(change: Any, said: str) -> None:
    """One line, in the words of the document."""
    document = forwarding(("a", 8)).json
    change(document)
    assert refusal(document) == said


def test_names_of_any_length_stay_one_short_line() -> None:
    """What the document holds is quoted up to a limit."""
    document = forwarding(("a", 8))
    document.always("ingress", call("y" * 5000 + "\n"))
    assert len(refusal(document)) < 400


def test_several_lines_and_places_of_a_json_error() -> None:
    """The line of a syntax error is that of the file."""
    with pytest.raises(ProgramError, match=r"^line 3: not JSON: "):
        SwitchProgram.from_json('{\n"a": 1,\n}')


def constant_entry(**change: Any) -> Document:
    """A table with one constant entry."""
    document = forwarding(("a", 8))
    to = document.action("to", call("assign", meta("egress_spec"), arg(0)), data=(("port", 9),))
    entry = {
        "match_key": [{"match_type": "exact", "key": "0x01"}],
        "action_entry": {"action_id": to, "action_data": ["0x5"]},
        "priority": 1,
    }
    document.table(
        "ingress", "t", [to], key=(("exact", fld("h", "a")),), entries=[{**entry, **change}]
    )
    return document


def test_constant_entries_are_checked_when_loaded() -> None:
    """Not when the first switch is made."""
    action = {"action_id": 1, "action_data": []}
    assert refusal(constant_entry(action_entry=action)) == (
        "tables[t].entries[0]: action to takes 1 arguments"
    )
    assert refusal(constant_entry(action_entry={"action_id": 7, "action_data": []})) == (
        "tables[t].entries[0]: unknown action 7"
    )
    assert refusal(constant_entry(match_key=[])) == "tables[t].entries[0]: 0 fields for 1"
    ternary = [{"match_type": "ternary", "key": "0x1", "mask": "0x1"}]
    assert refusal(constant_entry(match_key=ternary)) == (
        "tables[t].entries[0]: h.a is matched as exact"
    )
    assert send(constant_entry().switch(), b"\x01") == [(5, b"\x01")]


def test_more_constant_entries_than_the_table_is_said_to_hold() -> None:
    """BMv2 makes such a table as large as its entries."""
    document = constant_entry()
    table = document.json["pipelines"][0]["tables"][-1]
    table["max_size"] = 1
    second = json.loads(json.dumps(table["entries"][0]))
    second["match_key"][0]["key"] = "0x02"
    table["entries"].append(second)
    assert send(document.switch(), b"\x02") == [(5, b"\x02")]


def test_a_hundred_nested_conditions() -> None:
    """Deeper than Python indents: each level is a branch that never meets the others."""
    document = forwarding(("a", 16))
    where = document.json["pipelines"][0]
    levels = 130
    for level in range(levels):
        number = document.action(f"set_{level}", call("assign", fld("h", "a"), const(1000 + level)))
        document.table("ingress", f"leaf_{level}", [number], default=number)
        where["conditionals"].append(
            {
                "name": f"node_{level}",
                "id": level,
                "expression": {
                    "type": "expression",
                    "value": {"op": "==", "left": fld("h", "a"), "right": const(level)},
                },
                "true_next": f"leaf_{level}",
                "false_next": f"node_{level + 1}" if level + 1 < levels else None,
            }
        )
    for table in where["tables"]:
        if table["name"].startswith("leaf_"):
            table["next_tables"] = dict.fromkeys(table["next_tables"])
            table["base_default_next"] = None
        else:
            table["next_tables"] = dict.fromkeys(table["next_tables"], "node_0")
            table["base_default_next"] = "node_0"
    switch = document.switch()
    for value in (0, 59, 60, 129, 130):
        expected = 1000 + value if value < levels else value
        ((_, frame),) = send(switch, value.to_bytes(2, "big"))
        assert int.from_bytes(frame, "big") == expected


def test_exit_behind_a_jump_ends_the_pipeline_only_when_reached() -> None:
    """`if (a == 0) exit;` as the compiler writes it."""
    document = forwarding(("a", 8))
    is_zero = {
        "type": "expression",
        "value": {
            "op": "b2d",
            "left": None,
            "right": {
                "type": "expression",
                "value": {"op": "==", "left": fld("h", "a"), "right": const(0)},
            },
        },
    }
    document.always("ingress", call("_jump_if_zero", is_zero, const(2)), call("exit"))
    document.always("ingress", call("assign", fld("h", "a"), const(9)))
    switch = document.switch()
    assert send(switch, b"\x00") == [(2, b"\x00")]
    assert send(switch, b"\x05") == [(2, b"\x09")]


def test_old_documents_describe_the_profile_in_the_table() -> None:
    """`act_prof_name` and the selector at the table: before action profiles had a section."""
    document = Document()
    document.header("h", ("a", 8))
    document.state("start", {"op": "extract", "parameters": [{"type": "regular", "value": "h"}]},
                   go=(goto(None),))  # fmt: skip
    to = document.action("to", call("assign", meta("egress_spec"), arg(0)), data=(("port", 9),))
    document.table(
        "ingress",
        "t",
        [to],
        key=(("exact", fld("h", "a")),),
        type="indirect_ws",
        act_prof_name="spread",
        selector={"algo": "identity", "input": [fld("h", "a")]},
    )
    program = document.program()
    assert set(program.profiles) == {"spread"}
    assert EmbeddedSwitch(program).state.profiles["spread"].with_selector
