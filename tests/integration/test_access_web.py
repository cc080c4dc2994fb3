# SPDX-License-Identifier: Apache-2.0
"""The page of a service that asks for tokens, in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.access_world import SHARED_TRACE, Guarded, guarded
from tests.support.browser import rendered
from tracing_core.service import ServiceHandle, serve_in_thread

pytestmark = [
    pytest.mark.web,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium"),
]


class Entered:
    """The service, and at /as/KIND/VIEW a page that enters a token as its form does."""

    def __init__(self, service: Guarded) -> None:
        self._app: ASGIApp = service.app
        self._texts = service.tokens.texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/as/"):
            await self._app(scope, receive, send)
            return
        _, _, kind, view = scope["path"].split("/", 3)
        script = (
            f'sessionStorage.setItem("tempotrace.token", "{self._texts[kind]}");'
            f'location.replace("/{view}" + location.hash);'
        )
        await HTMLResponse(f"<script>{script}</script>")(scope, receive, send)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceHandle]:
    with (
        guarded(tmp_path_factory.mktemp("web")) as made,
        serve_in_thread(Entered(made)) as handle,  # type: ignore[arg-type]
    ):
        yield handle


@pytest.mark.parametrize("view", ["", "#trace", "docs"])
def test_without_a_token_the_page_asks_for_one(
    service: ServiceHandle, tmp_path: Path, view: str
) -> None:
    """A field and a button, and nothing of what is stored."""
    document = rendered(f"{service.url}/{view}", tmp_path)
    assert 'id="token"' in document
    assert "a token is needed" in document
    assert SHARED_TRACE not in document


def test_a_wrong_token_is_asked_for_again(service: ServiceHandle, tmp_path: Path) -> None:
    """With what is wrong with it."""
    document = rendered(f"{service.url}/as/revoked/", tmp_path)
    assert 'id="token"' in document
    assert "the token was revoked" in document
    assert "Forget token" in document


def test_a_tenants_page_shows_its_traces(service: ServiceHandle, tmp_path: Path) -> None:
    """The first view is the list of traces; the fabric's views are not offered."""
    document = rendered(f"{service.url}/as/alpha/", tmp_path)
    assert f">{SHARED_TRACE}<" in document
    assert 'href="#fabric" hidden' in document
    assert "beta" not in document
    assert 'role="alert"' not in document


def test_an_operators_page_shows_the_fabric(service: ServiceHandle, tmp_path: Path) -> None:
    """As without access control."""
    document = rendered(f"{service.url}/as/operator/", tmp_path)
    assert document.count('class="cable') >= 16
    assert 'id="token"' not in document


def test_the_api_page_shows_operations_with_their_scopes(
    service: ServiceHandle, tmp_path: Path
) -> None:
    """Any token opens it."""
    document = rendered(f"{service.url}/as/alpha/docs", tmp_path)
    assert "GET /v1/clocks" in document
    assert "Scope: fabric:read" in document
