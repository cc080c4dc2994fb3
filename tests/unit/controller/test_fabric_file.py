# SPDX-License-Identifier: Apache-2.0
"""`fabric.yaml` is read into a Fabric, or refused in one line that names file, line and key."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric import FabricError, LinkEnd, WatchTraffic
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric, parse_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_schema import fabric_schema
from tests.support.fabric_cases import CASES, LEAF_1, SMALL
from tests.support.fabric_faults import fault_at, faults_of, file_faults


def changed(old: str, new: str) -> str:
    """The small fabric's text with one place changed."""
    assert SMALL.count(old) >= 1, old
    return SMALL.replace(old, new, 1)


def line_with(text: str, part: str, *, occurrence: int = 0) -> int:
    """Line (from 1) that holds the part."""
    return [n for n, line in enumerate(text.splitlines(), 1) if part in line][occurrence]


@pytest.mark.parametrize(
    ("old", "new", "blamed", "key", "message"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_wrong_file_gives_one_line(
    old: str, new: str, blamed: str, key: str, message: str, tmp_path: Path
) -> None:
    """The error names file, line at fault, key, what is wrong and what was expected."""
    text = changed(old, new)
    path = tmp_path / "fabric.yaml"
    path.write_text(text, encoding="utf-8")
    faults = file_faults(path)
    assert len(faults) == 1, "\n".join(map(str, faults))
    fault = fault_at(faults, key)
    assert str(fault).startswith(f"{path}:{fault.line}: {key}: ")
    assert message in str(fault)
    assert blamed in text.splitlines()[fault.line - 1]


KEYS_OF_TEXT = ("(yaml)", "(document)", "a.a.a", "a[0][0]", "x")
"""Of errors of the text as such, or of what is no fabric at all."""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("name: [a, b\nversion: 1\n", 1, id="unclosed list"),
        pytest.param("name: demo\n\tversion: 1\n", 2, id="tab as indentation"),
        pytest.param("name: demo\n  version: 1\n", 2, id="stray indentation"),
        pytest.param("a: 1\n---\nb: 2\n", 2, id="two documents"),
        pytest.param('name: "demo\n', 1, id="unclosed text"),
        pytest.param("name: *nowhere\n", 1, id="unknown alias"),
        pytest.param("name: demo\x00\n", 1, id="control character"),
        pytest.param("a: &a [*a]\n", 1, id="alias within itself"),
        pytest.param("a: " + "[" * 500 + "]" * 500 + "\n", 1, id="nested beyond any use"),
        pytest.param("a: " + "{a: " * 3000 + "1" + "}" * 3000 + "\n", 1, id="nested to the stack"),
        pytest.param("x: !!binary aGk=\n", 1, id="tagged value"),
        pytest.param("", 1, id="empty file"),
        pytest.param("- a\n- b\n", 1, id="a list"),
        pytest.param("just text\n", 1, id="a text"),
    ],
)
def test_text_that_is_no_fabric_gives_one_line(text: str, line: int) -> None:
    """YAML that does not parse, or is no mapping, is refused at its line."""
    assert line in {fault.line for fault in faults_of(text) if fault.key in KEYS_OF_TEXT}


def test_aliases_cannot_blow_up_the_document() -> None:
    """Ten lines whose aliases expand to 10^9 values are refused."""
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    with pytest.raises(FabricError, match="too large"):
        parse_fabric(text)


def test_missing_file_gives_one_line(tmp_path: Path) -> None:
    """A file that is not there is an error of the same form."""
    (fault,) = file_faults(tmp_path / "nowhere.yaml")
    assert "No such file" in fault.message


def test_file_that_is_not_utf8_gives_one_line(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are refused."""
    path = tmp_path / "fabric.yaml"
    path.write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(FabricError, match="expected UTF-8 text"):
        load_fabric(path)


def test_all_problems_are_told_in_the_order_of_the_file() -> None:
    """One line each, whether a value, a reference or the cabling is wrong."""
    text = changed("udp_port: 32766", "udp_port: 0").replace("dscp: 46", "dscp: 99")
    text = text.replace("tenant: beta", "tenant: gamma", 1).replace('"leaf1:2"', '"leaf1:1"', 1)
    assert [fault.key for fault in faults_of(text)] == [
        "collector.udp_port",
        "qos.classes[2].dscp",
        "hosts[1].tenant",
        "links[1].a",
    ]


def test_host_without_a_link_is_an_error() -> None:
    """Each host has exactly one link."""
    text = "\n".join(line for line in SMALL.splitlines() if '"h4:1"' not in line)
    with pytest.raises(FabricError, match="host h4 has no link"):
        parse_fabric(text)


def test_node_without_a_path_is_an_error() -> None:
    """All nodes must be joined by links."""
    lines = [line for line in SMALL.splitlines() if '{a: "leaf2:1"' not in line]
    text = "\n".join(line for line in lines if '{a: "leaf2:2"' not in line)
    with pytest.raises(FabricError, match="no path leads from leaf2"):
        parse_fabric(text)


def test_comments_anchors_and_block_style_are_read() -> None:
    """The file may use all of plain YAML: comments, anchors and merge keys, block style."""
    text = SMALL.replace(
        "  - {name: h1, model: hardware-stamp-nic,",
        "  - &host # the first host\n    name: h1\n    model: hardware-stamp-nic\n    ",
    )
    text = re.sub(
        r"model: hardware-stamp-nic\n     (ip: [0-9.]+), (mac: [^,]+), (tenant: [a-z]+)}",
        r"model: hardware-stamp-nic\n    \1\n    \2\n    \3",
        text,
    )
    text = text.replace("{name: h2, model: hardware-stamp-nic,", "{<<: *host, name: h2,")
    assert parse_fabric(text) == parse_fabric(SMALL)


def test_values_arrive_typed() -> None:
    """What stands in the file is what the typed fabric holds."""
    fabric = parse_fabric(SMALL)
    assert fabric.links[0].a == LinkEnd(node="leaf1", port=1)
    assert fabric.host("h3").ip == 0x0A000201
    assert fabric.switch("spine1").node_id == 101
    assert fabric.watchlists[1].traffic is WatchTraffic.PTP
    assert fabric.watchlists[0].instruction_bitmap == 0xFC00


def test_published_schema_is_the_packaged_one() -> None:
    """The schema in docs is the one that the reader uses, byte for byte."""
    root = Path(__file__).parents[3]
    packaged = root / "controller" / "schemas" / "fabric.schema.json"
    assert (root / "docs" / "schemas" / "fabric.schema.json").read_bytes() == packaged.read_bytes()
    assert fabric_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_text_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    """Any replacement of any stretch of the text gives a fabric or a FabricError."""
    text = dump_fabric(leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"]))
    start = data.draw(st.integers(0, len(text)))
    size = data.draw(st.integers(0, 30))
    junk = data.draw(
        st.text(max_size=12) | st.sampled_from(["{", "]", ": ", "&a ", "*a", "- ", "!x ", "? "])
    )
    faults_of(text[:start] + junk + text[start + size :])


def test_example_of_the_documentation_is_sound() -> None:
    """The example in docs/fabric.md loads as it stands."""
    page = (Path(__file__).parents[3] / "docs" / "fabric.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    assert [link.length_m for link in parse_fabric(example).links] == [3.0, None]


def test_error_of_the_documentation_is_what_is_printed() -> None:
    """The error line in docs/fabric.md comes from its example with the port used twice."""
    page = (Path(__file__).parents[3] / "docs" / "fabric.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0].replace('"leaf1:12"', '"leaf1:11"')
    with pytest.raises(FabricError) as raised:
        parse_fabric(example)
    shown = next(line for line in page.splitlines() if re.match("fabric.yaml:.*links", line))
    (fault,) = raised.value.faults
    assert str(fault).split(": ", 1)[1] == shown.split(": ", 1)[1]


@pytest.mark.parametrize("server", ["a:1", "switch.example:65535", "127.0.0.1:50051", "[::1]:9559"])
def test_a_p4runtime_server_has_a_port_that_exists(server):
    """The smallest, the largest, and those in use."""
    fabric = parse_fabric(changed(LEAF_1, f'{LEAF_1}, p4runtime: "{server}"'))
    assert fabric.switches[0].p4runtime == server
