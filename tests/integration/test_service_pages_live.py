# SPDX-License-Identifier: Apache-2.0
"""Lists and their pages while spans arrive, each test with a store of its own."""

from typing import Any

import httpx
import pytest

from tests.support.job_world import rank_span, root_span, step_spans
from tests.support.served import served
from tests.support.tracing_world import World, build
from tracing_core.store import Store
from tracing_core.store.trace_pages import place_of, trace_page
from tracing_core.store.trace_search import TraceQuery

TIMES = [(0, 5_000), (300, 5_020), (900, 6_000)]


@pytest.fixture(scope="module")
def world() -> World:
    return build(43, transfers=1)


def one_by_one(client: httpx.Client, url: str) -> list[Any]:
    """All traces of a list, page by page."""
    found: list[Any] = []
    while url:
        response = client.get(url)
        found += response.json()["traces"]
        url = response.links.get("next", {}).get("url", "")
    return found


def test_pages_stay_while_spans_arrive(world: World) -> None:
    """Newer traces, jobs, steps, and further spans of what was shown, between any two pages:
    everything that was there is shown once, in its order."""
    with Store.open() as store:
        store.spans.append(
            [s for n in range(6) for s in step_spans(world, job=f"j{n}", step=n, times=TIMES)]
        )
        number = 100
        with served(store) as client:
            for path, member, names in (
                ("/v1/traces", "traces", ("trace_id",)),
                ("/v1/jobs", "jobs", ("job",)),
            ):
                before = [item[names[0]] for item in client.get(path).json()[member]]
                found: list[str] = []
                url = f"{path}?limit=2"
                while url:
                    response = client.get(url)
                    found += [item[names[0]] for item in response.json()[member]]
                    number += 1
                    later = step_spans(world, job=f"{member}{number}", step=number, times=TIMES)
                    again = [
                        rank_span(world, job="j3", step=3, rank=50 + number, start_ns=800,
                                  end_ns=9_000, host="h1")
                    ]  # fmt: skip
                    store.spans.append(later + again)
                    url = response.links.get("next", {}).get("url", "")
                assert found == before


def test_traces_in_many_parts_are_listed_by_their_first_start(world: World) -> None:
    """Parts of two traces arrive in turn, later ones first: each trace once, at its own place;
    conditions may be met by different parts."""
    parts = [
        rank_span(world, job=f"j{trace}", step=0, rank=rank, start_ns=100 * trace + 1_000 * rank,
                  end_ns=90_000, host=f"h{1 + rank}", further={"n": trace})
        for rank in (3, 1, 2, 0) for trace in (1, 0, 2)
    ]  # fmt: skip
    with Store.open() as store:
        for part in parts:
            store.spans.append([part])
        with served(store) as client:
            traces = one_by_one(client, "/v1/traces?limit=1")
            assert [item["job"] for item in traces] == sorted(
                (item["job"] for item in traces),
                key=lambda job: max(
                    -p.start_local_ns for p in parts if p.attributes["tempotrace.job"] == job
                ),
            )
            assert [item["span_count"] for item in traces] == [4, 4, 4]
            by_host = one_by_one(client, "/v1/traces?host=h4&job=j1&limit=1")
            assert [item["job"] for item in by_host] == ["j1"]


def test_a_page_is_the_same_among_recent_parts_and_among_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick way that looks among recent parts first never differs from the whole."""
    with Store.open() as store:
        for step in range(12):
            spans = step_spans(world, job=f"j{step % 3}", step=step, times=TIMES)
            for span in spans:
                store.spans.append([span])
        for query in (TraceQuery(), TraceQuery(job="j1"), TraceQuery(host="h3", step=4)):
            pages = []
            for recent in (2, 7, 10_000):
                monkeypatch.setattr("tracing_core.store.trace_pages.RECENT_PARTS", recent)
                after, found = None, []
                while page := trace_page(store.engine, query, after=after, limit=3):
                    found += page
                    after = place_of(page[-1])
                pages.append(found)
            assert pages[0] == pages[1] == pages[2]
            assert pages[0]


def test_etags_follow_the_store(world: World) -> None:
    """304 until a span arrives, then a new tag and the new answer; on encoded names too."""
    with Store.open() as store:
        store.spans.append(step_spans(world, job="a/b", step=0, times=TIMES))
        with served(store) as client:
            first = client.get("/v1/jobs/a%2Fb/steps")
            tag = {"If-None-Match": first.headers["etag"]}
            assert client.get("/v1/jobs/a%2Fb/steps", headers=tag).status_code == 304
            assert client.head("/v1/jobs/a%2Fb/steps").headers["etag"] == first.headers["etag"]
            store.spans.append([root_span(world, job="a/b", step=1, end_ns=1)])
            later = client.get("/v1/jobs/a%2Fb/steps", headers=tag)
            assert (later.status_code, len(later.json()["steps"])) == (200, 2)
