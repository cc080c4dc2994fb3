# SPDX-License-Identifier: Apache-2.0
"""One example answer per route for the OpenAPI document, made from the schemas themselves."""

from typing import Any

from pydantic import BaseModel

from tracing_core.clock_evidence import EvidenceStatus
from tracing_core.service import schemas

EPOCH_NS = 1_800_000_000_000_000_000
TRACE_ID = "5b8efff798038103d269b633813fc60c"
SEND_ID, RECV_ID = "eee19b7ec3c1b174", "0f1e2d3c4b5a6978"

_INSTANT = schemas.Instant(
    raw_local_ns=EPOCH_NS + 412,
    corrected_reference_ns=EPOCH_NS + 37,
    bound_hard_ns=310,
    bound_conditional_ns=21,
    status="synchronised",
    method="ptp_residence",
    reason="",
)
_SPAN = schemas.SpanAnswer(
    tenant="alpha",
    trace_id=TRACE_ID,
    span_id=SEND_ID,
    parent_span_id="",
    name="rdma.send",
    kind="producer",
    host="h3",
    service="trainer",
    clock_domain="h3",
    start=_INSTANT,
    end=_INSTANT,
    duration_raw_ns=11_200,
    attributes={"rdma.bytes": 8192},
    resource={"host.name": "h3"},
    events=[schemas.Event(name="nic.tx_first", time=_INSTANT, attributes={})],
    status_code=0,
    status_message="",
)
_LINK = schemas.LinkItem(
    name="leaf1-spine2",
    a="leaf1",
    a_port=2,
    b="spine2",
    b_port=1,
    rate_bps=100_000_000_000,
    access=False,
    a_uv_ns=183.2,
    sigma_ns=1.4,
    bad=True,
    delay_ab_ns=512.0,
    delay_ba_ns=145.6,
    samples_ab=214,
    samples_ba=198,
)
_CORRECTION = schemas.CorrectionRow(
    valid_from_local_ns=EPOCH_NS,
    valid_to_local_ns=EPOCH_NS + 1_000_000_000,
    anchor_local_ns=EPOCH_NS + 500_000_000,
    offset_ns=375,
    rate_ppb=-2.5,
    bound_hard_ns=310,
    bound_conditional_ns=21,
    method="ptp_residence",
    status="synchronised",
    reason="",
    ptp_offset_ns=-3,
    window_index=5,
)
_TRANSFER = schemas.TransferItem(
    tenant="alpha",
    trace_id=TRACE_ID,
    send_span_id=SEND_ID,
    recv_span_id=RECV_ID,
    job="job-alpha",
    step=4,
    sender="h3",
    receiver="h5",
    bytes=8192,
    latency_raw_ns=38_310,
    latency_corrected_ns=38_702,
    latency_bound_conditional_ns=44.0,
    usual_ns=6_950.0,
    excess_ns=31_752.0,
    spread_ns=240.0,
    slow=True,
)
_COMPONENT = schemas.ComponentItem(
    kind="hop",
    entity="spine2 port 5 queue 1",
    entity_id="spine2:5",
    value_ns=32_410.0,
    bound_conditional_ns=0.0,
    usual_ns=690.0,
    spread_ns=55.0,
    samples=180,
    excess_ns=31_720.0,
    excess_bound_ns=0.0,
    clocks=["spine2"],
    notes=["queue depth 47 packets at dequeue"],
)
_PAIR = schemas.PairItem(
    rule="parent_start",
    trace_id=TRACE_ID,
    first_span_id=SEND_ID,
    second_span_id=RECV_ID,
    first_clock="h3",
    second_clock="h5",
    raw_gap_ns=-210,
    corrected_gap_ns=2_640,
    bound_ns=44.0,
    raw_inverted=True,
    verdict="before_time",
)

_VERSION = 3
HEALTH = schemas.Health(
    correction_version=_VERSION,
    status="ok",
    spans=12_508,
    packets=18_240,
    hops=55_100,
    otlp_requests=25,
    otlp_spans_accepted=12_508,
    otlp_spans_rejected=0,
    requests_refused=0,
)
CLOCKS = schemas.ClockList(
    correction_version=_VERSION,
    prior="fewer than half of every cut's links are bad",
    clocks=[
        schemas.ClockItem(
            clock="h3",
            kind="nic",
            node_id=0,
            centre=_CORRECTION,
            corrections=[_CORRECTION],
            corrections_in_force=139,
        )
    ],
)
LINKS = schemas.LinkList(correction_version=_VERSION, links=[_LINK])
FABRIC = schemas.Fabric(
    correction_version=_VERSION,
    nodes=[
        schemas.NodeItem(name="leaf1", kind="switch", node_id=1, ip="", status="synchronised"),
        schemas.NodeItem(name="spine2", kind="switch", node_id=102, ip="", status="flagged"),
    ],
    links=[_LINK],
)
TRACES = schemas.TraceList(
    correction_version=_VERSION,
    traces=[
        schemas.TraceItem(
            tenant="alpha",
            trace_id=TRACE_ID,
            root_name="step",
            start_local_ns=EPOCH_NS,
            end_local_ns=EPOCH_NS + 412_000_000,
            span_count=521,
            hosts=["h1", "h3", "h5"],
            job="job-alpha",
            step=4,
        )
    ],
)
TRACE = schemas.TraceAnswer(correction_version=_VERSION, trace_id=TRACE_ID, spans=[_SPAN])
TRANSFERS = schemas.TransferList(correction_version=_VERSION, transfers=[_TRANSFER])
SLOW_TRANSFERS = schemas.SlowTransferList(
    correction_version=_VERSION, total=1, compared=6_144, transfers=[_TRANSFER]
)
ATTRIBUTION = schemas.AttributionAnswer(
    correction_version=_VERSION,
    transfer=_TRANSFER,
    kind="hop",
    entity="spine2 port 5 queue 1",
    entity_id="spine2:5",
    side="",
    share=0.99,
    reason="spine2 port 5 queue 1 took 31720 ns more than usual (± 165 ns), 99% of the excess",
    evidence=["path of the transfer's last packet"],
    components=[_COMPONENT],
    clock_status={"h3": "synchronised", "spine2": "synchronised", "h5": "synchronised"},
)
INVERSIONS = schemas.Inversions(
    correction_version=_VERSION,
    pairs=12_288,
    raw=1_240,
    corrected=0,
    undecided=3,
    invalid=0,
    left_out=0,
    artefacts=0,
    examples=[_PAIR],
)
CLOCK_EVIDENCE = schemas.ClockEvidenceList(
    correction_version=_VERSION,
    clocks=[
        schemas.ClockEvidenceItem(
            clock="h3",
            status=EvidenceStatus.OFF,
            against="h1",
            offset_earliest_ns=3_999_600_000,
            offset_latest_ns=4_000_400_000,
            pair_count=1_240,
        )
    ],
)
SUMMARY = schemas.Summary(
    correction_version=_VERSION,
    spans=12_508,
    packets=18_240,
    hops=55_100,
    clocks=schemas.ClockSummary(
        total=28,
        by_status={"synchronised": 28},
        bound_conditional_ns_median=21.0,
        bound_hard_ns_median=310.0,
    ),
    links=schemas.LinkSummary(fabric=32, asymmetric_found=3),
    inversions=schemas.InversionSummary(raw=1_240, corrected=0, undecided=3, left_out=0),
    transfers=6_144,
    transfers_slow=20,
)

EXPORT = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "h3"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "trainer"},
                    "spans": [
                        {
                            "traceId": TRACE_ID,
                            "spanId": SEND_ID,
                            "name": "rdma.send",
                            "kind": 4,
                            "startTimeUnixNano": str(EPOCH_NS + 37),
                            "endTimeUnixNano": str(EPOCH_NS + 11_237),
                        }
                    ],
                }
            ],
        }
    ]
}
"""OTLP/JSON, without the attributes that tell raw stamps and bounds."""


def shown(example: BaseModel) -> dict[int | str, dict[str, Any]]:
    """The `responses` argument of a route that shows this example."""
    return {200: {"content": {"application/json": {"example": example.model_dump(mode="json")}}}}
