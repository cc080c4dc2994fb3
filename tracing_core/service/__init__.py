# SPDX-License-Identifier: Apache-2.0
"""The HTTP service: OTLP ingest, API and web page. The only place with FastAPI and pydantic."""
