# SPDX-License-Identifier: Apache-2.0
"""`/v1/forward`: how passing spans on goes. Only with a receiver to pass them on to."""

from dataclasses import asdict

from fastapi import APIRouter

from tracing_core.service.forward import Forwarder
from tracing_core.service.forward_spool import FullPolicy
from tracing_core.service.schemas import ApiModel


class ForwardState(ApiModel):
    """Requests and spans passed on since the service started, and what waits on the disk."""

    url: str
    queued_bytes: int
    full_policy: FullPolicy
    request_count: int
    span_count: int
    rejected_span_count: int
    refused_request_count: int
    repetition_count: int
    dropped_request_count: int
    dropped_span_count: int
    full_count: int
    last_error: str


def forward_router(forward: Forwarder) -> APIRouter:
    """The route."""
    router = APIRouter(prefix="/v1")

    @router.get("/forward", tags=["service"])
    def state() -> ForwardState:
        """What was delivered, what the receiver refused, what waits."""
        return ForwardState(
            url=forward.url,
            queued_bytes=forward.spool.size_bytes,
            full_policy=forward.spool.policy,
            **asdict(forward.counters),
            **asdict(forward.spool.counters),
        )

    return router
