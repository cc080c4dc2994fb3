# SPDX-License-Identifier: Apache-2.0
"""The compiled P4 pipeline: loaded from package data, checked against its sources, rebuilt.

The artefacts (BMv2 JSON, p4info text) are committed, so running needs no compiler. The manifest
holds the SHA-256 of every source file they were built from; `check` compares, and rebuilds when a
compiler of the same version is at hand.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import p4src

COMPILER_NAME: Final = "p4c-bm2-ss"
PROGRAM: Final = "v1model/tempotrace.p4"
SOURCE_FOLDERS: Final = ("include", "v1model")
JSON_NAME: Final = "tempotrace.json"
P4INFO_NAME: Final = "tempotrace.p4info.txtpb"
MANIFEST_NAME: Final = "manifest.json"
MANIFEST_VERSION: Final = 1

# A full compilation takes about 4 s on one core; this bounds a compiler that hangs.
COMPILE_TIMEOUT_S: Final = 120

# BMv2's JSON has no default action for a table with a selector; the program handles the miss.
COMPILER_OPTIONS: Final = ("--std", "p4-16", "--Wdisable=unsupported")


class PipelineError(Exception):
    """The artefacts cannot be used or built; the message is one line for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the artefacts were built from."""

    program_version: str
    """Version in the program's @pkginfo; the controller refuses others."""
    compiler: str
    """Compiler name and version."""
    source_sha256: Mapping[str, str]
    """Path below p4src -> SHA-256 of the file, in hex."""
    artifact_sha256: Mapping[str, str]
    """File name in artifacts/ -> SHA-256, in hex."""


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
    artifacts = _source_root(root) / "artifacts"
    manifest = _parse_manifest(_read_text(artifacts / MANIFEST_NAME))
    texts = {name: _read_text(artifacts / name) for name in (JSON_NAME, P4INFO_NAME)}
    for problem in _artifact_problems(manifest, texts):
        raise PipelineError(problem)
    return Pipeline(bmv2_json=texts[JSON_NAME], p4info=texts[P4INFO_NAME], manifest=manifest)


def check(root: Traversable | None = None, *, compiler: Compiler | None = None) -> PipelineCheck:
    """Compare sources, artefacts and manifest; with `compiler`, also compile and compare.

    The compiled result is compared only when the compiler's version is the manifest's: another
    version may number and name its temporaries differently.
    """
    source_root = _source_root(root)
    artifacts = source_root / "artifacts"
    try:
        manifest = _parse_manifest(_read_text(artifacts / MANIFEST_NAME))
        texts = {name: _read_text(artifacts / name) for name in (JSON_NAME, P4INFO_NAME)}
    except PipelineError as error:
        return PipelineCheck(
            problems=(str(error),), rebuilt=False, not_rebuilt_reason="no artefacts to compare"
        )
    problems = [*_source_problems(manifest, source_root), *_artifact_problems(manifest, texts)]
    reason = ""
    if compiler is None:
        reason = f"{COMPILER_NAME} is not on the PATH"
    elif compiler.version != manifest.compiler:
        reason = f"compiler is {compiler.version}, artefacts were built with {manifest.compiler}"
    else:
        fresh = _compile(_as_folder(source_root), compiler)
        problems += [
            f"p4src/artifacts/{name} is not what {compiler.version} makes of the sources"
            for name, text in texts.items()
            if fresh[name] != text
        ]
    return PipelineCheck(problems=tuple(problems), rebuilt=not reason, not_rebuilt_reason=reason)


def build(compiler: Compiler, root: Path | None = None) -> Manifest:
    """Compile the program and rewrite artefacts and manifest; returns the new manifest."""
    source_root = root if root is not None else _as_folder(_source_root(None))
    texts = _compile(source_root, compiler)
    manifest = Manifest(
        program_version=_program_version(texts[P4INFO_NAME]),
        compiler=compiler.version,
        source_sha256=_source_hashes(source_root),
        artifact_sha256={name: _sha256(text.encode()) for name, text in texts.items()},
    )
    artifacts = source_root / "artifacts"
    try:
        artifacts.mkdir(exist_ok=True)
        for name, text in (*texts.items(), (MANIFEST_NAME, _dump_manifest(manifest))):
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
    words = _run([str(binary), "--version"], cwd=binary.parent).split()
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


def _compile(source_root: Path, compiler: Compiler) -> dict[str, str]:
    """Artefact name -> text. Compiled with relative paths, so that no machine path gets in."""
    with tempfile.TemporaryDirectory(prefix="tempotrace-p4-") as scratch:
        json_path = Path(scratch) / "out.json"
        p4info_path = Path(scratch) / "out.p4info.txt"  # p4c 1.2.4 knows the format by .txt only
        command = [str(compiler.path), *COMPILER_OPTIONS]
        if compiler.include_folder is not None:
            command += ["-I", str(compiler.include_folder)]
        command += ["--p4runtime-files", str(p4info_path), "-o", str(json_path), PROGRAM]
        _run(command, cwd=source_root)
        return {
            JSON_NAME: normalise_json(_read_text(json_path)),
            P4INFO_NAME: _read_text(p4info_path),
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


def _run(command: list[str], *, cwd: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PipelineError(f"{command[0]} took longer than {COMPILE_TIMEOUT_S} s") from error
    except OSError as error:
        raise PipelineError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise PipelineError(f"{command[0]} failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout + done.stderr  # p4c prints its version on stderr


def _source_root(root: Traversable | None) -> Traversable:
    return root if root is not None else files(p4src)


def _as_folder(root: Traversable) -> Path:
    if not isinstance(root, Path):
        raise PipelineError("the P4 sources are not in a folder on disk: nothing to compile")
    return root


def _read_text(path: Traversable) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"{path} is missing: run `tempotrace p4 build`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _source_files(root: Traversable) -> Iterator[tuple[str, Traversable]]:
    for folder in SOURCE_FOLDERS:
        for entry in sorted((root / folder).iterdir(), key=lambda item: item.name):
            if entry.name.endswith(".p4"):
                yield f"{folder}/{entry.name}", entry


def _source_hashes(root: Traversable) -> dict[str, str]:
    return {name: _sha256(entry.read_bytes()) for name, entry in _source_files(root)}


def _source_problems(manifest: Manifest, root: Traversable) -> list[str]:
    actual, built = _source_hashes(root), manifest.source_sha256
    changed = [name for name in actual if name in built and actual[name] != built[name]]
    return [
        *(f"p4src/{name} has changed since the artefacts were built" for name in changed),
        *(f"p4src/{name} is new since the artefacts were built" for name in actual.keys() - built),
        *(f"p4src/{name} is gone since the artefacts were built" for name in built.keys() - actual),
    ]


def _artifact_problems(manifest: Manifest, texts: Mapping[str, str]) -> list[str]:
    return [
        f"p4src/artifacts/{name} is not the file that its manifest describes"
        for name, text in texts.items()
        if manifest.artifact_sha256.get(name) != _sha256(text.encode())
    ]


def _program_version(p4info: str) -> str:
    # pkg_info comes first; the text format is one field per line.
    for line in p4info.splitlines():
        key, _, value = line.strip().partition(": ")
        if key == "version":
            return value.strip('"')
    raise PipelineError("the compiler's p4info has no program version (@pkginfo)")


def _parse_manifest(text: str) -> Manifest:
    try:
        raw = json.loads(text)
        if raw["manifest_version"] != MANIFEST_VERSION:
            raise PipelineError(
                f"manifest version {raw['manifest_version']} is not {MANIFEST_VERSION}"
            )
        return Manifest(
            program_version=str(raw["program_version"]),
            compiler=str(raw["compiler"]),
            source_sha256=dict(raw["sources"]),
            artifact_sha256=dict(raw["artifacts"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"p4src/artifacts/{MANIFEST_NAME} is not valid: {error!r}") from error


def _dump_manifest(manifest: Manifest) -> str:
    raw = {
        "manifest_version": MANIFEST_VERSION,
        "program": PROGRAM,
        "program_version": manifest.program_version,
        "compiler": manifest.compiler,
        "sources": dict(manifest.source_sha256),
        "artifacts": dict(manifest.artifact_sha256),
    }
    return json.dumps(raw, indent=2) + "\n"
