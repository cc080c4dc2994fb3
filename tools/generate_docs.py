# SPDX-License-Identifier: Apache-2.0
"""Rewrites the pages that are made from code (`make docs`); a test fails when one is stale."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from controller.telemetry.layout_docs import dialects_page, wire_format_page
from tracing_core.service.app import create_app
from tracing_core.store import Store

DOCS = Path(__file__).resolve().parent.parent / "docs"


def openapi_page() -> str:
    """The API's OpenAPI document."""
    with Store.open() as store:
        return json.dumps(create_app(store).openapi(), indent=1, sort_keys=True) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "wire-format.md": wire_format_page,
    "dialects.md": dialects_page,
    "openapi.json": openapi_page,
}


def main() -> int:
    """Write every generated page; with --check only say which are stale."""
    check = "--check" in sys.argv[1:]
    stale = []
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if check:
            if not page.exists() or page.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            page.write_text(text, encoding="utf-8")
            sys.stdout.write(f"docs/{name}\n")
    for name in stale:
        sys.stdout.write(f"docs/{name} is stale: make docs\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
