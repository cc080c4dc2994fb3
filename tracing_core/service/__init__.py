# SPDX-License-Identifier: Apache-2.0
"""The HTTP service: OTLP ingest, API and web page. The only place with FastAPI and pydantic."""

from tracing_core.service.app import create_app, make_ingest
from tracing_core.service.otlp_server import OtlpServer
from tracing_core.service.run import ServiceHandle, serve_in_thread

__all__ = ["OtlpServer", "ServiceHandle", "create_app", "make_ingest", "serve_in_thread"]
