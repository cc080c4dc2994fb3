# SPDX-License-Identifier: Apache-2.0
"""A store's service on a free port, and a client of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tracing_core.service import create_app, serve_in_thread
from tracing_core.store import Store


@contextmanager
def served(store: Store) -> Iterator[httpx.Client]:
    """Serves the store until the block ends."""
    with (
        serve_in_thread(create_app(store)) as handle,
        httpx.Client(base_url=handle.url, trust_env=False, timeout=60) as client,
    ):
        yield client
