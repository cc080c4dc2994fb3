# SPDX-License-Identifier: Apache-2.0
"""A device that speaks another profile than declared is found out by its rejected reports."""

from dataclasses import replace

import pytest

from controller.telemetry.collector import Collector
from controller.telemetry.detect import detect_profiles
from controller.telemetry.profiles import DIALECTS, STANDARD
from controller.telemetry.rejected import SAMPLE_BYTES_MAX, SAMPLES_PER_NODE
from tests.support.report_vectors import (
    CABLELABS,
    DIALECT_VECTORS,
    GEANT_BMV2,
    GEANT_TOFINO,
    INTEL,
    V05_LOCAL,
    V05_STACK,
    V1_STACK,
    VECTORS,
)
from tests.support.telemetry_reports import (
    LEAF2,
    ReportSender,
    sink_postcard,
    stack_report,
    three_switch_fabric,
)

_NOW_NS = 1_800_000_000_000_000_000


def _fabric(dialect=STANDARD.name):
    fabric = three_switch_fabric(stamp_width_bits=32)
    nodes = {
        node_id: replace(node, dialect=DIALECTS[dialect]) for node_id, node in fabric.nodes.items()
    }
    return replace(fabric, nodes=nodes)


@pytest.mark.parametrize(
    ("vector", "profiles"),
    [
        (V1_STACK, ["telemetry-report-v1.0"]),
        (V05_STACK, ["telemetry-report-v0.5", "stratum-fabric-tna"]),
        (V05_LOCAL, ["telemetry-report-v0.5", "stratum-fabric-tna"]),
        (CABLELABS, ["cablelabs-transparent-security"]),
        (GEANT_BMV2, ["geant-bmv2"]),
        (GEANT_TOFINO, ["geant-tofino"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_profile_of_rejected_reports_is_named(vector, profiles):
    """Profiles that read the reports alike come together, the plainest first."""
    matches = detect_profiles([vector.wire] * 5, _fabric())
    assert [match.profile for match in matches] == profiles
    assert {(match.decoded, match.of) for match in matches} == {(5, 5)}
    assert matches[0].evidence[0] == "5 of 5 payloads decode whole"
    assert all(str(node) in matches[0].evidence[1] for node in {vector.node_id, 101})


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_no_other_profile_than_the_senders_is_named(vector):
    """The sender's own is among those that are named, or its reports are ambiguous."""
    matches = detect_profiles([vector.wire] * 3, _fabric())
    names = [match.profile for match in matches]
    assert not names or vector.dialect in names


def test_what_two_profiles_read_differently_is_ambiguous():
    """hw_id 3 and 12: nothing in the report says which, so nothing is said."""
    assert detect_profiles([INTEL.wire], _fabric()) == []


def test_damaged_reports_among_them_do_not_hide_the_profile():
    """More than half must make sense; exactly half do not."""
    good, bad = GEANT_BMV2.wire, GEANT_BMV2.wire[:70]
    (match,) = detect_profiles([good, bad, good], _fabric())
    assert (match.profile, match.decoded, match.of) == ("geant-bmv2", 2, 3)
    assert detect_profiles([good, bad], _fabric()) == []


def test_reports_of_unknown_nodes_make_no_sense():
    """A stack through nodes that are not in the fabric speaks against a profile."""
    fabric = three_switch_fabric()
    nodes = {node_id: node for node_id, node in fabric.nodes.items() if node_id != 101}
    assert detect_profiles([GEANT_BMV2.wire] * 3, replace(fabric, nodes=nodes)) == []


def test_without_payloads_nothing_is_said():
    """A node that sends nothing speaks no profile."""
    assert detect_profiles([], _fabric()) == []


@pytest.mark.parametrize("vector", DIALECT_VECTORS, ids=lambda vector: vector.name)
def test_the_collector_keeps_rejected_reports_for_detection(vector):
    """Under the sender's node id, however the reports are laid out."""
    declared = "telemetry-report-v1.0" if "geant" not in vector.dialect else "tempotrace-v2"
    collector = Collector(_fabric(declared))
    wire = vector.wire
    collector.feed_payload(wire, _NOW_NS)
    assert collector.counters.rejected_total == 1
    assert collector.rejected_samples == {vector.node_id: (wire,)}


def test_the_samples_of_a_node_are_bounded():
    """The newest few, none of them long; strangers share one place."""
    collector = Collector(_fabric("telemetry-report-v1.0"))
    sender = ReportSender()
    payloads = [sender.payload(LEAF2, 1, sink_postcard(psn=k)) for k in range(SAMPLES_PER_NODE + 3)]
    for payload in payloads:
        collector.feed_payload(payload, _NOW_NS)
    collector.feed_payload(payloads[0] + bytes(SAMPLE_BYTES_MAX), _NOW_NS)
    strangers = [sender.payload(node_id, 1, sink_postcard()) for node_id in range(900, 950)]
    for payload in [*strangers, b"\x00", b""]:
        collector.feed_payload(payload, _NOW_NS)
    samples = collector.rejected_samples
    assert samples.keys() == {0, LEAF2}
    assert samples[LEAF2] == tuple(payloads[3:])
    assert len(samples[0]) == SAMPLES_PER_NODE


def test_accepted_reports_leave_no_sample():
    """Nor do frames that were refused before their report was looked at."""
    collector = Collector(_fabric())
    sender = ReportSender()
    collector.feed(sender.frame(LEAF2, 0, stack_report()), _NOW_NS)
    collector.feed(b"no frame", _NOW_NS)
    assert (collector.counters.decoded, collector.counters.rejected_total) == (1, 1)
    assert collector.rejected_samples == {}
