# SPDX-License-Identifier: Apache-2.0
"""What `--store` and `--tokens` name."""

from pathlib import Path

from tracing_core.access import TOKENS_FILE, TokenFile


def is_url(store: str) -> bool:
    """Whether the store is a ClickHouse server and not a folder."""
    return store.startswith(("http://", "https://"))


def token_file(store: str | None, tokens: Path | None) -> TokenFile | None:
    """The file that was named, else the one in the store's folder; None if there is no folder."""
    if tokens is not None:
        return TokenFile(tokens)
    if store is None or is_url(store):
        return None
    return TokenFile(Path(store) / TOKENS_FILE)
