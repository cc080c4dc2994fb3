# SPDX-License-Identifier: Apache-2.0
"""Sets up passing spans on, as `serve --forward` asks for it."""

import os
import re
from collections.abc import Sequence
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
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""RFC 9110 section 5.6.2."""
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
"""Printable ASCII: a client library would print any other value in its error."""


def forwarder(
    url: str | None,
    store: Store,
    log_folder: Path,
    *,
    headers: Sequence[str] = (),
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
        sent = parse_headers(os.environ.get(HEADERS_VARIABLE, ""))
        sent.update(header("--forward-header", text) for text in headers)
    except ValueError as error:
        raise InputError(f"--forward: {error}") from None
    try:
        spool = ForwardSpool(log_folder, hold_s=hold_s, bytes_max=bytes_max, policy=policy)
    except (LogError, OSError) as error:
        raise InputError(f"{log_folder}: {error}") from None
    return Forwarder(url, store.corrections.table, spool, headers=sent)


def parse_headers(text: str) -> dict[str, str]:
    """Headers from the variable's text.

    >>> parse_headers("authorization=Bearer%20abc, x-scope-orgid=1")
    {'authorization': 'Bearer abc', 'x-scope-orgid': '1'}
    """
    found: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        key, equals, value = part.partition("=")
        name, content = header(HEADERS_VARIABLE, f"{key}{equals}{unquote(value.strip())}")
        found[name] = content
    return found


def header(place: str, text: str) -> tuple[str, str]:
    """Name and value of NAME=VALUE; what is wrong with it is said without the value."""
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not _NAME.fullmatch(name):
        raise ValueError(f"{place}: expected NAME=VALUE")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"{place}: the value of {name} has characters that no header may have")
    return name, value
