# SPDX-License-Identifier: Apache-2.0
"""All tokens of a service, and the JSON document that keeps them."""

import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracing_core.access.scopes import Scope
from tracing_core.access.tokens import Token, TokenError, digest, spoken_for

VERSION = 1
TOKENS_MAX = 10_000
"""In one file: it is read as a whole whenever it changes."""

_NO_DIGEST = "0" * 64
"""Compared with when there is no such token, so that this takes as long."""
_KEYS = (
    "id", "name", "tenant", "scopes", "sha256", "created_unix_s", "expires_unix_s",
    "revoked_unix_s",
)  # fmt: skip


class BookError(ValueError):
    """The document cannot be used; the text names the key."""


class UnknownTokenError(LookupError):
    """There is no token with that id."""


@dataclass(frozen=True, slots=True)
class TokenBook:
    """Tokens by id, in the order of their making."""

    tokens: Mapping[str, Token]

    @classmethod
    def of(cls, tokens: Iterable[Token]) -> "TokenBook":
        """A book with these tokens."""
        return cls({token.id: token for token in tokens})

    def verified(self, text: str) -> Token | None:
        """The token of this text, whatever its state; None if the text is none of them."""
        identity = spoken_for(text)
        if identity is None:
            return None
        token = self.tokens.get(identity)
        expected = _NO_DIGEST if token is None else token.sha256
        return token if hmac.compare_digest(digest(text), expected) else None

    def with_token(self, token: Token) -> "TokenBook":
        """The same and one more."""
        if token.id in self.tokens:
            raise BookError(f"tokens: there already is one with id {token.id}")
        if len(self.tokens) >= TOKENS_MAX:
            raise BookError(f"tokens: no more than {TOKENS_MAX} are kept")
        return TokenBook({**self.tokens, token.id: token})

    def revoked(self, identity: str, now_unix_s: int) -> "TokenBook":
        """The same with one token revoked; one that already is stays as it is."""
        token = self.tokens.get(identity)
        if token is None:
            raise UnknownTokenError(f"there is no token with id {identity}")
        if token.revoked_unix_s is not None:
            return self
        return TokenBook({**self.tokens, identity: replace(token, revoked_unix_s=now_unix_s)})


def encode(book: TokenBook) -> str:
    """The document's text; `docs/schemas/tokens.schema.json` describes it."""
    rows = [
        {
            "id": token.id,
            "name": token.name,
            "tenant": token.tenant or None,
            "scopes": sorted(token.scopes),
            "sha256": token.sha256,
            "created_unix_s": token.created_unix_s,
            "expires_unix_s": token.expires_unix_s,
            "revoked_unix_s": token.revoked_unix_s,
        }
        for token in book.tokens.values()
    ]
    return json.dumps({"version": VERSION, "tokens": rows}, indent=1, allow_nan=False) + "\n"


def decode(text: str) -> TokenBook:
    """The book of a document, or `BookError` with the key that is wrong."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BookError(f"not JSON: {error}") from None
    if not isinstance(document, dict) or set(document) != {"version", "tokens"}:
        raise BookError("expected an object with version and tokens")
    if document["version"] != VERSION or isinstance(document["version"], bool):
        raise BookError(f"version: expected {VERSION}; found {document['version']!r:.30}")
    rows = document["tokens"]
    if not isinstance(rows, list) or len(rows) > TOKENS_MAX:
        raise BookError(f"tokens: expected a list of at most {TOKENS_MAX}")
    tokens: dict[str, Token] = {}
    for number, row in enumerate(rows):
        token = _token(row, f"tokens[{number}]")
        if token.id in tokens:
            raise BookError(f"tokens[{number}].id: {token.id} stands in it twice")
        tokens[token.id] = token
    return TokenBook(tokens)


def _token(row: Any, place: str) -> Token:  # noqa: ANN401 - any JSON value
    if not isinstance(row, dict):
        raise BookError(f"{place}: expected an object")
    for key in _KEYS:
        if key not in row:
            raise BookError(f"{place}.{key}: is missing")
    for key in row:
        if key not in _KEYS:
            raise BookError(f"{place}.{key:.30}: is not known")
    identity, sha256 = _text(row, place, "id"), _text(row, place, "sha256")
    if spoken_for(f"ttk_{identity}_{_NO_DIGEST}") is None:
        raise BookError(f"{place}.id: expected 12 lower-case hex digits")
    if spoken_for(f"ttk_{'0' * 12}_{sha256}") is None:
        raise BookError(f"{place}.sha256: expected 64 lower-case hex digits")
    created = _second(row, place, "created_unix_s")
    if created is None:
        raise BookError(f"{place}.created_unix_s: expected seconds since 1970")
    tenant = "" if row["tenant"] is None else _text(row, place, "tenant")
    if row["tenant"] == "":
        raise BookError(f"{place}.tenant: expected a name, or null for an operator")
    try:
        return Token(
            id=identity,
            name=_text(row, place, "name"),
            tenant=tenant,
            scopes=_scopes(row["scopes"], f"{place}.scopes"),
            sha256=sha256,
            created_unix_s=created,
            expires_unix_s=_second(row, place, "expires_unix_s"),
            revoked_unix_s=_second(row, place, "revoked_unix_s"),
        )
    except TokenError as error:
        raise BookError(f"{place}.{error}") from None


def _text(row: dict[str, Any], place: str, key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise BookError(f"{place}.{key}: expected text")
    return value


def _second(row: dict[str, Any], place: str, key: str) -> int | None:
    value = row[key]
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise BookError(f"{place}.{key}: expected seconds since 1970, or null")
    return value


def _scopes(value: Any, place: str) -> frozenset[Scope]:  # noqa: ANN401 - any JSON value
    known = [scope.value for scope in Scope]
    if not isinstance(value, list) or not all(item in known for item in value):
        raise BookError(f"{place}: expected a list of {', '.join(known)}")
    return frozenset(Scope(item) for item in value)
