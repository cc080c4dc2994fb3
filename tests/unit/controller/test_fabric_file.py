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
from tests.support.fabric_faults import fault_at, faults_of, file_faults

SMALL = dump_fabric(leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, lengths_m=[10.0] * 8))
POINT = "{latency_ns: 1, uncertainty_ns: 1}"
LEAF_1 = (
    '{name: leaf1, node_id: 1, model: tempotrace-switch, ip: 10.254.0.1, mac: "02:00:01:00:00:01"'
)
LEAF_2 = (
    '{name: leaf2, node_id: 2, model: tempotrace-switch, ip: 10.254.0.2, mac: "02:00:01:00:00:02"'
)


def changed(old: str, new: str) -> str:
    """The small fabric's text with one place changed."""
    assert SMALL.count(old) >= 1, old
    return SMALL.replace(old, new, 1)


def line_with(text: str, part: str, *, occurrence: int = 0) -> int:
    """Line (from 1) that holds the part."""
    return [n for n, line in enumerate(text.splitlines(), 1) if part in line][occurrence]


# (name, text before, text after, text on the line to blame, key, what the message contains)
CASES = [
    (
        "unknown key at the top",
        "name: demo",
        "name: demo\ncolour: red",
        "colour",
        "colour",
        "unknown key",
    ),
    (
        "unknown key, close to a known one",
        "  udp_port:",
        "  udp_prot:",
        "udp_prot",
        "collector.udp_prot",
        "did you mean udp_port?",
    ),
    (
        "unknown key in a list item",
        LEAF_1,
        LEAF_1 + ", rack: 7",
        LEAF_1,
        "switches[0].rack",
        "unknown key",
    ),
    (
        "unknown key in a stamp point",
        "latency_ns: 120,",
        "latency_ns: 120, jitter: 1,",
        "jitter",
        "models[0].stamp_points[0].ingress.jitter",
        "unknown key",
    ),
    (
        "missing key",
        "  domain: 0\n",
        "",
        "ptp:",
        "ptp.domain",
        "missing key; expected a PTP domain number",
    ),
    (
        "missing key in a list item",
        "node_id: 2, ",
        "",
        "name: leaf2",
        "switches[1].node_id",
        "missing key; expected an INT node id",
    ),
    (
        "missing section",
        "tenants:\n",
        "tenant_list:\n",
        "tenant_list",
        "tenant_list",
        "did you mean tenants?",
    ),
    (
        "wrong type: text for a number",
        "node_id: 2",
        "node_id: two",
        "name: leaf2",
        "switches[1].node_id",
        '"two" has the wrong type; expected an INT node id',
    ),
    (
        "wrong type: number for a text",
        "name: demo",
        "name: 7",
        "name: 7",
        "name",
        "7 has the wrong type; expected a name",
    ),
    (
        "wrong type: mapping for a list",
        "tenants:\n  - {name: alpha}\n  - {name: beta}",
        "tenants: {}",
        "tenants",
        "tenants",
        "a mapping has the wrong type; expected a list of tenants",
    ),
    (
        "wrong type: truth value for a number",
        "domain_id: 0",
        "domain_id: true",
        "domain_id",
        "int.domain_id",
        "true has the wrong type",
    ),
    (
        "empty value",
        "  grandmaster: h1",
        "  grandmaster:",
        "grandmaster",
        "ptp.grandmaster",
        "an empty value has the wrong type; expected a name",
    ),
    (
        "number out of range",
        "udp_port: 32766",
        "udp_port: 70000",
        "udp_port",
        "collector.udp_port",
        "70000 is not valid; expected a UDP port",
    ),
    (
        "not a number",
        "rate_offset_max_ppb: 100000",
        "rate_offset_max_ppb: .nan",
        "rate_offset",
        "clock_limits.rate_offset_max_ppb",
        ".nan is not finite; expected a finite number",
    ),
    *(
        (
            f"{key} of {value}",
            f"{key}: {now}",
            f"{key}: {value}",
            line,
            path,
            f"{shown} is not finite; expected a finite number",
        )
        for key, now, line, path in [
            ("length_m", "10.0", "leaf1:1", "links[0].length_m"),
            ("length_tolerance_m", "1.0", "leaf1:1", "links[0].length_tolerance_m"),
            ("asymmetry_sd_ns", "5.0", "leaf1:1", "links[0].asymmetry_sd_ns"),
            ("wander_ns_per_s_sqrt_s", "10.0", "wander", "clock_limits.wander_ns_per_s_sqrt_s"),
            ("propagation_ns_per_m_min", "4.8", "_m_min", "propagation_ns_per_m_min"),
            ("stamp_unit_ns", "1", "stamp_unit_ns", "models[0].stamp_unit_ns"),
            ("node_id", "1", "name: leaf1", "switches[0].node_id"),
        ]
        for value, shown in [
            (".nan", ".nan"),
            (".inf", ".inf"),
            ("-.inf", "-.inf"),
            ("1e400", ".inf"),
        ]
    ),
    *(
        (
            f"text that is not on one line: {old}",
            old,
            new,
            line,
            path,
            "expected a text without control characters",
        )
        for old, new, line, path in [
            ("name: demo", 'name: "demo\\n"', "name: ", "name"),
            ('"02:00:01:00:00:01"', '"02:00:01:00:00:01\\n"', "name: leaf1", "switches[0].mac"),
            ('a: "leaf1:1"', 'a: "leaf1:1\\n"', "leaf1:1", "links[0].a"),
            ("ip: 10.254.0.1,", 'ip: "10.254.0.1\\0",', "name: leaf1", "switches[0].ip"),
        ]
    ),
    *(
        (
            f"MAC address {mac}",
            '"02:00:01:00:00:01"',
            f'"{mac}"',
            "name: leaf1",
            "switches[0].mac",
            "expected a unicast MAC address, not all zeros",
        )
        for mac in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "02:00:00:00:00")
    ),
    *(
        (
            f"P4Runtime server {server}",
            LEAF_1,
            f'{LEAF_1}, p4runtime: "{server}"',
            "name: leaf1",
            "switches[0].p4runtime",
            "expected HOST:PORT of a P4Runtime server, with a port from 1 to 65535",
        )
        for server in (
            "a:0",
            "a:65536",
            "a:99999",
            "[::1]:0",
            "[::1]:70000",
            "a:080",
            "nohost",
            ":1",
        )
    ),
    (
        "negative latency",
        "latency_ns: 120,",
        "latency_ns: -1,",
        "latency_ns: -1",
        "models[0].stamp_points[0].ingress.latency_ns",
        "-1 is not valid; expected nanoseconds, 0 to 1000000",
    ),
    (
        "negative uncertainty",
        "latency_ns: 120, uncertainty_ns: ",
        "latency_ns: 120, uncertainty_ns: -",
        "uncertainty_ns: -",
        "models[0].stamp_points[0].ingress.uncertainty_ns",
        " is not valid; expected nanoseconds, 0 to 1000000",
    ),
    *(
        (
            f"length {length}",
            "length_m: 10.0",
            f"length_m: {length}",
            "leaf1:1",
            "links[0].length_m",
            "expected metres above 0",
        )
        for length in ("0", "0.0", "-1")
    ),
    (
        "wrong version",
        "version: 1",
        "version: 9",
        "version",
        "version",
        "9 is not valid; expected the format version, 1",
    ),
    (
        "not an address",
        "ip: 10.254.0.2",
        "ip: 10.254.0.256",
        "name: leaf2",
        "switches[1].ip",
        "expected an IPv4 address",
    ),
    (
        "not a MAC",
        '"02:00:00:00:01:01"',
        '"02:00:00:00:01"',
        "name: h1,",
        "hosts[0].mac",
        "expected a unicast MAC",
    ),
    (
        "multicast MAC",
        '"02:00:00:00:01:01"',
        '"03:00:00:00:01:01"',
        "name: h1,",
        "hosts[0].mac",
        "expected a unicast MAC",
    ),
    (
        "prefix with host bits",
        "10.0.1.0/24",
        "10.0.1.7/24",
        "name: leaf1",
        "switches[0].prefixes[0]",
        "without host bits",
    ),
    (
        "two nodes with one node id",
        "node_id: 2,",
        "node_id: 1,",
        "name: leaf2",
        "switches[1].node_id",
        "the node id 1 is used by switches[0].node_id already",
    ),
    (
        "two switches with one name",
        "name: leaf2",
        "name: leaf1",
        "ip: 10.254.0.2",
        "switches[1].name",
        "the name leaf1 is used by switches[0].name",
    ),
    (
        "a host with a switch's name",
        "name: h2",
        "name: leaf1",
        "ip: 10.0.1.2",
        "hosts[1].name",
        "the name leaf1 is used by switches[0].name",
    ),
    (
        "two hosts with one ip",
        "ip: 10.0.1.2",
        "ip: 10.0.1.1",
        "name: h2",
        "hosts[1].ip",
        "the address 10.0.1.1 is used by hosts[0].ip",
    ),
    (
        "a switch with the collector's ip",
        "ip: 10.254.0.2",
        "ip: 10.255.0.1",
        "name: leaf2",
        "switches[1].ip",
        "is used by collector.ip",
    ),
    (
        "two hosts with one mac",
        "02:00:00:00:01:02",
        "02:00:00:00:01:01",
        "name: h2",
        "hosts[1].mac",
        "is used by hosts[0].mac",
    ),
    (
        "two models with one name",
        "name: hardware-stamp-nic",
        "name: tempotrace-switch",
        "name: tempotrace-switch",
        "models[1].name",
        "the name tempotrace-switch is used",
    ),
    (
        "port used twice",
        'a: "leaf1:2"',
        'a: "leaf1:1"',
        "spine2:1",
        "links[1].a",
        "port leaf1:1 is used by links[0].a already; expected a free port",
    ),
    (
        "port used twice at end b",
        'b: "spine1:2"',
        'b: "spine1:1"',
        "leaf2:1",
        "links[2].b",
        "port spine1:1 is used by links[0].b",
    ),
    (
        "link to an unknown node",
        'b: "spine2:1"',
        'b: "spine9:1"',
        "spine9",
        "links[1].b",
        "there is no node 'spine9'",
    ),
    (
        "link end without a port",
        'b: "spine2:1"',
        'b: "spine2"',
        "leaf1:2",
        "links[1].b",
        "expected NODE:PORT",
    ),
    (
        "link on the report port",
        'a: "leaf1:2"',
        'a: "leaf1:60"',
        "leaf1:60",
        "links[1].a",
        "is the report_port of leaf1",
    ),
    (
        "link on the drop port",
        'a: "leaf1:2"',
        'a: "leaf1:511"',
        "leaf1:511",
        "links[1].a",
        "is the port of dropped packets",
    ),
    (
        "link beyond the last port",
        'a: "leaf1:2"',
        'a: "leaf1:512"',
        "leaf1:512",
        "links[1].a",
        "does not exist",
    ),
    (
        "link from a switch to itself",
        'b: "spine2:1"',
        'b: "leaf1:9"',
        "leaf1:9",
        "links[1].b",
        "the link joins leaf1 and leaf1",
    ),
    (
        "host with two links",
        'b: "h2:1"',
        'b: "h1:2"',
        "h1:2",
        "links[5].b",
        "host h1 has a second link to leaf1",
    ),
    (
        "speed without a stamp point",
        "speed_gbps: 100, length",
        "speed_gbps: 400, length",
        "leaf1:1",
        "links[0].speed_gbps",
        "declares no stamp point at 400 Gb/s; expected one of 100",
    ),
    (
        "unknown dialect",
        "dialect: tempotrace-v2",
        "dialect: klingon",
        "dialect",
        "models[0].dialect",
        '"klingon" is not valid; expected a report dialect: tempotrace-v2, telemetry-report-v1.0',
    ),
    (
        "two stamp points at one speed",
        "    stamp_points:\n",
        "    stamp_points:\n      - {speed_gbps: 100, ingress: "
        + POINT
        + ", egress: "
        + POINT
        + "}\n",
        "- speed_gbps: 100",
        "models[0].stamp_points[1].speed_gbps",
        "the speed 100 is used by",
    ),
    (
        "tolerance above the length",
        "length_tolerance_m: 1.0",
        "length_tolerance_m: 11.0",
        "leaf1:1",
        "links[0].length_tolerance_m",
        "expected at most 10.0",
    ),
    (
        "tolerance without a length",
        "length_m: 10.0, ",
        "",
        "leaf1:1",
        "links[0].length_tolerance_m",
        "given without length_m",
    ),
    (
        "host of an unknown tenant",
        "tenant: beta",
        "tenant: gamma",
        "name: h2",
        "hosts[1].tenant",
        "there is no tenant 'gamma'; expected one of alpha, beta",
    ),
    (
        "tenant without a host",
        "  - {name: beta}",
        "  - {name: beta}\n  - {name: gamma}",
        "name: gamma",
        "tenants[2].name",
        "no host belongs to tenant 'gamma'",
    ),
    (
        "unknown grandmaster",
        "grandmaster: h1",
        "grandmaster: leaf1",
        "grandmaster",
        "ptp.grandmaster",
        "there is no host 'leaf1'; expected one of h1, h2, h3, h4",
    ),
    (
        "host with a switch model",
        "{name: h1, model: hardware-stamp-nic",
        "{name: h1, model: tempotrace-switch",
        "name: h1,",
        "hosts[0].model",
        "there is no nic model 'tempotrace-switch'",
    ),
    (
        "unknown switch model",
        "{name: leaf1, node_id: 1, model: tempotrace-switch",
        "{name: leaf1, node_id: 1, model: tofino",
        "name: leaf1",
        "switches[0].model",
        "there is no switch model 'tofino'",
    ),
    (
        "DSCP of two classes",
        "dscp: 46",
        "dscp: 0",
        "control",
        "qos.classes[2].dscp",
        "DSCP 0 is used by qos.classes[0].dscp",
    ),
    (
        "marked DSCP of another pair",
        "marked_dscp: 27",
        "marked_dscp: 28",
        "name: roce, dscp",
        "qos.classes[1].marked_dscp",
        "expected 27",
    ),
    (
        "odd DSCP with a mark",
        "dscp: 26, marked_dscp: 27",
        "dscp: 25, marked_dscp: 26",
        "name: roce, dscp",
        "qos.classes[1].dscp",
        "expected an even DSCP",
    ),
    (
        "truncation that is no number of words",
        "truncate_bytes: 96",
        "truncate_bytes: 97",
        "truncate_bytes",
        "int.truncate_bytes",
        "in words of 4",
    ),
    (
        "watchlist of an unmarked class",
        "class: roce",
        "class: control",
        "traffic: roce",
        "watchlists[0].class",
        "expected one of roce",
    ),
    (
        "watchlist of an unknown tenant",
        "class: roce",
        "class: roce, tenants: [alpha, omega]",
        "traffic: roce",
        "watchlists[0].tenants[1]",
        "there is no tenant 'omega'",
    ),
    (
        "watchlist without hops",
        "remaining_hop_count: 8, ",
        "",
        "traffic: roce",
        "watchlists[0].remaining_hop_count",
        "missing key",
    ),
    (
        "PTP watchlist with a class",
        "traffic: ptp",
        "traffic: ptp, class: roce",
        "traffic: ptp",
        "watchlists[1].class",
        "unknown key",
    ),
    (
        "reserved instruction bit",
        "instruction_bitmap: 0xFC00",
        "instruction_bitmap: 0xFC40",
        "traffic: roce",
        "watchlists[0].instruction_bitmap",
        "of bits 0 to 8 only",
    ),
    (
        "host outside its switch's prefix",
        "ip: 10.0.1.2",
        "ip: 10.0.7.2",
        "name: h2",
        "hosts[1].ip",
        "outside the prefixes of leaf1; expected an address in 10.0.1.0/24",
    ),
    (
        "overlapping prefixes",
        "prefixes: [10.0.2.0/24]",
        "prefixes: [10.0.0.0/16]",
        "name: leaf2",
        "switches[1].prefixes[0]",
        "overlaps switches[0].prefixes[0]",
    ),
    (
        "duplicate YAML key",
        "  domain: 0\n",
        "  domain: 0\n  domain: 1\n",
        "domain: 1",
        "ptp.domain",
        "stands twice",
    ),
    ("key that is no text", "name: demo", "name: demo\n7: x", "7: x", "7", "is not a text"),
    ("YAML date for a text", "name: demo", "name: 2001-02-03", "2001", "name", "is not used here"),
    (
        "empty list",
        "tenants:\n  - {name: alpha}\n  - {name: beta}",
        "tenants: []",
        "tenants",
        "tenants",
        "the list is empty",
    ),
]


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
    shown = next(line for line in page.splitlines() if line.startswith("fabric.yaml:"))
    (fault,) = raised.value.faults
    assert str(fault).split(": ", 1)[1] == shown.split(": ", 1)[1]


@pytest.mark.parametrize("server", ["a:1", "switch.example:65535", "127.0.0.1:50051", "[::1]:9559"])
def test_a_p4runtime_server_has_a_port_that_exists(server):
    """The smallest, the largest, and those in use."""
    fabric = parse_fabric(changed(LEAF_1, f'{LEAF_1}, p4runtime: "{server}"'))
    assert fabric.switches[0].p4runtime == server
