# SPDX-License-Identifier: Apache-2.0
"""The service's application: OTLP ingest, API v1 and the web page over one store."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import FastAPI, Request, Response

from tracing_core import otlp
from tracing_core.analysis import Analysis
from tracing_core.ingest import DirectKeeper, Keeper
from tracing_core.service import guard, problems, schemas, security_document
from tracing_core.service.api import core_router
from tracing_core.service.api_analysis import analysis_router
from tracing_core.service.api_communicators import communicators_router
from tracing_core.service.api_export import export_router
from tracing_core.service.api_fabric import fabric_router
from tracing_core.service.api_forward import forward_router
from tracing_core.service.api_jobs import jobs_router
from tracing_core.service.api_timeline import timeline_router
from tracing_core.service.encoded_ids import EncodedIds
from tracing_core.service.forward import Forwarder, ForwardingKeeper
from tracing_core.service.gate import Gate
from tracing_core.service.head import HeadAsGet
from tracing_core.service.ingest import Ingest
from tracing_core.service.jaeger import jaeger_router
from tracing_core.service.otlp_http import OtlpFront, otlp_router
from tracing_core.service.page import page_router
from tracing_core.service.settled import SettledReads
from tracing_core.store import Store

API_VERSION = "1"


def create_app(
    store: Store,
    *,
    ingest: Ingest | None = None,
    forward: Forwarder | None = None,
) -> FastAPI:
    """The whole service on `store`; the caller opens and closes it, and starts `forward`.

    Without an `ingest` of the caller's, each request is stored before it is acknowledged.
    """
    ingest = ingest or make_ingest(store)
    app = FastAPI(
        title="TempoTrace",
        version=API_VERSION,
        description="Spans of all hosts on one time line, each stamp with its error bound.",
        responses={
            404: {"model": schemas.Problem},
            422: {"model": schemas.Problem},
        },
        separate_input_output_schemas=False,
        docs_url=None,  # FastAPI's pages load scripts from a CDN; /docs is our own
        redoc_url=None,
    )
    app.include_router(otlp_router(ingest))
    app.include_router(core_router(store, ingest))
    app.include_router(analysis_router(store, Analysis(store)))
    app.include_router(export_router(store))
    app.include_router(jobs_router(store))
    app.include_router(communicators_router(store))
    app.include_router(timeline_router(store))
    app.include_router(fabric_router(store))
    app.include_router(jaeger_router(store))
    if forward is not None:
        app.include_router(forward_router(forward))
    app.include_router(page_router())
    problems.install(app)
    security_document.install(app)
    _install_etags(app, store)
    app.add_middleware(SettledReads, keeper=ingest.keeper)
    guard.install(app, ingest.gate)
    app.add_middleware(EncodedIds)
    app.add_middleware(HeadAsGet)  # a HEAD has the ETag of its GET
    app.add_middleware(OtlpFront, ingest=ingest)
    return app


def make_ingest(
    store: Store,
    *,
    keeper: Keeper | None = None,
    forward: Forwarder | None = None,
    limit_bytes: int = otlp.REQUEST_LIMIT_BYTES,
    gate: Gate | None = None,
) -> Ingest:
    """What takes requests, from all transports, into `keeper`, else straight into the store.

    `gate` decides about them, and about the API of `create_app`; without one everybody may.
    """
    keeper = keeper or DirectKeeper(store.spans)
    if forward is not None:
        keeper = ForwardingKeeper(keeper, forward.spool)
    return Ingest(keeper, limit_bytes=limit_bytes, gate=gate)


def _install_etags(app: FastAPI, store: Store) -> None:
    """Every GET below /v1 but health is a function of the store and the URL, so both make it."""
    session = secrets.token_hex(8)  # revisions start at zero in each process

    @app.middleware("http")
    async def etag(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        path = request.url.path
        if request.method != "GET" or not path.startswith("/v1/") or path == "/v1/health":
            return await call_next(request)
        view = request.scope[guard.IDENTITY].view
        key = f"{session}|{store.revision}|{view}|{request.url.path}?{request.url.query}"
        tag = f'W/"{hashlib.sha256(key.encode()).hexdigest()[:24]}"'
        if tag in (part.strip() for part in request.headers.get("if-none-match", "").split(",")):
            headers = {"ETag": tag, "Vary": "Authorization"}
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        response = await call_next(request)
        if response.status_code == HTTPStatus.OK:
            response.headers["ETag"] = tag
            response.headers["Cache-Control"] = "no-cache"
            response.headers["Vary"] = "Authorization"
        return response
