# SPDX-License-Identifier: Apache-2.0
"""Tokens and headers' values appear in no log, no error and no answer."""

import logging
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import structlog
from typer.testing import CliRunner

from tempotrace.cli import app
from tests.support.access_world import Guarded, guarded
from tracing_core.access.routes import OTLP_GRPC_EXPORT
from tracing_core.service import OtlpServer, serve_in_thread
from tracing_core.service.otlp_grpc import GrpcHandle


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("secrets")) as made:
        yield made


@pytest.fixture(scope="module")
def url(service: Guarded) -> Iterator[str]:
    with serve_in_thread(service.app) as handle:
        yield handle.url


@pytest.fixture
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


def secrets_of(service: Guarded) -> list[str]:
    """What identifies nobody else: the last part of each text."""
    return [text.rsplit("_", 1)[-1] for text in service.tokens.texts.values() if "_" in text]


@pytest.mark.parametrize("kind", ["operator", "wrong", "revoked", "expired", "alpha sends"])
def test_no_answer_and_no_log_holds_a_token(
    service: Guarded,
    url: str,
    kind: str,
    logged: list[MutableMapping[str, Any]],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Over HTTP, the OTLP port and gRPC; accepted, refused and malformed requests; at every level
    that is logged."""
    caplog.set_level(logging.INFO)
    headers = service.tokens.headers(kind)
    shown = []
    with httpx.Client(base_url=url, trust_env=False, headers=headers, timeout=60) as client:
        for path in ("/v1/traces", "/v1/clocks", "/v1/health", "/api/services", "/v1/traces/zz"):
            response = client.get(path)
            shown += [response.text, str(response.headers)]
        post = client.post("/v1/traces", content=b"\xff", headers={"content-type": "text/x"})
        shown += [post.text, str(post.headers)]
        with OtlpServer(service.ingest) as otlp:
            post = client.post(f"{otlp.url}/v1/traces", content=b"\xff")
            shown += [post.text, str(post.headers)]
    with (
        GrpcHandle(service.ingest, "127.0.0.1", 0) as running,
        grpc.insecure_channel(running.target) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(OTLP_GRPC_EXPORT)(b"\xff", metadata=tuple(headers.items()))
    shown += [caught.value.details(), str(logged), caplog.text, *capfd.readouterr()]
    for secret in secrets_of(service):
        assert all(secret not in text for text in shown)


def test_a_damaged_file_is_logged_by_its_key_only(
    service: Guarded, url: str, logged: list[MutableMapping[str, Any]]
) -> None:
    """Once, however many requests come; the answer does not say where the file is."""
    file = service.tokens.file.path
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"sha256": "', b'"sha256": "x', 1))
    try:
        headers = service.tokens.headers("operator")
        for _ in range(3):
            response = httpx.get(f"{url}/v1/traces", headers=headers, trust_env=False)
            assert response.status_code == 503
            assert str(file) not in response.text
    finally:
        file.write_bytes(whole)
    found = [entry for entry in logged if entry["event"] == "tokens_not_read"]
    assert len(found) == 1
    assert found[0]["error"] == f"{file}: tokens[0].sha256: expected 64 lower-case hex digits"
    assert httpx.get(f"{url}/v1/traces", headers=headers, trust_env=False).status_code == 200


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "list"],
        ["trace", "show", "0" * 32],
        ["trace", "export", "0" * 32],
        ["attribute", "0" * 32],
        ["trace", "import", "SPANS"],
    ],
)
@pytest.mark.parametrize("kind", ["revoked", "alpha reads", "alpha sends"])
def test_the_command_line_says_what_is_wrong_without_the_token(
    service: Guarded, url: str, tmp_path: Path, words: list[str], kind: str
) -> None:
    """A refusal is one line with its status, from the environment and from --token alike."""
    spans = tmp_path / "spans.otlp.jsonl"
    spans.write_text(
        '{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[{"traceId":"'
        + "ab" * 16
        + '","spanId":"'
        + "cd" * 8
        + '","name":"x","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}\n'
    )
    words = [str(spans) if word == "SPANS" else word for word in words]
    text = service.tokens.texts[kind]
    for more, env in ((["--token", text], {}), ([], {"TEMPOTRACE_TOKEN": text})):
        result = CliRunner().invoke(app, [*words, "--url", url, *more], env=env)
        assert text.rsplit("_", 1)[1] not in result.output
        if kind == "revoked":
            assert result.exit_code == 2
            assert ": 401 " in result.stderr
            assert "\n" not in result.stderr.strip()
        elif (words[1] == "import") == (kind == "alpha reads"):
            assert result.exit_code == 2
            assert ": 403 " in result.stderr


def test_help_does_not_show_the_environments_token(service: Guarded) -> None:
    """The option's default is not printed."""
    text = service.tokens.texts["operator"]
    env = {"TEMPOTRACE_TOKEN": text}
    result = CliRunner().invoke(app, ["trace", "list", "--help"], env=env)
    assert result.exit_code == 0
    assert text not in result.output
