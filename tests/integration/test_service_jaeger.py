# SPDX-License-Identifier: Apache-2.0
"""Jaeger's query API as Grafana and Jaeger's UI call it."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.support.imported import imported
from tests.support.tracing_world import EPOCH_NS, build
from tracing_core.model import Span, SpanKind
from tracing_core.service import create_app, serve_in_thread
from tracing_core.service.jaeger_query import JaegerQueryError, parse_query
from tracing_core.store import Store


def extra(number: int, service: str, parent: str = "", clock: str = "h1", **changed) -> Span:
    return Span(**{
        "tenant": "alpha", "trace_id": "f" * 32, "span_id": f"{number:016x}",
        "parent_span_id": parent, "name": f"op{number}", "kind": SpanKind.SERVER,
        "start_local_ns": EPOCH_NS + 10**9, "end_local_ns": EPOCH_NS + 10**9 + 5_000_000,
        "clock_domain": clock, "host": clock, "service": service, **changed,
    })  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    world = build(3, transfers=40)
    with Store.open(tmp_path_factory.mktemp("jaeger") / "store") as store:
        world.fill(store)
        store.spans.append([
            extra(1, "gateway", attributes={"http.status_code": 500, "ok": False, "ratio": 0.5,
                  "route": "/a"}, resource={"zone": "z1"}, status_code=2),
            extra(2, "backend", parent=f"{1:016x}", clock="nowhere"),
        ])  # fmt: skip
        with (
            serve_in_thread(create_app(store)) as service,
            httpx.Client(base_url=service.url, trust_env=False) as opened,
        ):
            opened.headers["x-offset-h1"] = str(world.offset_ns["h1"])
            yield opened


def data(client: httpx.Client, path: str, **parameters):
    response = client.get(path, params=parameters)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["errors"] is None
    return answer["data"]


def tags(item) -> dict:
    return {tag["key"]: tag["value"] for tag in item["tags"]}


def test_services_and_operations(client: httpx.Client) -> None:
    """What a data source fills its menus from; both forms of the operations call."""
    assert data(client, "/api/services") == ["backend", "gateway", "trainer"]
    assert data(client, "/api/services/trainer/operations") == ["rdma.recv", "rdma.send"]
    assert data(client, "/api/operations", service="gateway") == [
        {"name": "op1", "spanKind": "server"}
    ]
    assert data(client, "/api/operations", service="gateway", spanKind="client") == []


def test_a_trace_shows_corrected_time_with_raw_time_in_tags(client: httpx.Client) -> None:
    """startTime is the corrected start in whole microseconds; raw stamp and bound are tags."""
    offset_ns = int(client.headers["x-offset-h1"])
    (trace,) = data(client, "/api/traces/" + "f" * 32)
    gateway = next(s for s in trace["spans"] if s["operationName"] == "op1")
    assert gateway["startTime"] == (EPOCH_NS + 10**9 - offset_ns) // 1000
    assert abs(gateway["duration"] - 5000) <= 1
    found = tags(gateway)
    assert found["tempotrace.start.raw_local_ns"] == str(EPOCH_NS + 10**9)
    assert found["tempotrace.start.bound_conditional_ns"] == 30
    assert found["span.kind"] == "server"
    assert found["error"] is True
    assert gateway["warnings"] is None
    process = trace["processes"][gateway["processID"]]
    assert process["serviceName"] == "gateway"


def test_raw_is_the_switch_back(client: httpx.Client) -> None:
    """`raw=true`, Jaeger's own parameter, shows the stamps as they came in."""
    (trace,) = data(client, "/api/traces/" + "f" * 32, raw="true")
    starts = {s["startTime"] for s in trace["spans"]}
    assert starts == {(EPOCH_NS + 10**9) // 1000}


def test_a_span_without_a_correction_carries_a_warning(client: httpx.Client) -> None:
    """It stays in the tree at its raw time, and the viewer says why."""
    (trace,) = data(client, "/api/traces/" + "f" * 32)
    backend = next(s for s in trace["spans"] if s["operationName"] == "op2")
    assert backend["startTime"] == (EPOCH_NS + 10**9) // 1000
    assert "no correction exists for clock nowhere" in backend["warnings"][0]
    assert backend["references"] == [
        {"refType": "CHILD_OF", "traceID": "f" * 32, "spanID": f"{1:016x}"}
    ]


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ({"service": "gateway"}, 1),
        ({"service": "gateway", "operation": "op1"}, 1),
        ({"service": "gateway", "operation": "op2"}, 0),  # that one is the backend's
        ({"service": "gateway", "tags": '{"http.status_code":"500"}'}, 1),
        ({"service": "gateway", "tags": '{"http.status_code":"200"}'}, 0),
        ({"service": "gateway", "tag": "ok:false"}, 1),
        ({"service": "gateway", "tags": '{"ratio":"0.5"}'}, 1),
        ({"service": "gateway", "tags": '{"route":"/a"}'}, 1),
        ({"service": "gateway", "tags": '{"zone":"z1"}'}, 1),  # of the resource
        ({"service": "gateway", "tags": '{"zone":"z1","http.status_code":"200"}'}, 0),
        ({"service": "gateway", "tags": '{"error":"true"}'}, 1),
        ({"service": "gateway", "minDuration": "4.9ms"}, 1),
        ({"service": "gateway", "minDuration": "5.1ms"}, 0),
        ({"service": "gateway", "maxDuration": "1s"}, 1),
        ({"service": "gateway", "start": EPOCH_NS // 1000 + 2_000_000}, 0),
        ({"service": "trainer", "limit": 2}, 2),
        ({"service": "nobody"}, 0),
        ({"traceID": "f" * 32}, 1),
    ],
    ids=str,
)
def test_search(client: httpx.Client, parameters: dict, count: int) -> None:
    """One span must meet service, operation, tags and duration together."""
    assert len(data(client, "/api/traces", **parameters)) == count


def test_dependencies_count_calls_between_services(client: httpx.Client) -> None:
    """Within the window that Grafana asks for, in milliseconds."""
    end_ms = EPOCH_NS // 10**6 + 2000
    expected = [{"parent": "gateway", "child": "backend", "callCount": 1}]
    assert data(client, "/api/dependencies", endTs=end_ms, lookback=3_600_000) == expected
    assert data(client, "/api/dependencies", endTs=end_ms, lookback=1) == []


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/api/traces", 400, "service"),
        ("/api/traces?service=a&minDuration=5", 400, "minDuration"),
        ("/api/traces?service=a&tags=[1]", 400, "tags"),
        ("/api/traces?service=a&tag=x", 400, "tag"),
        ("/api/traces?service=a&start=now", 400, "start"),
        ("/api/traces?service=a&minDuration=2s&maxDuration=1s", 400, "maxDuration"),
        ("/api/traces/xyz", 400, "traceID"),
        ("/api/traces/12", 404, "not found"),
        ("/api/operations", 400, "service"),
        ("/api/dependencies?endTs=x", 400, "endTs"),
    ],
)
def test_errors_have_jaegers_form(client: httpx.Client, path: str, status: int, word: str) -> None:
    """A UI shows `errors[0].msg`."""
    response = client.get(path)
    assert response.status_code == status
    (error,) = response.json()["errors"]
    assert error["code"] == status
    assert word in error["msg"]


def test_what_jaeger_answers_can_be_imported_again(client: httpx.Client) -> None:
    """The importer for Jaeger's JSON takes the answer; ids and parents survive."""
    response = client.get("/api/traces", params={"service": "trainer", "raw": "true"})
    spans, report = imported(response.content)
    assert report.format == "jaeger"
    assert (len(spans), report.refused.total()) == (80, 0)
    receives = [s for s in spans if s.name == "rdma.recv"]
    assert {s.parent_span_id for s in receives} == {
        s.span_id for s in spans if s.name == "rdma.send"
    }


@pytest.mark.parametrize("text", ["1h30m", "1.5ms", "2us", "7ns", "3µs"])
def test_durations_are_gos(text: str) -> None:
    """Units as Go's time.ParseDuration has them."""
    expected = {"1h30m": 5400 * 10**9, "1.5ms": 1_500_000, "2us": 2000, "7ns": 7, "3µs": 3000}
    query = parse_query({"service": ["a"], "minDuration": [text]})
    assert query.duration_min_ns == expected[text]


def test_a_nested_tags_document_is_a_query_error() -> None:
    """However deep: never another error."""
    with pytest.raises(JaegerQueryError):
        parse_query({"service": ["a"], "tags": ["[" * 100_000]})


def test_grafana_finds_the_paths_that_it_calls(client: httpx.Client) -> None:
    """The routes of Grafana's Jaeger data source are all in the API's description."""
    paths = json.loads(client.get("/openapi.json").content)["paths"]
    for path in ("/api/services", "/api/services/{service}/operations", "/api/traces",
                 "/api/traces/{trace}", "/api/dependencies"):  # fmt: skip
        assert path in paths


@pytest.mark.parametrize("tags", ['{"a":"\\ud800"}', '{"\\udfff":"1"}'])
def test_a_tag_with_half_a_character_is_refused(client: httpx.Client, tags: str) -> None:
    """JSON can write half of a surrogate pair, which no attribute can hold."""
    response = client.get("/api/traces", params={"service": "gateway", "tags": tags})
    assert response.status_code == 400, response.text
    assert response.json()["errors"][0]["msg"].startswith("tags: ")


def test_a_window_of_dependencies_beyond_all_stamps_holds_them_all(client: httpx.Client) -> None:
    """13 digits of milliseconds reach beyond 2^63 ns, at either end."""
    everything = data(client, "/api/dependencies")
    assert everything
    window = {"endTs": 9_999_999_999_999, "lookback": 9_999_999_999_999}
    assert data(client, "/api/dependencies", **window) == everything
