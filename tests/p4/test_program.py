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
from controller.telemetry.layout import ALL_LAYOUTS
from tests.p4.contract import GOLDEN, describe, load_p4info, object_ids

ROOT = Path(p4src.__file__).parents[1]
ID_REGISTER: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (ROOT / "tests" / "golden" / "p4runtime_ids.json").read_text(encoding="utf-8")
)
SOURCES = {
    f"{folder}/{entry.name}": entry.read_text(encoding="utf-8")
    for folder in ("include", "v1model")
    for entry in (files(p4src) / folder).iterdir()
    if entry.name.endswith(".p4")
}
PROGRAM: dict[str, Any] = json.loads(load_pipeline().bmv2_json)
P4INFO = load_p4info()
IDS = object_ids(P4INFO)
FIELD_LIST_REPORT, FIELD_LIST_RECIRCULATED = 1, 2


# ---- ids and the contract


@pytest.mark.parametrize("kind", sorted(IDS))
def test_ids_are_those_of_the_register(kind: str) -> None:
    """An id keeps its name for ever: none is missing, renamed, reused or unregistered.

    The register is append-only. A new object is added to it; an object that goes away stays, with
    "retired" saying in which version and why. "only" names the one program that has an object.
    """
    register = ID_REGISTER[kind]
    current = {
        number: row["name"]
        for number, row in register.items()
        if "retired" not in row and row.get("only", "v1model") == "v1model"
    }
    assert IDS[kind] == current
    assert len(set(current.values())) == len(current)


def test_register_keeps_retired_ids() -> None:
    """What 0.1.0 gave out is still listed, so that nobody gives it out again."""
    assert ID_REGISTER["actions"]["0x0100000C"]["name"] == "set_report_config"
    assert "retired" in ID_REGISTER["actions"]["0x0100000C"]
    numbers = [number for kind in ID_REGISTER.values() for number in kind]
    assert len(set(numbers)) == len(numbers)
    prefixes = {kind: {number[:4] for number in rows} for kind, rows in ID_REGISTER.items()}
    assert all(len(found) == 1 for found in prefixes.values())


def test_actions_keep_their_parameters() -> None:
    """Other parameters are another action: a controller of an older version would send nonsense."""
    parameters = {
        f"0x{action.preamble.id:08X}": [f"{p.name}:{p.bitwidth}" for p in action.params]
        for action in P4INFO.actions
        if action.preamble.alias != "NoAction"
    }
    register = ID_REGISTER["actions"]
    assert parameters == {n: r["parameters"] for n, r in register.items() if "retired" not in r}


def test_ids_are_the_declared_ones() -> None:
    """No id was assigned by the compiler: all stand in ids.p4, and none stands there twice."""
    declared = re.findall(r"^#define \w+ +(0x[0-9A-F]{8})\b", SOURCES["include/ids.p4"], re.M)
    assert len(declared) == len(set(declared))
    assert set(declared) == {number for kind in IDS.values() for number in kind}


def test_p4info_is_the_golden_one() -> None:
    """Tables, keys, actions and sizes are as reviewed; `python -m tests.p4.contract` after that."""
    assert describe(P4INFO) == GOLDEN.read_text(encoding="utf-8")


def test_program_has_a_version() -> None:
    """@pkginfo names program, version and architecture; the manifest says the same version."""
    assert (P4INFO.pkg_info.name, P4INFO.pkg_info.arch) == ("tempotrace", "v1model")
    assert re.fullmatch(r"\d+\.\d+\.\d+", P4INFO.pkg_info.version)
    assert load_pipeline().manifest.program_version == P4INFO.pkg_info.version


def test_contract_page_names_every_table_action_and_parameter() -> None:
    """docs/p4.md is complete: what a controller can write, it describes."""
    page = (ROOT / "docs" / "p4.md").read_text(encoding="utf-8")
    names = {table.preamble.alias for table in P4INFO.tables}
    names |= {action.preamble.alias for action in P4INFO.actions} - {"NoAction"}
    names |= {p.name for action in P4INFO.actions for p in action.params}
    names |= {key.name for table in P4INFO.tables for key in table.match_fields}
    names |= {counter.preamble.alias for counter in P4INFO.counters}
    ticked = " ".join(re.findall(r"`([^`]+)`", page))
    words = set(re.findall(r"\w+", ticked))
    assert sorted(names - words) == []


def test_every_table_has_a_row_on_the_contract_page() -> None:
    """Each table is described in a table row, with who fills it."""
    page = (ROOT / "docs" / "p4.md").read_text(encoding="utf-8")
    first_cells = " ".join(re.findall(r"^\| ([^|]+) \|", page, re.M))
    rows = set(re.findall(r"`(\w+)`", first_cells))
    assert sorted({table.preamble.alias for table in P4INFO.tables} - rows) == []


def test_every_drop_reason_is_on_the_contract_page() -> None:
    """Collectors show reasons in words, so every number has some."""
    page = (ROOT / "docs" / "p4.md").read_text(encoding="utf-8")
    numbers = re.findall(r"#define DROP_(?!PORT)\w+ +(\d+)\b", SOURCES["include/ids.p4"])
    assert len(numbers) == len(set(numbers)) > 10
    for number in numbers:
        assert re.search(rf"\| {number} \|", page), number


def test_event_indices_are_distinct_and_fit_their_counters() -> None:
    """Two events never share a cell."""
    text = SOURCES["include/ids.p4"]
    ingress, egress = text[text.index("ingress_events") :].split("egress_events", 1)
    for part in (ingress, egress.split("drop reasons", 1)[0]):
        numbers = [int(number) for number in re.findall(r"#define EVENT_\w+ +(\d+)\b", part)]
        assert len(numbers) == len(set(numbers)) > 5
        assert max(numbers) < 16


def test_header_types_are_those_of_the_python_tables() -> None:
    """layout.py and headers.p4 use the same names, widths and order."""
    tables = {
        layout.name: [(row.name, row.bits) for row in layout.fields] for layout in ALL_LAYOUTS
    }
    own = {"packet_in_t", "packet_out_t"}  # the controller's; P4Runtime carries them as metadata
    compared = 0
    for header in PROGRAM["header_types"]:
        fields = [(name, bits) for name, bits, *_signed in header["fields"]]
        variable = any(bits == "*" for _, bits in fields)
        if header["name"].endswith("_t") and header["name"] not in own and not variable:
            assert tables.get(header["name"]) == fields, header["name"]
            compared += 1
    assert compared > 25


# ---- BMv2's rules


def field_list(number: int) -> set[str]:
    """Metadata names that a field list keeps."""
    (found,) = (item for item in PROGRAM["field_lists"] if item["id"] == number_of(number))
    assert all(element["value"][0] == "scalars" for element in found["elements"])
    return {element["value"][1].split(".")[-1] for element in found["elements"]}


def number_of(number: int) -> int:
    """The compiler's number of a field list: it orders them by first use."""
    sizes = sorted(PROGRAM["field_lists"], key=lambda item: len(item["elements"]))
    assert len(sizes) == 2
    return int(sizes[-1 if number == FIELD_LIST_REPORT else 0]["id"])


def test_field_list_holds_all_that_a_report_needs() -> None:
    """A clone keeps only its field list: what report.p4 reads is in it or configured in egress."""
    used = set(re.findall(r"\bmeta\.(\w+)", SOURCES["v1model/report.p4"]))
    used -= {"node_id", "switch_mac", "switch_ip", "report_dscp", "truncate_bytes"}  # configured
    used -= {"is_report", "domain_specific_id"}  # set here, or the node's own
    assert used <= field_list(FIELD_LIST_REPORT)
    assert "report_seq" in field_list(FIELD_LIST_REPORT)


def test_recirculated_report_is_known_as_one() -> None:
    """The second pass must know that it has a report, or it could be traced."""
    assert field_list(FIELD_LIST_RECIRCULATED) == {"is_report"}


def test_all_queueing_fields_are_declared() -> None:
    """BMv2 fills queueing metadata only if all four fields are in the JSON."""
    names = {alias[0] for alias in PROGRAM["field_aliases"]}
    wanted = {"enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"}
    assert {f"queueing_metadata.{name}" for name in wanted} <= names


def test_registers_are_read_and_written_in_one_action() -> None:
    """A sequence number is taken atomically: BMv2 locks registers for one action."""
    read_or_written: dict[str, set[str]] = {}
    for action in PROGRAM["actions"]:
        steps = [
            (step["op"], parameter["value"])
            for step in action["primitives"]
            for parameter in step["parameters"]
            if parameter["type"] == "register_array"
        ]
        for operation, name in steps:
            read_or_written.setdefault(name, set()).add(operation)
        for operation, name in steps:
            if operation == "register_read":
                assert ("register_write", name) in steps, action["name"]
    arrays = {array["name"]: array for array in PROGRAM["register_arrays"]}
    assert set(read_or_written) == set(arrays)
    sequences = [array for name, array in arrays.items() if name.endswith("report_seq")]
    assert [(array["bitwidth"], array["size"]) for array in sequences] == [(22, 64)] * 2


def test_parser_never_changes_what_a_clone_keeps() -> None:
    """The clone is parsed again, so no parser state may write a preserved field."""
    kept = {
        tuple(element["value"]) for item in PROGRAM["field_lists"] for element in item["elements"]
    }
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
    for text in (json.dumps(PROGRAM), load_pipeline().p4info):
        assert "source_info" not in text
        assert not re.search(r'"/\w', text)
    assert PROGRAM["program"] == "v1model/tempotrace.p4"


# ---- style


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_source_follows_the_style_rules(name: str) -> None:
    """SPDX line first; no bare bit<9> outside of the types; a table says who fills it."""
    text = SOURCES[name]
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
    if name != "include/types.p4":
        assert "bit<9>" not in text
    comment_lines = r"// ([^\n]*(?:\n    //[^\n]*)*)"
    blocks = re.findall(
        rf"\n\n    {comment_lines}\n    @id\(TABLE_\w+\)\n    table (\w+) \{{(.*?)\n    \}}",
        text,
        re.DOTALL,
    )
    assert len(blocks) == len(re.findall(r"\n    table \w+ \{", text))
    for comment, table, body in blocks:
        assert "Filled by the controller" in comment, table
        assert re.search(r"size = \w+;", body), table
        if table not in ("ipv4_lpm", "ipv6_lpm"):
            assert "default_action = " in body, table
        for key in re.findall(r"\n? +\S+: (?:exact|ternary|lpm)[^;]*;", body):
            assert "@name(" in key, table


def test_direct_counters_are_named_after_their_tables() -> None:
    """Operators find a table's hits by its name."""
    tables = {table.preamble.id: table.preamble.alias for table in P4INFO.tables}
    for counter in P4INFO.direct_counters:
        assert counter.preamble.alias == f"{tables[counter.direct_table_id]}_counter"
