# SPDX-License-Identifier: Apache-2.0
"""Traces that other projects published. They are not part of this repository: tests that want them
are skipped where they are not at hand, and say so."""

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get(
        "TEMPOTRACE_OUTSIDE_DATA", Path(__file__).parents[3] / "shared" / "data" / "tracing"
    )
)


def outside_file(name: str) -> Path:
    """A published file by its name below the folder; skips the test where it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"outside data {name} is missing (TEMPOTRACE_OUTSIDE_DATA names its folder)")
    return path
