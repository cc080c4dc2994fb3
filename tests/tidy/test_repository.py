# SPDX-License-Identifier: Apache-2.0
"""Rules of the repository that no other tool checks."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tempotrace", "bmv2_lab", "controller", "tracing_core", "correction")
CODE_FOLDERS = (*PACKAGES, "p4src", "tests", "tools")
CORRECTION_MAY_IMPORT = {
    "bisect", "collections", "dataclasses", "enum", "functools", "itertools", "math", "sys",
    "typing",
    "numpy", "scipy", "numba", "correction",
}  # fmt: skip
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)(?:#[^)]*)?\)")


def _tracked(*endings: str) -> Iterator[Path]:
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listing.stdout.splitlines():
        if name.endswith(endings) and (ROOT / name).exists():
            yield ROOT / name


def test_every_source_file_names_its_licence() -> None:
    """The SPDX line stands first in each Python and P4 file."""
    missing = [
        str(path.relative_to(ROOT))
        for path in _tracked(".py", ".p4")
        if "SPDX-License-Identifier: Apache-2.0" not in path.read_text().split("\n", 2)[0]
    ]
    assert missing == []


def test_links_in_the_docs_resolve() -> None:
    """Every relative link in a Markdown page leads to a file."""
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in _tracked(".md")
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_generated_pages_are_current() -> None:
    """Wire format and OpenAPI pages are what the code says; `make docs` rewrites them."""
    result = subprocess.run(
        [sys.executable, "tools/generate_docs.py", "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_correction_imports_only_mathematics() -> None:
    """The estimation core reads no clock, no file, no socket and no randomness."""
    foreign = []
    for path in (ROOT / "correction").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            foreign += [
                f"{path.name}: {name}"
                for name in names
                if name.split(".")[0] not in CORRECTION_MAY_IMPORT
            ]
    assert foreign == []


@pytest.mark.parametrize("package", ["correction", "tracing_core", "controller"])
def test_estimators_never_read_ground_truth(package: str) -> None:
    """No module that estimates or judges imports the lab or names its truth file."""
    for path in (ROOT / package).rglob("*.py"):
        text = path.read_text()
        assert "bmv2_lab" not in text, path
        assert "truth.json" not in text, path
        assert "nuisance" not in text.lower(), path


def test_only_scoring_reads_the_truth_file() -> None:
    """In the wiring, truth.json is written by the run and read by nobody."""
    readers = [
        str(path.relative_to(ROOT))
        for folder in ("tempotrace", "bmv2_lab")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"TRUTH_FILE\)\.(read|open)|read_truth", path.read_text())
    ]
    assert readers == []


def test_lock_files_name_no_host_and_hash_everything() -> None:
    """Locked packages come with hashes and without addresses."""
    for path in (ROOT / "requirements").glob("*.lock"):
        text = path.read_text()
        assert "://" not in text, path
        pinned = [line for line in text.splitlines() if re.match(r"^[A-Za-z0-9_.\-\[\]]+==", line)]
        assert len(pinned) > 20, path
        assert all(line.rstrip().endswith("\\") for line in pinned), path


def test_schemas_are_valid() -> None:
    """The published schemas are themselves Draft 2020-12."""
    schemas = [
        *(ROOT / "docs" / "schemas").glob("*.json"),
        *(ROOT / "controller").rglob("*.schema.json"),
    ]
    assert len(schemas) >= 5
    for path in schemas:
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_every_dependency_says_why_it_is_here() -> None:
    """Each runtime dependency has its line in docs/dependencies.md."""
    project = (ROOT / "pyproject.toml").read_text()
    block = project.split("dependencies = [", 1)[1].split("]", 1)[0]
    names = re.findall(r'"([A-Za-z0-9_.\-]+)', block)
    page = (ROOT / "docs" / "dependencies.md").read_text()
    for name in names:
        short = name.replace("opentelemetry", "")
        assert name in page or short in page, name


def test_every_command_is_in_the_docs() -> None:
    """The README or a page names each command of the command line."""
    text = "\n".join(path.read_text() for path in _tracked(".md"))
    for command in ("demo", "lab", "p4", "deploy", "collect", "correct", "serve", "trace",
                    "attribute", "bench"):  # fmt: skip
        assert f"tempotrace {command}" in text, command
