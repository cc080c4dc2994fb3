# SPDX-License-Identifier: Apache-2.0
"""The web page: static files of this package, no build step and nothing from elsewhere."""

from importlib.resources import files

from fastapi import APIRouter, Response

from tracing_core.service.problems import not_found

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_HEADERS = {
    # Everything the page needs is its own: a script or image from elsewhere does not load.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
        " connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_router() -> APIRouter:
    """`/`, `/docs` and `/static/NAME`; the files are read once."""
    folder = files("tracing_core.service") / "static"
    contents = {
        item.name: item.read_bytes()
        for item in folder.iterdir()
        if any(item.name.endswith(suffix) for suffix in _MEDIA_TYPES)
    }
    router = APIRouter(include_in_schema=False)

    def respond(name: str) -> Response:
        if name not in contents:
            raise not_found(f"there is no file {name}")
        suffix = name[name.rindex(".") :]
        return Response(contents[name], media_type=_MEDIA_TYPES[suffix], headers=_HEADERS)

    @router.get("/")
    def index() -> Response:
        return respond("index.html")

    @router.get("/docs")
    def docs() -> Response:
        return respond("docs.html")

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        return respond(name)

    return router
