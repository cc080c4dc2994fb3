# SPDX-License-Identifier: Apache-2.0
"""Example answers of clocks' histories, asymmetries and paths."""

from tracing_core.service import examples
from tracing_core.service.examples import EPOCH_NS
from tracing_core.service.schemas_fabric import (
    AsymmetryList,
    ClockAnswer,
    ClockHistoryRow,
    FlowItem,
    FlowPathItem,
    FlowPathList,
    LinkAsymmetry,
    PathHop,
)

_VERSION = 3
_CLOCK = examples.CLOCKS.clocks[0]
CLOCK = ClockAnswer(
    correction_version=_VERSION,
    clock=_CLOCK,
    history=[
        ClockHistoryRow(
            **dict(_CLOCK.corrections[0]),
            since_version=3,
            in_force=True,
            prior="fewer than half of every cut's links are bad",
        )
    ],
    next_cursor=None,
)
ASYMMETRY = AsymmetryList(
    correction_version=_VERSION,
    limit_ns=20.0,
    links=[
        LinkAsymmetry(
            link="leaf1-spine2",
            a="leaf1",
            b="spine2",
            access=False,
            a_uv_ns=183.2,
            a_uv_bound_conditional_ns=4.6,
            a_uv_limit_hard_ns=328.8,
            confidence=0.998998,
            verdict="asymmetric",
            bad=True,
            samples_ab=214,
            samples_ba=198,
        )
    ],
)
PATHS = FlowPathList(
    correction_version=_VERSION,
    flows=[
        FlowItem(
            traffic="roce",
            src_ip="10.0.1.1",
            dst_ip="10.0.3.1",
            src_port=50_002,
            dst_port=4791,
            src_host="h1",
            dst_host="h5",
            paths=[
                FlowPathItem(
                    hops=[
                        PathHop(node_id=1, node="leaf1", ingress_port=11, egress_port=2),
                        PathHop(node_id=102, node="spine2", ingress_port=1, egress_port=3),
                        PathHop(node_id=3, node="leaf3", ingress_port=2, egress_port=11),
                    ],
                    links=["h1-leaf1", "leaf1-spine2", "leaf3-spine2", "h5-leaf3"],
                    packets=412,
                    first_collector_ns=EPOCH_NS,
                    last_collector_ns=EPOCH_NS + 8_240_000_000,
                    a_uv_ns=181.4,
                    a_uv_bound_conditional_ns=12.2,
                )
            ],
        )
    ],
)
