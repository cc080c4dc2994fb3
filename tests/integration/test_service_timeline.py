# SPDX-License-Identifier: Apache-2.0
"""Timelines, asymmetries, paths and clock histories over HTTP, and `tempotrace job` on top."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from correction.table import CONDITIONAL_SIGMAS
from tempotrace.cli import app
from tests.support.job_world import rank_span, step_spans
from tests.support.served import served
from tests.support.tracing_world import EPOCH_NS, World, build
from tracing_core.model import LinkEstimate
from tracing_core.store import Store

TIMES = [(0, 5_000), (300, 5_020), (900, 6_000)]
BOUND_NS = 30


@pytest.fixture(scope="module")
def world() -> World:
    return build(47, transfers=64, bound_ns=BOUND_NS)


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[httpx.Client]:
    estimates = [
        LinkEstimate(link=link.name, a_uv_ns=10.0 * index, sigma_ns=1.0, bad=index >= 2,
                     delay_ab_ns=500.0, delay_ba_ns=100.0)
        for index, link in enumerate(world.links)
    ]  # fmt: skip
    with Store.open() as store:
        world.fill(store)
        newer = replace(world.corrections[0], bound_conditional_ns=BOUND_NS - 1)
        store.corrections.append([newer], estimates)
        store.spans.append(step_spans(world, job="train", step=0, times=TIMES))
        stranger = rank_span(
            world, job="odd", step=0, rank=1, start_ns=0, end_ns=9, host="stranger"
        )
        store.spans.append(
            [rank_span(world, job="odd", step=0, rank=0, start_ns=0, end_ns=9), stranger]
        )
        with served(store) as opened:
            yield opened


def get(client: httpx.Client, path: str) -> Any:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_timeline_shows_true_times(client: httpx.Client) -> None:
    """Corrected by exact corrections, each rank's track has its true start and end."""
    answer = get(client, "/v1/jobs/train/steps/0/timeline?width_px=32768")
    assert (answer["time"], answer["resolution_ns"], answer["spans"]) == ("corrected", 0, 4)
    found = {
        (track["rank"], item["span"]["name"]): (
            int(item["start_ns"]) - EPOCH_NS,
            int(item["end_ns"]) - EPOCH_NS,
        )
        for track in answer["tracks"]
        for item in track["items"]
    }
    assert {rank: times for (rank, name), times in found.items() if name == "allreduce"} == dict(
        enumerate(TIMES)
    )
    assert {item["bound_conditional_ns"] for item in answer["tracks"][1]["items"]} == {BOUND_NS}
    assert {item["bound_hard_ns"] for item in answer["tracks"][1]["items"]} == {10 * BOUND_NS}


@pytest.mark.parametrize("query", ["width_px=1", "width_px=40", "max_spans=1", "width_px=32768"])
def test_totals_are_the_same_at_every_width(client: httpx.Client, world: World, query: str) -> None:
    """Over HTTP: items add up to the track, tracks to the trace, whatever is merged."""
    path = f"/v1/traces/{world.ids[0][0]}/timeline"
    spans = get(client, f"/v1/traces/{world.ids[0][0]}")["spans"]
    answer = get(client, f"{path}?{query}")
    exact = get(client, f"{path}?width_px=32768&max_spans=50000")
    assert answer["spans"] == len(spans) == 32
    for track, whole in zip(answer["tracks"], exact["tracks"], strict=True):
        for name in ("spans", "busy_ns", "longest_ns", "total_ns"):
            assert track[name] == whole[name]
        assert sum(item["spans"] for item in track["items"]) == track["spans"]
        assert max(item["longest_ns"] for item in track["items"]) == track["longest_ns"]
    if query == "max_spans=1":
        assert {len(track["items"]) for track in answer["tracks"]} == {1}


def test_a_window_zooms_in(client: httpx.Client) -> None:
    """Only what touches [from, to] is in it; an empty window is refused."""
    query = f"from={EPOCH_NS + 5_010}&to={EPOCH_NS + 5_015}"
    answer = get(client, f"/v1/jobs/train/steps/0/timeline?{query}&width_px=10")
    assert sorted(track["rank"] for track in answer["tracks"]) == [0, 1, 2]  # 0: the root
    assert answer["spans"] == 3
    bad = client.get(f"/v1/jobs/train/steps/0/timeline?from={EPOCH_NS}&to={EPOCH_NS - 1}")
    assert (bad.status_code, bad.json()["detail"].partition(":")[0]) == (422, "to")


def test_spans_without_a_correction_are_named(client: httpx.Client) -> None:
    """In corrected time they are left out with the reason; raw, they are there; as of version 0
    several clocks are not drawn together."""
    path = "/v1/jobs/odd/steps/0/timeline"
    answer = get(client, path)
    assert answer["spans"] == 1
    assert [(item["clock_domain"], item["spans"]) for item in answer["left_out"]] == [
        ("stranger", 1)
    ]
    assert "no correction exists for clock stranger" in answer["left_out"][0]["reason"]
    raw = get(client, f"{path}?time=raw")
    assert (raw["time"], raw["spans"], raw["left_out"]) == ("raw", 2, [])
    assert raw["tracks"][0]["items"][0]["bound_conditional_ns"] is None
    assert client.get(f"{path}?as_of=0").status_code == 409


def test_asymmetries_have_an_interval_and_a_verdict(client: httpx.Client, world: World) -> None:
    """0, 10, 20, 30 ns with 1 ns of sigma against a limit of 20 ns."""
    answer = get(client, "/v1/fabric/asymmetry")
    links = answer["links"]
    assert [link["link"] for link in links] == [link.name for link in world.links]
    assert answer["limit_ns"] == 20.0
    assert [link["verdict"] for link in links[:4]] == [
        "symmetric", "symmetric", "undecided", "asymmetric",
    ]  # fmt: skip
    assert {link["a_uv_bound_conditional_ns"] for link in links} == {CONDITIONAL_SIGMAS}
    assert {link["a_uv_limit_hard_ns"] for link in links} == {300.0}
    assert all(0.998 < link["confidence"] < 1 for link in links)
    before = get(client, "/v1/fabric/asymmetry?as_of=0")["links"]
    assert {link["verdict"] for link in before} == {"unknown"}
    assert {link["a_uv_ns"] for link in before} == {None}


def test_paths_are_those_that_packets_took(client: httpx.Client, world: World) -> None:
    """Hosts, switches and cables of each flow; asymmetries summed in the direction of travel."""
    flows = get(client, "/v1/fabric/paths?limit=1000")["flows"]
    seen = {
        (flow["src_host"], flow["dst_host"], tuple(hop["node"] for hop in path["hops"]))
        for flow in flows
        for path in flow["paths"]
    }
    expected = {
        (src, dst, path[:3]) for (src, dst), path in zip(world.hosts, world.paths, strict=True)
    }
    assert seen == expected
    assert sum(path["packets"] for flow in flows for path in flow["paths"]) == 128
    position = {link.name: index for index, link in enumerate(world.links)}
    sender = {link.name: link.a for link in world.links}
    for flow in flows:
        for path in flow["paths"]:
            nodes = [flow["src_host"], *(hop["node"] for hop in path["hops"])]
            along = sum(
                (10.0 if sender[link] == node else -10.0) * position[link]
                for link, node in zip(path["links"], nodes, strict=True)
            )
            assert path["a_uv_ns"] == pytest.approx(along)
            assert path["a_uv_bound_conditional_ns"] == pytest.approx(4 * CONDITIONAL_SIGMAS)
    one = flows[0]
    by_name = get(client, f"/v1/fabric/paths?src={one['src_host']}&dst={one['dst_ip']}")["flows"]
    assert one in by_name
    assert all(flow["src_host"] == one["src_host"] for flow in by_name)
    assert get(client, "/v1/fabric/paths?traffic=ptp")["flows"] == []
    assert client.get("/v1/fabric/paths?src=nobody").status_code == 422


def test_a_clock_has_its_history(client: httpx.Client, world: World) -> None:
    """Two versions: the newer row is in force, the replaced one is not; as of 1 there is one."""
    clock = world.corrections[0].clock
    history = get(client, f"/v1/clocks/{clock}")["history"]
    assert [(row["since_version"], row["in_force"]) for row in history] == [(2, True), (1, False)]
    assert int(history[0]["offset_ns"]) == world.offset_ns[clock]
    (before,) = get(client, f"/v1/clocks/{clock}?as_of=1")["history"]
    assert (before["since_version"], before["in_force"]) == (1, True)
    assert client.get("/v1/clocks/h1%2Fsystem").status_code == 404


def test_the_command_line_reads_jobs(client: httpx.Client) -> None:
    """`job list`, `show` and `step` as tables, and --json as the API has it; what is not there is
    one line and exit 2."""
    url = ["--url", str(client.base_url)]
    runner = CliRunner(env={"COLUMNS": "200"})

    def run(*arguments: str) -> str:
        result = runner.invoke(app, ["job", *arguments, *url])
        assert result.exit_code == 0, result.output
        return result.output

    assert "train" in run("list")
    assert json.loads(run("list", "--json")) == get(client, "/v1/jobs?limit=50")
    shown = run("show", "train")
    assert "rank 2" in shown
    assert "0.006000" in shown
    assert json.loads(run("show", "train", "--json")) == get(client, "/v1/jobs/train/steps")
    step = run("step", "train", "0")
    assert "0:default_pg" in step
    assert "ended last: rank 2" in step
    assert json.loads(run("step", "train", "0", "--json")) == get(client, "/v1/jobs/train/steps/0")
    assert "more: --cursor " in run("list", "--limit", "1")
    refused = runner.invoke(app, ["job", "show", "none", *url])
    assert (refused.exit_code, "there is no job none" in refused.output) == (2, True)
