# SPDX-License-Identifier: Apache-2.0
"""`tempotrace token`, and what `serve` makes of tokens and addresses."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tempotrace.access import is_loopback, service_gate
from tempotrace.cli import app
from tempotrace.commands.token import duration_s
from tempotrace.errors import InputError
from tempotrace.http import bearer
from tempotrace.store_place import token_file
from tracing_core.access import Identity, Need, Refusal
from tracing_core.service.gate import Auth

TOKEN = re.compile(r"ttk_([0-9a-f]{12})_[0-9a-f]{64}\n")


def run(*words: str):
    return CliRunner().invoke(app, ["token", *words])


def create(folder: Path, *words: str) -> tuple[str, str]:
    """Text and id of a new token."""
    result = run("create", "--store", str(folder), *words)
    assert result.exit_code == 0, result.output
    found = TOKEN.fullmatch(result.stdout)
    assert found is not None, result.stdout
    return result.stdout.strip(), found[1]


def test_a_token_is_printed_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    """Standard output holds the token and nothing else; no file holds it, and no list shows it."""
    text, identity = create(
        tmp_path / "store", "--tenant", "alpha", "--scope", "read", "--scope", "ingest",
        "--expires-in", "90d", "--name", "ci",
    )  # fmt: skip
    kept = (tmp_path / "store" / "tokens.json").read_text()
    secret = text.rsplit("_", 1)[1]
    assert secret not in kept
    for words in (("list",), ("list", "--json")):
        shown = run(*words, "--store", str(tmp_path / "store"))
        assert shown.exit_code == 0
        assert identity in shown.stdout
        assert secret not in shown.output
        assert json.loads(kept)["tokens"][0]["sha256"] not in shown.output
    row = json.loads(shown.stdout)[0]
    assert row["tenant"] == "alpha"
    assert row["scopes"] == ["ingest", "read"]
    assert row["state"] == "valid"
    assert row["expires_unix_s"] - row["created_unix_s"] == 90 * 86_400


def test_revoked_tokens_stay_in_the_list(tmp_path: Path) -> None:
    """Several at a time, all of them or none: an unknown one among them changes nothing."""
    ids = [create(tmp_path, "--operator", "--scope", "admin")[1] for _ in range(2)]
    wrong = run("revoke", ids[0], "0" * 12, "--store", str(tmp_path))
    assert wrong.exit_code == 2
    assert wrong.stderr == f"{tmp_path / 'tokens.json'}: there is no token with id {'0' * 12}\n"

    def states() -> list[str]:
        return [row["state"] for row in json.loads(
            run("list", "--json", "--store", str(tmp_path)).stdout)]  # fmt: skip

    assert states() == ["valid", "valid"]
    assert run("revoke", *ids, "--store", str(tmp_path)).exit_code == 0
    assert states() == ["revoked", "revoked"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scope", "read"], "token create: give either --tenant NAME or --operator"),
        (["--tenant", "a", "--operator", "--scope", "read"], "token create: give either"),
        (["--tenant", "", "--scope", "read"], "--tenant: expected a name"),
        (["--tenant", "a", "--scope", "write"], "--scope: expected ingest, read"),
        (["--tenant", "a", "--scope", "admin"], "token create: scopes: admin is for operators"),
        (["--tenant", "a", "--scope", "read", "--expires-in", "soon"], "--expires-in: expected"),
        (["--tenant", "a", "--scope", "read", "--expires-in", "0d"], "--expires-in: expected"),
    ],
)
def test_wrong_words_are_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    """Exit 2, and no token is made."""
    result = run("create", "--store", str(tmp_path), *words)
    assert result.exit_code == 2
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "tokens.json").exists()


@pytest.mark.parametrize("command", ["create", "list", "revoke"])
def test_where_the_tokens_are_must_be_said(command: str) -> None:
    """A store by URL has no folder: --tokens names the file then."""
    rest = {"create": ["--operator", "--scope", "read"], "list": [], "revoke": ["0" * 12]}
    for place in ([], ["--store", "http://clickhouse:8123/traces"]):
        result = run(command, *place, *rest[command])
        assert result.exit_code == 2
        assert result.stderr.startswith("token: --store FOLDER or --tokens FILE says where")


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    """It is named with the key, and not written over."""
    file = tmp_path / "tokens.json"
    file.write_text('{"version": 9, "tokens": []}')
    for words in (["list"], ["create", "--operator", "--scope", "read"], ["revoke", "0" * 12]):
        result = run(*words, "--tokens", str(file))
        assert result.exit_code == 2
        assert result.stderr == f"{file}: version: expected 1; found 9\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90d", 7_776_000), ("12h", 43_200), ("5m", 300), ("30s", 30), ("2w", 1_209_600)],
)
def test_durations(text: str, seconds: int) -> None:
    """A number and one letter."""
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("trace.example", False),
        ("localhost.example", False), ("", False),
    ],
)  # fmt: skip
def test_only_loopback_is_loopback(host: str, loopback: bool) -> None:
    """A name may lead anywhere."""
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("auth", [None, "required", "off"])
def test_when_tokens_are_asked_for(
    tmp_path: Path, auth: str | None, tokens: bool, host: str
) -> None:
    """docs/access.md's table: asked for if required or if there are any; without any, an address
    that others reach needs a word."""
    if tokens:
        create(tmp_path, "--operator", "--scope", "read")
    file = token_file(str(tmp_path), None)
    if auth is None and not tokens and host == "0.0.0.0":
        with pytest.raises(InputError, match=r"others can reach --host 0.0.0.0, and there are no"):
            service_gate(auth, file, host)
        return
    gate = service_gate(auth, file, host)
    assert gate.is_on is (auth == "required" or (auth is None and tokens))


def test_tokens_made_later_are_asked_for(tmp_path: Path) -> None:
    """A service on loopback that began without any."""
    gate = service_gate(None, token_file(str(tmp_path), None), "127.0.0.1")
    assert isinstance(gate.decide("", Need.ADMIN), Identity)
    text, _ = create(tmp_path, "--operator", "--scope", "read")
    assert isinstance(gate.decide("", Need.READ), Refusal)
    assert isinstance(gate.decide(f"Bearer {text}", Need.READ), Identity)


def test_what_serve_cannot_do_is_one_line(tmp_path: Path) -> None:
    """Before anything is opened or listens."""
    fabric = str(tmp_path / "fabric.yaml")
    assert CliRunner().invoke(app, ["deploy", "init", "-f", fabric]).exit_code == 0
    damaged = tmp_path / "tokens.json"
    damaged.write_text("[]")
    for words, said in (
        (["--auth", "maybe"], "--auth: expected required or off; found maybe\n"),
        (["--auth", "required"], "serve: --auth required needs --store FOLDER or --tokens FILE\n"),
        (["--host", "0.0.0.0"], "serve: others can reach --host 0.0.0.0, and there are no tokens:"
         " make one with `tempotrace token create`, or say --auth off\n"),
        (["--tokens", str(damaged)], f"{damaged}: expected an object with version and tokens\n"),
    ):  # fmt: skip
        result = CliRunner().invoke(app, ["serve", "-f", fabric, *words])
        assert (result.exit_code, result.stderr) == (2, said)


def test_choices_are_the_modes() -> None:
    """The third is what no --auth means."""
    assert {mode.value for mode in Auth} == {"required", "off", "with tokens"}


@pytest.mark.parametrize("text", ["se cret", "secret\r\nx: y", "secrét", "secret\x01", "=secret"])
def test_a_token_that_is_none_is_not_repeated(text: str) -> None:
    """What a shell made of it may be half a token: it is not in the message."""
    with pytest.raises(InputError) as caught:
        bearer(text)
    assert "cret" not in str(caught.value)
    result = CliRunner().invoke(app, ["trace", "list"], env={"TEMPOTRACE_TOKEN": text})
    assert result.exit_code == 2
    assert "cret" not in result.output


def test_a_token_comes_from_the_environment_or_an_option() -> None:
    """The option wins; white space around it is dropped; none is no header."""
    assert bearer(" ttk_1 \n") == {"authorization": "Bearer ttk_1"}
    assert bearer(None) == bearer("") == {}
