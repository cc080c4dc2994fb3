# SPDX-License-Identifier: Apache-2.0
"""What each route needs. A route that is not here is answered with 404 while tokens are required.

Every route with `read` shows the asking tenant's spans only: it has a `tenant` parameter, which
the service sets for a tenant's token.
"""

import re
from collections.abc import Mapping

from tracing_core.access.scopes import Need

GRPC = "gRPC"
"""Stands for the method of a gRPC call."""
OTLP_GRPC_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

ROUTES: Mapping[tuple[str, str], Need] = {
    (GRPC, OTLP_GRPC_EXPORT): Need.INGEST,
    ("POST", "/v1/traces"): Need.INGEST,
    ("GET", "/v1/health"): Need.NOTHING,
    ("GET", "/v1/summary"): Need.READ,
    ("GET", "/v1/traces"): Need.READ,
    ("GET", "/v1/traces/{trace_id}"): Need.READ,
    ("GET", "/v1/traces/{trace_id}/export"): Need.READ,
    ("GET", "/v1/traces/{trace_id}/timeline"): Need.READ,
    ("GET", "/v1/traces/{trace_id}/transfers"): Need.READ,
    ("GET", "/v1/slow-transfers"): Need.READ,
    ("GET", "/v1/attribution/{trace_id}/{span_id}"): Need.READ,
    ("GET", "/v1/inversions"): Need.READ,
    ("GET", "/v1/clock-evidence"): Need.READ,
    ("GET", "/v1/jobs"): Need.READ,
    ("GET", "/v1/jobs/{job}"): Need.READ,
    ("GET", "/v1/jobs/{job}/steps"): Need.READ,
    ("GET", "/v1/jobs/{job}/steps/{step}"): Need.READ,
    ("GET", "/v1/jobs/{job}/steps/{step}/timeline"): Need.READ,
    ("GET", "/v1/jobs/{job}/ranks"): Need.READ,
    ("GET", "/v1/jobs/{job}/ranks/{rank}"): Need.READ,
    ("GET", "/v1/jobs/{job}/communicators"): Need.READ,
    ("GET", "/v1/jobs/{job}/communicators/{communicator}"): Need.READ,
    ("GET", "/v1/clocks"): Need.FABRIC_READ,
    ("GET", "/v1/clocks/{clock}"): Need.FABRIC_READ,
    ("GET", "/v1/links"): Need.FABRIC_READ,
    ("GET", "/v1/fabric"): Need.FABRIC_READ,
    ("GET", "/v1/fabric/asymmetry"): Need.FABRIC_READ,
    ("GET", "/v1/fabric/links"): Need.FABRIC_READ,
    ("GET", "/v1/fabric/paths"): Need.FABRIC_READ,
    ("GET", "/v1/forward"): Need.ADMIN,
    ("GET", "/api/services"): Need.READ,
    ("GET", "/api/services/{service:path}/operations"): Need.READ,
    ("GET", "/api/operations"): Need.READ,
    ("GET", "/api/traces"): Need.READ,
    ("GET", "/api/traces/{trace}"): Need.READ,
    ("GET", "/api/dependencies"): Need.READ,
    ("GET", "/openapi.json"): Need.TOKEN,
    ("GET", "/"): Need.NOTHING,
    ("GET", "/docs"): Need.NOTHING,
    ("GET", "/static/{name}"): Need.NOTHING,
}


def _pattern(template: str) -> re.Pattern[str]:
    """What a template matches: a part without a slash for `{name}`, anything for `{name:path}`."""
    parts = re.split(r"(\{[^}]*\})", template)
    made = [
        (".*" if part.endswith(":path}") else "[^/]+") if part.startswith("{") else re.escape(part)
        for part in parts
    ]
    return re.compile("".join(made), re.DOTALL)


_PLAIN = {key: need for key, need in ROUTES.items() if "{" not in key[1]}
_PATTERNS = [
    (method, _pattern(template), need)
    for (method, template), need in ROUTES.items()
    if "{" in template
]


def need_of(method: str, path: str) -> Need | None:
    """What a request needs; None if there is no such route. HEAD is asked for as GET.

    >>> need_of("GET", "/v1/traces/5b8efff798038103d269b633813fc60c/export")
    <Need.READ: 'read'>
    >>> need_of("DELETE", "/v1/traces")
    """
    plain = _PLAIN.get((method, path))
    if plain is not None:
        return plain
    for wanted, pattern, need in _PATTERNS:
        if method == wanted and pattern.fullmatch(path):
            return need
    return None
