# SPDX-License-Identifier: Apache-2.0
"""Tokens: `ttk_<id>_<secret>`. What is kept of one is its SHA-256, never the token itself.

The secret is 256 bits from the operating system's generator. Guessing is hopeless, so a slow hash
as for passwords would protect nothing and cost milliseconds on every request; a plain hash already
makes the file worthless to whoever copies it.
"""

import hashlib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tracing_core.access.scopes import TENANT_SCOPES, Identity, Scope

ID_BYTES = 6
SECRET_BYTES = 32
TEXT_CHARS_MAX = 200
"""Of a tenant's or token's name; what the API's `tenant` parameter takes."""
TOKEN = re.compile(r"ttk_([0-9a-f]{12})_([0-9a-f]{64})")


class TokenError(ValueError):
    """A token must not be made like that; the text says which part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of one token. Times are seconds since 1970."""

    id: str
    name: str
    """For people: what the token is used by."""
    tenant: str
    """Empty for an operator's."""
    scopes: frozenset[Scope]
    sha256: str
    """Of the whole token, in hex."""
    created_unix_s: int
    expires_unix_s: int | None = None
    revoked_unix_s: int | None = None

    def __post_init__(self) -> None:
        """Refuses what no token may be."""
        for what, text in (("tenant", self.tenant), ("name", self.name)):
            if len(text) > TEXT_CHARS_MAX or not all(c.isprintable() for c in text):
                raise TokenError(f"{what}: expected at most {TEXT_CHARS_MAX} printable characters")
        if not self.scopes:
            raise TokenError("scopes: expected at least one")
        if self.tenant and not self.scopes <= TENANT_SCOPES:
            forbidden = ", ".join(sorted(self.scopes - TENANT_SCOPES))
            raise TokenError(f"scopes: {forbidden} is for operators only")

    @property
    def identity(self) -> Identity:
        """Its holder."""
        return Identity(
            token_id=self.id,
            is_operator=not self.tenant,
            tenant=self.tenant,
            scopes=self.scopes,
        )

    def state(self, now_unix_s: float) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked_unix_s is not None:
            return "revoked"
        if self.expires_unix_s is not None and now_unix_s >= self.expires_unix_s:
            return "expired"
        return "valid"


def new_token(
    random_bytes: Callable[[int], bytes],
    *,
    tenant: str,
    scopes: Collection[Scope],
    now_unix_s: int,
    name: str = "",
    expires_in_s: int | None = None,
) -> tuple[str, Token]:
    """The token's text, to be shown once, and what is kept of it. `tenant` is empty for an
    operator; `random_bytes` must be the operating system's generator."""
    identity = random_bytes(ID_BYTES).hex()
    text = f"ttk_{identity}_{random_bytes(SECRET_BYTES).hex()}"
    return text, Token(
        id=identity,
        name=name,
        tenant=tenant,
        scopes=frozenset(scopes),
        sha256=digest(text),
        created_unix_s=now_unix_s,
        expires_unix_s=None if expires_in_s is None else now_unix_s + expires_in_s,
    )


def digest(text: str) -> str:
    """What is kept of a token's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def spoken_for(text: str) -> str | None:
    """The id within a token's text; None if it is no token at all.

    >>> spoken_for("ttk_0123456789ab_" + 64 * "0"), spoken_for("hunter2")
    ('0123456789ab', None)
    """
    found = TOKEN.fullmatch(text)
    return found[1] if found else None
