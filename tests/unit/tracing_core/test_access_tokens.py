# SPDX-License-Identifier: Apache-2.0
"""Tokens, the document that keeps them, and the decision about one request."""

import hashlib
import json
from pathlib import Path

import jsonschema
import pytest

from tracing_core.access import (
    BookError,
    Identity,
    Need,
    Refusal,
    RefusalKind,
    Scope,
    TokenBook,
    TokenError,
    UnknownTokenError,
    decide,
    need_of,
    new_token,
)
from tracing_core.access.book import decode, encode

NOW = 1_800_000_000
SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "tokens.schema.json"


def counting(size: int) -> bytes:
    return bytes(range(1, size + 1))


def made(tenant: str = "alpha", *scopes: Scope, **more):
    return new_token(
        counting, tenant=tenant, scopes=scopes or (Scope.READ,), now_unix_s=NOW, **more
    )


def asked(text: str, need: Need = Need.READ, now: float = NOW, *, book=None, scheme="Bearer"):
    found = TokenBook.of([made()[1]]) if book is None else book
    return decide(found, f"{scheme} {text}" if text else "", need, now)


def test_a_token_has_256_bits_of_secret_and_is_kept_as_its_sha256() -> None:
    """48 bits of id, 256 of secret, in hex; what is kept cannot be turned back."""
    sizes: list[int] = []

    def random_bytes(size: int) -> bytes:
        sizes.append(size)
        return counting(size)

    text, token = new_token(random_bytes, tenant="alpha", scopes={Scope.READ}, now_unix_s=NOW)
    assert sizes == [6, 32]
    assert text == f"ttk_{counting(6).hex()}_{counting(32).hex()}"
    assert token.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert counting(32).hex() not in repr(token)
    assert counting(32).hex() not in encode(TokenBook.of([token]))


@pytest.mark.parametrize(
    ("tenant", "scopes", "said"),
    [
        ("alpha", [Scope.ADMIN], "scopes: admin is for operators only"),
        ("alpha", [Scope.READ, Scope.FABRIC_READ], "scopes: fabric:read is for operators only"),
        ("", [], "scopes: expected at least one"),
        ("a\nb", [Scope.READ], "tenant: expected at most 200 printable characters"),
        ("a" * 201, [Scope.READ], "tenant: expected at most 200 printable characters"),
    ],
)
def test_what_no_token_may_be(tenant: str, scopes: list[Scope], said: str) -> None:
    """A tenant reads and sends its own; the fabric and the service are the operators'."""
    with pytest.raises(TokenError, match=said):
        new_token(counting, tenant=tenant, scopes=scopes, now_unix_s=NOW)


def test_the_holder_is_told_by_the_token() -> None:
    """A valid token with the scope gives its tenant; the scheme's case does not matter."""
    text, token = made()
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert asked(text, scheme=scheme) == token.identity
    assert token.identity.tenant == "alpha"
    assert not token.identity.is_operator


@pytest.mark.parametrize(
    "text",
    [
        "", "hunter2", "ttk_", f"ttk_{'0' * 12}_{'0' * 64}", made()[0][:-1], made()[0] + "0",
        made()[0].upper(), made()[0] + "\n0", "ttk_é" + made()[0][5:], made()[0][:-1] + "f",
    ],
)  # fmt: skip
def test_other_texts_are_no_token(text: str) -> None:
    """Malformed, unknown, cut off and wrong by one digit alike: the answer does not say which."""
    refusal = asked(text)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is (RefusalKind.BAD_TOKEN if text else RefusalKind.NO_TOKEN)
    if text:
        assert refusal.message == "the token is not valid"
        assert 'error="invalid_token"' in refusal.challenge
    assert refusal.challenge.startswith('Bearer realm="TempoTrace"')


def test_basic_credentials_are_no_token() -> None:
    """Another scheme counts as none at all."""
    refusal = asked(made()[0], scheme="Basic")
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.NO_TOKEN


def test_a_token_ends_with_its_last_second() -> None:
    """It is valid before `expires_unix_s` and not from then on; only its holder is told why."""
    text, token = made(expires_in_s=10)
    book = TokenBook.of([token])
    assert isinstance(asked(text, now=NOW + 9.999, book=book), Identity)
    refusal = asked(text, now=NOW + 10, book=book)
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.message) == (RefusalKind.BAD_TOKEN, "the token has expired")
    stranger = asked(text[:-1] + "f", now=NOW + 10, book=book)
    assert isinstance(stranger, Refusal)
    assert stranger.message == "the token is not valid"


def test_a_revoked_token_is_refused() -> None:
    """From the moment that the book says so; to revoke it again changes nothing."""
    text, token = made()
    book = TokenBook.of([token]).revoked(token.id, NOW + 5)
    refusal = asked(text, book=book)
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.message) == (RefusalKind.BAD_TOKEN, "the token was revoked")
    assert book.revoked(token.id, NOW + 9) == book
    with pytest.raises(UnknownTokenError):
        book.revoked("0" * 12, NOW)


@pytest.mark.parametrize("need", list(Need))
@pytest.mark.parametrize("scope", list(Scope))
def test_scopes_open_their_routes_only(need: Need, scope: Scope) -> None:
    """A scope opens the routes of its own name; admin opens all; open routes ask for none."""
    text, token = made("", scope)
    answer = asked(text, need, book=TokenBook.of([token]))
    free = need in (Need.NOTHING, Need.TOKEN)
    if free or scope is Scope.ADMIN or scope.value == need.value:
        assert answer == token.identity
    else:
        assert isinstance(answer, Refusal)
        assert answer.kind is RefusalKind.FORBIDDEN
        assert f'scope="{need.value}"' in answer.challenge


def test_open_routes_know_their_operators() -> None:
    """Liveness is for everybody, a wrong token included; an operator is known all the same."""
    text, token = made("", Scope.READ)
    book = TokenBook.of([token])
    assert asked(text, Need.NOTHING, book=book) == token.identity
    for stranger in ("", "wrong"):
        assert asked(stranger, Need.NOTHING, book=book) == Identity()


def test_documents_come_back_as_they_were() -> None:
    """Every field, null ones included; and the published schema describes it."""
    tokens = [
        made("alpha", Scope.READ, Scope.INGEST, name="ci", expires_in_s=60)[1],
        new_token(lambda size: bytes(size), tenant="", scopes={Scope.ADMIN}, now_unix_s=NOW)[1],
    ]
    book = TokenBook.of(tokens).revoked(tokens[1].id, NOW + 1)
    text = encode(book)
    assert decode(text) == book
    assert encode(decode(text)) == text
    jsonschema.validate(json.loads(text), json.loads(SCHEMA.read_text()))


def row(**changed) -> dict:
    return json.loads(encode(TokenBook.of([made()[1]])))["tokens"][0] | changed


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object with version and tokens"),
        ({"version": 2, "tokens": []}, "version: expected 1; found 2"),
        ({"version": True, "tokens": []}, "version: expected 1; found True"),
        ({"version": 1, "tokens": {}}, "tokens: expected a list"),
        ({"version": 1, "tokens": [7]}, r"tokens\[0\]: expected an object"),
        ({"version": 1, "tokens": [row(id="xyz")]}, r"tokens\[0\].id: expected 12"),
        ({"version": 1, "tokens": [row(sha256="00")]}, r"tokens\[0\].sha256: expected 64"),
        ({"version": 1, "tokens": [row(), row()]}, r"tokens\[1\].id: .* stands in it twice"),
        ({"version": 1, "tokens": [row(scopes=["write"])]}, r"tokens\[0\].scopes: expected a list"),
        ({"version": 1, "tokens": [row(scopes=[])]}, r"tokens\[0\].scopes: expected at least one"),
        ({"version": 1, "tokens": [row(scopes=["admin"])]}, r"tokens\[0\].scopes: admin is for"),
        ({"version": 1, "tokens": [row(tenant="")]}, r"tokens\[0\].tenant: expected a name"),
        ({"version": 1, "tokens": [row(tenant=3)]}, r"tokens\[0\].tenant: expected text"),
        ({"version": 1, "tokens": [row(expires_unix_s="x")]}, r"tokens\[0\].expires_unix_s: exp"),
        ({"version": 1, "tokens": [row(created_unix_s=None)]}, r"tokens\[0\].created_unix_s"),
        ({"version": 1, "tokens": [row(extra=1)]}, r"tokens\[0\].extra: is not known"),
        ({"version": 1, "tokens": [{"id": "0" * 12}]}, r"tokens\[0\].name: is missing"),
    ],
)
def test_what_is_wrong_with_a_document_is_named_by_its_key(document: object, said: str) -> None:
    """One sentence, the key first."""
    with pytest.raises(BookError, match=said):
        decode(document if isinstance(document, str) else json.dumps(document))


@pytest.mark.parametrize(
    ("method", "path", "need"),
    [
        ("GET", "/v1/traces", Need.READ),
        ("POST", "/v1/traces", Need.INGEST),
        ("GET", "/v1/traces/abc", Need.READ),
        ("GET", "/v1/traces/abc/", None),
        ("GET", "/v1/traces/a/b/c", None),
        ("GET", "/v1/clocks", Need.FABRIC_READ),
        ("GET", "/v1/health", Need.NOTHING),
        ("GET", "/v1/health/", None),
        ("GET", "/V1/health", None),
        ("GET", "/v1/health\n", None),
        ("GET", "/static/a/b", None),
        ("GET", "/api/services/a/b/operations", Need.READ),
        ("DELETE", "/v1/traces", None),
        ("GET", "/v1/nothing", None),
    ],
)
def test_paths_lead_to_what_their_route_needs(method: str, path: str, need: Need | None) -> None:
    """Whole paths only: what is not declared has no need that could be met."""
    assert need_of(method, path) is need
