# SPDX-License-Identifier: Apache-2.0
"""Why there are no reports: each cause is found from its evidence, and from nothing less."""

from dataclasses import replace

import pytest

from controller.collector.diagnosis import Cause, Evidence, PortState, Severity
from controller.collector.outputs.output import OutputCounters
from controller.collector.sockets import UNKNOWN_PROGRAM, port_holders
from controller.collector.state import ReceiveCounters
from controller.collector.status import diagnose
from controller.collector.status_advice import NEXT_STEPS
from controller.collector.status_clock import clock_readings
from controller.telemetry.codec import DecodeReason
from controller.telemetry.topology import telemetry_fabric
from tests.support.collector_states import (
    START_NS,
    small_fabric,
    state_of,
    whole_paths,
    with_model,
)
from tests.support.report_vectors import GEANT_BMV2

FABRIC = small_fabric()


def _causes(payloads, fabric=FABRIC, *, is_live=True, ports=(), **options):
    state = state_of(payloads, fabric, **options)
    return diagnose(Evidence(fabric=fabric, state=state, ports=ports, is_live=is_live))


def _only(found, cause):
    assert [item.cause for item in found] == [cause]
    return found[0]


def test_whole_paths_are_healthy():
    """Nothing is wrong, and the numbers say so."""
    found = _only(_causes(whole_paths()), Cause.HEALTHY)
    assert found.severity is Severity.OK
    assert found.evidence == (
        "150 of 150 datagrams decoded",
        "50 packets with their whole path",
    )


def test_a_port_that_nobody_has_and_one_that_another_program_has():
    """Two causes with different next steps; the program is named."""
    free = PortState(host="10.255.0.1", udp_port=32766, bound=False)
    taken = replace(free, holders=("tcpdump (pid 7)",))
    first = _only(diagnose(Evidence(fabric=FABRIC, ports=[free])), Cause.PORT_NOT_BOUND)
    assert "--listen 10.255.0.1:32766" in first.next_step
    second = _only(diagnose(Evidence(fabric=FABRIC, ports=[taken])), Cause.PORT_TAKEN)
    assert "tcpdump (pid 7)" in second.evidence[0]


def test_nothing_arrives_says_where_switches_report_to():
    """Only after a while; a capture without a report is judged at once."""
    found = _only(_causes([]), Cause.NOTHING_ARRIVES)
    assert "10.255.0.1:32766" in found.evidence[1]
    assert _only(_causes([], is_live=False), Cause.NOTHING_ARRIVES).severity is Severity.ERROR
    assert Cause.NOTHING_ARRIVES not in [item.cause for item in _causes([], age_s=2.0)]


def test_a_device_that_never_reports_is_named():
    """Reports of two switches out of three: packets stay incomplete, the third was never seen."""
    found = [
        item for item in _causes(whole_paths(nodes=(1, 2))) if item.cause is Cause.DEVICE_SILENT
    ]
    assert [item.summary for item in found] == ["spine1: never heard of."]


def test_a_device_that_fell_silent_is_named():
    """Its last report is older than the limit while others report."""
    state = state_of(whole_paths(), FABRIC)
    silent_ns = state.now_collector_ns - 90 * 10**9
    state = replace(state, last_report_ns={**state.last_report_ns, 101: silent_ns})
    found = _only(diagnose(Evidence(fabric=FABRIC, state=state)), Cause.DEVICE_SILENT)
    assert found.evidence == ("spine1: last report 90 s ago",)


def test_a_wrong_profile_is_detected_and_the_key_to_change_is_named():
    """Reports that only one other profile explains: which, and where to say so."""
    fabric = with_model(FABRIC, stamp_width_bits=32)
    found = _causes([(START_NS, GEANT_BMV2.wire)] * 30, fabric)
    wrong = [item for item in found if item.cause is Cause.WRONG_PROFILE]
    assert [item.severity for item in wrong] == [Severity.ERROR]
    assert "its reports are geant-bmv2, not tempotrace-v2." in wrong[0].summary
    model = FABRIC.switches[0].model
    assert wrong[0].next_step.startswith(f"Set models.{model}.dialect to geant-bmv2 in fabric.yaml")
    assert Cause.ALL_FILTERED in [item.cause for item in found]


def test_where_several_profiles_fit_the_version_still_tells():
    """Version 2 reports of switches declared as version 1: the candidates are named."""
    fabric = with_model(FABRIC, dialect="telemetry-report-v1.0")
    found = _causes(whole_paths(), fabric)
    wrong = [item for item in found if item.cause is Cause.WRONG_PROFILE]
    assert [item.summary.split(":")[0] for item in wrong] == ["leaf1", "leaf2", "spine1"]
    assert (
        "its reports are of version 2, those of telemetry-report-v1.0 are not" in wrong[0].summary
    )
    assert "tempotrace-v2, " in wrong[0].next_step
    assert "telemetry-report-v1.0" not in wrong[0].next_step


def test_a_wrong_clock_unit_is_told_with_the_right_one():
    """Microsecond stamps of a device declared as nanoseconds, and the other way round."""
    slow = _causes(whole_paths(packets=200, units_per_ns=1e-3))
    found = [item for item in slow if item.cause is Cause.CLOCK_UNIT_WRONG]
    assert len(found) == 3
    assert "stamp_unit_ns to 1000" in found[0].next_step
    fast = with_model(FABRIC, stamp_unit_ns=1000)
    found = [
        item
        for item in _causes(whole_paths(packets=200), fast)
        if item.cause is Cause.CLOCK_UNIT_WRONG
    ]
    assert len(found) == 3
    assert "stamp_unit_ns to 1 in fabric.yaml" in found[0].next_step


def test_right_clocks_are_read_as_right():
    """The ratio is 1, within what capture times allow."""
    state = state_of(whole_paths(packets=200), FABRIC)
    readings = list(clock_readings(state.samples, telemetry_fabric(FABRIC)))
    assert [reading.node_id for reading in readings] == [1, 2, 101]
    assert all(reading.is_right for reading in readings)
    assert all(reading.ratio == pytest.approx(1.0) for reading in readings)


def test_all_filtered_names_the_reasons_and_strange_node_ids():
    """Every report refused: why, how often, and what the payloads name as their sender."""
    payloads = [
        (captured_ns, payload[:4] + (77).to_bytes(4, "big") + payload[8:])
        for captured_ns, payload in whole_paths()
    ]
    found = [item for item in _causes(payloads) if item.cause is Cause.ALL_FILTERED]
    assert found[0].severity is Severity.ERROR
    assert found[0].evidence[0].startswith("150 unknown_node")
    assert found[0].evidence[-1] == "node ids in refused reports: 77"
    assert "node_id" in found[0].next_step


def test_some_refused_is_told_from_one_in_a_hundred():
    """A tenth of the reports from strangers is a warning with their ids; none is nothing."""
    payloads = whole_paths()
    strange = [
        (at_ns, payload[:4] + (77).to_bytes(4, "big") + payload[8:])
        for at_ns, payload in payloads[::10]
    ]
    found = [item for item in _causes([*payloads, *strange]) if item.cause is Cause.SOME_REFUSED]
    assert [item.severity for item in found] == [Severity.WARNING]
    assert found[0].evidence[-1] == "node ids in refused reports: 77"
    causes = [item.cause for item in _causes(payloads)]
    assert Cause.SOME_REFUSED not in causes


def test_every_reason_has_a_next_step():
    """No refusal leaves the operator without one."""
    assert set(NEXT_STEPS) == set(DecodeReason)
    assert all(len(text) > 20 for text in NEXT_STEPS.values())


def test_sampling_that_does_not_pair_is_found():
    """Each packet is reported by one switch only, in turn: no two reports belong together."""
    payloads = [
        item for number, item in enumerate(whole_paths(packets=90)) if number % 3 == number // 3 % 3
    ]
    found = [item for item in _causes(payloads) if item.cause is Cause.SAMPLING_DOES_NOT_PAIR]
    assert len(found) == 1
    assert found[0].evidence[0].startswith("90 of 90 packets were reported by one node only")
    assert "sample_psn_bits" in found[0].next_step
    assert Cause.SAMPLING_DOES_NOT_PAIR not in [item.cause for item in _causes(whole_paths())]


def test_losses_are_told_apart_by_where_they_happened():
    """With kernel drops the machine is too slow; without, the network lost them."""
    payloads = [item for number, item in enumerate(whole_paths(packets=400)) if number % 4]
    state = state_of(payloads, FABRIC)
    network = diagnose(Evidence(fabric=FABRIC, state=state))
    assert [item.cause for item in network] == [Cause.REPORTS_LOST]
    assert "This machine dropped none" in network[0].next_step
    busy = replace(state, receive=ReceiveCounters(kernel_drops=5))
    local = diagnose(Evidence(fabric=FABRIC, state=busy))
    assert {item.cause for item in local} == {Cause.KERNEL_DROPS, Cause.REPORTS_LOST}


def test_an_output_that_drops_is_named():
    """Collected and not stored."""
    state = replace(
        state_of(whole_paths(), FABRIC),
        outputs={"nats://h:4222/s": OutputCounters(dropped_parts=1, dropped_packets=40)},
    )
    found = _only(diagnose(Evidence(fabric=FABRIC, state=state)), Cause.OUTPUT_STALLED)
    assert found.evidence[0] == "40 packets dropped for want of room"


def test_an_output_that_holds_the_collector_up_is_an_error():
    """The picture grows old while the loop waits; the outputs are as they are now."""
    state = replace(
        state_of(whole_paths(), FABRIC),
        outputs={"nats://h:4222/s": OutputCounters(waiting_parts=64)},
    )
    found = diagnose(Evidence(fabric=FABRIC, state=state, state_age_s=30.0))
    stalled = _only(found, Cause.OUTPUT_STALLED)
    assert stalled.severity is Severity.ERROR
    assert stalled.evidence == ("nats://h:4222/s: 64 parts wait for confirmation",)


def test_a_fresh_start_says_that_earlier_losses_are_unknown():
    """Healthy, and honest about what came before."""
    found = _causes(whole_paths(), age_s=20.0)
    assert [item.cause for item in found] == [Cause.HEALTHY, Cause.RECENT_START]
    assert "unknown" in found[1].evidence[0]


def test_few_reports_prove_nothing():
    """Below the minimum no cause is concluded."""
    few = whole_paths(packets=5)[:7]
    assert [item.cause for item in _causes(few)] == [Cause.HEALTHY]


def test_port_holders_are_read_from_proc(tmp_path):
    """Programs by name and pid; sockets of processes that may not be looked into are told, too."""
    (tmp_path / "net").mkdir()
    header = "  sl  local_address rem_address st tx rx tr tm retrnsmt uid timeout inode\n"
    row = "  1: 0100007F:{:04X} 00000000:0000 07 0:0 0:0 0 0 0 {} 2 0 0\n"
    table = header + row.format(32766, 11) + row.format(32766, 22) + row.format(53, 33)
    (tmp_path / "net" / "udp").write_text(table)
    for number, inode in ((100, 11), (101, 33)):
        process = tmp_path / str(number)
        (process / "fd").mkdir(parents=True)
        (process / "fd" / "3").symlink_to(f"socket:[{inode}]")
        (process / "comm").write_text(f"prog{number}\n")
    holders = [str(holder) for holder in port_holders(32766, proc=tmp_path)]
    assert holders == ["prog100 (pid 100)", UNKNOWN_PROGRAM]
    assert port_holders(99, proc=tmp_path) == []
