# SPDX-License-Identifier: Apache-2.0
"""The TNA program speaks the contract of the v1model program: names, ids, keys, parameters.

Two comparisons, neither of which needs a compiler: the committed p4info texts, and the sources, so
that a change to one program is noticed before the other one is compiled again.
"""

import re
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

import p4src
from tests.p4.contract import load_p4info

P4INFO_TNA = ("tofino1", "tofino2")
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
    shared = set(re.findall(r"\bheader (\w+)", sources("include")["headers.p4"]))
    ours = {name for text in TNA.values() for name in re.findall(r"\bheader (\w+)", text)}
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
        r"((?:    //[^\n]*\n)*)    @id\(TABLE_\w+\)\n    table (\w+) \{(.*?)\n    \}", text, re.DOTALL
    ):
        assert "Filled by the controller" in comment, table
        assert re.search(r"size = \w+;", body), table
        assert "default_action = " in body, table


# ---- tiers

TIER_MEMBERS = (2, 3, 4, 6, 8, 16, 32, 64)


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
    """Flows that share a first-tier member use all second-tier members alike, within 10 %."""
    tiers = polynomials()
    flows = [flow * 0x9E3779B1 & 0xFFFFFFFF for flow in range(members * members * 200)]
    for first, second in zip(tiers, tiers[1:], strict=False):
        counts = [0] * members
        table_first = [crc16(first, value << 16, 32) for value in range(0)]  # built below
        assert table_first == []
        for flow in flows:
            if crc16(first, flow, 32) % 64 % members == 0:
                counts[crc16(second, flow, 32) % 64 % members] += 1
        mean = sum(counts) / members
        assert max(counts) < 1.3 * mean
