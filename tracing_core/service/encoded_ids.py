# SPDX-License-Identifier: Apache-2.0
"""Names in paths that hold any character: jobs, communicators, clocks.

A name is one segment of the path, percent-encoded as a whole, the slash too (`h3%2Fsystem`).
Servers decode a path before it is routed, after which `h3/system` would be two segments; so below
these prefixes the path is routed as it was sent, and each name is decoded by its parameter.
"""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIXES = ("/v1/jobs/", "/v1/clocks/")
NAME_CHARS_MAX = 4096
"""Encoded; longer than any name that an importer keeps."""


class EncodedIds:
    """Routes paths below `PREFIXES` as they were sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] == "http" and scope["path"].startswith(PREFIXES):
            raw = bytes(scope.get("raw_path") or b"").decode("ascii", "replace").partition("?")[0]
            if raw.startswith(PREFIXES):
                scope = {**scope, "path": raw}
        await self._app(scope, receive, send)


def decoded(value: str) -> str:
    """A name as it was before it was percent-encoded."""
    try:
        name = unquote(value, errors="strict")
    except UnicodeDecodeError as error:
        raise PydanticCustomError(
            "encoded_name", "expected UTF-8, percent-encoded; found other bytes"
        ) from error
    return name


def _name(description: str) -> object:
    return Path(
        max_length=NAME_CHARS_MAX,
        description=f"{description}, percent-encoded: a slash in it is %2F.",
    )


JobName = Annotated[str, _name("Name of the job"), AfterValidator(decoded)]
CommunicatorName = Annotated[str, _name("Name of the communicator"), AfterValidator(decoded)]
ClockName = Annotated[str, _name("Name of the clock, as spans give it"), AfterValidator(decoded)]
