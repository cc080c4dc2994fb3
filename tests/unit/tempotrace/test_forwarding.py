# SPDX-License-Identifier: Apache-2.0
"""`serve --forward`: how it is set up, and what is said when it cannot be."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tempotrace.cli import app
from tempotrace.forwarding import HEADERS_VARIABLE, forwarder, header, parse_headers
from tracing_core.otlp.retry import Delivery, delivery, wait_s
from tracing_core.store import Store


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    path = str(tmp_path / "fabric.yaml")
    result = CliRunner().invoke(app, ["deploy", "init", "-f", path])
    assert result.exit_code == 0, result.output
    return path


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("authorization=Bearer%20abc, x-scope-orgid=1,", {
            "authorization": "Bearer abc", "x-scope-orgid": "1"}),
        ("k=v=w", {"k": "v=w"}),
    ],
)  # fmt: skip
def test_headers_are_opentelemetrys(text, headers):
    """Comma-separated, values URL-encoded, as SDKs read the same variable."""
    assert parse_headers(text) == headers


@pytest.mark.parametrize("text", ["novalue", "=x"])
def test_headers_that_cannot_be_read_name_the_variable(text):
    """Not the value, which may be a secret."""
    with pytest.raises(ValueError, match=HEADERS_VARIABLE):
        parse_headers(text)


@pytest.mark.parametrize(
    "text", ["authorization=secret%0Ax", "authorization=secr%C3%A9t", "a b=secret", "secret"]
)
def test_what_is_no_header_is_said_without_its_value(fabric, tmp_path, text):
    """A client library would print it when it cannot send it; here serve does not begin."""
    with pytest.raises(ValueError, match=HEADERS_VARIABLE) as caught:
        parse_headers(text)
    assert "secr" not in str(caught.value)
    words = ["serve", "-f", fabric, "--forward", "http://x", "--store", str(tmp_path / "s")]
    options = ["--forward-header", text.replace("%0A", "\n").replace("%C3%A9", "é")]
    for more, env in ((options, {}), ([], {HEADERS_VARIABLE: text})):
        result = CliRunner().invoke(app, [*words, *more], env=env)
        assert result.exit_code == 2
        assert result.stderr.startswith("--forward: ")
        assert "secr" not in result.output


def test_a_header_option_is_a_name_and_a_value():
    """The value is as it stands: only the variable's is URL-encoded."""
    assert header("--forward-header", "x-a = b=c%20d ") == ("x-a", "b=c%20d")


def test_without_a_receiver_there_is_no_forwarder(tmp_path):
    """No thread, no route, no folder."""
    with Store.open() as store, forwarder(None, store, tmp_path) as found:
        assert found is None
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_none_ends_serve_in_one_line(fabric, tmp_path):
    """Exit 2 before anything listens."""
    result = CliRunner().invoke(
        app, ["serve", "-f", fabric, "--forward", "tempo:4318", "--store", str(tmp_path / "s")]
    )
    assert result.exit_code == 2
    assert result.stderr == "--forward: expected http://HOST:PORT; found tempo:4318\n"


@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, "delivered"), (202, "delivered"), (429, "repeat"), (502, "repeat"), (503, "repeat"),
     (504, "repeat"), (400, "refused"), (401, "refused"), (404, "refused"), (413, "refused"),
     (500, "refused"), (301, "refused")],
)  # fmt: skip
def test_only_otlps_four_statuses_are_repeated(status, expected):
    """OTLP/HTTP, "Failures": 429, 502, 503 and 504."""
    assert delivery(status) is Delivery(expected)


@pytest.mark.parametrize(
    ("retry_after", "repetition", "expected_s"),
    [(None, 0, 0.25), (None, 3, 2.0), (None, 100, 30.0), ("5", 9, 5.0), ("1e9", 0, 30.0),
     ("-3", 0, 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0, 1.0), ("nan", 0, 0.25), ("", 1, 0.5)],
)  # fmt: skip
def test_waits_are_as_asked_for_within_bounds(retry_after, repetition, expected_s):
    """Retry-After in seconds, else doubling, never beyond 30 s."""
    assert wait_s(retry_after, repetition) == expected_s
