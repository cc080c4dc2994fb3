# SPDX-License-Identifier: Apache-2.0
"""What a generated fabric declares unless told otherwise: models, classes, watchlists."""

from collections.abc import Sequence

from controller.fabric import (
    DeviceModel,
    EcnThreshold,
    PtpRole,
    Qos,
    StampPoints,
    TrafficClass,
    Watchlist,
    WatchTraffic,
)
from controller.telemetry.dialect import STANDARD
from correction.model import ClockKind, StampPoint

SWITCH_MODEL = "tempotrace-switch"
NIC_MODEL = "hardware-stamp-nic"


def device_models(
    *,
    speeds_gbps: Sequence[int] = (100,),
    switch_uncertainty_ns: int = 3,
    nic_uncertainty_ns: int = 3,
    stamp_unit_ns: int = 1,
) -> tuple[DeviceModel, ...]:
    """A switch and a NIC model with typical stamp points.

    A NIC stamps in the MAC, near the wire. A switch stamps in the pipeline: on the way in once the
    frame has arrived as a whole, on the way out before the MAC and its FIFO.
    """
    return (
        DeviceModel(
            name=SWITCH_MODEL,
            kind=ClockKind.SWITCH,
            dialect=STANDARD.name,
            ptp_role=PtpRole.NONE,
            stamp_unit_ns=stamp_unit_ns,
            stamp_width_bits=48,
            stamp_jitter_ns=2,
            stamp_points=tuple(
                StampPoints(
                    speed_gbps=speed_gbps,
                    ingress=StampPoint(
                        latency_ns=120, uncertainty_ns=switch_uncertainty_ns, at_frame_end=True
                    ),
                    egress=StampPoint(latency_ns=360, uncertainty_ns=switch_uncertainty_ns),
                )
                for speed_gbps in speeds_gbps
            ),
        ),
        DeviceModel(
            name=NIC_MODEL,
            kind=ClockKind.NIC,
            dialect=STANDARD.name,
            ptp_role=PtpRole.NONE,
            stamp_unit_ns=1,
            stamp_width_bits=64,
            stamp_jitter_ns=1,
            stamp_points=tuple(
                StampPoints(
                    speed_gbps=speed_gbps,
                    ingress=StampPoint(latency_ns=20, uncertainty_ns=nic_uncertainty_ns),
                    egress=StampPoint(latency_ns=20, uncertainty_ns=nic_uncertainty_ns),
                )
                for speed_gbps in speeds_gbps
            ),
        ),
    )


def default_qos() -> Qos:
    """RoCE in its own queue, PTP in best effort as in a fabric without QoS for it."""
    return Qos(
        default_queue=0,
        classes=(
            TrafficClass(name="best-effort", dscp=0, queue=0),
            TrafficClass(name="roce", dscp=26, marked_dscp=27, queue=1),
            TrafficClass(name="control", dscp=46, queue=2),
        ),
        ecn=(EcnThreshold(queue=1, threshold_packets=200),),
    )


def default_watchlists() -> tuple[Watchlist, ...]:
    """All RoCE packets by INT-MD with six instructions, Sync and Delay_Req by postcards."""
    return (
        Watchlist(
            name="roce",
            traffic=WatchTraffic.ROCE,
            traffic_class="roce",
            remaining_hop_count=8,
            instruction_bitmap=0xFC00,
        ),
        Watchlist(
            name="ptp-event",
            traffic=WatchTraffic.PTP,
            message_types=(0, 1),
            instruction_bitmap=0x7C00,
        ),
    )
