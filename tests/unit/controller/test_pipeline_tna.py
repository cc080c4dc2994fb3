# SPDX-License-Identifier: Apache-2.0
"""Artefacts of the Tofino targets: never stale, complete, and rebuilt only by the real tools."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

import p4src
from controller.pipeline import P4INFO_NAME
from controller.pipeline_manifest import MANIFEST_NAME, PipelineError
from controller.pipeline_tna import (
    CONTEXT_NAME,
    TNA_TARGETS,
    TnaCompiler,
    TnaTarget,
    build_tna,
    check_tna,
    find_tna_compiler,
    load_tna,
)
from controller.tna_output import shared_containers, with_contract_ids

TOFINO = TNA_TARGETS["tofino"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of p4src that a test may damage."""
    root = tmp_path / "p4src"
    shutil.copytree(Path(p4src.__file__).parent, root)
    return root


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Stand-ins for compiler and assembler; the compiler fails when a source says so."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in (
        ("p4c-tofino", "exit 1\n"),
        (
            "p4c-barefoot",
            "grep -q BROKEN tna/tempotrace.p4 && { echo 'does not fit' >&2; exit 1; }\n"
            'while [ $# -gt 0 ]; do case "$1" in\n'
            '  -o) mkdir -p "$2/pipe"; out="$2";;\n'
            '  --p4runtime-files) printf \'pkg_info {\\n  version: "7.1"\\n}\\n\' > "$2";;\n'
            "esac; shift; done\n"
            'echo \'{"build_date":"now","tables":[]}\' > "$out/bfrt.json"\n'
            'echo \'{"build_date":"now","run_id":"1","compiler_version":"9.9 (abc)"}\''
            ' > "$out/pipe/context.json"\n'
            'touch "$out/pipe/tempotrace.bfa"\n',
        ),
        (
            "bfas",
            'while [ $# -gt 0 ]; do case "$1" in --target) t="$2";; -o) o="$2";; esac\n'
            "shift; done\n"
            'echo binary > "$o/$t.bin"\n',
        ),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def compiler(tools: Path) -> TnaCompiler:
    """The stand-ins, found."""
    found = find_tna_compiler(str(tools / "p4c-tofino"))
    assert found is not None
    return found


@pytest.mark.parametrize("target", TNA_TARGETS.values(), ids=lambda target: target.name)
def test_committed_artefacts_are_not_stale(target: TnaTarget) -> None:
    """Every P4 source has the hash that it had when the committed artefacts were built."""
    assert check_tna(target).problems == ()


@pytest.mark.parametrize("target", TNA_TARGETS.values(), ids=lambda target: target.name)
def test_committed_artefacts_are_what_a_switch_loads(target: TnaTarget) -> None:
    """Binary, context and schema are there, for this target, and name no machine and no time."""
    pipeline = load_tna(target)
    context = json.loads(pipeline.context)
    assert (context["target"], context["program_name"]) == (target.name, "tempotrace")
    assert pipeline.manifest.compiler == f"p4c-barefoot {context['compiler_version']}"
    assert target.name in pipeline.manifest.options
    names = {table["name"].rpartition(".")[2] for table in json.loads(pipeline.schema)["tables"]}
    assert {"int_watchlist", "ipv4_lpm", "report_destination"} <= names
    assert len(pipeline.binary) > 100_000
    for text in (pipeline.context, pipeline.schema, pipeline.binary):
        assert b"/p4src" not in text
        assert b"build_date" not in text


def test_build_writes_what_check_accepts(tree: Path, compiler: TnaCompiler) -> None:
    """After a build sources, artefacts and manifest agree, and times are gone."""
    manifest = build_tna(TOFINO, compiler, tree)
    assert manifest.compiler == "p4c-barefoot 9.9 (abc)"
    assert manifest.program_version == "7.1"
    result = check_tna(TOFINO, tree, compiler=compiler)
    assert (result.problems, result.rebuilt) == ((), True)
    context = (tree / TOFINO.folder / CONTEXT_NAME).read_bytes()
    assert json.loads(gzip.decompress(context)) == {"compiler_version": "9.9 (abc)"}


def test_check_without_compiler_says_so(tree: Path) -> None:
    """Without a compiler the hashes alone are compared."""
    result = check_tna(TOFINO, tree)
    assert result.is_good
    assert result.not_rebuilt_reason == "neither p4c-tofino nor p4c-barefoot is on the PATH"


def test_changed_sources_and_artefacts_are_named(tree: Path) -> None:
    """A changed source, a new one, and a damaged artefact: one line each."""
    (tree / "tna" / "qos.p4").write_text("// changed\n", encoding="utf-8")
    (tree / "tna" / "new.p4").write_text("// new\n", encoding="utf-8")
    (tree / TOFINO.folder / CONTEXT_NAME).write_bytes(b"")
    assert check_tna(TOFINO, tree).problems == (
        "p4src/tna/qos.p4 has changed since the artefacts were built",
        "p4src/tna/new.p4 is new since the artefacts were built",
        f"p4src/{TOFINO.folder}/{CONTEXT_NAME} is not the file that its manifest describes",
    )
    with pytest.raises(PipelineError, match=r"context\.json\.gz is not the file"):
        load_tna(TOFINO, tree)


def test_another_compiler_is_not_compared(tree: Path, compiler: TnaCompiler) -> None:
    """The program compiles, but another version may number its objects differently."""
    result = check_tna(TOFINO, tree, compiler=compiler)
    assert result.is_good
    assert not result.rebuilt
    assert result.not_rebuilt_reason.startswith("compiler is p4c-barefoot 9.9 (abc), artefacts")


def test_different_p4info_is_a_problem(tree: Path, compiler: TnaCompiler) -> None:
    """The same compiler must make the committed contract."""
    build_tna(TOFINO, compiler, tree)
    folder = tree / TOFINO.folder
    old = (folder / P4INFO_NAME).read_bytes()
    manifest = (folder / MANIFEST_NAME).read_text("utf-8")
    compiler.path.write_text(compiler.path.read_text("utf-8").replace("7.1", "7.2"), "utf-8")
    assert check_tna(TOFINO, tree, compiler=compiler).problems == (
        f"p4src/{TOFINO.folder}/{P4INFO_NAME} is not what p4c-barefoot 9.9 (abc) makes",
    )
    assert (folder / P4INFO_NAME).read_bytes() == old
    assert (folder / MANIFEST_NAME).read_text("utf-8") == manifest


def test_program_that_does_not_fit_is_an_error(tree: Path, compiler: TnaCompiler) -> None:
    """What the compiler says is in the error; nothing is written."""
    (tree / "tna" / "tempotrace.p4").write_text("BROKEN", encoding="utf-8")
    before = (tree / TOFINO.folder / MANIFEST_NAME).read_bytes()
    with pytest.raises(PipelineError, match="does not fit"):
        build_tna(TOFINO, compiler, tree)
    assert (tree / TOFINO.folder / MANIFEST_NAME).read_bytes() == before


def test_missing_artefacts_are_a_problem(tree: Path) -> None:
    """Without artefacts check says what to do."""
    shutil.rmtree(tree / TOFINO.folder)
    (problem,) = check_tna(TOFINO, tree).problems
    assert problem.endswith("is missing: run `tempotrace p4 build`")


def test_compiler_is_found_with_its_assembler(tools: Path) -> None:
    """The driver's name or the compiler's; both tools from one folder, or an error."""
    for name in ("p4c-tofino", "p4c-barefoot"):
        found = find_tna_compiler(str(tools / name))
        assert found is not None
        assert (found.path.name, found.assembler.name) == ("p4c-barefoot", "bfas")
        assert found.include_folder is None
    (tools / "bfas").unlink()
    with pytest.raises(PipelineError, match="no bfas next to"):
        find_tna_compiler(str(tools / "p4c-tofino"))
    with pytest.raises(PipelineError, match="no P4 compiler at"):
        find_tna_compiler(str(tools / "absent"))


@pytest.mark.parametrize(
    ("first", "second", "is_problem"),
    [
        ("hdr.ipv4.ttl", "hdr.report_group.node_id", True),  # both in a report
        ("hdr.hop_queue.queue_id", "hdr.inner_udp.length", True),  # both in a report
        ("hdr.bridged.bucket", "hdr.probe.version", True),  # every packet is bridged
        ("hdr.ipv4.ttl", "hdr.ipv6.hop_limit", False),
        ("hdr.probe.sequence_number", "hdr.ptp_start.domain_number", False),
        ("hdr.inner_ipv4.ttl", "hdr.inner_ipv6.hop_limit", False),
        ("meta.mtu_bytes", "meta.report_rest", False),
    ],
)
def test_containers_of_headers_of_one_packet_are_noticed(
    first: str, second: str, is_problem: bool
) -> None:
    """Two fields share a container: an error where a packet can have both headers."""
    line = (
        "    - {{ name : {}, live_start : parser, live_end : 9, mutually_exclusive_with: [ {} ] }}"
    )
    assembly = "\n".join((line.format(first, second), line.format(second, f"hdr.x.y, {first}")))
    expected = [" and ".join(sorted((first, second))) + " share a container"]
    assert shared_containers(assembly) == (expected if is_problem else [])


def test_ids_of_externs_are_those_of_the_contract() -> None:
    """Counters, registers and the selector are renumbered, and what refers to them is too."""
    text = (
        'tables {{ preamble {{ id: 33554437 alias: "t" }} implementation_id: {0} '
        "direct_resource_ids: {1} }}\n"
        'action_profiles {{ preamble {{ id: {0} alias: "s" }} }}\n'
        'direct_counters {{ preamble {{ id: {1} alias: "c" }} direct_table_id: 33554437 }}\n'
        'registers {{ preamble {{ id: {2} alias: "probe_sequence" }} }}\n'
    )
    contract = text.format(0x11000001, 0x13000005, 0x16000001)
    made = with_contract_ids(text.format(0x118F785F, 0x131BF652, 0x164B6F9E), contract)
    assert made == text.format(0x11000001, 0x13000005, 0x16000008)
    with pytest.raises(PipelineError, match="has c, for which there is no id"):
        with_contract_ids(contract, contract.replace('"c"', '"d"'))
