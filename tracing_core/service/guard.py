# SPDX-License-Identifier: Apache-2.0
"""Asks the gate about each request of the API and the page, and bounds it to its tenant.

It stands in front of everything that answers from the store. For a tenant's token it sets the
`tenant` parameter, which every route with the scope `read` obeys; `OtlpFront` asks by itself.
"""

from http import HTTPStatus
from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tracing_core.access import Identity, Need, Refusal, RefusalKind, need_of
from tracing_core.service.gate import Gate
from tracing_core.service.jaeger import JAEGER_PREFIX, jaeger_error
from tracing_core.service.problems import problem

IDENTITY = "tempotrace.identity"
"""Key of an ASGI scope."""
TENANT = "tenant"
STATUS = {
    RefusalKind.NO_TOKEN: HTTPStatus.UNAUTHORIZED,
    RefusalKind.BAD_TOKEN: HTTPStatus.UNAUTHORIZED,
    RefusalKind.FORBIDDEN: HTTPStatus.FORBIDDEN,
    RefusalKind.NOT_NOW: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Guard:
    """Lets a request through, or answers it."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = self._bounded(scope)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        else:
            await self._app(answer, receive, send)

    def _bounded(self, scope: Scope) -> Scope | Response:
        """The request as it goes on, or the answer that ends it."""
        path: str = scope["path"]
        need = need_of(scope["method"], path)
        identity = self._gate.decide(authorization(scope["headers"]), need or Need.TOKEN)
        if isinstance(identity, Refusal):
            headers = {"WWW-Authenticate": identity.challenge} if identity.challenge else {}
            return _error(path, STATUS[identity.kind], identity.message, headers)
        if need is None and self._gate.is_on:
            return _error(path, HTTPStatus.NOT_FOUND, "Not Found", {})
        scope = {**scope, IDENTITY: identity}
        if not identity.tenant:
            return scope
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(key == TENANT and value not in ("", identity.tenant) for key, value in pairs):
            message = f"the token is for the tenant {identity.tenant} only"
            return _error(path, HTTPStatus.FORBIDDEN, message, {})
        pairs = [(key, value) for key, value in pairs if key != TENANT]
        query = urlencode([*pairs, (TENANT, identity.tenant)])
        return {**scope, "query_string": query.encode()}


def authorization(headers: list[tuple[bytes, bytes]]) -> str:
    """The Authorization header of a request; empty if it has none, or several."""
    found = [value for name, value in headers if name == b"authorization"]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _error(path: str, status: int, message: str, headers: dict[str, str]) -> Response:
    if path.startswith(f"{JAEGER_PREFIX}/"):
        return jaeger_error(HTTPStatus(status), message, headers)
    return problem(status, message, headers)


def _asking(request: Request) -> Identity:
    identity: Identity = request.scope[IDENTITY]
    return identity


Asking = Annotated[Identity, Depends(_asking)]
"""Who asks, as a parameter of a route."""


def install(app: FastAPI, gate: Gate) -> None:
    """Guards everything that was added before."""
    app.add_middleware(Guard, gate=gate)
