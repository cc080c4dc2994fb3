# SPDX-License-Identifier: Apache-2.0
"""Two tenants in one store: through every route that reads, each sees its own spans only."""

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from tests.support.access_world import (
    BETA_TRACE,
    MARK,
    SHARED_SPAN,
    SHARED_TRACE,
    Guarded,
    guarded,
    of_beta,
    world,
)
from tracing_core.access import ROUTES, Need
from tracing_core.service import create_app, serve_in_thread
from tracing_core.store import Store

TAG = quote('{"tempotrace.job":"job-1"}')
BETA_TAG = quote('{"beta.key":"beta"}')
READS = {
    "/v1/summary": ["/v1/summary"],
    "/v1/traces": [
        "/v1/traces?limit=1000", "/v1/traces?service=trainer", "/v1/traces?job=job-1&step=0",
        "/v1/traces?host=h1",
    ],
    "/v1/traces/{trace_id}": [f"/v1/traces/{SHARED_TRACE}", f"/v1/traces/{SHARED_TRACE}?as_of=0"],
    "/v1/traces/{trace_id}/export": [
        f"/v1/traces/{SHARED_TRACE}/export?format={wanted}&time={time}"
        for wanted in ("otlp", "chrome", "perfetto")
        for time in ("corrected", "raw")
    ],
    "/v1/traces/{trace_id}/transfers": [f"/v1/traces/{SHARED_TRACE}/transfers"],
    "/v1/traces/{trace_id}/timeline": [f"/v1/traces/{SHARED_TRACE}/timeline"],
    "/v1/slow-transfers": ["/v1/slow-transfers?limit=1000", "/v1/slow-transfers?job=job-1"],
    "/v1/attribution/{trace_id}/{span_id}": [f"/v1/attribution/{SHARED_TRACE}/{SHARED_SPAN}"],
    "/v1/inversions": ["/v1/inversions?limit=200"],
    "/v1/clock-evidence": ["/v1/clock-evidence"],
    "/v1/jobs": ["/v1/jobs"],
    "/v1/jobs/{job}": ["/v1/jobs/job-1"],
    "/v1/jobs/{job}/steps": ["/v1/jobs/job-1/steps"],
    "/v1/jobs/{job}/steps/{step}": ["/v1/jobs/job-1/steps/0"],
    "/v1/jobs/{job}/steps/{step}/timeline": ["/v1/jobs/job-1/steps/0/timeline"],
    "/v1/jobs/{job}/ranks": ["/v1/jobs/job-1/ranks"],
    "/v1/jobs/{job}/ranks/{rank}": ["/v1/jobs/job-1/ranks/0"],
    "/v1/jobs/{job}/communicators": ["/v1/jobs/job-1/communicators"],
    "/v1/jobs/{job}/communicators/{communicator}": ["/v1/jobs/job-1/communicators/c0"],
    "/api/services": ["/api/services"],
    "/api/services/{service:path}/operations": ["/api/services/trainer/operations"],
    "/api/operations": ["/api/operations?service=trainer"],
    "/api/traces": [
        "/api/traces?service=trainer&limit=1000", f"/api/traces?traceID={SHARED_TRACE}",
        f"/api/traces?service=trainer&tags={TAG}&limit=1000",
    ],
    "/api/traces/{trace}": [f"/api/traces/{SHARED_TRACE}"],
    "/api/dependencies": ["/api/dependencies"],
}  # fmt: skip
"""What alpha asks for, by route: all of it also meets spans of beta's."""
NOT_FOUND = {
    "/v1/jobs/{job}/ranks/{rank}", "/v1/jobs/{job}/communicators/{communicator}",
}  # fmt: skip
"""Of these the world has none: ranks and collectives."""
OF_BETA = [
    f"/v1/traces/{BETA_TRACE}", f"/v1/traces/{BETA_TRACE}/export",
    f"/v1/traces/{BETA_TRACE}/transfers", f"/v1/traces/{BETA_TRACE}/timeline",
    f"/v1/attribution/{BETA_TRACE}/{SHARED_SPAN}", f"/api/traces/{BETA_TRACE}",
    "/v1/jobs/beta-job", "/v1/jobs/beta-job/steps", "/v1/jobs/beta-job/steps/77",
    "/v1/jobs/beta-job/ranks", "/v1/jobs/beta-job/communicators",
    "/v1/jobs/beta-job/steps/77/timeline",
]  # fmt: skip
"""What there is, but not for alpha."""
LISTS_OF_BETA = [
    "/v1/traces?service=beta-service", "/v1/traces?job=beta-job", "/v1/traces?name=beta.op",
    "/v1/traces?host=beta-host", "/v1/slow-transfers?job=beta-job",
    "/api/services/beta-service/operations", "/api/operations?service=beta-service",
    "/api/traces?service=beta-service", f"/api/traces?traceID={BETA_TRACE}",
    f"/api/traces?service=beta-service&tags={BETA_TAG}",
]  # fmt: skip
"""Searches that find spans, but none of alpha's."""
URLS = [url for urls in READS.values() for url in urls]


def answers(client: httpx.Client, headers: dict[str, str]) -> dict[str, httpx.Response]:
    return {url: client.get(url, headers=headers) for url in URLS}


@pytest.fixture(scope="module")
def alone() -> dict[str, httpx.Response]:
    """What a service without access control says where alpha is the only tenant."""
    with Store.open() as store:
        world().fill(store)
        with (
            serve_in_thread(create_app(store)) as handle,
            httpx.Client(base_url=handle.url, trust_env=False, timeout=60) as client,
        ):
            return answers(client, {})


@pytest.fixture(scope="module")
def service(
    alone: dict[str, httpx.Response], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    del alone  # chDB has one store at a time
    with guarded(tmp_path_factory.mktemp("tenants")) as made:
        yield made


@pytest.fixture(scope="module")
def client(service: Guarded) -> Iterator[httpx.Client]:
    with (
        serve_in_thread(service.app) as handle,
        httpx.Client(base_url=handle.url, trust_env=False, timeout=60) as opened,
    ):
        yield opened


def test_every_route_that_reads_is_asked_here() -> None:
    """A new one must be added to READS, with what beta's spans could change in its answer."""
    reading = {path for (method, path), need in ROUTES.items() if need is Need.READ}
    assert set(READS) == reading


@pytest.mark.parametrize("path", sorted(READS))
def test_a_tenants_answer_is_that_of_a_store_without_the_others(
    client: httpx.Client, service: Guarded, alone: dict[str, httpx.Response], path: str
) -> None:
    """Byte for byte what alpha would read if beta had never sent a span, though beta's spans have
    the same trace and span ids; only what belongs to the fabric is left out of the summary."""
    for url in READS[path]:
        own = client.get(url, headers=service.tokens.headers("alpha reads"))
        assert own.status_code == alone[url].status_code == (404 if path in NOT_FOUND else 200)
        if path == "/v1/summary":
            shown = alone[url].json() | dict.fromkeys(("packets", "hops", "clocks", "links"))
            assert own.json() == shown
        else:
            assert own.content == alone[url].content
        assert MARK not in own.text


def test_the_store_does_hold_both(client: httpx.Client, service: Guarded) -> None:
    """An operator sees that beta's spans are there, in the same trace; and chooses a tenant."""
    headers = service.tokens.headers("operator reads")
    spans = client.get(f"/v1/traces/{SHARED_TRACE}", headers=headers).json()["spans"]
    tenants = [span["tenant"] for span in spans]
    assert tenants.count("alpha") == tenants.count("beta") == len(spans) / 2 > 0
    for url in OF_BETA:
        if "transfers" not in url and "attribution" not in url:
            assert client.get(url, headers=headers).status_code == 200, url
    one = client.get(f"/v1/traces/{SHARED_TRACE}?tenant=beta", headers=headers).json()["spans"]
    assert {span["tenant"] for span in one} == {"beta"}
    both = client.get("/v1/summary", headers=headers).json()["spans"]
    parts = [
        client.get(f"/v1/summary?tenant={name}", headers=headers).json()["spans"]
        for name in ("alpha", "beta")
    ]
    assert both == sum(parts)
    assert min(parts) > 0


@pytest.mark.parametrize("url", OF_BETA)
def test_what_others_have_is_not_there(client: httpx.Client, service: Guarded, url: str) -> None:
    """404, in the words for what does not exist at all: existence is not told."""
    headers = service.tokens.headers("alpha reads")
    found = client.get(url, headers=headers)
    absent = url.replace(BETA_TRACE, "0a" * 16).replace("beta-job", "no-job")
    missing = client.get(absent, headers=headers)
    assert found.status_code == missing.status_code == 404
    plain = found.text.replace(BETA_TRACE, "0a" * 16).replace("beta-job", "no-job")
    assert plain == missing.text


@pytest.mark.parametrize("url", LISTS_OF_BETA)
def test_searches_for_what_others_have_find_nothing(
    client: httpx.Client, service: Guarded, url: str
) -> None:
    """Beta finds it, alpha does not."""
    own = client.get(url, headers=service.tokens.headers("alpha reads"))
    assert own.status_code == 200
    assert "beta.op" not in own.text
    assert "beta-" not in own.text
    if "slow" not in url:  # beta has no transfers
        theirs = client.get(url, headers=service.tokens.headers("beta"))
        assert "beta.op" in theirs.text


@pytest.mark.parametrize(
    "query",
    [
        "tenant=beta", "tenant=alpha&tenant=beta", "tenant=beta&tenant=alpha", "tenant=%62eta",
        "t%65nant=beta", "tenant=beta%00", "tenant=BETA", "tenant=%20alpha",
    ],
)  # fmt: skip
def test_another_tenant_cannot_be_asked_for(
    client: httpx.Client, service: Guarded, query: str
) -> None:
    """403 for any spelling of it, whether there is such a tenant or not."""
    headers = service.tokens.headers("alpha reads")
    for path in ("/v1/traces", "/api/services", f"/v1/traces/{BETA_TRACE}"):
        response = client.get(f"{path}?{query}", headers=headers)
        assert response.status_code == 403
        assert MARK not in response.text.replace(BETA_TRACE, "")


@pytest.mark.parametrize("query", ["tenant=alpha", "tenant=", "tenant", "tenant=alpha&tenant="])
def test_ones_own_tenant_may_be_named(client: httpx.Client, service: Guarded, query: str) -> None:
    """It changes nothing."""
    headers = service.tokens.headers("alpha reads")
    named = client.get(f"/v1/traces?{query}&limit=5", headers=headers)
    assert named.content == client.get("/v1/traces?limit=5", headers=headers).content


def test_beta_is_bound_like_alpha() -> None:
    """The spans of this test's second tenant are marked in all that names anything."""
    for span in of_beta(world().spans):
        assert all(MARK in text for text in (span.tenant, span.name, span.service, span.host))
