# SPDX-License-Identifier: Apache-2.0
"""Jobs over HTTP: steps, ranks and collectives of a job whose true times are known."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.imported import imported
from tests.support.job_world import STEP_NS, rank_span, step_spans
from tests.support.served import served
from tests.support.tracing_world import EPOCH_NS, World, build
from tracing_core.store import Store

BOUND_NS = 30
STRANGE = "train/7 ü?#%2F&=+ 語"
TIMES = [(0, 5_000), (300, 5_020), (900, 6_000), (10, 5_500)]
"""True (start, end) of four ranks: rank 2 is last by far; starts of 0 and 3 overlap in bounds."""
UNIX_US = 1_752_867_229_235_059


@pytest.fixture(scope="module")
def world() -> World:
    return build(41, transfers=2, bound_ns=BOUND_NS, flagged=("h7",))


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[httpx.Client]:
    with Store.open() as store:
        world.fill(store)
        spans = [
            span
            for step in range(5)
            for span in step_spans(world, job="train", step=step, times=TIMES)
        ]
        store.spans.append(spans[:9])  # a trace in two parts
        store.spans.append(spans[9:])
        store.spans.append(step_spans(world, job=STRANGE, step=0, times=TIMES[:2]))
        for tenant in ("alpha", "beta"):
            store.spans.append(
                step_spans(world, job="shared", step=1, times=TIMES[:1], tenant=tenant)
            )
        store.spans.append(_unclear(world))
        store.spans.append(_imported())
        with served(store) as opened:
            yield opened


def _unclear(world: World) -> list[Any]:
    """Step 0: a close finish. Step 1: one rank on a flagged clock. Step 2: one on no clock."""
    close = [rank_span(world, job="unclear", step=0, rank=r, start_ns=0, end_ns=5_000 + 20 * r)
             for r in range(2)]  # fmt: skip
    flagged = [rank_span(world, job="unclear", step=1, rank=r, start_ns=0, end_ns=5_000, host=host)
               for r, host in enumerate(("h1", "h7"))]  # fmt: skip
    unknown = [rank_span(world, job="unclear", step=2, rank=r, start_ns=0, end_ns=5_000, host=host)
               for r, host in enumerate(("h1", "stranger"))]  # fmt: skip
    on_one_host = [
        rank_span(world, job="unclear", step=3, rank=r, start_ns=0, end_ns=5_000 + r, host="h2")
        for r in range(8)
    ]
    return close + flagged + unknown + on_one_host


def _imported() -> list[Any]:
    options: dict[str, Any] = {"job": "files", "tenant": "alpha"}
    spans = []
    for rank in range(2):
        entry = {
            "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"],
            "collective_seq_id": 9, "p2p_seq_id": 0, "op_id": 1,
            "profiling_name": "nccl:all_reduce", "state": "completed", "is_p2p": False,
            "time_created_ns": UNIX_US * 1000, "time_discovered_completed_ns": UNIX_US * 1000 + 9,
        }  # fmt: skip
        recorder = {"version": "2.4", "entries": [entry, {**entry, "is_p2p": True, "op_id": 2}]}
        spans += imported(recorder, name=f"dump_{rank}", host=f"h{rank + 1}", **options)[0]
        kineto = {
            "schemaVersion": 1, "baseTimeNanoseconds": 0,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
            "traceEvents": [
                {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#12", "pid": 1,
                 "tid": 1, "ts": UNIX_US, "dur": 900},
                {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1,
                 "ts": UNIX_US + 10 + rank, "dur": 50,
                 "args": {"Process Group Name": "0", "Process Group Description": "default_pg",
                          "Seq": 21, "Collective name": "allreduce"}},
                {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1,
                 "ts": UNIX_US + 100, "dur": 50,
                 "args": {"Process Group Name": "0", "Process Group Description": "default_pg",
                          "Seq": 3, "Collective name": "send", "Dst Rank": 0}},
            ],
        }  # fmt: skip
        spans += imported(kineto, host=f"h{rank + 1}", **options)[0]
        inspector = {
            "header": {"id": "0xc", "rank": rank, "n_ranks": 2, "nnodes": 1},
            "metadata": {"hostname": f"h{rank + 1}", "pid": 7},
            "coll_perf": {
                "coll": "AllReduce", "coll_sn": 5, "coll_msg_size_bytes": 4096,
                "event_trace_ts": {
                    "coll_start_ts": UNIX_US, "coll_stop_ts": UNIX_US + 5,
                    "kernel_events": [{"channel_id": 0, "kernel_start_ts": UNIX_US + 9,
                                       "kernel_stop_ts": UNIX_US + 400}],
                },
            },
        }  # fmt: skip
        spans += imported(json.dumps(inspector).encode(), **options)[0]
    status = {
        "timestamp": "2025-12-19 13:06:53",
        "communicators": [{
            "hash": "0xae", "secondary_hash": "0xb7:0xb8", "size": 2,
            "ranks": [{"rank": 0, "host": "h1"}], "missing_ranks": [{"rank": 1, "host": "h2"}],
        }],
    }  # fmt: skip
    spans += imported(status, **options)[0]
    return spans


def get(client: httpx.Client, path: str) -> Any:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def test_jobs_are_summed_up(client: httpx.Client) -> None:
    """Ranks, steps and spans of each job, over traces that came in several parts."""
    jobs = {(item["tenant"], item["job"]): item for item in get(client, "/v1/jobs")["jobs"]}
    job = jobs["alpha", "train"]
    assert (job["ranks"], job["steps"], job["traces"], job["spans"]) == (4, 5, 5, 25)
    assert {tenant for tenant, name in jobs if name == "shared"} == {"alpha", "beta"}
    one = get(client, "/v1/jobs/train")
    assert (one["step_first"], one["step_last"], one["communicators"]) == (0, 4, 1)
    assert one["job"] == job


def test_jobs_that_began_last_come_first(client: httpx.Client) -> None:
    """The documented order, which the cursor keeps."""
    starts = [int(item["first_local_ns"]) for item in get(client, "/v1/jobs")["jobs"]]
    assert starts == sorted(starts, reverse=True)


def test_a_step_has_its_true_times_within_bounds(client: httpx.Client, world: World) -> None:
    """Corrected by exact corrections, the step's start, end and duration are the true ones; the
    root, which rank 0 reports for the whole step, is not taken for rank 0's time."""
    steps = get(client, "/v1/jobs/train/steps")["steps"]
    assert [step["step"] for step in steps] == [0, 1, 2, 3, 4]
    for step in steps:
        true_start = EPOCH_NS + step["step"] * STEP_NS
        assert (step["ranks"], step["spans"]) == (4, 5)
        assert int(step["start"]["time"]["corrected_reference_ns"]) == true_start
        assert int(step["end"]["time"]["corrected_reference_ns"]) == true_start + 6_000
        assert step["end"]["rank"] == 2
        assert int(step["end"]["time"]["raw_local_ns"]) == (
            true_start + 6_000 + world.offset_ns["h3"]
        )
        assert (step["duration_ns"], step["duration_bound_conditional_ns"]) == (6_000, 60)
        assert (step["end_spread_ns"], step["end_spread_bound_conditional_ns"]) == (1_000, 60)
        assert step["slowest"] == {
            "rank": 2, "verdict": "certain", "candidates": [2], "candidate_count": 1,
        }  # fmt: skip
        assert step["order"] == "within_bounds"  # ends of ranks 0 and 1 are 20 ns apart


def test_steps_can_begin_anywhere(client: httpx.Client) -> None:
    """`from` is the lowest step wanted."""
    steps = get(client, "/v1/jobs/train/steps?from=3")["steps"]
    assert [step["step"] for step in steps] == [3, 4]


def test_a_close_finish_is_undecided(client: httpx.Client) -> None:
    """20 ns apart with 30 ns on either side: both ranks are candidates."""
    step = get(client, "/v1/jobs/unclear/steps/0")["step"]
    assert step["slowest"] == {
        "rank": None, "verdict": "undecided", "candidates": [0, 1], "candidate_count": 2,
    }  # fmt: skip
    assert (step["end_spread_ns"], step["end_spread_bound_conditional_ns"]) == (20, 60)


@pytest.mark.parametrize(("step", "status"), [(1, "flagged"), (2, "unknown")])
def test_a_clock_that_is_not_determined_decides_nothing(
    client: httpx.Client, step: int, status: str
) -> None:
    """One such rank leaves the last one open, and the spread unknown: never zero."""
    answer = get(client, f"/v1/jobs/unclear/steps/{step}")
    assert answer["step"]["slowest"]["verdict"] == "undecided"
    assert answer["step"]["end_spread_ns"] is None
    assert answer["step"]["order"] == "unknown"
    assert answer["ranks"][1]["end"]["status"] == status


def test_ranks_of_one_host_are_ordered_by_its_clock(client: httpx.Client) -> None:
    """Eight ranks that end 1 ns apart on one clock: certain, whatever the bounds."""
    step = get(client, "/v1/jobs/unclear/steps/3")["step"]
    assert (step["slowest"]["rank"], step["order"]) == (7, "certain")
    assert (step["end_spread_ns"], step["end_spread_bound_conditional_ns"]) == (7, 0)


def test_a_step_whole(client: httpx.Client) -> None:
    """Every rank with its distance to the first and last, and the collective's entries."""
    answer = get(client, "/v1/jobs/train/steps/1")
    ranks = answer["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert [rank["end_before_last_ns"] for rank in ranks] == [1_000, 980, 0, 500]
    assert [rank["end_after_first_ns"] for rank in ranks] == [0, 20, 1_000, 500]
    assert [rank["end_before_last_bound_conditional_ns"] for rank in ranks] == [60, 60, 0, 60]
    assert {rank["end"]["bound_hard_ns"] for rank in ranks} == {10 * BOUND_NS}
    (collective,) = answer["collectives"]
    assert (collective["communicator"], collective["sequence"]) == ("0:default_pg", 1)
    assert [rank["enter_after_first_ns"] for rank in collective["ranks"]] == [0, 300, 900, 10]
    assert collective["last_to_enter"]["rank"] == 2
    assert collective["first_to_enter"]["candidates"] == [0, 3]
    assert collective["first_to_enter"]["rank"] is None
    assert answer["transfers"] == [f"/v1/traces/{answer['traces'][0]}/transfers"]
    timeline = get(client, answer["timeline"])
    assert timeline["spans"] == 5


def test_before_any_correction_nothing_is_decided(client: httpx.Client) -> None:
    """as_of=0 on every route of jobs: raw stamps stand alone."""
    answer = get(client, "/v1/jobs/train/steps/1?as_of=0")
    assert answer["correction_version"] == 0
    assert answer["step"]["slowest"]["candidate_count"] == 4
    assert answer["step"]["duration_ns"] is None
    assert answer["ranks"][0]["start"]["corrected_reference_ns"] is None


def test_ranks_and_one_rank(client: httpx.Client, world: World) -> None:
    """A rank's hosts, clocks and steps."""
    ranks = get(client, "/v1/jobs/train/ranks")["ranks"]
    assert [(item["rank"], item["places"][0]["host"]) for item in ranks] == [
        (0, "h1"), (1, "h2"), (2, "h3"), (3, "h4"),
    ]  # fmt: skip
    one = get(client, "/v1/jobs/train/ranks/2?limit=2")
    assert one["rank"]["places"][0]["steps"] == 5
    assert [step["step"] for step in one["steps"]] == [0, 1]
    assert one["steps"][0]["duration_raw_ns"] == 5_100
    assert int(one["steps"][0]["start"]["corrected_reference_ns"]) == EPOCH_NS + 900


def test_names_may_hold_any_character(client: httpx.Client) -> None:
    """A slash, percent signs and other scripts, percent-encoded as one segment."""
    name = quote(STRANGE, safe="")
    assert get(client, f"/v1/jobs/{name}")["job"]["job"] == STRANGE
    answer = get(client, f"/v1/jobs/{name}/steps/0")
    assert answer["job"] == STRANGE
    assert get(client, answer["timeline"])["spans"] == 3
    assert get(client, f"/v1/jobs/{name}/communicators/0%3Adefault_pg")["members"]
    assert client.get("/v1/jobs/train/7").status_code == 404
    bad = client.get("/v1/jobs/%FF%FE")
    assert bad.status_code == 422
    assert "percent-encoded" in bad.json()["detail"]


def test_a_job_of_two_tenants_asks_for_one(client: httpx.Client) -> None:
    """409 names the tenants; with one of them the answer is that tenant's."""
    response = client.get("/v1/jobs/shared/steps")
    assert response.status_code == 409
    assert "alpha, beta" in response.json()["detail"]
    assert get(client, "/v1/jobs/shared/steps?tenant=beta")["tenant"] == "beta"
    assert client.get("/v1/jobs/train?tenant=beta").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/none", "/v1/jobs/none/steps", "/v1/jobs/train/steps/99", "/v1/jobs/train/ranks/9",
        "/v1/jobs/train/communicators/none", "/v1/jobs/train/steps/99/timeline",
    ],
)  # fmt: skip
def test_what_a_job_does_not_have_is_a_404_problem(client: httpx.Client, path: str) -> None:
    """It says which of them is missing."""
    response = client.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert ("none" in response.text) or ("train has no" in response.text)


def test_recorders_and_profilers_speak_of_one_collective(client: httpx.Client) -> None:
    """Flight Recorder and Kineto name a process group alike; NCCL's have their hashes; what is
    numbered on its own (point to point) is no collective."""
    found = {
        item["communicator"]: item
        for item in get(client, "/v1/jobs/files/communicators")["communicators"]
    }
    assert set(found) == {"0:default_pg", "0xc", "0xae/0xb7:0xb8"}
    group = found["0:default_pg"]
    assert (group["ranks"], group["collectives"], group["unnumbered_spans"]) == (2, 2, 4)
    answer = get(client, f"/v1/jobs/files/communicators/{quote('0:default_pg', safe='')}")
    assert [item["sequence"] for item in answer["collectives"]] == [9, 21]
    assert [len(item["ranks"]) for item in answer["collectives"]] == [2, 2]
    assert answer["collectives"][1]["step"] == 12
    assert answer["collectives"][0]["last_to_enter"]["verdict"] == "undecided"
    assert [member["sequence_last"] for member in answer["members"]] == [21, 21]


def test_a_profiled_step_has_its_ranks(client: httpx.Client) -> None:
    """ProfilerStep#12 of two Kineto files is step 12 of the job, with both ranks' whole time."""
    answer = get(client, "/v1/jobs/files/steps/12")
    assert [rank["duration_raw_ns"] for rank in answer["ranks"]] == [900_000, 900_000]
    assert [rank["clock_domain"] for rank in answer["ranks"]] == ["h1/system", "h2/system"]
    (collective,) = answer["collectives"]
    assert collective["sequence"] == 21


def test_what_ras_says_of_ranks_is_shown(client: httpx.Client) -> None:
    """The status names a rank that is there and one that is missing; both hashes are the name."""
    answer = get(client, f"/v1/jobs/files/communicators/{quote('0xae/0xb7:0xb8', safe='')}")
    assert [(item["rank"], item["reported"]) for item in answer["members"]] == [
        (0, "present"), (1, "missing"),
    ]  # fmt: skip
