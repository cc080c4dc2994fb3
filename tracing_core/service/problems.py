# SPDX-License-Identifier: Apache-2.0
"""Errors of the API as application/problem+json (RFC 9457)."""

from collections.abc import Sequence
from http import HTTPStatus

import structlog
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from tracing_core.service.schemas import Problem
from tracing_core.store import StoreClosedError, StoreError

PROBLEM_MEDIA_TYPE = "application/problem+json"
VALIDATION_ERRORS_MAX = 5
"""Errors named in one answer; the first ones say enough."""
STORE_ERROR = "the store does not answer; the service's log says why"

_log = structlog.get_logger(__name__)


def not_found(detail: str) -> HTTPException:
    """404 with a reason."""
    return HTTPException(HTTPStatus.NOT_FOUND, detail)


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A problem+json response."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(
        body.model_dump(), status_code=status, media_type=PROBLEM_MEDIA_TYPE, headers=headers
    )


def _parameter(place: Sequence[object]) -> str:
    """The parameter's name, without saying whether it stood in the path or the query."""
    names = place[1:] if len(place) > 1 else place
    return ".".join(str(name) for name in names)


def install(app: FastAPI) -> None:
    """Makes every error of `app` a problem."""

    async def on_http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, StarletteHTTPException)
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))

    async def on_invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        details = "; ".join(
            f"{_parameter(item['loc'])}: {item['msg']}"
            for item in error.errors()[:VALIDATION_ERRORS_MAX]
        )
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, details)

    async def on_closed(_: Request, error: Exception) -> JSONResponse:
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    async def on_store(_: Request, error: Exception) -> JSONResponse:
        # The database's words name paths and tables, which are no client's business.
        _log.error("store_did_not_answer", error=str(error))
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, STORE_ERROR)

    async def on_bug(_: Request, error: Exception) -> JSONResponse:
        # The server logs it with its traceback; the client learns that it is not at fault.
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, f"internal error: {type(error).__name__}")

    app.add_exception_handler(Exception, on_bug)
    app.add_exception_handler(StoreError, on_store)
    app.add_exception_handler(StarletteHTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(StoreClosedError, on_closed)
