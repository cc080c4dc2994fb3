# SPDX-License-Identifier: Apache-2.0
"""The command line as a client of the HTTP API."""

from collections.abc import Mapping
from typing import Any

import httpx

from tempotrace.errors import InputError

TIMEOUT_S = 60.0


def get_json(url: str, path: str) -> Mapping[str, Any]:
    """GET below the service's base URL; a refusal or no answer is one line, exit 2."""
    try:
        with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as client:
            response = client.get(path)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise InputError(f"{url}: no answer from the service: {error}") from None
    if response.is_error:
        raise InputError(f"{url}{path}: {response.status_code} {_detail(response)}")
    answer: Mapping[str, Any] = response.json()
    return answer


def _detail(response: httpx.Response) -> str:
    try:
        answer = response.json()
    except ValueError:
        return response.text[:200]
    return str(answer.get("detail") or answer.get("message") or answer)
