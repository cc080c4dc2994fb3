# SPDX-License-Identifier: Apache-2.0
"""Traces that other projects published. They are not part of this repository: their folder is
named by TEMPOTRACE_SHARED_DATA, and tests that want them are skipped where they are not at hand."""

import os
from pathlib import Path

import pytest

FOLDER = (
    Path(os.environ.get("TEMPOTRACE_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "tracing"
)


def outside_file(name: str) -> Path:
    """A published file by its name below the folder; skips the test where it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"outside data {name} is not at hand (TEMPOTRACE_SHARED_DATA)")
    return path
