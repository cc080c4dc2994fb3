# SPDX-License-Identifier: Apache-2.0
"""Manifests of compiled P4 artefacts: what they were built from, and whether that still holds.

Each target's artefacts stand in a folder with a `manifest.json`: the SHA-256 of every source file
and of every artefact.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import p4src

MANIFEST_NAME: Final = "manifest.json"
MANIFEST_VERSION: Final = 1


class PipelineError(Exception):
    """The artefacts cannot be used or built; the message is one line for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the artefacts were built from."""

    program: str
    """Path of the main source file below p4src."""
    program_version: str
    """Version in the program's @pkginfo; the controller refuses others."""
    compiler: str
    """Compiler name and version."""
    source_sha256: Mapping[str, str]
    """Path below p4src -> SHA-256 of the file, in hex."""
    artifact_sha256: Mapping[str, str]
    """File name in the artefacts' folder -> SHA-256, in hex."""
    options: tuple[str, ...] = ()
    """Compiler options that say what was built; empty where there is no choice."""


def run_tool(command: Sequence[str], *, cwd: Path, timeout_s: int) -> str:
    """Output of a compiler or assembler; what it has to say on failure is in the PipelineError."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PipelineError(f"{command[0]} took longer than {timeout_s} s") from error
    except OSError as error:
        raise PipelineError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise PipelineError(f"{command[0]} failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout + done.stderr  # p4c prints its version on stderr


def source_root(root: Traversable | None) -> Traversable:
    """The p4src folder: `root`, or that of the installed package."""
    return root if root is not None else files(p4src)


def as_folder(root: Traversable) -> Path:
    """The p4src folder as a path on disk, which a compiler needs."""
    if not isinstance(root, Path):
        raise PipelineError("the P4 sources are not in a folder on disk: nothing to compile")
    return root


def read_text(path: Traversable) -> str:
    """Text of an artefact or manifest."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PipelineError(f"{path} is missing: run `tempotrace p4 build`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from error


def sha256_hex(data: bytes) -> str:
    """SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def source_hashes(root: Traversable, folders: Sequence[str]) -> dict[str, str]:
    """SHA-256 of every P4 source below these folders of p4src, by path."""
    return {name: sha256_hex(entry.read_bytes()) for name, entry in _sources(root, folders)}


def _sources(root: Traversable, folders: Sequence[str]) -> Iterator[tuple[str, Traversable]]:
    for folder in folders:
        for entry in sorted((root / folder).iterdir(), key=lambda item: item.name):
            if entry.name.endswith(".p4"):
                yield f"{folder}/{entry.name}", entry


def source_problems(manifest: Manifest, root: Traversable, folders: Sequence[str]) -> list[str]:
    """Sources that are not those the artefacts were built from, one line each."""
    actual, built = source_hashes(root, folders), manifest.source_sha256
    changed = [name for name in actual if name in built and actual[name] != built[name]]
    new, gone = sorted(actual.keys() - built), sorted(built.keys() - actual)
    return [
        *(f"p4src/{name} has changed since the artefacts were built" for name in changed),
        *(f"p4src/{name} is new since the artefacts were built" for name in new),
        *(f"p4src/{name} is gone since the artefacts were built" for name in gone),
    ]


def artifact_problems(
    manifest: Manifest, contents: Mapping[str, str | bytes], folder: str
) -> list[str]:
    """Artefacts that are not what the manifest says, one line each."""
    return [
        f"p4src/{folder}/{name} is not the file that its manifest describes"
        for name, content in contents.items()
        if manifest.artifact_sha256.get(name)
        != sha256_hex(content.encode() if isinstance(content, str) else content)
    ]


def program_version(p4info: str) -> str:
    """The program's version, as its p4info has it."""
    # pkg_info comes first; the text format is one field per line.
    for line in p4info.splitlines():
        key, _, value = line.strip().partition(": ")
        if key == "version":
            return value.strip('"')
    raise PipelineError("the compiler's p4info has no program version (@pkginfo)")


def parse_manifest(text: str, folder: str) -> Manifest:
    """A manifest from its JSON text; `folder` is named in errors."""
    try:
        raw = json.loads(text)
        if raw["manifest_version"] != MANIFEST_VERSION:
            raise PipelineError(
                f"manifest version {raw['manifest_version']} is not {MANIFEST_VERSION}"
            )
        return Manifest(
            program=str(raw["program"]),
            program_version=str(raw["program_version"]),
            compiler=str(raw["compiler"]),
            source_sha256=dict(raw["sources"]),
            artifact_sha256=dict(raw["artifacts"]),
            options=tuple(raw.get("options", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"p4src/{folder}/{MANIFEST_NAME} is not valid: {error!r}") from error


def dump_manifest(manifest: Manifest) -> str:
    """The manifest as JSON text."""
    raw = {
        "manifest_version": MANIFEST_VERSION,
        "program": manifest.program,
        "program_version": manifest.program_version,
        "compiler": manifest.compiler,
        **({"options": list(manifest.options)} if manifest.options else {}),
        "sources": dict(manifest.source_sha256),
        "artifacts": dict(manifest.artifact_sha256),
    }
    return json.dumps(raw, indent=2) + "\n"
