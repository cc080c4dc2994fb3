# SPDX-License-Identifier: Apache-2.0
"""Read `fabric.yaml` into a `Fabric`, or say, a line each, all that is wrong and what was expected.

Three passes: YAML with the line of every key (`fabric_document.py`), the JSON Schema, then what a
schema cannot say (`fabric_check.py`). Values that a pass refuses are replaced for the next one
(`fabric_repair.py`), so that all errors are told at once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from controller.fabric import (
    Fabric,
    FabricError,
    FabricFault,
)
from controller.fabric_build import build_fabric
from controller.fabric_build_telemetry import (
    Node,
)
from controller.fabric_check import check_fabric
from controller.fabric_controller import SECTION, below
from controller.fabric_document import FabricDocument, document_of, read_document
from controller.fabric_problem import FabricProblem
from controller.fabric_repair import UNKNOWN_ITEM, Doubt, repaired
from controller.fabric_schema import fabric_schema, schema_problems
from controller.yaml_nodes import collector_paused
from controller.yaml_positions import KeyPath

FabricCheck: TypeAlias = Callable[[Fabric], Iterable[FabricProblem]]
"""A check of a usable fabric that not everybody who reads the file asks for."""


def load_fabric(path: str | Path, *, check: FabricCheck | None = None) -> Fabric:
    """The fabric that the file and what it includes describe.

    FabricError names file, line, key and expectation of all that is wrong. check: what the fabric
    must satisfy besides.
    """
    return load_fabric_and_paths(path, check=check)[0]


def load_fabric_and_paths(
    path: str | Path, *, check: FabricCheck | None = None
) -> tuple[Fabric, tuple[Path, ...]]:
    """The fabric, as `load_fabric` gives it, and the files that it was read from."""
    with collector_paused():
        document = read_document(path)
        return _load(document, check), document.paths


def parse_fabric(
    text: str, *, path: str = "fabric.yaml", check: FabricCheck | None = None
) -> Fabric:
    """The fabric that the text describes; `path` is what errors call the file, and includes are
    relative to."""
    return _load(document_of(text, path), check)


def _load(document: FabricDocument, check: FabricCheck | None) -> Fabric:
    unknown = _unknown(document)
    problems = [
        problem
        for problem in (schema_problems(document.value) if () not in unknown else [])
        if not Doubt(unknown).about(problem.path)
    ]
    faults = [document.fault(problem.path, problem.message) for problem in problems]
    faults += document.faults
    if not faults and isinstance(document.value, dict):
        fabric = build_fabric(document.value)
        # Paths count from the file that names them, which may be an included one.
        folder = document.path_of((SECTION,)).parent
        fabric = replace(fabric, controller=below(fabric.controller, folder))
        found = check_fabric(fabric)
        if not found and check is not None:
            found = list(check(fabric))
        if not found:
            return fabric
        raise FabricError(_named(document, found))
    if isinstance(document.value, dict) and () not in unknown:
        mended = repaired(document.value, problems, unknown)
        if mended is not None:
            value, doubt = mended
            faults += _named(document, check_fabric(build_fabric(value), doubt))
    raise FabricError(faults)


def _unknown(document: FabricDocument) -> set[KeyPath]:
    """Paths of what could not be read; with a file missing, parts of every section."""
    unknown = set(document.broken)
    if document.files_lost and isinstance(document.value, dict):
        for section in fabric_schema()["properties"]:
            if isinstance(document.value.get(section), list):
                unknown.add((section, UNKNOWN_ITEM))
            elif section not in document.value:
                unknown.add((section,))
    return unknown


def _named(document: FabricDocument, found: Iterable[FabricProblem]) -> Iterator[FabricFault]:
    """The problems by file, line and key."""
    assert isinstance(document.value, dict)
    for problem in found:
        path = _in_file(problem.path, document.value)

        def other(elsewhere: KeyPath, here: KeyPath = path) -> str:
            assert isinstance(document.value, dict)
            return document.key(_in_file(elsewhere, document.value), here)

        yield document.fault(path, problem.text(other))


def _in_file(path: KeyPath, document: Node) -> KeyPath:
    """A list of one collector is the same to the checks as one collector."""
    if path[:1] == ("collector",) and "collectors" in document:
        return ("collectors", 0, *path[1:])
    return path
