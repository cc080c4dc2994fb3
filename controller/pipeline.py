# SPDX-License-Identifier: Apache-2.0
"""The compiled P4 pipeline: loaded from package data, checked against its sources, rebuilt.

The artefacts (BMv2 JSON, p4info text) are committed, so running needs no compiler. The manifest
holds the SHA-256 of every source file they were built from; `check` compares, and rebuilds when a
compiler of the same version is at hand.
"""

import json
import shutil
import tempfile
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from controller.pipeline_manifest import (
    MANIFEST_NAME,
    Manifest,
    PipelineError,
    artifact_problems,
    as_folder,
    dump_manifest,
    parse_manifest,
    program_version,
    read_text,
    run_tool,
    sha256_hex,
    source_hashes,
    source_problems,
    source_root,
)

__all__ = [
    "Compiler",
    "Manifest",
    "Pipeline",
    "PipelineCheck",
    "PipelineError",
    "build",
    "check",
    "find_compiler",
    "load_pipeline",
]

COMPILER_NAME: Final = "p4c-bm2-ss"
PROGRAM: Final = "v1model/tempotrace.p4"
SOURCE_FOLDERS: Final = ("include", "v1model")
JSON_NAME: Final = "tempotrace.json"
P4INFO_NAME: Final = "tempotrace.p4info.txtpb"
FOLDER: Final = "artifacts"

# A full compilation takes about 4 s on one core; this bounds a compiler that hangs.
COMPILE_TIMEOUT_S: Final = 120

# BMv2's JSON has no default action for a table with a selector; the program handles the miss.
COMPILER_OPTIONS: Final = ("--std", "p4-16", "--Wdisable=unsupported")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One loaded pipeline, as P4Runtime's SetForwardingPipelineConfig takes it."""

    bmv2_json: str
    """The device config: BMv2 JSON text."""
    p4info: str
    """P4Info in protobuf text format."""
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCheck:
    """Outcome of `check`: an empty `problems` is a pass."""

    problems: tuple[str, ...]
    """One line each, fit for the operator."""
    rebuilt: bool
    """The sources were compiled and the result compared."""
    not_rebuilt_reason: str
    """Why they were not; empty when they were."""

    @property
    def is_good(self) -> bool:
        """True when nothing is stale."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A p4c that can compile the program."""

    path: Path
    include_folder: Path | None
    """Folder with core.p4 and v1model.p4; None where the compiler knows it itself."""
    version: str
    """Name and version, as in the manifest."""


def load_pipeline(root: Traversable | None = None) -> Pipeline:
    """Read the committed artefacts; `root` is the p4src folder, by default the installed package.

    Raises PipelineError when a file is missing, unreadable or differs from the manifest.
    """
    artifacts = source_root(root) / "artifacts"
    manifest = parse_manifest(read_text(artifacts / MANIFEST_NAME), FOLDER)
    texts = {name: read_text(artifacts / name) for name in (JSON_NAME, P4INFO_NAME)}
    for problem in artifact_problems(manifest, texts, FOLDER):
        raise PipelineError(problem)
    return Pipeline(bmv2_json=texts[JSON_NAME], p4info=texts[P4INFO_NAME], manifest=manifest)


def check(root: Traversable | None = None, *, compiler: Compiler | None = None) -> PipelineCheck:
    """Compare sources, artefacts and manifest; with `compiler`, also compile and compare.

    The compiled result is compared only when the compiler's version is the manifest's: another
    version may number and name its temporaries differently.
    """
    root_folder = source_root(root)
    artifacts = root_folder / "artifacts"
    try:
        manifest = parse_manifest(read_text(artifacts / MANIFEST_NAME), FOLDER)
        texts = {name: read_text(artifacts / name) for name in (JSON_NAME, P4INFO_NAME)}
    except PipelineError as error:
        return PipelineCheck(
            problems=(str(error),), rebuilt=False, not_rebuilt_reason="no artefacts to compare"
        )
    problems = [
        *source_problems(manifest, root_folder, SOURCE_FOLDERS),
        *artifact_problems(manifest, texts, FOLDER),
    ]
    reason = ""
    if compiler is None:
        reason = f"{COMPILER_NAME} is not on the PATH"
    elif compiler.version != manifest.compiler:
        reason = f"compiler is {compiler.version}, artefacts were built with {manifest.compiler}"
    else:
        fresh = _compile(as_folder(root_folder), compiler)
        problems += [
            f"p4src/artifacts/{name} is not what {compiler.version} makes of the sources"
            for name, text in texts.items()
            if fresh[name] != text
        ]
    return PipelineCheck(problems=tuple(problems), rebuilt=not reason, not_rebuilt_reason=reason)


def build(compiler: Compiler, root: Path | None = None) -> Manifest:
    """Compile the program and rewrite artefacts and manifest; returns the new manifest."""
    root_folder = root if root is not None else as_folder(source_root(None))
    texts = _compile(root_folder, compiler)
    manifest = Manifest(
        program=PROGRAM,
        program_version=program_version(texts[P4INFO_NAME]),
        compiler=compiler.version,
        source_sha256=source_hashes(root_folder, SOURCE_FOLDERS),
        artifact_sha256={name: sha256_hex(text.encode()) for name, text in texts.items()},
    )
    artifacts = root_folder / "artifacts"
    try:
        artifacts.mkdir(exist_ok=True)
        for name, text in (*texts.items(), (MANIFEST_NAME, dump_manifest(manifest))):
            (artifacts / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise PipelineError(f"cannot write {artifacts}: {error.strerror}") from error
    return manifest


def find_compiler(path: str | None = None) -> Compiler | None:
    """The compiler at `path`, or the one on the PATH; None when there is none on the PATH.

    Raises PipelineError when the given file is missing or does not run.
    """
    found = shutil.which(path if path is not None else COMPILER_NAME)
    if found is None:
        if path is None:
            return None
        raise PipelineError(f"no P4 compiler at {path}")
    binary = Path(found).resolve()
    words = run_tool(
        [str(binary), "--version"], cwd=binary.parent, timeout_s=COMPILE_TIMEOUT_S
    ).split()
    if "Version" not in words[:-1]:
        raise PipelineError(f"{path or binary} is not a P4 compiler: --version names no version")
    return Compiler(
        path=binary,
        include_folder=_include_folder(binary),
        version=f"{COMPILER_NAME} {words[words.index('Version') + 1]}",
    )


def _include_folder(binary: Path) -> Path | None:
    # A compiler that was built but not installed does not know where its own p4include is.
    for parent in binary.parents:
        if (parent / "p4include" / "v1model.p4").is_file():
            return parent / "p4include"
    return None


def _compile(root_folder: Path, compiler: Compiler) -> dict[str, str]:
    """Artefact name -> text. Compiled with relative paths, so that no machine path gets in."""
    with tempfile.TemporaryDirectory(prefix="tempotrace-p4-") as scratch:
        json_path = Path(scratch) / "out.json"
        p4info_path = Path(scratch) / "out.p4info.txt"  # p4c 1.2.4 knows the format by .txt only
        command = [str(compiler.path), *COMPILER_OPTIONS]
        if compiler.include_folder is not None:
            command += ["-I", str(compiler.include_folder)]
        command += ["--p4runtime-files", str(p4info_path), "-o", str(json_path), PROGRAM]
        run_tool(command, cwd=root_folder, timeout_s=COMPILE_TIMEOUT_S)
        return {
            JSON_NAME: normalise_json(read_text(json_path)),
            P4INFO_NAME: read_text(p4info_path),
        }


def normalise_json(text: str) -> str:
    """The compiler's JSON without `source_info` (nothing reads it), one element per line.

    One line per element keeps the file small and its diffs readable.
    """
    program = _without_source_info(json.loads(text))
    assert isinstance(program, dict)
    lines = []
    for key, value in program.items():
        if isinstance(value, list) and value:
            elements = ",\n".join(json.dumps(element, separators=(",", ":")) for element in value)
            lines.append(f"{json.dumps(key)}:[\n{elements}\n]")
        else:
            lines.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _without_source_info(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_source_info(v) for k, v in value.items() if k != "source_info"}
    if isinstance(value, list):
        return [_without_source_info(v) for v in value]
    return value
