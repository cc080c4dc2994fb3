# SPDX-License-Identifier: Apache-2.0
"""`deploy drain` changes links of a file and not a character more."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.fabric_drain import with_drained
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric
from controller.fabric_generate import leaf_spine
from tempotrace.commands.deploy import app

LINK = "leaf1:1-spine1:1"
TEXT = dump_fabric(leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"]))


def invoke(*arguments: str) -> tuple[int, str]:
    """Exit code and all that was said."""
    got = CliRunner().invoke(app, [*arguments])
    return got.exit_code, got.output


def drained(path: Path) -> set[str]:
    """The links that the file takes out of use."""
    return {link.name for link in load_fabric(path).links if link.drained}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'links:\n  - {a: "x:1", b: "y:1"}  # why\n',
            'links:\n  - {drained: true, a: "x:1", b: "y:1"}  # why\n',
        ),
        (
            'links:\n  # first\n  - a: "x:1"\n    b: "y:1"\n',
            'links:\n  # first\n  - drained: true\n    a: "x:1"\n    b: "y:1"\n',
        ),
        (
            "links:\r\n- a: x:1\r\n  b: y:1\r\n",
            "links:\r\n- drained: true\r\n  a: x:1\r\n  b: y:1\r\n",
        ),
        (
            "links: [{a: x:1, b: y:1, drained: false}, {a: x:2, b: y:2}]\n",
            "links: [{a: x:1, b: y:1, drained: true}, {a: x:2, b: y:2}]\n",
        ),
    ],
)
def test_text_stays_but_for_the_key(before: str, after: str) -> None:
    """Flow and block style, comments, and files of other systems."""
    assert with_drained(before, {"x:1-y:1"}, drained=True) == (after, {"x:1-y:1"})


def test_link_and_back(tmp_path: Path) -> None:
    """Drained, the same again changes nothing, and taken back."""
    path = tmp_path / "fabric.yaml"
    path.write_text(f"# mine\n{TEXT}", encoding="utf-8")
    assert invoke("drain", LINK, "-f", str(path)) == (0, f"{path}: 1 of 1 links changed\n")
    assert drained(path) == {LINK}
    assert invoke("drain", LINK, "-f", str(path)) == (0, f"{path}: 0 of 1 links changed\n")
    assert invoke("undrain", LINK, "-f", str(path))[0] == 0
    assert drained(path) == set()
    assert path.read_text(encoding="utf-8").startswith("# mine\n")
    assert [one.name for one in tmp_path.iterdir()] == ["fabric.yaml"]


def test_switch_is_all_of_its_links_to_switches(tmp_path: Path) -> None:
    """The links of a leaf's hosts stay in use; links may stand in another file."""
    head, _, links = TEXT.partition("\nlinks:")
    path, rest = tmp_path / "fabric.yaml", tmp_path / "links.yaml"
    path.write_text(f"{head}\ninclude: [links.yaml]\n", encoding="utf-8")
    rest.write_text(f"links:{links}", encoding="utf-8")
    assert invoke("drain", "leaf1", "-f", str(path))[0] == 0
    assert drained(path) == {"leaf1:1-spine1:1", "leaf1:2-spine2:1"}
    assert path.read_text(encoding="utf-8") == f"{head}\ninclude: [links.yaml]\n"


def test_unknown_name_is_exit_2(tmp_path: Path) -> None:
    """One line, and the file stays as it is."""
    path = tmp_path / "fabric.yaml"
    path.write_text(TEXT, encoding="utf-8")
    code, said = invoke("drain", "leaf9", "-f", str(path))
    assert (code, len(said.strip().splitlines())) == (2, 1)
    assert "there is no link or switch leaf9" in said
    assert path.read_text(encoding="utf-8") == TEXT


def test_links_that_share_their_text_are_left_alone(tmp_path: Path) -> None:
    """Where `drained` would change another link as well, nothing is changed."""
    path = tmp_path / "fabric.yaml"
    lines = TEXT.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"leaf1:1"' in line)
    lines[at] = lines[at].replace("- {", "- &first {drained: false, ")
    other = next(number for number, line in enumerate(lines) if '"leaf1:2"' in line)
    lines[other] = '  - {<<: *first, a: "leaf1:2", b: "spine2:1"}\n'
    path.write_text("".join(lines), encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    code, said = invoke("drain", LINK, "-f", str(path))
    assert code == 2
    assert "write it by hand" in said
    assert path.read_text(encoding="utf-8") == text
