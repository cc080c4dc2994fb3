# SPDX-License-Identifier: Apache-2.0
"""Cursors: pages put together are the list, and stay it while spans arrive."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.job_world import rank_span, step_spans
from tests.support.served import served
from tests.support.tracing_world import Fault, World, build
from tracing_core.service.paging import decode_cursor, encode_cursor
from tracing_core.store import Store

TIMES = [(0, 5_000), (300, 5_020), (900, 6_000)]
LISTS = {
    "/v1/traces": "traces",
    "/v1/traces?job=train": "traces",
    "/v1/traces/{trace}/transfers": "transfers",
    "/v1/traces/{trace}/timeline?time=raw": "tracks",
    "/v1/slow-transfers": "transfers",
    "/v1/jobs": "jobs",
    "/v1/jobs/train/steps": "steps",
    "/v1/jobs/train/steps/0": "collectives",
    "/v1/jobs/train/ranks": "ranks",
    "/v1/jobs/train/ranks/0": "steps",
    "/v1/jobs/train/communicators": "communicators",
    "/v1/jobs/train/communicators/0%3Adefault_pg": "collectives",
    "/v1/clocks": "clocks",
    "/v1/clocks/h1": "history",
    "/v1/links": "links",
    "/v1/fabric/links": "links",
    "/v1/fabric/asymmetry": "links",
    "/v1/fabric/paths": "flows",
}
"""Every list, and the member of its answer that is one."""


@pytest.fixture(scope="module")
def world() -> World:
    faults = tuple(Fault(transfer=n, kind="hop", place=1, extra_ns=9_000) for n in (20, 50, 61))
    return build(43, transfers=64, faults=faults)


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[httpx.Client]:
    with Store.open() as store:
        world.fill(store)
        store.corrections.append(world.corrections)
        for step in range(4):
            store.spans.append(step_spans(world, job="train", step=step, times=TIMES))
        further = {"tempotrace.communicator": "tp", "tempotrace.sequence": 7}
        store.spans.append(
            [
                rank_span(world, job="train", step=0, rank=9, start_ns=1, end_ns=2, host="h5",
                          further=further)
            ]
        )  # fmt: skip
        with served(store) as opened:
            yield opened


def get(client: httpx.Client, path: str) -> httpx.Response:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response


def walked(client: httpx.Client, path: str, member: str, limit: int) -> list[Any]:
    """All pages put together, by the Link header."""
    found: list[Any] = []
    url = f"{path}{'&' if '?' in path else '?'}limit={limit}"
    for _ in range(1000):
        response = get(client, url)
        items = response.json()[member]
        assert len(items) <= limit
        found += items
        if "link" not in response.headers:
            assert response.json()["next_cursor"] is None
            return found
        (url,) = re.findall(r'^<([^>]*)>; rel="next"$', response.headers["link"])
        assert response.json()["next_cursor"] in url
    raise AssertionError("the list does not end")


@pytest.mark.parametrize("path", LISTS)
def test_pages_put_together_are_the_list(client: httpx.Client, world: World, path: str) -> None:
    """Every list, by two: each item once, in the same order, and no more."""
    url, member = path.format(trace=world.ids[0][0]), LISTS[path]
    whole = get(client, url).json()[member]
    assert len(whole) >= 2, path
    assert walked(client, url, member, 2) == whole


@pytest.mark.parametrize("path", LISTS)
def test_a_bad_cursor_is_a_400_problem(client: httpx.Client, world: World, path: str) -> None:
    """Of no list, of another list, of the right list with wrong values, and cut off."""
    url = path.format(trace=world.ids[0][0])
    joint = "&" if "?" in url else "?"
    good = get(client, f"{url}{joint}limit=1").json()["next_cursor"]
    version, kind, *key = json.loads(base64.urlsafe_b64decode(good + "=" * (-len(good) % 4)))
    wrong = [
        "x", good[:-2], encode_cursor("another list", tuple(key)), encode_cursor(kind, (*key, 1)),
        encode_cursor(kind, tuple([None] * len(key))),
        encode_cursor(kind, tuple(2**70 if isinstance(v, int) else 1 for v in key)),
        base64.urlsafe_b64encode(json.dumps([version + 1, kind, *key]).encode()).decode(),
        base64.urlsafe_b64encode(b"[" * 3000).decode()[:4000],
    ]  # fmt: skip
    for cursor in wrong:
        response = client.get(f"{url}{joint}cursor={cursor}")
        assert response.status_code == 400, cursor
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["detail"].startswith("cursor: ")


@pytest.mark.parametrize("limit", ["0", "1000000", "x"])
def test_limits_have_bounds(client: httpx.Client, world: World, limit: str) -> None:
    """422 names the parameter, on every list."""
    for path in LISTS:
        url = path.format(trace=world.ids[0][0])
        response = client.get(f"{url}{'&' if '?' in url else '?'}limit={limit}")
        assert response.status_code == 422
        assert response.json()["detail"].startswith("limit: ")


def test_every_route_with_a_cursor_is_tried_here(client: httpx.Client) -> None:
    """A new list cannot be forgotten."""
    documented = {
        path
        for path, route in get(client, "/openapi.json").json()["paths"].items()
        if any(part["name"] == "cursor" for part in route.get("get", {}).get("parameters", []))
    }
    tried = {
        path.partition("?")[0]
        .replace("{trace}", "{trace_id}")
        .replace("/steps/0", "/steps/{step}")
        .replace("/ranks/0", "/ranks/{rank}")
        .replace("0%3Adefault_pg", "{communicator}")
        .replace("train", "{job}")
        .replace("h1", "{clock}")
        for path in LISTS
    }
    assert documented - tried == {"/v1/jobs/{job}/steps/{step}/timeline"}


keys = st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(), st.floats(allow_nan=False))


@given(st.text(), keys)
def test_a_cursor_reads_as_what_it_was_made_of(kind: str, key: tuple[int, str, float]) -> None:
    """Any list's name, any key."""
    assert decode_cursor(encode_cursor(kind, key), kind, (int, str, float)) == key


@pytest.mark.parametrize("half", ["\ud800", "x\udfff"])
@pytest.mark.parametrize(
    ("path", "kind", "key"),
    [
        ("/v1/traces", "traces", (0, "", None)),
        ("/v1/jobs", "jobs", (0, None, "")),
        ("/v1/jobs/train/steps/0", "step 0", (None, 0)),
        ("/v1/jobs/train/communicators", "communicators", (None,)),
        ("/v1/slow-transfers", "slow", (0.0, None, "", "")),
    ],
)
def test_a_cursor_with_half_a_character_is_refused(
    client: httpx.Client, path: str, kind: str, key: tuple[object, ...], half: str
) -> None:
    """JSON can write half of a surrogate pair, which no name in the store can hold."""
    document = json.dumps([1, kind, *(half if part is None else part for part in key)])
    cursor = base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")
    response = client.get(path, params={"cursor": cursor, "tenant": "alpha"})
    assert response.status_code == 400, response.text
    assert response.json()["detail"].startswith("cursor: ")


def test_a_cursor_before_the_first_trace_begins_the_list(client: httpx.Client) -> None:
    """Its start, 2^63 ns, is later than any stamp can be; the list begins behind it."""
    cursor = encode_cursor("traces", (-(2**63), "", ""))
    whole = client.get("/v1/traces").json()["traces"]
    assert client.get("/v1/traces", params={"cursor": cursor}).json()["traces"] == whole


def test_no_corrections_come_before_the_first_version(client: httpx.Client) -> None:
    """A cursor with a negative version is behind the whole history."""
    cursor = encode_cursor("clock h1", (-1, 0))
    response = client.get("/v1/clocks/h1", params={"cursor": cursor})
    assert response.status_code == 200, response.text
    assert response.json()["history"] == []
