# SPDX-License-Identifier: Apache-2.0
"""The pipeline compiled for Tofino 1 and 2: loaded, checked against its sources, rebuilt.

What a switch's driver loads (binary, context and BF Runtime schema) is committed compressed, next
to the p4info. The open compiler writes times and run numbers into all three, so a recompilation is
compared by its p4info; that it ends at all is the proof that the program fits.
"""

import gzip
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Final

from controller.pipeline import P4INFO_NAME, PipelineCheck, load_pipeline
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
from controller.tna_output import shared_containers, with_contract_ids, without_times

__all__ = [
    "TNA_TARGETS",
    "TnaCompiler",
    "TnaPipeline",
    "TnaTarget",
    "build_tna",
    "check_tna",
    "find_tna_compiler",
    "load_tna",
]

COMPILER_NAME: Final = "p4c-barefoot"
ASSEMBLER_NAME: Final = "bfas"
DRIVER_NAME: Final = "p4c-tofino"
PROGRAM: Final = "tna/tempotrace.p4"
SOURCE_FOLDERS: Final = ("include", "tna")
CONTEXT_NAME: Final = "context.json.gz"
SCHEMA_NAME: Final = "bfrt.json.gz"

# Field allocation and table placement take one to four minutes of one core.
COMPILE_TIMEOUT_S: Final = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class TnaTarget:
    """One generation of the chip."""

    name: str
    """The compiler's and ours."""
    architecture: str
    """P4 architecture."""
    options: tuple[str, ...]
    """Compiler options beyond target and architecture."""
    definitions: tuple[str, ...]
    """What the compiler's own driver defines for the preprocessor."""
    binary: str
    """The assembler's output."""

    @property
    def folder(self) -> str:
        """Folder of the artefacts, below p4src."""
        return f"artifacts/tna/{self.name}"

    @property
    def binary_name(self) -> str:
        """The committed, compressed binary."""
        return f"{self.binary}.gz"


TNA_TARGETS: Final[Mapping[str, TnaTarget]] = MappingProxyType(
    {
        "tofino": TnaTarget(
            name="tofino",
            architecture="tna",
            # The sink skips up to 255 words; without this, 160 bytes are the egress parser's limit.
            options=("--disable-parse-max-depth-limit",),
            definitions=("__TARGET_TOFINO__=1",),
            binary="tofino.bin",
        ),
        "tofino2": TnaTarget(
            name="tofino2",
            architecture="t2na",
            options=(),
            definitions=("__TARGET_TOFINO__=2", "__TOFINO2_VARIANT__=1"),
            binary="tofino2.bin",
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TnaPipeline:
    """One loaded pipeline: what P4Runtime's and the driver's device config are made of."""

    p4info: str
    """P4Info in protobuf text format; the same contract as that of the v1model program."""
    binary: bytes
    """The assembler's output, uncompressed."""
    context: bytes
    """context.json, uncompressed."""
    schema: bytes
    """bfrt.json, uncompressed."""
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class TnaCompiler:
    """The open compiler's Tofino backend with its assembler."""

    path: Path
    assembler: Path
    include_folder: Path | None
    """Folder with tna.p4 and t2na.p4; None where the compiler knows it itself."""


def load_tna(target: TnaTarget, root: Traversable | None = None) -> TnaPipeline:
    """Read the committed artefacts of one target; `root` is the p4src folder.

    Raises PipelineError when a file is missing, unreadable or differs from the manifest.
    """
    manifest, contents = _read(target, source_root(root))
    for problem in artifact_problems(manifest, contents, target.folder):
        raise PipelineError(problem)
    return TnaPipeline(
        p4info=contents[P4INFO_NAME].decode(),
        binary=gzip.decompress(contents[target.binary_name]),
        context=gzip.decompress(contents[CONTEXT_NAME]),
        schema=gzip.decompress(contents[SCHEMA_NAME]),
        manifest=manifest,
    )


def check_tna(
    target: TnaTarget, root: Traversable | None = None, *, compiler: TnaCompiler | None = None
) -> PipelineCheck:
    """Compare sources, artefacts and manifest; with `compiler`, also compile.

    The compiled p4info is compared when the compiler is the manifest's.
    """
    root_folder = source_root(root)
    try:
        manifest, contents = _read(target, root_folder)
    except PipelineError as error:
        return PipelineCheck(
            problems=(str(error),), rebuilt=False, not_rebuilt_reason="no artefacts to compare"
        )
    problems = [
        *source_problems(manifest, root_folder, SOURCE_FOLDERS),
        *artifact_problems(manifest, contents, target.folder),
    ]
    reason = ""
    if compiler is None:
        reason = f"neither {DRIVER_NAME} nor {COMPILER_NAME} is on the PATH"
    else:
        version, fresh = _compile(as_folder(root_folder), target, compiler)
        if version != manifest.compiler:
            reason = f"compiler is {version}, artefacts were built with {manifest.compiler}"
        elif fresh[P4INFO_NAME] != contents[P4INFO_NAME]:
            problems.append(f"p4src/{target.folder}/{P4INFO_NAME} is not what {version} makes")
    return PipelineCheck(problems=tuple(problems), rebuilt=not reason, not_rebuilt_reason=reason)


def build_tna(target: TnaTarget, compiler: TnaCompiler, root: Path | None = None) -> Manifest:
    """Compile the program and rewrite artefacts and manifest; returns the new manifest."""
    root_folder = root if root is not None else as_folder(source_root(None))
    version, contents = _compile(root_folder, target, compiler)
    manifest = Manifest(
        program=PROGRAM,
        program_version=program_version(contents[P4INFO_NAME].decode()),
        compiler=version,
        source_sha256=source_hashes(root_folder, SOURCE_FOLDERS),
        artifact_sha256={name: sha256_hex(content) for name, content in contents.items()},
        options=_options(target),
    )
    folder = root_folder / target.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        (folder / MANIFEST_NAME).write_text(dump_manifest(manifest), encoding="utf-8", newline="\n")
    except OSError as error:
        raise PipelineError(f"cannot write {folder}: {error.strerror}") from error
    return manifest


def find_tna_compiler(path: str | None = None) -> TnaCompiler | None:
    """The compiler at `path` (itself or its driver), or on the PATH; None when there is none there.

    Compiler and assembler stand in one folder. Raises PipelineError when one is missing.
    """
    names = (path,) if path is not None else (DRIVER_NAME, COMPILER_NAME)
    found = next((where for where in map(shutil.which, names) if where is not None), None)
    if found is None:
        if path is None:
            return None
        raise PipelineError(f"no P4 compiler at {path}")
    folders = (Path(found).parent, Path(found).resolve().parent)
    tools = []
    for name in (COMPILER_NAME, ASSEMBLER_NAME):
        tool = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if tool is None:
            raise PipelineError(f"no {name} next to {found}")
        tools.append(tool.resolve())
    compiler, assembler = tools
    include = next(
        (
            parent / "p4include"
            for parent in compiler.parents
            if (parent / "p4include" / "tna.p4").is_file()
        ),
        None,
    )
    return TnaCompiler(path=compiler, assembler=assembler, include_folder=include)


def _options(target: TnaTarget) -> tuple[str, ...]:
    return (
        *("--target", target.name, "--arch", target.architecture),
        *target.options,
        *(f"-D{definition}" for definition in target.definitions),
        # Counters with P4Runtime's own ids, as the v1model program has them.
        "--p4runtime-force-std-externs",
    )


def _read(target: TnaTarget, root: Traversable) -> tuple[Manifest, dict[str, bytes]]:
    folder = root / target.folder
    manifest = parse_manifest(read_text(folder / MANIFEST_NAME), target.folder)
    contents = {}
    for name in (P4INFO_NAME, target.binary_name, CONTEXT_NAME, SCHEMA_NAME):
        try:
            contents[name] = (folder / name).read_bytes()
        except OSError as error:
            raise PipelineError(f"cannot read {folder / name}: {error.strerror}") from error
    return manifest, contents


def _compile(
    root_folder: Path, target: TnaTarget, compiler: TnaCompiler
) -> tuple[str, dict[str, bytes]]:
    """Compiler with its commit, and artefact name -> content."""
    with tempfile.TemporaryDirectory(prefix="tempotrace-p4-") as scratch:
        out = Path(scratch) / "out"
        p4info = Path(scratch) / P4INFO_NAME
        command = [str(compiler.path), *_options(target)]
        if compiler.include_folder is not None:
            command += ["-I", str(compiler.include_folder)]
        out.mkdir()
        command += ["--p4runtime-files", str(p4info), "--bf-rt-schema", str(out / "bfrt.json")]
        command += ["-o", str(out), PROGRAM]
        run_tool(command, cwd=root_folder, timeout_s=COMPILE_TIMEOUT_S)
        pipe = out / "pipe"
        assembly = pipe / f"{Path(PROGRAM).stem}.bfa"
        for problem in shared_containers(read_text(assembly)):
            raise PipelineError(f"{COMPILER_NAME}: {problem}")
        command = [str(compiler.assembler), "--no-warn", "--target", target.name]
        command += ["-o", str(pipe), str(assembly)]
        run_tool(command, cwd=root_folder, timeout_s=COMPILE_TIMEOUT_S)
        contract = load_pipeline(root_folder)
        context = without_times(pipe / "context.json")
        return f"{COMPILER_NAME} {context['compiler_version']}", {
            P4INFO_NAME: with_contract_ids(read_text(p4info), contract.p4info).encode(),
            target.binary_name: _compressed((pipe / target.binary).read_bytes()),
            CONTEXT_NAME: _compressed(_json_bytes(context)),
            SCHEMA_NAME: _compressed(_json_bytes(without_times(out / "bfrt.json"))),
        }


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=9, mtime=0)
