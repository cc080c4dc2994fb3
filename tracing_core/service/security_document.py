# SPDX-License-Identifier: Apache-2.0
"""What the OpenAPI document says about tokens: the scheme, and the scope of every operation."""

from typing import Any

from fastapi import FastAPI

from tracing_core.access import ROUTES, Need

SCHEME = "token"
_PROBLEM = {
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
}


def install(app: FastAPI) -> None:
    """Adds it to the document, which is made when it is first asked for."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        is_made = app.openapi_schema is not None
        document = make()
        if not is_made:
            _describe(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend it


def _describe(document: dict[str, Any]) -> None:
    document["components"]["securitySchemes"] = {
        SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "ttk_<id>_<secret>",
            "description": "From `tempotrace token create`; needed unless the service runs with"
            " access control off. A tenant's token sees that tenant's spans only.",
        }
    }
    needs = {(method, path.replace(":path}", "}")): need for (method, path), need in ROUTES.items()}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _describe_operation(operation, needs.get((method.upper(), path)))


def _describe_operation(operation: dict[str, Any], need: Need | None) -> None:
    if need is None:
        return
    if need is Need.NOTHING:
        operation["security"] = []
        return
    operation["security"] = [{SCHEME: [] if need is Need.TOKEN else [need.value]}]
    for status, said in (("401", "No valid token"), ("403", f"The token lacks {need.value}")):
        operation["responses"].setdefault(status, {"description": said, **_PROBLEM})
