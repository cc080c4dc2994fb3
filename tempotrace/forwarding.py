# SPDX-License-Identifier: Apache-2.0
"""Sets up passing spans on, as `serve --forward` asks for it."""

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import unquote

from tempotrace.errors import InputError
from tracing_core.ingest.log import LogError
from tracing_core.service.forward import Forwarder, endpoint
from tracing_core.service.forward_spool import BYTES_MAX, ForwardSpool, FullPolicy
from tracing_core.store import Store

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
"""Headers for the receiver, such as a token: `key=value,key=value`, as OpenTelemetry has it."""


def forwarder(
    url: str | None,
    store: Store,
    log_folder: Path,
    *,
    hold_s: float = 0.0,
    policy: FullPolicy = FullPolicy.DROP_OLDEST,
    bytes_max: int = BYTES_MAX,
) -> AbstractContextManager[Forwarder | None]:
    """A forwarder that runs while the context lasts; none without a URL.

    What waits is kept beside the write-ahead log in `log_folder`.
    """
    if url is None:
        return nullcontext()
    try:
        endpoint(url)
        headers = parse_headers(os.environ.get(HEADERS_VARIABLE, ""))
    except ValueError as error:
        raise InputError(f"--forward: {error}") from None
    try:
        spool = ForwardSpool(log_folder, hold_s=hold_s, bytes_max=bytes_max, policy=policy)
    except (LogError, OSError) as error:
        raise InputError(f"{log_folder}: {error}") from None
    return Forwarder(url, store.corrections.table, spool, headers=headers)


def parse_headers(text: str) -> dict[str, str]:
    """Headers from the variable's text.

    >>> parse_headers("authorization=Bearer%20abc, x-scope-orgid=1")
    {'authorization': 'Bearer abc', 'x-scope-orgid': '1'}
    """
    found: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{HEADERS_VARIABLE}: expected key=value; found {part.strip():.30}")
        found[key.strip()] = unquote(value.strip())
    return found
