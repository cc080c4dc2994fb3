# SPDX-License-Identifier: Apache-2.0
"""Who may do what: tokens, scopes, and the decision about one request.

`scopes`, `tokens`, `book`, `decisions` and `routes` are pure; `token_file` reads and writes the
file.
"""

from tracing_core.access.book import BookError, TokenBook, UnknownTokenError
from tracing_core.access.decisions import Refusal, RefusalKind, decide
from tracing_core.access.routes import ROUTES, need_of
from tracing_core.access.scopes import EVERYTHING, TENANT_SCOPES, Identity, Need, Scope
from tracing_core.access.token_file import TOKENS_FILE, TokenFile, TokenFileError
from tracing_core.access.tokens import Token, TokenError, new_token, spoken_for

__all__ = [
    "EVERYTHING",
    "ROUTES",
    "TENANT_SCOPES",
    "TOKENS_FILE",
    "BookError",
    "Identity",
    "Need",
    "Refusal",
    "RefusalKind",
    "Scope",
    "Token",
    "TokenBook",
    "TokenError",
    "TokenFile",
    "TokenFileError",
    "UnknownTokenError",
    "decide",
    "need_of",
    "new_token",
    "spoken_for",
]
