# SPDX-License-Identifier: Apache-2.0
"""Trace and span ids for files that have none: the same file gives the same ids, so a second
import stores nothing twice."""

import hashlib

_SEPARATOR = b"\x1f"


def trace_id(*parts: str | int | bytes) -> str:
    """32 hex digits from what identifies the trace."""
    return _hash(16, parts)


def span_id(*parts: str | int | bytes) -> str:
    """16 hex digits from what identifies the span."""
    return _hash(8, parts)


def _hash(digest_bytes: int, parts: tuple[str | int | bytes, ...]) -> str:
    text = _SEPARATOR.join(
        part if isinstance(part, bytes) else str(part).encode("utf-8", "replace") for part in parts
    )
    digest = hashlib.blake2b(text, digest_size=digest_bytes).hexdigest()
    return digest if digest.strip("0") else "1".zfill(2 * digest_bytes)
