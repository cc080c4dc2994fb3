# SPDX-License-Identifier: Apache-2.0
"""The file of tokens on the disk, and a running service's view of it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tracing_core.access import (
    EVERYTHING,
    Identity,
    Need,
    Refusal,
    RefusalKind,
    Scope,
    Token,
    TokenFile,
    TokenFileError,
    new_token,
)
from tracing_core.service.gate import Auth, Gate

NOW = 1_800_000_000


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json")


def added(
    file: TokenFile, number: int = 1, *, expires_in_s: int | None = None
) -> tuple[str, Token]:
    text, token = new_token(
        lambda size: number.to_bytes(size, "big"), tenant="alpha", scopes={Scope.READ},
        now_unix_s=NOW, expires_in_s=expires_in_s,
    )  # fmt: skip
    TokenFile(file.path).update(lambda book: book.with_token(token))
    return text, token


def gate(file: TokenFile, auth: Auth = Auth.REQUIRED, now: float = NOW) -> Gate:
    return Gate(auth, file, now_unix_s=lambda: now)


def asked(gate: Gate, text: str, need: Need = Need.READ) -> Identity | Refusal:
    return gate.decide(f"Bearer {text}", need)


def test_only_the_owner_reads_the_file(file: TokenFile) -> None:
    """Mode 0600, after every change, whatever the umask; nothing is left beside it."""
    before = os.umask(0)
    try:
        added(file, 1)
        added(file, 2)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert list(file.path.parent.iterdir()) == [file.path]


def test_without_a_file_there_are_no_tokens(file: TokenFile) -> None:
    """That is no error; a file that others could write is one."""
    assert not file.current().tokens
    added(file)
    file.path.chmod(0o620)
    with pytest.raises(TokenFileError, match=r"tokens.json: others can write it; chmod 600 it"):
        file.current()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 3, "tokens": []}', "tokens.json: version: expected 1; found 3"),
        ("\udcff", "tokens.json: 'utf-8' codec"),
        ("", "tokens.json: not JSON"),
    ],
)
def test_errors_name_file_and_key(file: TokenFile, text: str, said: str) -> None:
    """And a change does not replace what could not be read."""
    file.path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TokenFileError, match=said):
        file.current()
    with pytest.raises(TokenFileError, match=said):
        added(file)
    assert file.path.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_writers_at_the_same_time_lose_no_token(file: TokenFile) -> None:
    """Eight of them make five tokens each; all forty are in the file."""

    def make(writer: int) -> None:
        for number in range(5):
            added(file, 1 + 5 * writer + number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(8)))
    assert len(file.current().tokens) == 40


def test_a_link_to_the_file_stays_a_link(file: TokenFile, tmp_path: Path) -> None:
    """What it leads to is replaced."""
    real = tmp_path / "elsewhere.json"
    file.path.symlink_to(real)
    added(file)
    assert file.path.is_symlink()
    assert len(TokenFile(real).current().tokens) == 1


def test_changes_are_seen_with_the_next_request(file: TokenFile) -> None:
    """A new token opens at once, a revoked one closes at once, in the same process."""
    service = gate(file)
    assert isinstance(asked(service, "ttk_"), Refusal)
    text, token = added(file)
    assert asked(service, text) == token.identity
    TokenFile(file.path).update(lambda book: book.revoked(token.id, NOW))
    refusal = asked(service, text)
    assert isinstance(refusal, Refusal)
    assert refusal.message == "the token was revoked"
    assert service.refused_count == 2


def test_the_clock_is_asked_with_every_request(file: TokenFile) -> None:
    """A token that expires while the service runs is refused then, though the file is the same."""
    text, _ = added(file, expires_in_s=60)
    now = [float(NOW)]
    service = Gate(Auth.REQUIRED, file, now_unix_s=lambda: now[0])
    assert isinstance(asked(service, text), Identity)
    now[0] += 60
    assert isinstance(asked(service, text), Refusal)


def test_a_damaged_file_refuses_everybody_for_now(file: TokenFile) -> None:
    """503 rather than open or 401: senders come again; liveness stays; repaired, it goes on."""
    text, token = added(file)
    service = gate(file)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-9])
    refusal = asked(service, text)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.NOT_NOW
    assert "tokens.json" not in refusal.message  # that is for the log
    assert service.decide("", Need.NOTHING) == Identity()
    file.path.write_bytes(whole)
    assert asked(service, text) == token.identity


def test_the_first_token_turns_access_control_on_for_good(file: TokenFile) -> None:
    """`with tokens`: everybody until there is one; then nobody without, even if the file goes."""
    service = gate(file, Auth.WITH_TOKENS)
    assert service.decide("", Need.ADMIN) == EVERYTHING
    text, token = added(file)
    assert isinstance(service.decide("", Need.READ), Refusal)
    assert asked(service, text) == token.identity
    file.path.unlink()
    assert isinstance(service.decide("", Need.READ), Refusal)
    assert isinstance(asked(service, text), Refusal)


def test_a_revoked_token_keeps_access_control_on(file: TokenFile) -> None:
    """To revoke the last token closes the service; it does not open it."""
    _, token = added(file)
    TokenFile(file.path).update(lambda book: book.revoked(token.id, NOW))
    assert isinstance(gate(file, Auth.WITH_TOKENS).decide("", Need.READ), Refusal)


def test_a_file_damaged_from_the_start_does_not_open_the_service(file: TokenFile) -> None:
    """`with tokens` takes what it cannot read for tokens."""
    file.path.write_text("{")
    refusal = gate(file, Auth.WITH_TOKENS).decide("", Need.READ)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.NOT_NOW


def test_off_is_off(file: TokenFile) -> None:
    """Tokens that exist don't matter then."""
    added(file)
    assert Gate().decide("", Need.ADMIN) == EVERYTHING
    assert gate(file, Auth.OFF).decide("Bearer wrong", Need.READ) == EVERYTHING


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_file_is_refused_without_waiting_for_it(file: TokenFile, kind: str) -> None:
    """A named pipe has no end until somebody writes into it: nobody may wait for that."""
    match kind:
        case "pipe":
            os.mkfifo(file.path, 0o600)
        case "folder":
            file.path.mkdir()
        case "device":
            file.path.symlink_to("/dev/zero")
    gate = Gate(Auth.WITH_TOKENS, file)
    refusal = gate.decide("Bearer x", Need.READ)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.NOT_NOW
    with pytest.raises(TokenFileError, match=r"not a file|Is a directory"):
        file.current()
