# SPDX-License-Identifier: Apache-2.0
"""A query sees what was acknowledged before it, if that takes no more than a moment."""

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from tracing_core.ingest import Keeper

SETTLE_S = 0.5
"""Longest wait for spans that are on their way into the store. Under load they are too many to
wait for; then an answer is about a second behind."""


class SettledReads:
    """Waits for the keeper before a GET of the API."""

    def __init__(self, app: ASGIApp, keeper: Keeper) -> None:
        self._app = app
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if (
            scope["type"] == "http"
            and scope["method"] == "GET"
            and scope["path"].startswith(("/v1/", "/api/"))
            and not self._keeper.settle(0.0)
        ):
            await run_in_threadpool(self._keeper.settle, SETTLE_S)
        await self._app(scope, receive, send)
