# SPDX-License-Identifier: Apache-2.0
"""Exports show corrected time with its interval, keep raw time beside it, and refuse to guess."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.imported import imported
from tests.support.perfetto_proto import PerfettoTrace
from tests.support.tracing_world import EPOCH_NS, build
from tracing_core.clock_domains import RESOURCE_CLOCK_QUANTUM_NS
from tracing_core.corrections import CorrectionTable
from tracing_core.export import (
    NothingComparableError,
    TimeLine,
    chrome_trace,
    for_picture,
    otlp_trace,
    perfetto_trace,
    place,
    time_attributes,
)
from tracing_core.export.tracks import lanes
from tracing_core.model import ClockStatus, Correction, Span, SpanEvent, SpanKind, SpanLink
from tracing_core.otlp import decode_request
from tracing_core.otlp.encode import encode_spans


def span(number=1, clock="h1", start=EPOCH_NS, length=1000, parent="", **changed):
    return Span(**{
        "tenant": "a", "trace_id": "1" * 32, "span_id": f"{number:016x}",
        "parent_span_id": parent, "name": f"s{number}", "kind": SpanKind.INTERNAL,
        "start_local_ns": start, "end_local_ns": start + length, "clock_domain": clock,
        "host": clock, "service": "trainer", **changed,
    })  # fmt: skip


def correction(clock="h1", offset=500, bound=30, **changed):
    return Correction(**{
        "clock": clock, "valid_from_local_ns": 0, "valid_to_local_ns": 2**62,
        "anchor_local_ns": EPOCH_NS, "offset_ns": offset, "rate_ppb": 0.0,
        "bound_hard_ns": 10 * bound, "bound_conditional_ns": bound, "method": "m", "prior": "p",
        "status": ClockStatus.SYNCHRONISED, **changed,
    })  # fmt: skip


def table(*rows):
    return CorrectionTable([(1, row) for row in rows], version=1)


def test_start_end_and_events_move_together():
    """A clock 500 ns ahead: everything moves back by 500 ns, and the duration stays."""
    one = span(events=(SpanEvent(name="e", time_local_ns=EPOCH_NS + 7),))
    (placed,) = place([one], table(correction()))
    assert (placed.start_ns, placed.end_ns) == (EPOCH_NS - 500, EPOCH_NS + 500)
    assert placed.instant_ns(EPOCH_NS + 7) == EPOCH_NS - 493
    assert placed.corrected


def test_a_rate_error_is_taken_out_of_long_spans():
    """On a clock 1000 ppb fast, a span of 10 s really lasts 10 us less."""
    (placed,) = place([span(length=10**10)], table(correction(rate_ppb=1000.0)))
    assert placed.end_ns - placed.start_ns == 10**10 - 10**4


def test_a_span_across_two_rows_never_becomes_negative():
    """Rows that differ by more than the span is long: its raw duration is kept."""
    rows = (
        correction(valid_to_local_ns=EPOCH_NS + 5, offset=500),
        correction(valid_from_local_ns=EPOCH_NS + 5, offset=800),
    )
    (placed,) = place([span(length=10)], table(*rows))
    assert placed.end_ns - placed.start_ns == 10


def test_the_interval_widens_by_the_stamps_resolution():
    """A microsecond stamp may be off by a microsecond, whatever the clock's bound."""
    plain = time_attributes(place([span()], table(correction()))[0])
    coarse = time_attributes(
        place([span(resource={RESOURCE_CLOCK_QUANTUM_NS: 1000})], table(correction()))[0]
    )
    key = "tempotrace.start.earliest_reference_ns"
    assert plain[key] == EPOCH_NS - 500 - 30
    assert coarse[key] == plain[key] - 1000


def test_unknown_is_left_out_and_explained_never_zero():
    """No corrected value, no bound, no interval; the reason stands there."""
    found = time_attributes(place([span(clock="h9")], table(correction()))[0])
    assert found["tempotrace.time.status"] == "unknown"
    assert "no correction exists for clock h9" in found["tempotrace.time.reason"]
    assert not [key for key in found if "bound" in key or "reference" in key]
    assert found["tempotrace.start.raw_local_ns"] == EPOCH_NS


@pytest.mark.parametrize("status", [ClockStatus.DISRUPTED, ClockStatus.UNKNOWN])
def test_a_void_row_places_nothing(status):
    """Its value means nothing: the raw stamp stays, marked."""
    (placed,) = place([span()], table(correction(status=status)))
    assert not placed.corrected
    assert placed.start_ns == EPOCH_NS
    assert "tempotrace.start.corrected_reference_ns" not in time_attributes(placed)


def test_an_unbounded_correction_has_no_interval():
    """A bound of None is infinite, so there is neither an earliest nor a latest instant."""
    row = correction(status=ClockStatus.FLAGGED)
    row = replace(row, bound_hard_ns=None, bound_conditional_ns=None)
    found = time_attributes(place([span()], table(row))[0])
    assert found["tempotrace.start.corrected_reference_ns"] == EPOCH_NS - 500
    assert not [key for key in found if "bound" in key or "earliest" in key]


def test_a_picture_leaves_out_what_is_not_corrected_and_says_so():
    """Half the clocks corrected: the others are counted by clock, with the reason."""
    placed = place([span(1), span(2, "h2"), span(3, "h2")], table(correction()))
    shown, left_out = for_picture(placed, TimeLine.CORRECTED)
    assert [item.span.name for item in shown] == ["s1"]
    assert [(item.clock, item.span_count) for item in left_out] == [("h2", 2)]
    document = json.loads(chrome_trace(shown, left_out))
    assert document["otherData"]["left_out"][0]["reason"].startswith("no correction exists")


def test_several_clocks_without_any_correction_are_not_merged():
    """The picture would be believable and false; raw time has to be asked for."""
    placed = place([span(1), span(2, "h2")], table())
    with pytest.raises(NothingComparableError, match="h1, h2"):
        for_picture(placed, TimeLine.CORRECTED)
    assert len(for_picture(placed, TimeLine.RAW)[0]) == 2


def test_one_clock_alone_is_comparable_with_itself():
    """Its order needs no correction; its name says that it is not corrected."""
    placed = place([span(1), span(2)], table())
    shown, left_out = for_picture(placed, TimeLine.CORRECTED)
    assert (len(shown), left_out) == (2, [])
    names = [e for e in json.loads(chrome_trace(shown, []))["traceEvents"] if e["ph"] == "M"]
    assert "NOT CORRECTED" in names[0]["args"]["name"]


def test_chrome_trace_keeps_nanoseconds_and_nesting():
    """ts counts from the earliest span in microseconds with three decimals; flows cross clocks."""
    spans = [
        span(1), span(2, start=EPOCH_NS + 1, length=10, parent=f"{1:016x}"),
        span(3, "h2", start=EPOCH_NS + 400, length=20, parent=f"{1:016x}"),
    ]  # fmt: skip
    placed = place(spans, table(correction(offset=0), correction("h2", offset=100)))
    events = json.loads(chrome_trace(placed, []))["traceEvents"]
    slices = {e["name"]: e for e in events if e["ph"] == "X"}
    assert (slices["s2"]["ts"], slices["s2"]["dur"]) == (0.001, 0.01)
    assert slices["s3"]["ts"] == 0.3
    assert slices["s1"]["pid"] == slices["s2"]["pid"] != slices["s3"]["pid"]
    assert slices["s1"]["tid"] == slices["s2"]["tid"]
    assert slices["s3"]["args"]["tempotrace.start.raw_local_ns"] == str(EPOCH_NS + 400)
    flows = [(e["ph"], e["pid"], e["ts"]) for e in events if e["ph"] in "sf"]
    assert flows == [("s", slices["s1"]["pid"], 0.3), ("f", slices["s3"]["pid"], 0.3)]


def test_a_chrome_export_can_be_imported_again():
    """Names, durations and nesting survive; times are relative, as the file says."""
    world = build(3, transfers=20)
    placed = place(world.spans, table(*world.corrections))
    spans, report = imported(chrome_trace(placed, []))
    assert (len(spans), report.format) == (40, "chrome")
    # durations in the file are microseconds with three decimals: exact
    assert sorted(s.end_local_ns - s.start_local_ns for s in spans) == sorted(
        p.end_ns - p.start_ns for p in placed
    )


def test_perfetto_reads_back_to_the_nanosecond():
    """Google's protobuf library finds every slice at its instant, closed, on a declared track."""
    world = build(3, transfers=20)
    placed = place(world.spans, table(*world.corrections))
    trace = PerfettoTrace.FromString(perfetto_trace(placed, []))
    tracks = {p.track_descriptor.uuid for p in trace.packet if p.HasField("track_descriptor")}
    events = [p for p in trace.packet if p.HasField("track_event")]
    begins = [p for p in events if p.track_event.type == 1]
    ends = [p for p in events if p.track_event.type == 2]
    assert sorted(p.timestamp for p in begins) == sorted(p.start_ns for p in placed)
    assert sorted(p.timestamp for p in ends) == sorted(p.end_ns for p in placed)
    assert {p.track_event.track_uuid for p in events} <= tracks
    assert all(p.trusted_packet_sequence_id for p in trace.packet)
    first = {a.name: a for a in begins[0].track_event.debug_annotations}
    assert first["tempotrace.start.bound_conditional_ns"].int_value == 30
    out = [flow for p in begins for flow in p.track_event.flow_ids]
    into = [flow for p in begins for flow in p.track_event.terminating_flow_ids]
    assert sorted(out) == sorted(into)
    assert len(out) == 20  # each rdma.recv has its rdma.send on another host


def test_perfetto_values_keep_their_types():
    """Nested attributes become dictionaries and arrays."""
    one = span(attributes={"d": {"x": (1, 2.5, True, "t", None)}, "big": 2**60})
    trace = PerfettoTrace.FromString(perfetto_trace(place([one], table()), []))
    (event,) = [p.track_event for p in trace.packet if p.track_event.type == 1]
    found = {a.name: a for a in event.debug_annotations}
    values = found["d"].dict_entries[0].array_values
    assert found["d"].dict_entries[0].name == "x"
    assert [v.int_value for v in values][:1] == [1]
    assert (values[1].double_value, values[2].bool_value, values[3].string_value) == (
        2.5, True, "t",
    )  # fmt: skip
    assert found["big"].string_value == str(2**60)


def test_a_corrected_otlp_export_is_not_corrected_twice():
    """Its spans leave their clock domain, so that a receiver that corrects leaves them alone."""
    placed = place([span(resource={"tempotrace.clock.domain": "h1"})], table(correction()))
    (again,), _ = imported(otlp_trace(placed))
    assert again.start_local_ns == EPOCH_NS - 500
    assert again.clock_domain == ""
    assert again.resource["tempotrace.clock.source"] == "h1"
    assert again.attributes["tempotrace.start.raw_local_ns"] == EPOCH_NS


def test_a_raw_otlp_export_is_what_came_in():
    """time=raw changes no stamp and keeps the clock; corrected time stands in attributes."""
    original = span(resource={"tempotrace.clock.domain": "h1"})
    placed = place([original], table(correction()), TimeLine.RAW)
    (again,), _ = imported(otlp_trace(placed))
    assert (again.start_local_ns, again.end_local_ns) == (EPOCH_NS, EPOCH_NS + 1000)
    assert again.clock_domain == "h1"
    assert again.attributes["tempotrace.start.corrected_reference_ns"] == EPOCH_NS - 500


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=30))
def test_spans_of_a_lane_nest_or_do_not_overlap(times):
    """For any spans: each is in one lane, and begins and ends there like brackets."""
    spans = [span(i + 1, start=EPOCH_NS + s, length=d) for i, (s, d) in enumerate(times)]
    placed = place(spans, table())
    found = lanes(placed)
    assert sorted(p.span.span_id for lane in found for p in lane) == [s.span_id for s in spans]
    for lane in found:
        ends = []
        for item in lane:
            while ends and ends[-1] <= item.start_ns:
                ends.pop()
            assert not ends or item.end_ns <= ends[-1]
            ends.append(item.end_ns)


def test_encoded_spans_read_back_as_they_were():
    """Protobuf and back: every kind of attribute, events, links, status, and what stands in the
    resource although the span object carries it."""
    one = span(
        attributes={
            "s": "t", "i": -5, "f": 0.5, "b": True, "y": b"\x00", "n": None, "a": (1, "x", (2,)),
            "m": {"k": {"l": 1}},
        },
        events=(SpanEvent(name="e", time_local_ns=EPOCH_NS, attributes={"k": 1}),),
        links=(SpanLink(trace_id="2" * 32, span_id="3" * 16, flags=1, attributes={"r": "x"}),),
        status_code=2, status_message="bad", trace_state="a=b", flags=0x101, scope_name="scope",
        scope_version="1", resource={"extra": "x"},
    )  # fmt: skip
    other = span(2, clock="h2", resource=one.resource)
    body = encode_spans([one, other]).SerializeToString()
    again, second = decode_request(body, "application/x-protobuf").spans
    assert replace(again, resource={}) == replace(one, resource={})
    assert again.resource == {
        "extra": "x", "service.name": "trainer", "host.name": "h1",
        "tempotrace.clock.domain": "h1", "tempotrace.tenant": "a",
    }  # fmt: skip
    assert (second.clock_domain, second.host) == ("h2", "h2")


def test_a_correction_that_leads_before_1970_places_nothing():
    """No format holds such an instant: the span stays raw, and events never go below zero."""
    row = correction(offset=EPOCH_NS + 5)
    early = span(events=(SpanEvent(name="e", time_local_ns=0),))
    (placed,) = place([early], table(row))
    assert not placed.corrected
    shifted = place([early], table(correction(offset=500)))
    for items in ([placed], shifted):
        again, _ = imported(otlp_trace(items))
        assert again[0].events[0].time_local_ns == 0
        json.loads(chrome_trace(items, []))
        PerfettoTrace.FromString(perfetto_trace(items, []))


def test_stamps_of_an_unknown_clock_are_never_compared():
    """No name may be one clock or many, so even alone it makes no picture of corrected time."""
    with pytest.raises(NothingComparableError, match="unknown clock"):
        for_picture(place([span(clock="")], table()), TimeLine.CORRECTED)


def test_spans_that_follow_each_other_share_a_lane():
    """One ends where the next begins: that is no overlap."""
    spans = [span(1, length=5), span(2, start=EPOCH_NS + 5, length=4)]
    assert [len(lane) for lane in lanes(place(spans, table()))] == [2]


@pytest.mark.parametrize(("child_ns", "arrow_us"), [(-50, 0.05), (20, 0.07), (500, 0.15)])
def test_an_arrow_begins_inside_its_parent(child_ns, arrow_us):
    """Viewers drop arrows that begin outside of a slice: it is drawn from the nearer edge."""
    spans = [
        span(1, start=EPOCH_NS, length=100),
        span(2, "h2", start=EPOCH_NS + child_ns, length=5, parent=f"{1:016x}"),
        span(3, start=EPOCH_NS - 50, length=1),  # the origin
    ]
    placed = place(spans, table(correction(offset=0), correction("h2", offset=0)))
    events = json.loads(chrome_trace(placed, []))["traceEvents"]
    assert [e["ts"] for e in events if e["ph"] == "s"] == [arrow_us]
