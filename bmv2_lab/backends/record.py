# SPDX-License-Identifier: Apache-2.0
"""What a real-time run says of itself beyond the files, and the limits on that. Pure.

On one kernel all hosts' clocks are one clock: the true offset is zero, and whatever ptp4l and
chronyd report is error. Limits are on telemetry and truth alone; what the engine makes of them has
limits of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bmv2_lab.backends.cable_delays import WireStatistics
from bmv2_lab.backends.chronyd import NtpMeasurement
from bmv2_lab.scenarios.limits import LimitResult
from bmv2_lab.simulator.rdma import Transfer
from bmv2_lab.truth import TrueWindow
from correction.exchange import estimate_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTimeLimits:
    """What a run must keep to, by backend."""

    exchanges_per_client_min: int
    """Of each client and window, at Syncs every 125 ms."""
    wire_late_ns_p99_max: int
    """The forwarder's lateness; on a machine with nothing else to do it is below 0.1 ms."""
    transfers_incomplete_share_max: float
    reports_lost_share_max: float
    links_sampled_share_min: float
    """In a small fabric with few flows, chance may leave a link without any."""


LIMITS = {
    "veth": RealTimeLimits(
        exchanges_per_client_min=2,
        wire_late_ns_p99_max=10_000_000,
        transfers_incomplete_share_max=0.02,
        reports_lost_share_max=0.01,
        links_sampled_share_min=0.9,
    ),
    "bmv2": RealTimeLimits(
        exchanges_per_client_min=2,
        wire_late_ns_p99_max=20_000_000,
        transfers_incomplete_share_max=0.02,
        reports_lost_share_max=0.02,
        links_sampled_share_min=0.9,
    ),
}


LOSS_SLACK = 1.25
"""Losses by chance may be so many times as frequent as they should be, in a short run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTimeRecord:
    """The run itself, beside its telemetry."""

    backend: str
    cable_delays: str
    """`netem` or `forwarder`."""
    ptp_reported_error_ns_rms: float | None
    """What ptp4l reports as its offset, all clients, exchanges inside of windows."""
    ptp_exchanges_per_client_min: int
    """Fewest exchanges of a client inside of one window."""
    ntp_reported_error_ns_rms: float | None
    """What chronyd reports, all clients, the whole run; None if it reported nothing."""
    ntp_measurements: int
    transfers: int
    transfers_incomplete: int
    """RoCEv2 messages, and those of them not received or not acknowledged."""
    wires: WireStatistics | None
    transmit_stamps_lost: int


def real_time_record(
    *,
    backend: str,
    cable_delays: str,
    exchanges: Sequence[tuple[str, np.void]],
    clients: Sequence[str],
    windows: Sequence[TrueWindow],
    window_ns: int,
    ntp: Mapping[str, Sequence[NtpMeasurement]],
    transfers: Sequence[Transfer],
    wires: WireStatistics | None,
    transmit_stamps_lost: int,
) -> RealTimeRecord:
    """Put together what a run left."""
    offsets_ns: list[float] = []
    fewest: list[int] = []
    for client in clients:
        rows = [row for name, row in exchanges if name == client]
        for window in windows:
            inside = [
                row
                for row in rows
                if abs(int(row["t2_local_ns"]) - window.reference_ns) <= window_ns // 2
            ]
            fewest.append(len(inside))
            offsets_ns += [_offset_ns(row) for row in inside]
    ntp_ns = [one.offset_ns for measured in ntp.values() for one in measured]
    return RealTimeRecord(
        backend=backend,
        cable_delays=cable_delays,
        ptp_reported_error_ns_rms=_rms(offsets_ns),
        ptp_exchanges_per_client_min=min(fewest, default=0),
        ntp_reported_error_ns_rms=_rms(ntp_ns),
        ntp_measurements=len(ntp_ns),
        transfers=len(transfers),
        transfers_incomplete=sum(
            not (transfer.done and transfer.received_local_ns) for transfer in transfers
        ),
        wires=wires,
        transmit_stamps_lost=transmit_stamps_lost,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What the collector and the NICs counted."""

    reports_received: int
    reports_lost: int
    reports_rejected: int
    report_loss_share: float
    """What the scenario has the collector lose."""
    icrc_errors: int
    cables_fail: bool
    """The scenario has a cable fail, with what is on it."""
    links_sampled_share: float
    """Links between switches with samples in some window, each direction for itself."""


def check_limits(record: RealTimeRecord, telemetry: Telemetry) -> tuple[LimitResult, ...]:
    """Every limit of the backend against one run."""
    limits = LIMITS[record.backend]
    sent = telemetry.reports_received + telemetry.reports_lost
    found = [
        _at_most("reports rejected", telemetry.reports_rejected, 0),
        _at_most(
            "reports lost, share",
            telemetry.reports_lost / max(1, sent),
            limits.reports_lost_share_max + LOSS_SLACK * telemetry.report_loss_share,
        ),
        _at_most("frames with a wrong ICRC", telemetry.icrc_errors, 0),
        _at_most(
            "transfers incomplete, share",
            record.transfers_incomplete / max(1, record.transfers),
            limits.transfers_incomplete_share_max,
        ),
        _at_least(
            "PTP exchanges of a client in a window",
            record.ptp_exchanges_per_client_min,
            limits.exchanges_per_client_min,
        ),
        _at_least("NTP measurements", record.ntp_measurements, 1),
        _at_least(
            "fabric links with samples, share of both directions",
            telemetry.links_sampled_share,
            limits.links_sampled_share_min,
        ),
    ]
    if record.wires is not None and not telemetry.cables_fail:
        found.append(_at_most("frames lost on cables", record.wires.lost, 0))
    if record.wires is not None:
        found.append(
            _at_most(
                "99th percentile of cables' lateness, ns",
                record.wires.late_ns_p99,
                limits.wire_late_ns_p99_max,
            )
        )
    return tuple(found)


def _at_most(name: str, found: float, limit: float) -> LimitResult:
    return LimitResult(name=name, found=found, range=f"at most {limit:g}", passed=found <= limit)


def _at_least(name: str, found: float, limit: float) -> LimitResult:
    return LimitResult(name=name, found=found, range=f"at least {limit:g}", passed=found >= limit)


def _offset_ns(row: np.void) -> float:
    return float(
        estimate_offset(
            t1_reference_ns=int(row["t1_reference_ns"]),
            t2_local_ns=int(row["t2_local_ns"]),
            t3_local_ns=int(row["t3_local_ns"]),
            t4_reference_ns=int(row["t4_reference_ns"]),
            c1_ns=int(row["c1_ns"]),
            c2_ns=int(row["c2_ns"]),
        ).offset_ns
    )


def _rms(values: Sequence[float]) -> float | None:
    return float(np.sqrt(np.mean(np.square(values)))) if values else None
