# SPDX-License-Identifier: Apache-2.0
"""The command line as a client of the HTTP API."""

import re
from collections.abc import Mapping
from http.client import UNAUTHORIZED
from typing import Any

import httpx

from tempotrace.errors import InputError

TIMEOUT_S = 60.0
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""RFC 6750 section 2.1. Anything else httpx would print in its own error."""


class RefusedError(InputError):
    """The service answered with an error."""

    def __init__(self, message: str, status: int) -> None:
        hint = "; --token or TEMPOTRACE_TOKEN names a valid one" if status == UNAUTHORIZED else ""
        super().__init__(message + hint)
        self.status = status


def get_json(url: str, path: str, *, token: str | None) -> Mapping[str, Any]:
    """GET below the service's base URL; a refusal or no answer is one line, exit 2."""
    answer: Mapping[str, Any] = get_response(url, path, token=token).json()
    return answer


def get_response(url: str, path: str, *, token: str | None) -> httpx.Response:
    """The same for an answer that is not JSON."""
    headers = bearer(token)
    try:
        with httpx.Client(
            base_url=url, timeout=TIMEOUT_S, trust_env=False, headers=headers
        ) as client:
            response = client.get(path)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise InputError(f"{url}: no answer from the service: {error}") from None
    if response.is_error:
        message = f"{url}{path}: {response.status_code} {detail(response)}"
        raise RefusedError(message, response.status_code)
    return response


def bearer(token: str | None) -> dict[str, str]:
    """The header that says a token; none without one."""
    if not token:
        return {}
    if not _TOKEN.fullmatch(token.strip()):
        raise InputError("--token: expected ttk_...; found characters that no token has")
    return {"authorization": f"Bearer {token.strip()}"}


def detail(response: httpx.Response) -> str:
    """What a refusal says."""
    try:
        answer = response.json()
    except ValueError:
        return response.text[:200]
    return str(answer.get("detail") or answer.get("message") or answer)
