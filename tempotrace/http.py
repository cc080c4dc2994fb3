# SPDX-License-Identifier: Apache-2.0
"""The command line as a client of the HTTP API."""

from collections.abc import Mapping
from typing import Any

import httpx

from tempotrace.errors import InputError

TIMEOUT_S = 60.0


def get_json(url: str, path: str) -> Mapping[str, Any]:
    """GET below the service's base URL; a refusal or no answer is one line, exit 2."""
    answer: Mapping[str, Any] = get_response(url, path).json()
    return answer


def get_response(url: str, path: str) -> httpx.Response:
    """The same for an answer that is not JSON."""
    try:
        with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as client:
            response = client.get(path)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise InputError(f"{url}: no answer from the service: {error}") from None
    if response.is_error:
        raise InputError(f"{url}{path}: {response.status_code} {_detail(response)}")
    return response


def _detail(response: httpx.Response) -> str:
    try:
        answer = response.json()
    except ValueError:
        return response.text[:200]
    return str(answer.get("detail") or answer.get("message") or answer)
