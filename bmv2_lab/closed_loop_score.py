# SPDX-License-Identifier: Apache-2.0
"""Scores a run whose transparent clocks the engine fed: the clients' true errors, by phase."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.closed_loop import ClientErrors, LoopRecord, LoopWindow
from bmv2_lab.draw import DrawnFabric
from bmv2_lab.scenarios import Scenario
from bmv2_lab.truth import Truth
from controller.fabric import LinkEnd
from controller.ptp_entries import EVENT_FRAME_BYTES, SCALED_PER_NS, residence_offset_scaled
from controller.transparent_clock import Basis, LinkDelayPlan
from correction.records import NO_TSTAMP_NS

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransparentClockScore:
    """Errors of the clients' own clocks, ns, each phase once its clients have settled."""

    ptp_raw_error_ns_rms: float
    """Switches leave PTP alone."""
    residence_only_error_ns_rms: float
    """Switches add residence: unequal cables remain."""
    error_ns_rms: float
    """Switches add residence and the engine's link delays."""
    error_ns_max: float
    mean_error_ns_rms: float
    """The same of each client's mean error: what the path leaves, without the servo's noise."""
    engine_error_ns_rms: float
    """The engine's own corrections of the same clocks at the same windows' centres."""
    drift_ns_max: float
    """Largest change of a client's error over the time scored: slope of a fitted line x time."""
    scored_s: float
    """Virtual time with link delays, settled."""
    link_delay_error_ns_rms: float
    """The last link delays written, against the truth, without what is common to all ports."""
    link_delay_change_ns_max: float
    """Largest difference between the first and the last delays written, likewise: feedback of what
    was injected would make it grow."""
    links_undetermined: int
    """Fabric ports withdrawn, or with a round trip alone, at the end."""
    windows_written: int
    ports_changed: int
    """Values written anew, from the second write on."""
    probes: int
    links_quiet: int
    """Fabric links to which traffic gave no pair of samples in the last window."""
    unexplained_correction_ns_max: float
    """Largest part of a correctionField that neither residence nor a delay explains."""


def score_closed_loop(
    record: LoopRecord, scenario: Scenario, drawn: DrawnFabric, truth: Truth
) -> TransparentClockScore:
    """By phase, from the true errors recorded while the fabric ran."""
    loop = scenario.closed_loop
    assert loop is not None
    written = [window for window in record.windows if window.written_ns is not None]
    first = next(iter(written))
    assert first.written_ns is not None
    settled_ns = first.written_ns + loop.settle_ns
    raw = _between(
        record.errors, loop.residence_from_ns - loop.settle_ns // 2, loop.residence_from_ns
    )
    residence = _between(record.errors, loop.residence_from_ns + loop.settle_ns, first.written_ns)
    closed = _between(record.errors, settled_ns, scenario.duration_ns)
    scored_s = (scenario.duration_ns - settled_ns) / NS_PER_S
    last = record.windows[-1]
    return TransparentClockScore(
        ptp_raw_error_ns_rms=_rms(raw),
        residence_only_error_ns_rms=_rms(residence),
        error_ns_rms=_rms(closed),
        error_ns_max=float(np.abs(closed).max()),
        mean_error_ns_rms=_rms(closed.mean(axis=0)),
        engine_error_ns_rms=_rms(
            _engine_errors_ns([w for w in written if w.start_ns >= settled_ns], scenario, truth)
        ),
        drift_ns_max=float(np.abs(_slopes(closed)).max() * len(closed)),
        scored_s=scored_s,
        link_delay_error_ns_rms=_rms(link_delay_errors_ns(last.plan, scenario, drawn)),
        link_delay_change_ns_max=_largest_change_ns(first.plan, last.plan),
        links_undetermined=len(last.plan.withdrawn)
        + sum(one.basis is Basis.ROUND_TRIP for one in last.plan.delays),
        windows_written=len(written),
        ports_changed=sum(window.ports_changed for window in written[1:]),
        probes=sum(window.probes for window in record.windows),
        links_quiet=sum(count == 0 for count in last.pairs.values()),
        unexplained_correction_ns_max=max(w.unexplained_ns_max for w in record.windows),
    )


def link_delay_errors_ns(
    plan: LinkDelayPlan, scenario: Scenario, drawn: DrawnFabric
) -> NDArray[np.float64]:
    """Written value against the true delay between stamps, per fabric port, mean removed."""
    offset = {s.name: residence_offset_scaled(drawn.fabric, s) for s in drawn.fabric.switches}
    true_ns: dict[LinkEnd, float] = {}
    for link, true_link in zip(drawn.fabric.links, drawn.links, strict=True):
        for sender, receiver, delay_ns in (
            (link.a, link.b, true_link.a_to_b_ns),
            (link.b, link.a, true_link.b_to_a_ns),
        ):
            serialisation_ns = EVENT_FRAME_BYTES * 8 / link.speed_gbps
            true_ns[receiver] = (
                delay_ns
                + drawn.stamp_points[sender].egress_ns
                + drawn.stamp_points[receiver].ingress_ns
                + serialisation_ns
            )
    errors = np.array(
        [
            (one.delay_scaled_ns + offset[one.switch]) / SCALED_PER_NS
            - true_ns[LinkEnd(node=one.switch, port=one.ingress_port)]
            for one in plan.delays
            if one.basis is not Basis.ACCESS
        ]
    )
    return errors - errors.mean() if len(errors) else errors


def _largest_change_ns(first: LinkDelayPlan, last: LinkDelayPlan) -> float:
    """Of the ports that both plans have, without what is common to all."""
    before = {(one.switch, one.ingress_port): one.delay_scaled_ns for one in first.delays}
    changes = np.array(
        [
            (one.delay_scaled_ns - before[one.switch, one.ingress_port]) / SCALED_PER_NS
            for one in last.delays
            if (one.switch, one.ingress_port) in before
        ]
    )
    return float(np.abs(changes - changes.mean()).max()) if len(changes) else float("nan")


def _slopes(errors_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per client, change of the error from one recording to the next (least squares)."""
    steps = np.arange(len(errors_ns)) - (len(errors_ns) - 1) / 2
    slopes: NDArray[np.float64] = steps @ errors_ns / (steps @ steps)
    return slopes


def _engine_errors_ns(
    windows: Sequence[LoopWindow], scenario: Scenario, truth: Truth
) -> NDArray[np.float64]:
    """Errors of the engine's corrections of clients at the centres; withheld ones left out."""
    centres = {window.centre_true_ns: window for window in truth.windows}
    errors: list[float] = []
    for window in windows:
        for reading in centres[window.start_ns + scenario.window_ns // 2].clocks:
            if reading.offset_ns is None or reading.offset_ns == 0.0:
                continue
            index = window.table.clock_names.index(reading.clock)
            local_ns = np.array([reading.local_ns], np.int64)
            reference_ns = int(window.table.convert(local_ns, index).reference_ns[0])
            if reference_ns != NO_TSTAMP_NS:
                errors.append(reading.local_ns - reference_ns - reading.offset_ns)
    return np.array(errors)


def _between(errors: ClientErrors, from_ns: int, to_ns: int) -> NDArray[np.float64]:
    """[instant, client] errors recorded in (from, to]."""
    true_ns = np.array(errors.true_ns)
    chosen = (true_ns > from_ns) & (true_ns <= to_ns)
    return np.array(errors.error_ns, np.float64)[chosen]


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else float("nan")
