# SPDX-License-Identifier: Apache-2.0
"""A fabric in several files: sections put together, errors told by the file that has them."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric import Fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric, parse_fabric
from tests.support.fabric_cases import SMALL
from tests.support.fabric_faults import fault_at, file_faults

FABRIC = parse_fabric(SMALL)


def section(name: str) -> str:
    """A section of the small file with its items."""
    return f"{name}:\n" + SMALL.split(f"\n{name}:\n")[1].split("\n\n")[0].rstrip() + "\n"


def without(*names: str) -> str:
    """The small file without these sections."""
    text = SMALL
    for name in names:
        text = text.replace(section(name), "")
    return text


def write(folder: Path, **files: str) -> Path:
    """Files by name (`__` for a folder); the main one is `fabric`."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "fabric.yaml"


def halves(name: str, at: int) -> tuple[str, str]:
    """A section's items, before and from `at` on."""
    head, *items = section(name).splitlines()
    return "\n".join([head, *items[:at]]) + "\n", "\n".join([head, *items[at:]]) + "\n"


def test_included_files_add_their_items_in_order(tmp_path: Path) -> None:
    """Own items first, then those of each file; a pattern's files in the order of their names."""
    early, late = halves("links", 5)
    path = write(
        tmp_path,
        fabric=without("hosts", "links") + "include: [hosts.yaml, links/*.yaml]\n",
        hosts="# the hosts\nversion: 1\n" + section("hosts"),
        links__pod2=late,
        links__pod1=early,
    )
    assert load_fabric(path) == FABRIC


def test_included_files_include_others_relative_to_themselves(tmp_path: Path) -> None:
    """`pods/all.yaml` finds its neighbours; sections that are no lists stand in any one file."""
    path = write(
        tmp_path,
        fabric=without("hosts", "links", "clock_limits") + "include: [pods/all.yaml]\n",
        pods__all="include: [hosts.yaml, links.yaml, ../limits.yaml]\n",
        pods__hosts=section("hosts"),
        pods__links=section("links"),
        limits=section("clock_limits"),
    )
    assert load_fabric(path) == FABRIC


def test_what_is_written_includes_nothing(tmp_path: Path) -> None:
    """The generated text is one file again."""
    path = write(
        tmp_path, fabric=without("hosts") + "include: [hosts.yaml]\n", hosts=section("hosts")
    )
    fabric = load_fabric(path)
    assert dump_fabric(fabric) == SMALL
    assert isinstance(fabric, Fabric)


def test_errors_name_the_file_that_has_them(tmp_path: Path) -> None:
    """File, line and key as they stand there, in the order of the files; another place in another
    file is named with that file."""
    early, late = halves("links", 5)
    path = write(
        tmp_path,
        fabric=without("hosts", "links").replace("dscp: 46", "dscp: 99")
        + "include: [hosts.yaml, links/*.yaml]\n",
        hosts=section("hosts").replace("tenant: beta", "tenant: gamma", 1),
        links__a=early,
        links__b=late.replace('"leaf1:12"', '"leaf1:11"'),
    )
    faults = file_faults(path)
    assert [(Path(fault.path).name, fault.line, fault.key) for fault in faults] == [
        ("fabric.yaml", 33, "qos.classes[2].dscp"),
        ("hosts.yaml", 3, "hosts[1].tenant"),
        ("b.yaml", 2, "links[0].a"),
    ]
    assert f"used by links[4].a of {tmp_path}/links/a.yaml already" in faults[2].message


@pytest.mark.parametrize(
    ("files", "where", "key", "message"),
    [
        ({"fabric": "include: [more.yaml]\n"}, "fabric", "include[0]", "No such file"),
        ({"fabric": "include: [x/*.yaml]\n"}, "fabric", "include[0]", "matches no file"),
        ({"fabric": "include: more.yaml\n"}, "fabric", "include", "wrong type; expected a list"),
        ({"fabric": "include: [7]\n"}, "fabric", "include[0]", "7 is not valid; expected a list"),
        ({"fabric": "include: [/etc/x.yaml]\n"}, "fabric", "include[0]", "relative to this one"),
        ({"fabric": "include: ['**x']\n"}, "fabric", "include[0]", "expected"),
        (
            {"fabric": "include: [more.yaml]\n", "more": "include: [fabric.yaml]\n"},
            "more",
            "include[0]",
            "includes itself by way of this file",
        ),
        (
            {"fabric": "include: [more.yaml, '*re.yaml']\n", "more": "punt: []\n"},
            "fabric",
            "include[1]",
            "is included already, by",
        ),
        (
            {"fabric": "include: [more.yaml]\n", "more": "name: other\n"},
            "more",
            "name",
            "has the section already",
        ),
        ({"fabric": "include: [more.yaml]\n", "more": "- a\n"}, "more", "(document)", "mapping"),
        ({"fabric": "include: [more.yaml]\n", "more": "a: [\n"}, "more", "(yaml)", "YAML"),
        (
            {"fabric": "include: [more.yaml]\n", "more": "version: 2\n"},
            "more",
            "version",
            "2 is not valid; expected the format version, 1",
        ),
        (
            {"fabric": "include: [more.yaml]\n", "more": "hots: []\n"},
            "more",
            "hots",
            "unknown key (did you mean hosts?)",
        ),
    ],
)
def test_includes_that_cannot_be_are_one_line(
    tmp_path: Path, files: dict[str, str], where: str, key: str, message: str
) -> None:
    """The error stands at the line that includes, or in the file that is wrong."""
    files = {**files, "fabric": SMALL + files["fabric"]}
    faults = file_faults(write(tmp_path, **files))
    fault = fault_at(faults, key)
    assert (Path(fault.path).stem, message in fault.message) == (where, True), str(fault)
    assert {fault.key} == {one.key for one in faults} - {"a"}


def test_other_errors_are_told_next_to_a_missing_file(tmp_path: Path) -> None:
    """What the missing file would have held is not missed; values and conflicts are told."""
    text = without("hosts").replace("dscp: 46", "dscp: 99").replace('"leaf1:2"', '"leaf1:1"', 1)
    path = write(tmp_path, fabric=text + "include: [hosts.yaml]\n")
    assert [fault.key for fault in file_faults(path)] == [
        "qos.classes[2].dscp",
        "links[1].a",
        "include[0]",
    ]


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.sampled_from(["tenants", "hosts", "links"]), unique=True), at=st.integers(0, 4)
)
def test_a_file_cut_into_parts_is_the_same_fabric(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[str], at: int
) -> None:
    """However sections are spread over files."""
    files: dict[str, str] = {}
    text = SMALL
    for name in cuts:
        early, late = halves(name, min(at, len(section(name).splitlines()) - 1))
        if early == f"{name}:\n":
            early = ""
        text = text.replace(section(name), early)
        files[f"part-{name}"] = late if late != f"{name}:\n" else f"{name}: []\n"
    text += f"include: [{', '.join(f'{name}.yaml' for name in files)}]\n" if files else ""
    path = write(tmp_path_factory.mktemp("parts"), fabric=text, **files)
    assert load_fabric(path) == FABRIC


def test_an_included_pipe_or_a_link_to_itself_is_an_error_and_not_waited_for(
    tmp_path: Path,
) -> None:
    """The file is read again and again while a controller runs."""
    path = write(tmp_path, fabric=without("links") + "include: [a.yaml, b.yaml]\n")
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").symlink_to("b.yaml")
    messages = [one.message for one in file_faults(path)]
    assert any("a.yaml: Not a regular file" in one for one in messages)
    assert any("b.yaml: Too many levels of symbolic links" in one for one in messages)
