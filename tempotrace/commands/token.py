# SPDX-License-Identifier: Apache-2.0
"""`tempotrace token`: makes, lists and revokes the tokens of a tracing service."""

import re
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tempotrace.commands.options import Json
from tempotrace.errors import InputError, one_line_errors
from tempotrace.store_place import token_file
from tempotrace.strict_json import strict_text
from tracing_core.access import (
    BookError,
    Scope,
    Token,
    TokenBook,
    TokenError,
    TokenFile,
    TokenFileError,
    UnknownTokenError,
    new_token,
)

LIFE_S_MAX = 100 * 365 * 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

app = typer.Typer(help="Tokens of the tracing service.", no_args_is_help=True)

Place = Annotated[
    str | None, typer.Option("--store", help="Folder of the embedded store; the tokens are in it.")
]
File = Annotated[
    Path | None, typer.Option("--tokens", help="File of the tokens, where it is elsewhere.")
]


@app.callback()
def _group() -> None:
    """Tokens of the tracing service: per tenant, or for operators; with scopes."""


@app.command("create")
@one_line_errors
def create(
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope",
            help="ingest or read; for operators also fabric:read or admin. Repeatable.",
        ),
    ],
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only this tenant's spans, in and out.")
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Every tenant, or the one a request names.")
    ] = False,
    expires_in: Annotated[
        str | None, typer.Option("--expires-in", help="Such as 90d or 12h; never if not given.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="What it is for; shown by `list`.")] = "",
    store: Place = None,
    tokens: File = None,
) -> None:
    """Make a token and print it, once: only a hash of it is kept."""
    if operator == (tenant is not None):
        raise InputError("token create: give either --tenant NAME or --operator")
    if tenant == "":
        raise InputError("--tenant: expected a name")
    file = _file(store, tokens)
    try:
        text, token = new_token(
            secrets.token_bytes,
            tenant=tenant or "",
            scopes=_scopes(scope),
            now_unix_s=int(time.time()),
            name=name,
            expires_in_s=None if expires_in is None else duration_s(expires_in),
        )
    except TokenError as error:
        raise InputError(f"token create: {error}") from None
    if store is not None and tokens is None:
        file.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file.update(lambda book: book.with_token(token))
    except (TokenFileError, BookError) as error:
        raise InputError(str(error)) from None
    typer.echo(text)
    typer.echo(
        f"token {token.id} for {_holder(token)}: {', '.join(sorted(token.scopes))};"
        f" {_until(token)}. It is shown this once; {file.path} keeps a hash.",
        err=True,
    )


@app.command("list")
@one_line_errors
def list_tokens(store: Place = None, tokens: File = None, as_json: Json = False) -> None:
    """List all tokens, also those that are expired or revoked; never their secrets."""
    now_unix_s = time.time()
    try:
        known = list(_file(store, tokens).current().tokens.values())
    except TokenFileError as error:
        raise InputError(str(error)) from None
    if as_json:
        typer.echo(strict_text([_document(token, now_unix_s) for token in known]))
        return
    _print(known, now_unix_s)


@app.command("revoke")
@one_line_errors
def revoke(
    identities: Annotated[list[str], typer.Argument(metavar="ID...", help="From `token list`.")],
    store: Place = None,
    tokens: File = None,
) -> None:
    """Revoke tokens; a running service refuses them from the next request on."""
    file = _file(store, tokens)
    now_unix_s = int(time.time())

    def change(book: TokenBook) -> TokenBook:
        for identity in identities:
            book = book.revoked(identity, now_unix_s)
        return book

    try:
        file.update(change)
    except TokenFileError as error:
        raise InputError(str(error)) from None
    except UnknownTokenError as error:
        raise InputError(f"{file.path}: {error.args[0]:.80}") from None
    typer.echo(f"revoked: {', '.join(identities)}", err=True)


def duration_s(text: str) -> int:
    """Seconds of a duration like 90d.

    >>> duration_s("90d"), duration_s("12h")
    (7776000, 43200)
    """
    found = re.fullmatch(r"([0-9]{1,10})([smhdw])", text)
    seconds = int(found[1]) * _UNITS_S[found[2]] if found else 0
    if not 0 < seconds <= LIFE_S_MAX:
        raise InputError(f"--expires-in: expected 90d, 12h or the like; found {text:.30}")
    return seconds


def _file(store: str | None, tokens: Path | None) -> TokenFile:
    file = token_file(store, tokens)
    if file is None:
        raise InputError("token: --store FOLDER or --tokens FILE says where the tokens are")
    return file


def _scopes(names: Sequence[str]) -> set[Scope]:
    known = {scope.value: scope for scope in Scope}
    for name in names:
        if name not in known:
            raise InputError(f"--scope: expected {', '.join(known)}; found {name:.30}")
    return {known[name] for name in names}


def _holder(token: Token) -> str:
    return f"tenant {token.tenant}" if token.tenant else "operators"


def _until(token: Token) -> str:
    return f"until {_day(token.expires_unix_s)}" if token.expires_unix_s else "does not expire"


def _day(unix_s: int | None) -> str:
    if unix_s is None:
        return ""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%MZ")


def _document(token: Token, now_unix_s: float) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "tenant": token.tenant or None,
        "operator": not token.tenant,
        "scopes": sorted(token.scopes),
        "state": token.state(now_unix_s),
        "created_unix_s": token.created_unix_s,
        "expires_unix_s": token.expires_unix_s,
        "revoked_unix_s": token.revoked_unix_s,
    }


def _print(known: Sequence[Token], now_unix_s: float) -> None:
    table = Table(title="tokens")
    for column in ("id", "for", "scopes", "state", "created", "expires", "name"):
        table.add_column(column, no_wrap=column == "id")
    for token in known:
        table.add_row(
            token.id,
            _holder(token),
            ", ".join(sorted(token.scopes)),
            token.state(now_unix_s),
            _day(token.created_unix_s),
            _day(token.expires_unix_s),
            token.name,
        )
    Console().print(table)
