# SPDX-License-Identifier: Apache-2.0
"""The TNA program speaks the contract of the v1model program: names, ids, keys, parameters.

Two comparisons, neither of which needs a compiler: the committed p4info texts, and the sources, so
that a change to one program is noticed before the other one is compiled again.
"""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from finsy.proto import p4i
from google.protobuf import text_format

import p4src
from controller.pipeline import P4INFO_NAME
from controller.pipeline_tna import TNA_TARGETS
from tests.p4.contract import load_p4info

P4INFO_TNA = sorted(TNA_TARGETS)
ID_REGISTER = Path(__file__).parents[1] / "golden" / "p4runtime_ids.json"
SHARED_HEADERS = "../include/"


def sources(folder: str) -> dict[str, str]:
    """File name -> text of the P4 files of one folder below p4src."""
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in (files(p4src) / folder).iterdir()
        if entry.name.endswith(".p4")
    }


V1MODEL = sources("v1model")
TNA = sources("tna")


# ---- sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a program's source declares to the control plane, by name."""

    tables: dict[str, tuple[str, tuple[tuple[str, str, str], ...], frozenset[str]]]
    """Table -> id macro, keys (match kind, id, name), actions without NoAction."""
    actions: dict[str, tuple[str, tuple[tuple[str, str, str], ...]]]
    """Action -> id macro, parameters (id, type, name)."""


def declared(texts: dict[str, str]) -> Declared:
    """Tables and actions that carry an @id."""
    text = re.sub(r"//.*", "", "\n".join(texts.values()))
    tables = {}
    for macro, table, body in re.findall(
        r"@id\((TABLE_\w+)\)\s*table (\w+) \{(.*?)\n    \}", text, re.DOTALL
    ):
        (keys,) = re.findall(r"\bkey = \{(.*?)\}", body, re.DOTALL)
        (actions,) = re.findall(r"\bactions = \{(.*?)\}", body, re.DOTALL)
        tables[table] = (
            macro,
            tuple(re.findall(r":\s*(\w+)\s*@id\((\d+)\)\s*@name\(\"(\w+)\"\)", keys)),
            # Default-only actions are the compiler's or the program's own: no entry can have them.
            frozenset(re.findall(r"(?<!@defaultonly )\b([a-z]\w+);", actions)),
        )
    actions_found = {
        action: (macro, tuple(re.findall(r"@id\((\d+)\)\s*([\w<>]+)\s+(\w+)", parameters)))
        for macro, action, parameters in re.findall(
            r"@id\((ACTION_\w+)\)\s*action (\w+)\((.*?)\)\s*\{", text, re.DOTALL
        )
    }
    return Declared(tables=tables, actions=actions_found)


def test_sources_declare_the_same_tables() -> None:
    """Same names, id macros, keys with their match kinds and ids, and actions."""
    ours, theirs = declared(TNA).tables, declared(V1MODEL).tables
    assert len(theirs) > 20
    assert sorted(ours) == sorted(theirs)
    for name, table in theirs.items():
        assert ours[name] == table, name


def test_sources_declare_the_same_actions() -> None:
    """Same names, id macros and parameters with their ids and types."""
    ours, theirs = declared(TNA).actions, declared(V1MODEL).actions
    assert len(theirs) > 25
    assert sorted(ours) == sorted(theirs)
    for name, action in theirs.items():
        assert ours[name] == action, name


def test_programs_have_the_same_version() -> None:
    """A controller that knows one knows the other."""
    (ours,) = re.findall(r"@pkginfo\(.*\)", TNA["tempotrace.p4"])
    (theirs,) = re.findall(r"@pkginfo\(.*\)", V1MODEL["tempotrace.p4"])
    assert ours == theirs


def test_wire_formats_are_the_shared_ones() -> None:
    """No header of include/headers.p4 has a second definition, and generations have a file each."""
    shared = set(re.findall(r"\bheader (\w+_t)\b", sources("include")["headers.p4"]))
    ours = {name for text in TNA.values() for name in re.findall(r"\bheader (\w+_t)\b", text)}
    assert shared & ours == set()
    assert f'#include "{SHARED_HEADERS}headers.p4"' in TNA["headers.p4"]
    with_condition = {name for name, text in TNA.items() if "__TARGET_TOFINO__" in text}
    assert with_condition == {"target.p4"}
    assert {"tofino1.p4", "tofino2.p4"} <= set(TNA)


@pytest.mark.parametrize("name", sorted(TNA))
def test_source_follows_the_style_rules(name: str) -> None:
    """SPDX line first; what the control plane fills says so, and has a named size."""
    text = TNA[name]
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
    assert max(map(len, text.splitlines())) <= 120
    for comment, table, body in re.findall(
        r"((?:    //[^\n]*\n)*)    @id\(TABLE_\w+\)\n    table (\w+) \{(.*?)\n    \}",
        text,
        re.DOTALL,
    ):
        assert "Filled by the controller" in comment, table
        assert re.search(r"size = \w+;", body), table
        assert "default_action = " in body, table


# ---- tiers

TIER_MEMBERS = (2, 3, 4, 6, 8, 16)


def crc16(polynomial: int, value: int, bits: int) -> int:
    """CRC of `bits` bits, most significant first, without initial and final value.

    Those are constants: they rename buckets, and change nothing of who meets whom.
    """
    register = 0
    for index in reversed(range(bits)):
        top = register >> 15 ^ value >> index & 1
        register = register << 1 & 0xFFFF ^ (polynomial if top else 0)
    return register


def polynomials() -> list[int]:
    """The polynomial of each tier, from the source."""
    found = re.findall(r"CRCPolynomial<bit<16>>\(16w(0x[0-9A-F]+),", TNA["flow_hash.p4"])
    return [int(number, 16) for number in found]


def rank(rows: list[int]) -> int:
    """Rank over GF(2)."""
    pivots: list[int] = []
    for row in rows:
        for pivot in pivots:
            row = min(row, row ^ pivot)
        if row:
            pivots.append(row)
    return len(pivots)


def test_tiers_are_independent() -> None:
    """Low bits of two tiers' hashes are independent functions of the 32-bit flow hash.

    Each output bit is a linear function of the input, written as a row; full rank of all rows
    together means that, for evenly spread flow hashes, what one tier chose says nothing about what
    another one will choose, in groups of up to 64 buckets.
    """
    tiers = polynomials()
    assert len(tiers) == len(set(tiers)) == 4
    columns = {tier: [crc16(tier, 1 << bit, 32) for bit in range(32)] for tier in tiers}
    for first, second in combinations(tiers, 2):
        rows = [
            sum((columns[tier][bit] >> output & 1) << bit for bit in range(32))
            for tier in (first, second)
            for output in range(6)
        ]
        assert rank(rows) == 12, (hex(first), hex(second))


@pytest.mark.parametrize("members", TIER_MEMBERS)
def test_flows_of_one_member_spread_over_the_next_tier(members: int) -> None:
    """Flows that share a first-tier member use all second-tier members alike, within 10 %.

    Members have as equal shares of 64 buckets as there are; seed 1.
    """
    flows = np.random.default_rng(1).integers(0, 1 << 32, members * members * 3000, np.uint32)
    owner = np.arange(64) * members // 64
    buckets_per_member = np.bincount(owner)
    choices = []
    for tier in polynomials():
        hashed = np.zeros(len(flows), np.uint32)
        for bit in range(32):
            hashed ^= (flows >> np.uint32(bit) & np.uint32(1)) * np.uint32(
                crc16(tier, 1 << bit, 32)
            )
        choices.append(owner[hashed % 64])
    for first, second in pairwise(choices):
        for member in range(min(members, 4)):
            counts = np.bincount(second[first == member], minlength=members) / buckets_per_member
            assert abs(counts / counts.mean() - 1).max() < 0.1


# ---- p4info


def p4info_tna(target: str) -> p4i.P4Info:
    """The committed p4info of one generation."""
    folder = files(p4src) / TNA_TARGETS[target].folder
    return text_format.Parse((folder / P4INFO_NAME).read_text("utf-8"), p4i.P4Info())


def contract(info: p4i.P4Info) -> dict[str, list[str]]:
    """What a controller must send, as text by object; sizes and counters are a target's own."""
    names = {action.preamble.id: action.preamble.alias for action in info.actions}
    found = {}
    for table in info.tables:
        rows = [f"id 0x{table.preamble.id:08X}", f"selector 0x{table.implementation_id:08X}"]
        for key in table.match_fields:
            kind = p4i.MatchField.MatchType.Name(key.match_type)
            rows.append(f"key {key.id} {key.name} {key.bitwidth} {kind}")
        rows += sorted(
            f"action {names[ref.id]}"
            for ref in table.action_refs
            if ref.scope != p4i.ActionRef.DEFAULT_ONLY
        )
        found[f"table {table.preamble.alias}"] = rows
    for action in info.actions:
        if action.preamble.alias == "NoAction" or not action.params:
            found.setdefault(f"action {action.preamble.alias}", [f"id 0x{action.preamble.id:08X}"])
        else:
            found[f"action {action.preamble.alias}"] = [
                f"id 0x{action.preamble.id:08X}",
                *(f"param {p.id} {p.name} {p.bitwidth}" for p in action.params),
            ]
    for profile in info.action_profiles:
        found[f"profile {profile.preamble.alias}"] = [
            f"id 0x{profile.preamble.id:08X}",
            f"selector {profile.with_selector} buckets {profile.max_group_size}",
        ]
    for counter in info.counters:
        found[f"counter {counter.preamble.alias}"] = [
            f"id 0x{counter.preamble.id:08X} size {counter.size}"
        ]
    for packet in info.controller_packet_metadata:
        found[f"controller header {packet.preamble.name}"] = [
            f"{field.id} {field.name} {field.bitwidth}" for field in packet.metadata
        ]
    return found


@pytest.mark.parametrize("target", P4INFO_TNA)
def test_p4info_is_the_same_contract(target: str) -> None:
    """Tables, keys, actions, parameters, selector, counters and controller packets: all alike."""
    ours, theirs = contract(p4info_tna(target)), contract(load_p4info())
    assert sorted(ours) == sorted(theirs)
    for name, rows in theirs.items():
        assert ours[name] == rows, name


# An action counts for one table only, and drop_report's NoAction would have to count.
WITHOUT_DIRECT_COUNTER = {
    "ipv4_lpm",
    "ipv6_lpm",
    "int_watchlist",
    "int_watchlist_ipv6",
    "drop_report",
}


@pytest.mark.parametrize("target", P4INFO_TNA)
def test_direct_counters_are_those_of_their_tables(target: str) -> None:
    """Same ids and tables as on v1model, but for five tables that have none (docs/tofino.md)."""

    def counters(info: p4i.P4Info) -> dict[str, tuple[int, str]]:
        names = {table.preamble.id: table.preamble.alias for table in info.tables}
        return {
            names[item.direct_table_id]: (item.preamble.id, item.preamble.alias)
            for item in info.direct_counters
        }

    ours, theirs = counters(p4info_tna(target)), counters(load_p4info())
    assert theirs.keys() - ours.keys() == WITHOUT_DIRECT_COUNTER
    assert ours.items() <= theirs.items()


@pytest.mark.parametrize("target", P4INFO_TNA)
def test_registers_are_those_of_v1model_and_one_more(target: str) -> None:
    """Nobody reads them over P4Runtime, but an id is never used twice."""

    def registers(info: p4i.P4Info) -> dict[str, int]:
        return {item.preamble.alias: item.preamble.id for item in info.registers}

    ours, theirs = registers(p4info_tna(target)), registers(load_p4info())
    given_out = json.loads(ID_REGISTER.read_text(encoding="utf-8"))["registers"]
    own = given_out[f"0x{ours.pop('probe_sequence'):08X}"]
    assert own == {"name": "probe_sequence", "only": "tna"}
    assert ours == theirs


@pytest.mark.parametrize("target", P4INFO_TNA)
def test_sizes_are_those_of_the_source(target: str) -> None:
    """A controller learns a table's size here: what fits one pipe next to everything else."""
    sizes = dict(re.findall(r"#define (\w+)\s+(\d+)", TNA["table_sizes.p4"]))
    text = "\n".join(TNA.values())
    for table in p4info_tna(target).tables:
        alias = table.preamble.alias
        (size,) = re.findall(rf"    table {alias} \{{.*?size = (\w+);", text, re.DOTALL)[:1]
        assert table.size == int(sizes.get(size, size)), alias


@pytest.mark.parametrize("target", P4INFO_TNA)
def test_p4info_names_its_target(target: str) -> None:
    """Program and version are those of the sources, the architecture is not v1model."""
    info = p4info_tna(target).pkg_info
    assert info.name == "tempotrace"
    assert info.version == load_p4info().pkg_info.version
    assert info.arch in ("tna", "t2na")
