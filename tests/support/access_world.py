# SPDX-License-Identifier: Apache-2.0
"""A service with tokens: two tenants' spans in one store, some with the same ids."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fastapi import FastAPI

from tests.support.tracing_world import World, build
from tracing_core.access import Scope, Token, TokenFile, new_token
from tracing_core.model import Span, SpanKind
from tracing_core.service import create_app, make_ingest
from tracing_core.service.gate import Auth, Gate
from tracing_core.service.ingest import Ingest
from tracing_core.store import Store

NOW = 1_800_000_000
SHARED_TRACE = f"{1:032x}"
"""Both tenants have spans in it, with the same span ids."""
SHARED_SPAN = f"{2:016x}"
BETA_TRACE = "be7a" * 8
MARK = "beta"
"""In everything that is beta's."""


def world() -> World:
    """Alpha's: what a fabric, a store and transfers hold."""
    return build(7, transfers=48)


def of_beta(spans: list[Span]) -> list[Span]:
    """Beta's spans: alpha's first trace over again under the same ids, and a trace of its own."""
    copies = [
        replace(
            span,
            tenant=MARK,
            name="beta.op",
            service="beta-service",
            host="beta-host",
            clock_domain="h2" if span.clock_domain == "h1" else "h1",
            attributes={"tempotrace.job": "beta-job", "tempotrace.step": 77, "beta.key": "beta"},
            events=(),
            kind=SpanKind.SERVER if span.parent_span_id else SpanKind.CLIENT,
        )
        for span in spans
        if span.trace_id == SHARED_TRACE
    ]
    return copies + [replace(span, trace_id=BETA_TRACE) for span in copies]


class Tokens:
    """Tokens of a service and their texts, by a name each."""

    def __init__(self, path: Path) -> None:
        self.file = TokenFile(path)
        self.texts: dict[str, str] = {}
        self.tokens: dict[str, Token] = {}

    def add(self, name: str, tenant: str, *scopes: Scope, expires_in_s: int | None = None) -> str:
        """Makes one."""
        number = len(self.texts) + 1
        text, token = new_token(
            lambda size: number.to_bytes(size, "big"), tenant=tenant, scopes=scopes,
            now_unix_s=NOW, expires_in_s=expires_in_s,
        )  # fmt: skip
        self.file.update(lambda book: book.with_token(token))
        self.texts[name], self.tokens[name] = text, token
        return text

    def revoke(self, name: str) -> None:
        """Revokes one."""
        identity = self.tokens[name].id
        self.file.update(lambda book: book.revoked(identity, NOW))

    def headers(self, name: str) -> dict[str, str]:
        """What a client with that token sends; nothing for ''."""
        return {"authorization": f"Bearer {self.texts[name]}"} if name else {}


def standard_tokens(path: Path) -> Tokens:
    """One of every kind that a request may come with."""
    tokens = Tokens(path)
    tokens.add("alpha", "alpha", Scope.READ, Scope.INGEST)
    tokens.add("alpha reads", "alpha", Scope.READ)
    tokens.add("alpha sends", "alpha", Scope.INGEST)
    tokens.add("beta", MARK, Scope.READ, Scope.INGEST)
    tokens.add("operator", "", *Scope)
    tokens.add("operator reads", "", Scope.READ)
    tokens.add("admin", "", Scope.ADMIN)
    tokens.add("revoked", "", *Scope)
    tokens.revoke("revoked")
    tokens.add("expired", "", *Scope, expires_in_s=60)
    tokens.texts["wrong"] = tokens.texts["operator"][:-1] + "f"
    tokens.texts["unknown"] = f"ttk_{'f' * 12}_{'0' * 64}"
    tokens.texts["malformed"] = "hunter2"
    return tokens


BAD = ("", "wrong", "unknown", "malformed", "revoked", "expired")


@dataclass(frozen=True, slots=True)
class Guarded:
    """A service that asks for tokens."""

    app: FastAPI
    ingest: Ingest
    store: Store
    tokens: Tokens
    world: World


@contextmanager
def guarded(folder: Path) -> Iterator[Guarded]:
    """Both tenants in one store, an hour after the tokens were made."""
    made = world()
    tokens = standard_tokens(folder / "tokens.json")
    gate = Gate(Auth.REQUIRED, tokens.file, now_unix_s=lambda: NOW + 3600)
    with Store.open() as store:
        made.fill(store)
        store.spans.append(of_beta(made.spans))
        ingest = make_ingest(store, gate=gate)
        yield Guarded(create_app(store, ingest=ingest), ingest, store, tokens, made)
