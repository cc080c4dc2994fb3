# SPDX-License-Identifier: Apache-2.0
"""Artefacts of the P4 program: never stale, never edited by hand; errors say what to do."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import p4src
from controller.pipeline import (
    JSON_NAME,
    MANIFEST_NAME,
    P4INFO_NAME,
    Compiler,
    PipelineError,
    build,
    check,
    find_compiler,
    load_pipeline,
    normalise_json,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of p4src that a test may damage."""
    root = tmp_path / "p4src"
    shutil.copytree(Path(p4src.__file__).parent, root)
    return root


@pytest.fixture
def fake_compiler(tmp_path: Path) -> Compiler:
    """A stand-in for p4c-bm2-ss that writes a tiny program, or fails when a source says so."""
    script = tmp_path / "p4c-bm2-ss"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "$0"; echo "Version 9.9 (SHA: x)"; exit 0; fi\n'
        "grep -q BROKEN v1model/tempotrace.p4 && { echo 'syntax error' >&2; exit 1; }\n"
        'while [ $# -gt 0 ]; do case "$1" in\n'
        '  -o) echo \'{"program":"x","source_info":{"line":1}}\' > "$2";;\n'
        '  --p4runtime-files) printf \'pkg_info {\\n  version: "7.1"\\n}\\n\' > "$2";;\n'
        "esac; shift; done\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    found = find_compiler(str(script))
    assert found is not None
    return found


def test_committed_artefacts_are_not_stale() -> None:
    """Every P4 source has the hash that it had when the committed artefacts were built."""
    assert check().problems == ()


def test_committed_artefacts_are_what_the_compiler_makes() -> None:
    """With the same p4c on the PATH, compiling again gives the committed bytes."""
    compiler = find_compiler()
    result = check(compiler=compiler)
    if not result.rebuilt:
        pytest.skip(f"not compiled again: {result.not_rebuilt_reason}")
    assert result.problems == ()


def test_loaded_pipeline_has_json_p4info_and_version() -> None:
    """What deploy needs comes from package data, without a compiler."""
    pipeline = load_pipeline()
    assert json.loads(pipeline.bmv2_json)["program"] == "v1model/tempotrace.p4"
    assert "pkg_info" in pipeline.p4info
    assert f'version: "{pipeline.manifest.program_version}"' in pipeline.p4info


@pytest.mark.parametrize("name", ["include/headers.p4", "v1model/egress.p4"])
def test_changed_source_is_named(tree: Path, name: str) -> None:
    """One changed byte makes the check fail and name the file."""
    with (tree / name).open("a", encoding="utf-8") as file:
        file.write("\n")
    result = check(tree)
    assert not result.is_good
    assert result.problems == (f"p4src/{name} has changed since the artefacts were built",)


def test_new_and_removed_sources_are_named(tree: Path) -> None:
    """A file that came or went is as stale as one that changed."""
    (tree / "v1model" / "extra.p4").write_text("// new\n", encoding="utf-8")
    (tree / "include" / "ids.p4").unlink()
    assert check(tree).problems == (
        "p4src/v1model/extra.p4 is new since the artefacts were built",
        "p4src/include/ids.p4 is gone since the artefacts were built",
    )


@pytest.mark.parametrize("name", [JSON_NAME, P4INFO_NAME])
def test_edited_artefact_is_refused(tree: Path, name: str) -> None:
    """An artefact that was changed by hand is neither loaded nor passed by the check."""
    artefact = tree / "artifacts" / name
    artefact.write_text(artefact.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    message = f"p4src/artifacts/{name} is not the file that its manifest describes"
    assert check(tree).problems == (message,)
    with pytest.raises(PipelineError, match="is not the file that its manifest describes"):
        load_pipeline(tree)


@pytest.mark.parametrize("name", [JSON_NAME, P4INFO_NAME, MANIFEST_NAME])
def test_missing_artefact_says_what_to_run(tree: Path, name: str) -> None:
    """The message names the file and the command that makes it."""
    (tree / "artifacts" / name).unlink()
    with pytest.raises(PipelineError, match=r"is missing: run `tempotrace p4 build`"):
        load_pipeline(tree)
    assert "is missing" in check(tree).problems[0]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"manifest_version": 2}', '{"manifest_version": 1}', "\x00"]
)
def test_broken_manifest_is_one_clear_error(tree: Path, text: str) -> None:
    """Whatever stands in the manifest, the error is a PipelineError that names it."""
    (tree / "artifacts" / MANIFEST_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(PipelineError, match="manifest"):
        load_pipeline(tree)


def test_build_writes_artefacts_that_pass_the_check(tree: Path, fake_compiler: Compiler) -> None:
    """After a build, load and check agree, with version and compiler in the manifest."""
    (tree / "v1model" / "extra.p4").write_text("// new\n", encoding="utf-8")
    manifest = build(fake_compiler, tree)
    assert manifest.program_version == "7.1"
    assert manifest.compiler == "p4c-bm2-ss 9.9"
    assert "v1model/extra.p4" in manifest.source_sha256
    result = check(tree, compiler=fake_compiler)
    assert (result.problems, result.rebuilt) == ((), True)
    assert load_pipeline(tree).manifest == manifest
    assert "source_info" not in load_pipeline(tree).bmv2_json


def test_check_compares_with_a_fresh_compilation(tree: Path, fake_compiler: Compiler) -> None:
    """Artefacts that match their manifest but not the compiler's output are found."""
    build(fake_compiler, tree)
    artefact = tree / "artifacts" / JSON_NAME
    manifest_path = tree / "artifacts" / MANIFEST_NAME
    before = json.loads(manifest_path.read_text(encoding="utf-8"))["artifacts"][JSON_NAME]
    artefact.write_text('{\n"program":"y"\n}\n', encoding="utf-8")
    (now,) = (p for p in check(tree).problems if JSON_NAME in p)
    assert now
    text = manifest_path.read_text(encoding="utf-8")
    digest = hashlib.sha256(artefact.read_bytes()).hexdigest()
    manifest_path.write_text(text.replace(before, digest), encoding="utf-8")
    assert check(tree).problems == ()
    assert check(tree, compiler=fake_compiler).problems == (
        f"p4src/artifacts/{JSON_NAME} is not what p4c-bm2-ss 9.9 makes of the sources",
    )


def test_other_compiler_version_is_not_compared(tree: Path, fake_compiler: Compiler) -> None:
    """Another version may number its temporaries differently: said, not failed."""
    result = check(tree, compiler=fake_compiler)
    assert result.problems == ()
    assert not result.rebuilt
    assert "p4c-bm2-ss 9.9" in result.not_rebuilt_reason


def test_compiler_errors_are_shown(tree: Path, fake_compiler: Compiler) -> None:
    """A syntax error leaves the old artefacts and shows what the compiler said."""
    before = load_pipeline(tree).bmv2_json
    with (tree / "v1model" / "tempotrace.p4").open("a", encoding="utf-8") as file:
        file.write("BROKEN\n")
    with pytest.raises(PipelineError, match="syntax error"):
        build(fake_compiler, tree)
    assert (tree / "artifacts" / JSON_NAME).read_text(encoding="utf-8") == before


def test_given_compiler_must_exist_and_be_one(tmp_path: Path) -> None:
    """A wrong --p4c is an error that names the path; none on the PATH is not."""
    with pytest.raises(PipelineError, match="no P4 compiler at /nowhere/p4c"):
        find_compiler("/nowhere/p4c")
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    other.chmod(0o755)
    with pytest.raises(PipelineError, match="is not a P4 compiler"):
        find_compiler(str(other))


def test_no_compiler_on_the_path_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without p4c can load and check; only the recompilation is left out."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() is None
    assert "not on the PATH" in check(compiler=find_compiler()).not_rebuilt_reason


def test_include_folder_is_found_beside_an_uninstalled_compiler(tmp_path: Path) -> None:
    """A p4c run from its build folder does not know its own p4include; we look for it."""
    binary = tmp_path / "build" / "backends" / "p4c-bm2-ss"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\necho Version 1.0 x\n", encoding="utf-8")
    binary.chmod(0o755)
    (tmp_path / "p4include").mkdir()
    (tmp_path / "p4include" / "v1model.p4").touch()
    found = find_compiler(str(binary))
    assert found is not None
    assert found.include_folder == tmp_path / "p4include"


def test_normalised_json_keeps_the_program_and_drops_positions() -> None:
    """One element per line, without source_info at any depth, and equal as JSON otherwise."""
    program = {"a": [{"x": 1, "source_info": {"line": 3}}, 2], "b": {"c": []}, "d": []}
    text = normalise_json(json.dumps(program))
    assert json.loads(text) == {"a": [{"x": 1}, 2], "b": {"c": []}, "d": []}
    assert text.splitlines()[1:4] == ['"a":[', '{"x":1},', "2"]
    assert normalise_json(text) == text
