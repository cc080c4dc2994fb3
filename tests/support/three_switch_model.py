# SPDX-License-Identifier: Apache-2.0
"""What an estimator may know of the three switches of `telemetry_reports`."""

from correction.model import Clock, ClockKind, FabricModel, Link, StampPoint
from tests.support.telemetry_reports import LEAF1, LEAF2, SPINE

_EXACT = StampPoint(latency_ns=0, uncertainty_ns=1)


def three_switch_model() -> FabricModel:
    """Leaf 1, spine and leaf 2 in a row; leaf 1 is the reference."""
    clocks = tuple(
        Clock(
            name=name,
            kind=ClockKind.SWITCH,
            node_id=node_id,
            ip=0,
            stamp_unit_ns=1,
            stamp_jitter_ns=1,
            stamp_bits=48,
        )
        for name, node_id in (("leaf1", LEAF1), ("spine", SPINE), ("leaf2", LEAF2))
    )
    links = tuple(
        Link(
            name=name,
            a=a,
            a_port=a_port,
            b=b,
            b_port=b_port,
            rate_bps=100_000_000_000,
            a_egress=_EXACT,
            a_ingress=_EXACT,
            b_egress=_EXACT,
            b_ingress=_EXACT,
            min_delay_ns=0,
            asymmetry_sd_ns=5.0,
            access=False,
        )
        for name, a, a_port, b, b_port in (("leaf1-spine", 0, 1, 1, 1), ("spine-leaf2", 1, 2, 2, 1))
    )
    return FabricModel(
        clocks=clocks,
        links=links,
        reference=0,
        rate_offset_max_ppb=100_000,
        wander_ns_per_s_sqrt_s=10.0,
    )
