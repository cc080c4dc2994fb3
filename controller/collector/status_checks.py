# SPDX-License-Identifier: Apache-2.0
"""The single checks of a diagnosis. Nothing is concluded from less than `REPORTS_MIN` reports."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from controller.collector.diagnosis import Cause, Diagnosis, Evidence, Severity
from controller.collector.state import CollectorState
from controller.collector.status_advice import NEXT_STEPS
from controller.collector.status_clock import clock_readings
from controller.fabric import Fabric
from controller.telemetry.codec import DecodeReason
from controller.telemetry.detect import detect_profiles
from controller.telemetry.profiles import DIALECTS, Dialect
from controller.telemetry.rejected import UNKNOWN_SENDER
from controller.telemetry.topology import TelemetryFabric

REPORTS_MIN = 20
"""Fewer may be chance."""
SILENT_S = 60.0
"""A device that has sent reports and sends none for so long is silent."""
QUIET_S = 10.0
"""Without any report for so long, nothing arrives; shorter, it may just have started."""
VERSIONS_MIN = 8
"""Refused payloads of one node that must agree on their version: damage does not."""
STALLED_S = 5.0
"""The picture is made anew every second; one as old as this means that the loop waits."""
LOST_SHARE = 0.001
FILTERED_SHARE = 0.5
REFUSED_SHARE = 0.01
LONE_SHARE = 0.9
NAMES_MAX = 8
"""Devices named in one line."""
_NS_PER_S = 1_000_000_000


def ports(evidence: Evidence) -> Iterator[Diagnosis]:
    for port in evidence.ports:
        if port.bound:
            continue
        address = f"{port.host}:{port.udp_port}"
        if port.holders:
            yield Diagnosis(
                cause=Cause.PORT_TAKEN,
                severity=Severity.ERROR,
                summary=f"Another program has UDP port {port.udp_port}: reports go to it.",
                evidence=tuple(f"{address} is held by {holder}" for holder in port.holders),
                next_step="Stop that program, or let the collector listen on another port and "
                "declare it as the collector's udp_port in fabric.yaml.",
            )
        else:
            yield Diagnosis(
                cause=Cause.PORT_NOT_BOUND,
                severity=Severity.ERROR,
                summary=f"Nobody listens on {address}: the kernel refuses the reports.",
                evidence=(f"no UDP socket of this machine is bound to port {port.udp_port}",),
                next_step=f"Start the collector: tempotrace collect -f fabric.yaml "
                f"--listen {address} --metrics HOST:PORT.",
            )


def _nothing(
    evidence: Evidence, state: CollectorState, _view: TelemetryFabric
) -> Iterator[Diagnosis]:
    counters = state.counters
    if counters.received:
        return
    age_s = (state.now_collector_ns - state.started_collector_ns) / _NS_PER_S
    if evidence.is_live and age_s < QUIET_S:
        return
    collectors = ", ".join(
        f"{_dotted(item.ip)}:{item.udp_port}" for item in evidence.fabric.collectors
    )
    where = f"in {age_s:.0f} s" if evidence.is_live else "in the capture"
    yield Diagnosis(
        cause=Cause.NOTHING_ARRIVES,
        severity=Severity.ERROR,
        summary="No report arrives from any device.",
        evidence=(f"0 datagrams {where}", f"fabric.yaml has the switches report to {collectors}"),
        next_step="Check on a switch that its watchlist matches traffic and its report port is up "
        "(tempotrace deploy status); then with tcpdump on this machine that frames for that "
        "address arrive; if they do, look at firewall rules (nft list ruleset) and at reverse path "
        "filtering (net.ipv4.conf.*.rp_filter).",
    )


def _silent(
    evidence: Evidence, state: CollectorState, view: TelemetryFabric
) -> Iterator[Diagnosis]:
    """Devices that neither report nor stand on a path that others report."""
    counters = state.counters
    age_s = (state.now_collector_ns - state.started_collector_ns) / _NS_PER_S
    if counters.received < REPORTS_MIN or (evidence.is_live and age_s < QUIET_S):
        return
    refused = set(state.rejected_samples)
    heard = {key.node_id for key in counters.senders} | set(state.pairing.path_nodes) | refused
    never = [node_id for node_id in view.nodes if node_id not in heard]
    fell_silent = {
        node_id: (state.now_collector_ns - last_ns) / _NS_PER_S
        for node_id, last_ns in state.last_report_ns.items()
        if evidence.is_live and state.now_collector_ns - last_ns > SILENT_S * _NS_PER_S
    }
    if never:
        yield Diagnosis(
            cause=Cause.DEVICE_SILENT,
            severity=Severity.WARNING,
            summary=f"{_names(never, evidence.fabric)}: never heard of.",
            evidence=(
                f"no report from {_devices(len(never))} among {counters.received} datagrams",
                "on no path that other devices report either",
            ),
            next_step="tempotrace deploy status shows whether the device has its entries; check "
            "that traffic of the watchlist crosses it, that its report port is up and that it has "
            "a route to the collector.",
        )
    if fell_silent:
        yield Diagnosis(
            cause=Cause.DEVICE_SILENT,
            severity=Severity.WARNING,
            summary=f"{_names(fell_silent, evidence.fabric)}: silent since more than "
            f"{SILENT_S:.0f} s.",
            evidence=tuple(
                f"{_name(node_id, evidence.fabric)}: last report {age:.0f} s ago"
                for node_id, age in list(fell_silent.items())[:NAMES_MAX]
            ),
            next_step="Look whether the device is up and still forwards traffic of the watchlist; "
            "tempotrace deploy status shows whether it lost its entries.",
        )


def _profiles(
    evidence: Evidence, state: CollectorState, view: TelemetryFabric
) -> Iterator[Diagnosis]:
    """Devices whose refused reports make sense under another profile."""
    for node_id, payloads in sorted(state.rejected_samples.items()):
        node = view.nodes.get(node_id)
        declared = None if node is None else node.dialect.name
        matches = detect_profiles(payloads, view)
        names = [match.profile for match in matches]
        if names and declared not in names:
            summary, seen = f"its reports are {names[0]}, not {declared}", matches[0].evidence
            step = f"Set {{key}} to {names[0]} in fabric.yaml and start the collector again."
        elif node is not None and (other := _other_version(payloads, node.dialect)) is not None:
            names = [item.name for item in DIALECTS.values() if item.report_version == other]
            summary = f"its reports are of version {other}, those of {declared} are not"
            seen = (f"{len(payloads)} of {len(payloads)} refused payloads begin with {other:x}",)
            step = "Set {key} in fabric.yaml to the one of these that the device speaks: "
            step += ", ".join(names) + "."
        else:
            continue
        key = "the dialect of its model"
        if node is not None:
            key = f"models.{_switch_model(node_id, evidence.fabric)}.dialect"
        who = (
            "A device that the reports do not name"
            if node is None
            else _name(node_id, evidence.fabric)
        )
        yield Diagnosis(
            cause=Cause.WRONG_PROFILE,
            severity=Severity.ERROR,
            summary=f"{who}: {summary}.",
            evidence=seen,
            next_step=step.format(key=key),
        )


def _other_version(payloads: Sequence[bytes], declared: Dialect) -> int | None:
    """The version that all refused payloads have, where it is not the declared one."""
    versions = {payload[0] >> 4 for payload in payloads if payload}
    if len(versions) != 1 or len(payloads) < VERSIONS_MIN:
        return None
    (version,) = versions
    known = {item.report_version for item in DIALECTS.values()}
    return version if version in known - {declared.report_version} else None


def _clocks(
    evidence: Evidence, state: CollectorState, view: TelemetryFabric
) -> Iterator[Diagnosis]:
    for reading in clock_readings(state.samples, view):
        who = _name(reading.node_id, evidence.fabric)
        model = _switch_model(reading.node_id, evidence.fabric)
        if reading.is_right:
            continue
        unit = reading.likely_unit_ns
        if unit is None:
            step = (
                f"Check stamp_unit_ns and stamp_width_bits of models.{model} against the device's "
                "manual: a width that is declared too large shows as jumps."
            )
        else:
            step = f"Set models.{model}.stamp_unit_ns to {unit} in fabric.yaml (now "
            step += f"{reading.declared_unit_ns}) and start the collector again."
        yield Diagnosis(
            cause=Cause.CLOCK_UNIT_WRONG,
            severity=Severity.ERROR,
            summary=f"{who}: its clock does not count in units of {reading.declared_unit_ns} ns.",
            evidence=(
                f"with the declared unit its stamps advance {reading.ratio:.4g} s per second of "
                f"collector time (median of {reading.pairs} pairs of reports)",
            ),
            next_step=step,
        )
    faults = {
        field: count
        for field, count in state.counters.invalid_tstamps.items()
        if not field.endswith("_absent") and "_" in field.removesuffix("_tstamp")
    }
    total = sum(faults.values())
    if total >= REPORTS_MIN:
        yield Diagnosis(
            cause=Cause.STAMPS_REFUSED,
            severity=Severity.WARNING,
            summary="Devices send stamps that their declared clocks cannot show.",
            evidence=tuple(f"{field}: {count}" for field, count in sorted(faults.items())),
            next_step="Compare stamp_width_bits, egress_stamp_width_bits and stamp_origin of the "
            "models in fabric.yaml with what the devices send.",
        )


def _filtered(
    evidence: Evidence, state: CollectorState, _view: TelemetryFabric
) -> Iterator[Diagnosis]:
    counters = state.counters
    refused = counters.rejected_total
    if counters.received < REPORTS_MIN or refused < max(1, REFUSED_SHARE * counters.received):
        return
    is_most = refused >= FILTERED_SHARE * counters.received
    reasons = sorted(counters.rejected.items(), key=lambda item: -item[1])
    most = reasons[0][0]
    strangers = state.rejected_samples.get(UNKNOWN_SENDER, ())
    named = sorted({int.from_bytes(payload[4:8], "big") for payload in strangers})
    extra: tuple[str, ...] = ()
    if most is DecodeReason.UNKNOWN_NODE and named:
        extra = (f"node ids in refused reports: {', '.join(map(str, named[:NAMES_MAX]))}",)
    yield Diagnosis(
        cause=Cause.ALL_FILTERED if is_most else Cause.SOME_REFUSED,
        severity=Severity.ERROR if not counters.decoded else Severity.WARNING,
        summary="All reports are refused."
        if not counters.decoded
        else f"{refused / counters.received:.0%} of the reports are refused.",
        evidence=(
            *(f"{count} {reason.value}: {reason.meaning}" for reason, count in reasons[:NAMES_MAX]),
            *extra,
        ),
        next_step=NEXT_STEPS[most],
    )


def _pairing(
    evidence: Evidence, state: CollectorState, _view: TelemetryFabric
) -> Iterator[Diagnosis]:
    pairing = state.pairing
    packets = pairing.complete + pairing.lone + pairing.joined
    if pairing.lone < REPORTS_MIN or pairing.lone < LONE_SHARE * packets:
        return
    if len(pairing.lone_nodes) < 2:
        return
    yield Diagnosis(
        cause=Cause.SAMPLING_DOES_NOT_PAIR,
        severity=Severity.ERROR,
        summary="Devices report different packets: no two reports belong together.",
        evidence=(
            f"{pairing.lone} of {packets} packets were reported by one node only, by "
            f"{_devices(len(pairing.lone_nodes))} in turn",
            f"{pairing.joined} packets were reported by two nodes or more, "
            f"{pairing.complete} by all of their path",
        ),
        next_step="Devices must choose the same packets: give all of them the same watchlist and "
        "the same sampling by packet content (sample_psn_bits), never by a counter or at random; "
        "tempotrace deploy plan shows which entries differ.",
    )


def _losses(
    evidence: Evidence, state: CollectorState, _view: TelemetryFabric
) -> Iterator[Diagnosis]:
    counters, receive = state.counters, state.receive
    local = receive.kernel_drops + receive.queue_drops
    if local:
        yield Diagnosis(
            cause=Cause.KERNEL_DROPS,
            severity=Severity.WARNING,
            summary="Reports arrive faster than this collector takes them.",
            evidence=(
                f"{receive.kernel_drops} messages found the socket's buffer full",
                f"{receive.queue_drops} reports found the queue to the decoder full",
            ),
            next_step="More workers (--workers), a larger net.core.rmem_max, or fewer packets "
            "sampled. When an output blocks (output_blocked_seconds), look at the output first.",
        )
    if counters.lost > max(LOST_SHARE * counters.received, REPORTS_MIN):
        worst = sorted(counters.senders.items(), key=lambda item: -item[1].lost)[:NAMES_MAX]
        yield Diagnosis(
            cause=Cause.REPORTS_LOST,
            severity=Severity.WARNING,
            summary=f"{counters.lost} reports were sent and never arrived.",
            evidence=tuple(
                f"{_name(key.node_id, evidence.fabric)} hw {key.hw_id} to {key.destination}: "
                f"{sender.lost} lost, {sender.received} received"
                for key, sender in worst
                if sender.lost
            ),
            next_step="This machine dropped some itself (see kernel_drops)."
            if local
            else "This machine dropped none: look at drop counters of the report ports and of the "
            "network between them and the collector.",
        )


def _outputs(
    evidence: Evidence, state: CollectorState, _view: TelemetryFabric
) -> Iterator[Diagnosis]:
    if evidence.state_age_s > STALLED_S:
        yield Diagnosis(
            cause=Cause.OUTPUT_STALLED,
            severity=Severity.ERROR,
            summary=f"The collector has waited for an output for {evidence.state_age_s:.0f} s and "
            "receives nothing meanwhile.",
            evidence=tuple(
                f"{name}: {output.waiting_parts} parts wait for confirmation"
                for name, output in state.outputs.items()
            ),
            next_step="Look at the server or disk behind the output. With when_full=drop the "
            "collector would go on without it.",
        )
    for name, output in state.outputs.items():
        if not (output.dropped_parts or output.failed_parts):
            continue
        yield Diagnosis(
            cause=Cause.OUTPUT_STALLED,
            severity=Severity.WARNING,
            summary=f"{name}: packets were collected and not stored.",
            evidence=(
                f"{output.dropped_packets} packets dropped for want of room",
                f"{output.failed_packets} packets refused or never confirmed",
                f"{output.waiting_parts} parts wait for confirmation",
            ),
            next_step="Look at the server or disk behind the output; when_full=block trades this "
            "for drops in the kernel, which are counted per sender.",
        )


def _started(
    evidence: Evidence, state: CollectorState, _view: TelemetryFabric
) -> Iterator[Diagnosis]:
    age_s = (state.now_collector_ns - state.started_collector_ns) / _NS_PER_S
    if evidence.is_live and age_s < SILENT_S:
        yield Diagnosis(
            cause=Cause.RECENT_START,
            severity=Severity.OK,
            summary=f"The collector started {age_s:.0f} s ago.",
            evidence=("what was sent before is not accounted for: loss before then is unknown",),
            next_step="Ask again later; a device that reports seldom may not have sent yet.",
        )


CHECKS: tuple[Callable[[Evidence, CollectorState, TelemetryFabric], Iterator[Diagnosis]], ...] = (
    _nothing,
    _filtered,
    _profiles,
    _clocks,
    _pairing,
    _silent,
    _losses,
    _outputs,
    _started,
)
"""Everything that is looked for in a collector's state."""


def _name(node_id: int, fabric: Fabric) -> str:
    for switch in fabric.switches:
        if switch.node_id == node_id:
            return switch.name
    return f"node {node_id}"


def _switch_model(node_id: int, fabric: Fabric) -> str:
    return next(switch.model for switch in fabric.switches if switch.node_id == node_id)


def _names(node_ids: Sequence[int] | Mapping[int, float], fabric: Fabric) -> str:
    shown = [_name(node_id, fabric) for node_id in list(node_ids)[:NAMES_MAX]]
    more = len(node_ids) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _dotted(ip: int) -> str:
    return ".".join(str(ip >> shift & 0xFF) for shift in (24, 16, 8, 0))
