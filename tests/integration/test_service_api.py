# SPDX-License-Identifier: Apache-2.0
"""API v1 and the page over a store with one known world."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.tracing_world import Fault, World, build
from tracing_core.model import LinkEstimate
from tracing_core.service import create_app, serve_in_thread
from tracing_core.store import Store

SLOW = 50


@pytest.fixture(scope="module")
def world() -> World:
    made = build(31, faults=(Fault(transfer=SLOW, kind="hop", place=1, extra_ns=6_000),))
    further = {
        "x": "<img>",
        "tempotrace.rank": 0,
        "tempotrace.communicator": "world",
        "tempotrace.sequence": 7,
    }
    made.spans[0] = replace(made.spans[0], attributes={**made.spans[0].attributes, **further})
    return made


@pytest.fixture(scope="module")
def client(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with Store.open(tmp_path_factory.mktemp("api") / "store") as store:
        world.fill(store)
        link = world.links[0].name
        store.corrections.append(
            [],
            [
                LinkEstimate(
                    link=link,
                    a_uv_ns=123.4,
                    sigma_ns=2.0,
                    bad=True,
                    delay_ab_ns=500.0,
                    delay_ba_ns=float("nan"),
                )
            ],
        )
        with (
            serve_in_thread(create_app(store)) as handle,
            httpx.Client(base_url=handle.url, trust_env=False, timeout=30) as opened,
        ):
            yield opened


def filled(path: str, world: World) -> str:
    """A path of the OpenAPI document with names of the world in it."""
    trace, span = world.ids[0]
    names = {
        "trace_id": trace, "span_id": span, "job": "job-1", "step": "0", "rank": "0",
        "communicator": "world", "clock": "h1",
    }  # fmt: skip
    return path.format(**names)


def get(client: httpx.Client, path: str) -> Any:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def test_attribution_names_the_hop_over_http(client: httpx.Client, world: World) -> None:
    """The verdict, its share, its components and the clocks it rests on come in one answer."""
    trace, span = world.ids[SLOW]
    answer = get(client, f"/v1/attribution/{trace}/{span}")
    _, spine, dst_leaf, _ = world.paths[SLOW]
    assert (answer["kind"], answer["entity_id"]) == ("hop", f"{spine}:{dst_leaf[-1]}")
    assert answer["entity"] == f"{spine} port {dst_leaf[-1]} queue 1"
    assert answer["share"] > 0.9
    assert answer["transfer"]["slow"]
    assert set(answer["clock_status"].values()) == {"synchronised"}
    assert answer["correction_version"] == 2
    total = sum(part["value_ns"] for part in answer["components"])
    assert total == answer["transfer"]["latency_corrected_ns"]


def test_the_receive_span_leads_to_the_same_transfer(client: httpx.Client, world: World) -> None:
    """Either span of a transfer may be asked about."""
    trace, span = world.ids[SLOW]
    receive = f"{int(span, 16) + 1:016x}"
    by_send = get(client, f"/v1/attribution/{trace}/{span}")
    assert get(client, f"/v1/attribution/{trace}/{receive}") == by_send


def test_slow_transfers_are_found(client: httpx.Client, world: World) -> None:
    """The struck transfer is the only slow one of 400."""
    answer = get(client, "/v1/slow-transfers")
    assert (answer["total"], answer["compared"]) == (1, 400)
    assert answer["transfers"][0]["send_span_id"] == world.ids[SLOW][1]
    assert get(client, "/v1/slow-transfers?job=other")["transfers"] == []


def test_transfers_of_a_trace(client: httpx.Client, world: World) -> None:
    """A step's 16 transfers, each with a corrected latency."""
    transfers = get(client, f"/v1/traces/{world.ids[0][0]}/transfers")["transfers"]
    assert len(transfers) == 16
    assert all(2_000 < item["latency_corrected_ns"] < 8_000 for item in transfers)


def test_inversions_and_summary_agree(client: httpx.Client) -> None:
    """Raw inversions vanish after correction; as_of=0 knows no clock, so nothing is decided."""
    counts = get(client, "/v1/inversions?limit=3")
    summary = get(client, "/v1/summary")
    assert counts["raw"] == summary["inversions"]["raw"] > 100
    assert counts["corrected"] == counts["undecided"] == 0
    assert [pair["verdict"] for pair in counts["examples"]] == ["before_time"] * 3
    assert all(
        int(pair["raw_gap_ns"]) < 0 < int(pair["corrected_gap_ns"]) for pair in counts["examples"]
    )
    before = get(client, "/v1/inversions?as_of=0")
    assert (before["correction_version"], before["corrected"]) == (0, 0)
    assert before["undecided"] == before["invalid"] == before["pairs"]
    assert (summary["links"]["asymmetric_found"], summary["links"]["fabric"]) == (1, 8)


def test_fabric_and_links_show_unknown_as_null(client: httpx.Client, world: World) -> None:
    """A measured link has its values; an unmeasured one has nulls, not zeros."""
    links = {link["name"]: link for link in get(client, "/v1/links")["links"]}
    measured = links[world.links[0].name]
    assert (measured["a_uv_ns"], measured["bad"], measured["delay_ba_ns"]) == (123.4, True, None)
    other = links[world.links[1].name]
    assert (other["a_uv_ns"], other["bad"], other["sigma_ns"]) == (None, False, None)
    nodes = {node["name"]: node for node in get(client, "/v1/fabric")["nodes"]}
    assert nodes["h1"]["ip"] == "10.0.1.1"
    assert nodes["spine1"]["status"] == "synchronised"


def test_clocks_give_offsets_as_text(client: httpx.Client, world: World) -> None:
    """A switch's offset exceeds 2^53, so instants and offsets are decimal strings."""
    clocks = {clock["clock"]: clock for clock in get(client, "/v1/clocks")["clocks"]}
    assert len(clocks) == 14
    (row,) = clocks["spine1"]["corrections"]
    assert int(row["offset_ns"]) == world.offset_ns["spine1"]
    assert (row["bound_conditional_ns"], row["method"]) == (30, "exact")
    assert clocks["spine1"]["centre"] == row
    (before,) = get(client, "/v1/clocks?as_of=0")["clocks"][0:1]
    assert (before["corrections"], before["centre"]) == ([], None)


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/traces/5b8efff7", "trace_id: expected 32 hex digits; found 8"),
        ("/v1/traces/" + "z" * 32, "trace_id: expected 32 hex digits; found something else"),
        (
            "/v1/attribution/" + "1" * 32 + "/" + "2" * 17,
            "span_id: expected 16 hex digits; found 17",
        ),
    ],
)
def test_a_malformed_id_is_refused_in_words(client: httpx.Client, path: str, detail: str) -> None:
    """The problem says what was expected and what was found, not a pattern."""
    response = client.get(path)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == detail


@pytest.mark.parametrize("path", ["/", "/docs", "/static/app.js", "/v1/clocks", "/v1/nothing"])
def test_head_is_get_without_a_body(client: httpx.Client, path: str) -> None:
    """Status and headers are those of GET, the length and the ETag included."""
    get_response, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (get_response.status_code, b"")
    for name in ("content-type", "content-length", "etag"):
        assert head.headers.get(name) == get_response.headers.get(name)


def test_a_version_that_does_not_exist_is_not_answered(client: httpx.Client, world: World) -> None:
    """Every route that takes as_of: 404 that names the newest version; the newest itself is had."""
    newest = get(client, "/v1/health")["correction_version"]
    documented = get(client, "/openapi.json")["paths"]
    paths = [
        filled(path, world)
        for path, route in documented.items()
        if any(part["name"] == "as_of" for part in route.get("get", {}).get("parameters", []))
    ]
    assert len(paths) > 20
    for path in paths:
        assert get(client, f"{path}?as_of={newest}") == get(client, path)
        for version in (newest + 1, 2**63 - 1):
            response = client.get(f"{path}?as_of={version}")
            assert response.status_code == 404
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["detail"] == (
                f"there is no correction version {version}; the newest is {newest}"
            )


@pytest.mark.parametrize(
    "path",
    [
        "/v1/attribution/" + "1" * 32 + "/" + "2" * 16,
        "/v1/traces/" + "1" * 32 + "/transfers",
        "/static/nothing.js",
        "/static/..%2fapp.py",
    ],
)
def test_what_is_not_there_is_a_404_problem(client: httpx.Client, path: str) -> None:
    """Never a 500, and never a file outside of the page."""
    response = client.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_every_answer_names_its_correction_version(client: httpx.Client, world: World) -> None:
    """All GET routes below /v1 of the OpenAPI document have the field; an export, the header."""
    paths = get(client, "/openapi.json")["paths"]
    checked = 0
    for path, methods in paths.items():
        if "get" in methods and path.startswith("/v1/"):
            response = client.get(filled(path, world))
            assert response.status_code == 200, path
            named = "correction_version" in response.json()
            assert named or "TempoTrace-Correction-Version" in response.headers, path
            checked += 1
    assert checked > 20


def test_openapi_has_examples_and_descriptions(client: httpx.Client) -> None:
    """Every operation says what it does; answers and the OTLP body have an example, but for
    those of Jaeger's API, which others define."""
    document = get(client, "/openapi.json")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description") or operation.get("summary"), (path, method)
            content = operation["responses"]["200"].get("content", {})
            if method == "get" and path.startswith("/v1/"):
                assert "example" in content["application/json"], path


def test_the_page_is_complete_and_needs_nothing_from_elsewhere(client: httpx.Client) -> None:
    """Every file that a page file refers to is served; there is no outside address."""
    seen: set[str] = set()
    todo = ["/", "/docs"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        response = client.get(path)
        assert response.status_code == 200, path
        assert "default-src 'none'" in response.headers["content-security-policy"]
        for address in re.findall(r"https?://[^\s\"']+", response.text):
            assert address == "http://www.w3.org/2000/svg"
        assert "innerHTML" not in response.text
        todo += re.findall(r'(?:src|href)="(/static/[^"]+)"', response.text)
        todo += [f"/static/{name}" for name in re.findall(r'from "\./([^"]+)"', response.text)]
    assert len(seen) >= 12


def test_hostile_text_stays_text(client: httpx.Client, world: World) -> None:
    """Markup in an attribute comes back as JSON text, in an answer that is not HTML."""
    response = client.get(f"/v1/traces/{world.ids[0][0]}")
    assert response.headers["content-type"] == "application/json"
    spans = {item["span_id"]: item for item in json.loads(response.text)["spans"]}
    assert spans[world.spans[0].span_id]["attributes"]["x"] == "<img>"


def test_every_route_is_documented(client: httpx.Client) -> None:
    """docs/api.md names each path of the OpenAPI document."""
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    for path in get(client, "/openapi.json")["paths"]:
        assert f"`{path}`" in text or f"POST {path}`" in text, path
