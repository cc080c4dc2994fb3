# SPDX-License-Identifier: Apache-2.0
"""The decision about one request: who asks, or why it is refused.

What is said to a stranger is the same for a token that never was and for a wrong secret; only who
has the secret learns that the token has expired or was revoked.
"""

from dataclasses import dataclass
from enum import Enum, auto, unique

from tracing_core.access.book import TokenBook
from tracing_core.access.scopes import ANYBODY, Identity, Need

SCHEME = "bearer"


@unique
class RefusalKind(Enum):
    """What a transport makes its status of."""

    NO_TOKEN = auto()
    """401, UNAUTHENTICATED."""
    BAD_TOKEN = auto()
    """401, UNAUTHENTICATED."""
    FORBIDDEN = auto()
    """403, PERMISSION_DENIED."""
    NOT_NOW = auto()
    """503, UNAVAILABLE: the tokens cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused; `message` never holds a token."""

    kind: RefusalKind
    message: str
    need: Need

    @property
    def challenge(self) -> str:
        """The WWW-Authenticate header (RFC 6750 section 3); empty if there is none."""
        realm = 'Bearer realm="TempoTrace"'
        match self.kind:
            case RefusalKind.NO_TOKEN:
                return realm
            case RefusalKind.BAD_TOKEN:
                return f'{realm}, error="invalid_token"'
            case RefusalKind.FORBIDDEN:
                return f'{realm}, error="insufficient_scope", scope="{self.need.value}"'
            case RefusalKind.NOT_NOW:
                return ""


def decide(
    book: TokenBook, authorization: str, need: Need, now_unix_s: float
) -> Identity | Refusal:
    """Who asks, if a request with this Authorization header may have what it needs."""
    if need is Need.NOTHING:
        known = _holder(book, authorization, need, now_unix_s)
        return ANYBODY if isinstance(known, Refusal) else known
    holder = _holder(book, authorization, need, now_unix_s)
    if isinstance(holder, Refusal) or holder.may(need):
        return holder
    return Refusal(
        kind=RefusalKind.FORBIDDEN, message=f"the token lacks the scope {need.value}", need=need
    )


def _holder(
    book: TokenBook, authorization: str, need: Need, now_unix_s: float
) -> Identity | Refusal:
    scheme, _, text = authorization.strip().partition(" ")
    if scheme.lower() != SCHEME:
        return Refusal(
            kind=RefusalKind.NO_TOKEN,
            message="a token is needed: Authorization: Bearer ttk_...",
            need=need,
        )
    token = book.verified(text.strip())
    state = "not valid" if token is None else token.state(now_unix_s)
    if token is None or state != "valid":
        said = {"expired": "has expired", "revoked": "was revoked"}.get(state, "is not valid")
        return Refusal(kind=RefusalKind.BAD_TOKEN, message=f"the token {said}", need=need)
    return token.identity
