# SPDX-License-Identifier: Apache-2.0
"""The compiled program as a document: contract with controllers, BMv2's rules, style rules."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import p4src
from controller.pipeline import load_pipeline

SOURCES = {
    f"{folder}/{entry.name}": entry.read_text(encoding="utf-8")
    for folder in ("include", "v1model")
    for entry in (files(p4src) / folder).iterdir()
    if entry.name.endswith(".p4")
}
PROGRAM: dict[str, Any] = json.loads(load_pipeline().bmv2_json)
P4INFO = load_pipeline().p4info

KEYED_TABLES = {
    "int_edge_ports",
    "int_marked_dscp",
    "qos_class",
    "punt",
    "ipv4_lpm",
    "int_watchlist",
    "int_sink_ports",
    "int_egress_mtu",
    "ptp_watchlist",
    "ecn_config",
}
KEYLESS_TABLES = {"int_node", "report_config"}


def aliases(kind: str) -> dict[str, int]:
    """Alias -> id of the p4info's objects of one kind."""
    found = {}
    for block in re.split(r"\n(?=\w+ \{)", P4INFO):
        if block.startswith(f"{kind} {{"):
            number = re.search(r"id: (\d+)", block)
            name = re.search(r'alias: "([^"]+)"', block)
            assert number
            assert name
            found[name.group(1)] = int(number.group(1))
    return found


def test_tables_are_those_of_the_contract() -> None:
    """The p4info has exactly the documented tables, under names without a prefix."""
    assert set(aliases("tables")) == KEYED_TABLES | KEYLESS_TABLES


def test_ids_are_the_declared_ones() -> None:
    """No id was assigned by the compiler: all stand in ids.p4, and none stands there twice."""
    text = SOURCES["include/ids.p4"]
    declared = [int(number, 16) for number in re.findall(r" (0x[0-9A-F]{8})", text)]
    assert len(declared) == len(set(declared))
    used = {
        number
        for kind in (
            "tables",
            "actions",
            "action_profiles",
            "counters",
            "direct_counters",
            "registers",
        )
        for alias, number in aliases(kind).items()
        if alias != "NoAction"
    }
    assert used == set(declared)


def test_every_keyed_table_has_a_direct_counter_of_its_name() -> None:
    """Operators find a table's hits by its name."""
    assert set(aliases("direct_counters")) == {f"{name}_counter" for name in KEYED_TABLES}


def test_contract_page_names_every_table_action_and_parameter() -> None:
    """docs/p4.md is complete: what a controller can write, it describes."""
    page = (Path(p4src.__file__).parents[1] / "docs" / "p4.md").read_text(encoding="utf-8")
    names = [*aliases("tables"), *aliases("actions")]
    names += re.findall(r'params \{\s+id: \d+\s+name: "([^"]+)"', P4INFO)
    names += re.findall(r'match_fields \{\s+id: \d+\s+name: "([^"]+)"', P4INFO)
    missing = [name for name in names if name != "NoAction" and name not in page]
    assert missing == []


def test_field_list_holds_all_that_a_report_needs() -> None:
    """A clone keeps only its field list: every report_* value of the metadata is in it."""
    (field_list,) = PROGRAM["field_lists"]
    listed = {element["value"][1].split(".")[-1] for element in field_list["elements"]}
    declared = set(re.findall(r"\b(report_(?!configured|udp)\w+);", SOURCES["include/metadata.p4"]))
    assert listed == declared


def test_field_list_has_no_standard_metadata() -> None:
    """BMv2 cannot preserve standard_metadata in a clone."""
    (field_list,) = PROGRAM["field_lists"]
    assert all(element["value"][0] == "scalars" for element in field_list["elements"])


def test_all_queueing_fields_are_declared() -> None:
    """BMv2 fills queueing metadata only if all four fields are in the JSON."""
    names = {alias[0] for alias in PROGRAM["field_aliases"]}
    wanted = {"enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"}
    assert {f"queueing_metadata.{name}" for name in wanted} <= names


def test_registers_are_read_and_written_in_one_action() -> None:
    """A sequence number is taken atomically: BMv2 locks registers for one action."""
    users = [
        [step["op"] for step in action["primitives"] if step["op"].startswith("register")]
        for action in PROGRAM["actions"]
    ]
    assert [ops for ops in users if ops] == [["register_read", "register_write"]] * 2
    assert {array["bitwidth"] for array in PROGRAM["register_arrays"]} == {22}


def test_parser_never_changes_what_a_clone_keeps() -> None:
    """The clone is parsed again, so no parser state may write a preserved field."""
    (field_list,) = PROGRAM["field_lists"]
    kept = {tuple(element["value"]) for element in field_list["elements"]}
    written = {
        tuple(operation["parameters"][0]["value"])
        for parser in PROGRAM["parsers"]
        for state in parser["parse_states"]
        for operation in state["parser_ops"]
        if operation["op"] == "set"
    }
    assert not kept & written


def test_artefacts_name_no_machine() -> None:
    """No absolute path and no source position is in what is shipped."""
    for text in (json.dumps(PROGRAM), P4INFO):
        assert "source_info" not in text
        assert not re.search(r'"/\w', text)
    assert PROGRAM["program"] == "v1model/tempotrace.p4"


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_source_follows_the_style_rules(name: str) -> None:
    """SPDX line first; no bare bit<9> outside of the types; a table says who fills it."""
    text = SOURCES[name]
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
    if name != "include/types.p4":
        assert "bit<9>" not in text
    blocks = re.findall(
        r"\n\n    // (.*?)\n    @id\(TABLE_\w+\)\n    table (\w+) \{(.*?)\n    \}",
        text,
        re.DOTALL,
    )
    assert len(blocks) == len(re.findall(r"\n    table \w+ \{", text))
    for comment, table, body in blocks:
        assert "Filled by the controller" in comment, table
        assert re.search(r"size = \w+;", body), table
        if table in KEYED_TABLES:
            assert f"counters = {table}_counter;" in body
        if table != "ipv4_lpm":
            assert "default_action = " in body, table
        for key in re.findall(r"\n? +\S+: (?:exact|ternary|lpm)[^;]*;", body):
            assert "@name(" in key, table
