# SPDX-License-Identifier: Apache-2.0
"""States of a collector, made by feeding it, for tests of metrics and diagnoses."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controller.collector.batch import batch_of_payloads
from controller.collector.state import CollectorState, LastReports, Pairing, SampleRing
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.telemetry.collector import Collector, Destination
from tests.support.telemetry_reports import (
    COLLECTOR,
    PATH_HOPS,
    ReportSender,
    delayed,
    xd_postcard,
)

START_NS = 1_800_000_000_000_000_000
PACKET_INTERVAL_NS = 1_000_000
Payloads = Sequence[tuple[int, bytes]]


def small_fabric() -> Fabric:
    """leaf1 (node 1), spine1 (101) and leaf2 (2), cabled as `three_switch_fabric`."""
    return leaf_spine(leaves=2, spines=1, hosts_per_leaf=2)


def with_model(fabric: Fabric, **changes: object) -> Fabric:
    """The same fabric with another declaration of its switches' model."""
    name = fabric.switches[0].model
    models = tuple(
        replace(model, **changes) if model.name == name else model  # type: ignore[arg-type]
        for model in fabric.models
    )
    return replace(fabric, models=models)


def whole_paths(
    packets: int = 50, *, nodes: Iterable[int] = (1, 101, 2), units_per_ns: float = 1.0
) -> Payloads:
    """(capture time, payload) of postcards of these nodes, one packet a millisecond."""
    sender = ReportSender()
    wanted = set(nodes)
    found = []
    for number in range(packets):
        now_ns = START_NS + number * PACKET_INTERVAL_NS
        later = round(number * PACKET_INTERVAL_NS * units_per_ns)
        for node_id, values in PATH_HOPS:
            if node_id in wanted:
                postcard = xd_postcard(delayed(values, later), psn=number)
                found.append((now_ns, sender.payload(node_id, 1, postcard)))
    return found


def state_of(
    payloads: Payloads,
    fabric: Fabric,
    *,
    age_s: float = 1000.0,
    destination: Destination = COLLECTOR,
) -> CollectorState:
    """What a collector that has run for so long tells after these reports."""
    collector = Collector(fabric)
    ring = SampleRing(per_batch=10_000, interval_ns=0)
    for captured_ns, payload in payloads:
        collector.feed_payload(payload, captured_ns, destination)
    if payloads:
        ring.take(batch_of_payloads([item[1] for item in payloads], [item[0] for item in payloads]))
    collection = collector.flush()
    now_ns = payloads[-1][0] if payloads else START_NS
    return CollectorState(
        run="r1",
        started_collector_ns=now_ns - round(age_s * 1e9),
        now_collector_ns=now_ns,
        counters=collection.counters,
        pairing=Pairing().with_collection(collection),
        last_report_ns=LastReports().see(collection.counters, now_ns),
        samples=ring.samples,
        rejected_samples=collector.rejected_samples,
    )
