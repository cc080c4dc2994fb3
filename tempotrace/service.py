# SPDX-License-Identifier: Apache-2.0
"""Opens the store and starts the service; what a user can put right is one line, exit 2."""

from pathlib import Path

from tempotrace.errors import InputError
from tempotrace.store_place import is_url
from tracing_core.service.app import create_app
from tracing_core.service.forward import Forwarder
from tracing_core.service.ingest import Ingest
from tracing_core.service.run import ServiceHandle, serve_in_thread
from tracing_core.store import Store, StoreOpenError


def open_store(store: str | Path) -> Store:
    """The store in a folder or at a URL; an error if another process has it, or none answers."""
    try:
        return (
            Store.open_url(store)
            if isinstance(store, str) and is_url(store)
            else Store.open(Path(store))
        )
    except StoreOpenError as error:
        raise InputError(str(error)) from None


def start_service(
    store: Store,
    host: str,
    port: int,
    *,
    ingest: Ingest | None = None,
    forward: Forwarder | None = None,
) -> ServiceHandle:
    """The running service; an error if the address is taken. Port 0 picks a free one."""
    try:
        return serve_in_thread(create_app(store, ingest=ingest, forward=forward), host, port)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}; --port picks another"
        ) from None
