# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in fabric files, kind by kind: one line for each error, with file, line, key and
what was expected, and nothing of what merely follows from it."""

import re
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest

from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from tests.support.fabric_faults import file_faults

GOOD = dump_fabric(leaf_spine(leaves=2, spines=1, hosts_per_leaf=2, tenants=["a", "b"]))
Edit = Callable[[str], str]


def put(old: str, new: str) -> Edit:
    """The first `old` becomes `new`."""

    def edit(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return edit


def without(section: str, instead: str = "") -> Edit:
    """A section of items is left out, or something else in its place."""
    return lambda text: re.sub(rf"{section}:\n(  - .*\n)+", instead, text)


def end(line: str) -> Edit:
    """A line more at the end."""
    return lambda text: text + line + "\n"


def top(line: str) -> Edit:
    """A line more at the beginning."""
    return lambda text: line + "\n" + text


def name(text: str) -> Edit:
    """The second switch is called so."""
    return put("name: leaf2,", f"name: {text},")


NAME = "expected a name of letters"
KINDS: dict[str, tuple[Edit, str, str]] = {
    # the text
    "empty": (lambda _: "", "(document)", "an empty value has the wrong type; expected a mapping"),
    "comment only": (lambda _: "# none\n", "(document)", "an empty value has the wrong type"),
    "scalar": (lambda _: "hello\n", "(document)", '"hello" has the wrong type'),
    "list": (lambda _: "- a\n", "(document)", "a list has the wrong type"),
    "tab for indent": (put("  domain", "\tdomain"), "(yaml)", "a tab stands"),
    "tab behind a dash": (put("  - {name: leaf2", "  -\t{name: leaf2"), "(yaml)", "a tab stands"),
    "nul": (put("demo", "de\0mo"), "(yaml)", "the character U+0000 cannot be"),
    "escaped control": (put("demo", '"a\\u0007"'), "name", "without control characters"),
    "bad escape": (put("demo", '"\\q"'), "(yaml)", "expected YAML 1.2"),
    "open quote": (put("demo", '"demo'), "(yaml)", "expected YAML 1.2"),
    "open brace": (put("{name: leaf1,", "{{name: leaf1,"), "(yaml)", "expected YAML 1.2"),
    "two documents": (lambda text: f"{text}---\n{text}", "(yaml)", "second document; expected one"),
    "deep": (top("x: " + "[" * 2000 + "]" * 2000), "(yaml)", "nested too deeply"),
    "alias of nothing": (put("domain: 0", "domain: *x"), "(yaml)", "undefined alias"),
    "alias of itself": (put("tenants:", "loop: &l [*l]\ntenants:"), "loop[0][0]", "too deeply"),
    "merge of a number": (put("  domain", "  <<: 5\n  domain"), "ptp.<<", "expected a mapping"),
    "python tag": (put("demo", "!!python/object:os.system x"), "name", "is not used here"),
    "binary": (put("demo", "!!binary aGk="), "name", "a YAML binary is not used here"),
    "timestamp": (put("demo", "2026-11-30"), "name", "a YAML timestamp is not used here"),
    "set": (put("demo", "!!set {a}"), "name", "is not used here"),
    "key is a list": (top("? [a]\n: b"), "?", "a sequence as key is not a text"),
    "key is a number": (top("7: x"), "7", "the key 7 is not a text"),
    "key is null": (top("~: x"), "~", "the key ~ is not a text"),
    "key twice": (end("name: again"), "name", "stands twice in one mapping; expected it once"),
    "key twice inside": (put("domain: 0", "domain: 0\n  domain: 1"), "ptp.domain", "stands twice"),
    # types and ranges
    "nan": (put("min: 4.8", "min: .nan"), "propagation_ns_per_m_min", ".nan is not finite"),
    "infinite": (put("min: 4.8", "min: -.inf"), "propagation_ns_per_m_min", "is not finite"),
    "beyond floats": (put("min: 4.8", "min: 1e400"), "propagation_ns_per_m_min", "is not finite"),
    "huge": (
        put("32766", "9" * 400),
        "collector.udp_port",
        "... is not valid; expected a UDP port",
    ),
    "negative": (put("32766", "-1"), "collector.udp_port", "-1 is not valid"),
    "float": (put("32766", "32766.0"), "collector.udp_port", "32766.0 has the wrong type"),
    "truth": (put("32766", "true"), "collector.udp_port", "true has the wrong type"),
    "text": (put("32766", '"32766"'), "collector.udp_port", "has the wrong type"),
    "null": (without("tenants", "tenants:\n"), "tenants", "an empty value has the wrong type"),
    "mapping for list": (without("tenants", "tenants: {a: b}\n"), "tenants", "a mapping has"),
    "version": (put("version: 1", "version: 2"), "version", "expected the format version, 1"),
    "version as text": (put("version: 1", 'version: "1"'), "version", "expected the format"),
    "dscp": (put("dscp: 26", "dscp: 64"), "qos.classes[1].dscp", "expected a DSCP, 0 to 63"),
    "hops": (put("hop_count: 8", "hop_count: 0"), "watchlists[0].remaining_hop_count", "1 to 255"),
    "bits": (put("0xFC00", "0x1FC00"), "watchlists[0].instruction_bitmap", "0x0080 to 0xFF80"),
    "vlan": (put("100,", "100, vlan: 4095,"), "links[0].vlan", "expected a VLAN id, 1 to 4094"),
    "weight": (put("100,", "100, weight: 0,"), "links[0].weight", "0 is not valid"),
    "drained": (put("100,", "100, drained: maybe,"), "links[0].drained", "expected true or false"),
    # keys
    "section misspelt": (put("tenants:", "tenant:"), "tenant", "did you mean tenants?"),
    "section missing": (without("links"), "links", "missing key; expected a list of links"),
    "section unknown": (end("hues: []"), "hues", "unknown key; expected one of version"),
    "item key unknown": (put("{name: leaf1", "{hue: 1, name: leaf1"), "switches[0].hue", "unknown"),
    "item key missing": (put("{name: leaf1, ", "{"), "switches[0].name", "missing key"),
    "host without model": (
        lambda text: re.sub(r"(\{name: h1, )model: [^,]+, ", r"\1", text),
        "hosts[0].model",
        "missing key",
    ),
    # names
    "unicode name": (name("léaf2"), "switches[1].name", NAME),
    "emoji": (name('"🙂"'), "switches[1].name", NAME),
    "long name": (name("x" * 300), "switches[1].name", NAME),
    "name with a colon": (name('"a:b"'), "switches[1].name", NAME),
    "empty name": (name('""'), "switches[1].name", NAME),
    "name is a number": (put("name: demo", "name: 12"), "name", NAME),
    "name twice": (name("leaf1"), "switches[1].name", "is used by switches[0].name already"),
    "name of a switch": (put("{name: h1,", "{name: leaf1,"), "hosts[0].name", "is used by"),
    "node id twice": (put("node_id: 2", "node_id: 1"), "switches[1].node_id", "is used by"),
    # references
    "no such model": (put("model: tempotrace-switch", "model: x"), "switches[0].model", "'x'"),
    "no such tenant": (put("tenant: a", "tenant: z"), "hosts[0].tenant", "expected one of a, b"),
    "no such host": (put("grandmaster: h1", "grandmaster: h9"), "ptp.grandmaster", "h1, h2"),
    "no such node": (put('"leaf1:11"', '"leaf9:11"'), "links[2].a", "there is no node 'leaf9'"),
    "switch model of a host": (
        lambda text: re.sub(r"(\{name: h1, model: )[^,]+", r"\1tempotrace-switch", text),
        "hosts[0].model",
        "there is no nic model",
    ),
    "tenant without host": (
        put("tenants:", "tenants:\n  - {name: x}"),
        "tenants[0].name",
        "no host",
    ),
    "no stamp point": (put("speed_gbps: 100, ", "speed_gbps: 400, "), "links[0].speed_gbps", "400"),
    "marked elsewhere": (
        put("marked_dscp: 27", "marked_dscp: 30"),
        "qos.classes[1].marked_dscp",
        "27",
    ),
    # cabling
    "port used twice": (put('"leaf1:12"', '"leaf1:11"'), "links[3].a", "is used by links[2].a"),
    "port 0": (put('"leaf1:11"', '"leaf1:0"'), "links[2].a", "expected NODE:PORT"),
    "port by name": (put('"leaf1:11"', '"leaf1:eth0"'), "links[2].a", "expected NODE:PORT"),
    "no port": (put('"leaf1:11"', "leaf1"), "links[2].a", "expected NODE:PORT"),
    "drop port": (put('"leaf1:11"', '"leaf1:511"'), "links[2].a", "is the port of dropped packets"),
    "report port": (put('"leaf1:11"', '"leaf1:60"'), "links[2].a", "is the report_port of leaf1"),
    "node cut off": (
        lambda text: re.sub(r'  - \{a: "leaf2:1", b: "spine1:2".*\n', "", text),
        "switches[1].name",
        "expected links that join all nodes",
    ),
    # addresses
    "address twice": (put("10.0.1.2", "10.0.1.1"), "hosts[1].ip", "is used by hosts[0].ip"),
    "address of a switch": (put("10.254.0.1", "10.0.1.1"), "hosts[0].ip", "is used by switches"),
    "no address": (put("ip: 10.0.2.1,", "ip: 10.0.2.256,"), "hosts[2].ip", "an IPv4 address"),
    "multicast": (put("ip: 10.0.2.1,", "ip: 224.0.0.1,"), "hosts[2].ip", "a unicast address"),
    "outside": (put("ip: 10.0.2.1,", "ip: 10.0.9.1,"), "hosts[2].ip", "in 10.0.2.0/24"),
    "prefixes overlap": (
        put("10.0.2.0/24", "10.0.0.0/16"),
        "switches[1].prefixes[0]",
        "overlaps switches[0].prefixes[0]",
    ),
    "host bits": (
        put("10.0.2.0/24", "10.0.2.1/24"),
        "switches[1].prefixes[0]",
        "without host bits",
    ),
    "long prefix": (put("10.0.2.0/24", "10.0.2.0/33"), "switches[1].prefixes[0]", "not valid"),
    "mac not quoted": (put('"02:00:00:00:01:01"', "12:30:45"), "hosts[0].mac", "(in quotes)"),
    "mac of a group": (put("02:00:00:00:01:01", "03:00:00:00:01:01"), "hosts[0].mac", "a unicast"),
    "mac twice": (put("02:00:00:00:01:02", "02:00:00:00:01:01"), "hosts[1].mac", "is used by"),
    "server without port": (
        put("cpu_port: 510", "cpu_port: 510, p4runtime: localhost"),
        "switches[0].p4runtime",
        "expected HOST:PORT",
    ),
    # other files
    "include missing": (top("include: [gone.yaml]"), "include[0]", "No such file"),
    "include of itself": (top("include: [fabric.yaml]"), "include[0]", "includes itself"),
    "include of a folder": (top("include: [folder]"), "include[0]", "Is a directory"),
    "include one text": (top("include: hosts.yaml"), "include", "has the wrong type"),
    "include matches none": (top("include: [x/*.yaml]"), "include[0]", "matches no file"),
    "include nothing": (top("include: []"), "include", "the list is empty"),
    "include null": (top("include:"), "include", "an empty value has the wrong type"),
    "include a number": (top("include: [3]"), "include[0]", "3 is not valid"),
    "include twice": (top("include: [note.yaml, note.yaml]"), "include[1]", "is included already"),
}
ELSEWHERE = {
    # The edit is not where the fault is: it is told where the second of two stands, or the end.
    "open quote": None,
    "open brace": None,
    "two documents": None,
    "section missing": 1,
    "address of a switch": GOOD[: GOOD.index("{name: h1,")].count("\n") + 1,
    "mapping for list": None,
    "null": GOOD[: GOOD.index("tenants:")].count("\n") + 1,
    "node cut off": GOOD[: GOOD.index("{name: leaf2,")].count("\n") + 1,
    "key twice inside": GOOD[: GOOD.index("domain: 0")].count("\n") + 2,
    "tenant without host": None,
    "section misspelt": None,
}


def changed_line(text: str) -> int:
    """Number of the first line that is not as in the good file."""
    pairs = zip_longest(GOOD.split("\n"), text.split("\n"))
    return next(number for number, (old, new) in enumerate(pairs, 1) if old != new)


@pytest.mark.parametrize("kind", KINDS)
def test_one_line_names_the_fault(kind: str, tmp_path: Path) -> None:
    """The file's own line and key, and what was expected; nothing else."""
    edit, key, message = KINDS[kind]
    text = edit(GOOD)
    path = tmp_path / "fabric.yaml"
    path.write_bytes(text.encode())
    (tmp_path / "folder").mkdir()
    (tmp_path / "note.yaml").write_text("version: 1\n", encoding="utf-8")
    faults = file_faults(path)
    assert [(fault.path, fault.key) for fault in faults] == [(str(path), key)]
    assert message in faults[0].message
    line = ELSEWHERE.get(kind, changed_line(text))
    assert line is None or faults[0].line == line


def test_all_kinds_that_fit_together_are_told_at_once(tmp_path: Path) -> None:
    """Wrong values, names, references, cabling and files in one file: a line each, in its order."""
    together = [
        *("include missing", "no such host", "negative", "infinite", "dscp", "hops"),
        *("no such model", "unicode name", "mac not quoted", "no such tenant", "vlan", "port 0"),
    ]
    text = GOOD
    for kind in reversed(together):
        text = KINDS[kind][0](text)
    path = tmp_path / "fabric.yaml"
    path.write_text(text, encoding="utf-8")
    # With a file missing nobody knows which names there are: only what is wrong by itself.
    told = [fault.key for fault in file_faults(path)]
    by_itself = {"negative", "infinite", "dscp", "hops", "unicode name", "mac not quoted"}
    by_itself |= {"vlan", "port 0", "include missing"}
    assert told == [KINDS[kind][1] for kind in together if kind in by_itself]
    path.write_text(text.replace("include: [gone.yaml]\n", ""), encoding="utf-8")
    told = [fault.key for fault in file_faults(path)]
    assert told == [KINDS[kind][1] for kind in together if kind != "include missing"]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        GOOD.replace("domain: 0", "domain: &d 0"),
        GOOD.replace("name: demo", "name: yes"),
        GOOD.replace("udp_port: 32766", "udp_port: 0x7FFE"),
        "%YAML 1.2\n---\n" + GOOD + "...\n",
    ],
    ids=["BOM", "CRLF", "CR", "anchor", "yes is a text", "hexadecimal", "markers"],
)
def test_what_yaml_has_is_fine(text: str, tmp_path: Path) -> None:
    """Marks, line ends and notations of YAML 1.2 are no errors."""
    path = tmp_path / "fabric.yaml"
    path.write_bytes(text.encode())
    assert file_faults(path) == ()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (GOOD.encode("utf-16"), 1),
        (GOOD.replace("name: demo", "name: d\xe9mo").encode("latin-1"), 3),
    ],
    ids=["UTF-16", "Latin-1"],
)
def test_another_encoding_is_told_with_its_line(data: bytes, line: int, tmp_path: Path) -> None:
    """The first byte that is no UTF-8 has the line."""
    path = tmp_path / "fabric.yaml"
    path.write_bytes(data)
    (fault,) = file_faults(path)
    assert (fault.key, fault.line) == ("(file)", line)
    assert "expected UTF-8 text" in fault.message


def test_faults_of_included_files_are_theirs(tmp_path: Path) -> None:
    """A file that includes its way back, and one that is no YAML: each by its own name, and nothing
    of what its section would have held."""
    (tmp_path / "a.yaml").write_text("include: [b.yaml]\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("include: [a.yaml]\n", encoding="utf-8")
    (tmp_path / "bad.yaml").write_text("\nhosts: [\n", encoding="utf-8")
    path = tmp_path / "fabric.yaml"
    path.write_text("include: [a.yaml, bad.yaml]\n" + GOOD, encoding="utf-8")
    circle, broken = file_faults(path)
    assert (circle.path, circle.key) == (str(tmp_path / "b.yaml"), "include[0]")
    assert (broken.path, broken.line, broken.key) == (str(tmp_path / "bad.yaml"), 2, "(yaml)")
