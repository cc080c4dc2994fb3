# SPDX-License-Identifier: Apache-2.0
"""Any damage to a file of any format gives spans that can be sent, refusals, or an error: never
anything else."""

import copy
import json
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.imported import imported
from tracing_core.corrections import CorrectionTable
from tracing_core.export import TimeLine, chrome_trace, otlp_trace, perfetto_trace, place
from tracing_core.export.jaeger import jaeger_trace
from tracing_core.otlp import decode_request
from tracing_core.otlp.batches import encoded_requests

US = 1_700_000_000_000_000
DOCUMENTS = {
    "kineto": {
        "schemaVersion": 1, "baseTimeNanoseconds": US * 1000, "distributedInfo": {"rank": 3},
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1,
             "ts": 10, "dur": 500.5, "args": {"Input Dims": [[1, 2], []]}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1,
             "ts": 30, "dur": 90, "args": {"correlation": 2}},
            {"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 1, "tid": 1, "ts": 20,
             "dur": 5, "args": {"correlation": 1}},
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 29.25, "dur": 9,
             "args": {"correlation": 1, "device": 0}},
        ],
    },
    "chrome": [
        {"ph": "B", "name": "a", "pid": 1, "tid": 1, "ts": 5},
        {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 6, "dur": 1.5, "args": {"n": 1}},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 9},
        {"ph": "b", "cat": "c", "id": 4, "name": "d", "pid": 1, "ts": 7},
        {"ph": "e", "cat": "c", "id": 4, "name": "d", "pid": 1, "ts": 8},
    ],
    "jaeger": {"data": [{
        "traceID": "a1", "processes": {"p": {"serviceName": "s", "tags": [
            {"key": "hostname", "type": "string", "value": "h"}]}},
        "spans": [{"traceID": "a1", "spanID": "b2", "operationName": "o", "startTime": US,
                   "duration": 5, "processID": "p", "tags": [{"key": "k", "value": 1}],
                   "references": [{"refType": "CHILD_OF", "traceID": "a1", "spanID": "c3"}],
                   "logs": [{"timestamp": US, "fields": [{"key": "event", "value": "e"}]}]}],
    }]},
    "zipkin": [{"traceId": "a1", "id": "b2", "parentId": "c3", "name": "n", "kind": "SERVER",
                "timestamp": US, "duration": 5, "localEndpoint": {"serviceName": "s",
                "ipv4": "10.0.0.1"}, "tags": {"error": "x"}, "shared": True,
                "annotations": [{"timestamp": US + 1, "value": "v"}]}],
    "inspector": {
        "header": {"id": "c", "rank": 0, "n_ranks": 2}, "metadata": {"hostname": "h", "pid": 1},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 5,
                      "event_trace_ts": {"coll_start_ts": US, "coll_stop_ts": US + 1,
                      "kernel_events": [{"channel_id": 0, "kernel_start_ts": US + 2,
                                         "kernel_stop_ts": US + 9}]}},
    },
    "ras": {"timestamp": "2025-12-19 13:06:53", "communicators": [
        {"hash": "0x1", "secondary_hash": "0x2", "size": 2, "ranks": [{"rank": 0, "host": "a"}],
         "missing_ranks": [{"rank": 1}]}]},
    "flight": {"version": "2.4", "pg_config": {}, "entries": [
        {"process_group": ["0", "d"], "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1,
         "profiling_name": "n", "time_created_ns": US * 1000, "state": "completed",
         "time_discovered_started_ns": US * 1000 + 5, "is_p2p": False,
         "time_discovered_completed_ns": US * 1000 + 9,
         "frames": [{"name": "f", "filename": "x.py", "line": 3}]}]},
    "otlp": {"resourceSpans": [{"resource": {"attributes": [
        {"key": "tempotrace.clock.domain", "value": {"stringValue": "h1"}}]}, "scopeSpans": [
        {"scope": {"name": "s"}, "spans": [{"traceId": "a" * 32, "spanId": "b" * 16, "name": "n",
         "kind": 1, "startTimeUnixNano": str(US * 1000), "endTimeUnixNano": str(US * 1000 + 5),
         "attributes": [{"key": "k", "value": {"intValue": "5"}}]}]}]}]},
}  # fmt: skip
ODD = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=9)
    | st.sampled_from(["", "0", "-1", "1e400", "٣", "nan", "9" * 30, "a" * 33, "\ud800"])
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)  # fmt: skip


def paths(value, prefix=()):
    """Where every value of a document stands, the document itself left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*prefix, key)
        if isinstance(item, dict | list):
            yield from paths(item, (*prefix, key))


def changed(document, path, value, *, drop: bool):
    """A copy with one value replaced or removed."""
    copied = copy.deepcopy(document)
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    if drop:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return copied


def check(content: bytes) -> None:
    """Imports, and sends and exports whatever came out of it."""
    spans, report = imported(content, name="trace_1")
    assert report.span_count == len(spans)
    sent = [
        span
        for _, body in encoded_requests(spans)
        for span in decode_request(body, "application/x-protobuf").spans
    ]
    assert len(sent) == len(spans)  # the service refuses none of them
    placed = place(spans, CorrectionTable((), version=0), TimeLine.RAW)
    json.loads(chrome_trace(placed, []))
    json.loads(otlp_trace(placed))
    json.dumps(jaeger_trace(placed, TimeLine.RAW), allow_nan=False).encode()
    perfetto_trace(placed, [])


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_one_odd_value_anywhere(name, data):
    """Another type, a huge number, odd text or nothing at all, at any place of the document."""
    document = DOCUMENTS[name]
    path = data.draw(st.sampled_from(sorted(paths(document), key=str)))
    damaged = changed(document, path, data.draw(ODD), drop=data.draw(st.booleans()))
    check(json.dumps(damaged).encode())
    if name == "flight":
        check(pickle.dumps(damaged))


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_bytes_cut_or_changed(name, data):
    """Truncation at any length, and any byte changed to any other."""
    content = bytearray(json.dumps(DOCUMENTS[name]).encode())
    place_ = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:place_]
    else:
        content[place_] = data.draw(st.integers(0, 255))
    check(bytes(content))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_sound_documents_are_taken_whole(name):
    """The property above is not about empty files: each document gives spans."""
    spans, report = imported(DOCUMENTS[name], name="trace_1")
    assert spans
    assert (report.error, report.refused.total()) == ("", 0)
    check(json.dumps(DOCUMENTS[name]).encode())
