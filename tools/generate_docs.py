# SPDX-License-Identifier: Apache-2.0
"""Rewrites the pages that are made from code (`make docs`); a test fails when one is stale."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from controller.telemetry.layout_docs import wire_format_page
from tracing_core.service.app import create_app
from tracing_core.store import Store

DOCS = Path(__file__).resolve().parent.parent / "docs"


def openapi_page() -> str:
    """The API's OpenAPI document."""
    with Store.open() as store:
        return json.dumps(create_app(store).openapi(), indent=1, sort_keys=True) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "wire-format.md": wire_format_page,
    "openapi.json": openapi_page,
}


def main() -> int:
    """Write every generated page."""
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"docs/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
