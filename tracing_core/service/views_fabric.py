# SPDX-License-Identifier: Apache-2.0
"""Observed paths and asymmetries as answers of the API."""

import ipaddress
import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from correction.records import TRAFFIC_PROBE, TRAFFIC_PTP, TRAFFIC_ROCE
from correction.solution import SolveOptions
from correction.table import CONDITIONAL_SIGMAS
from tracing_core.model import FabricLink, FabricNode, LinkEstimate
from tracing_core.service.schemas_fabric import FlowItem, FlowPathItem, LinkAsymmetry, PathHop
from tracing_core.store.flow_paths import FlowPath, Hop

TRAFFIC = {"roce": TRAFFIC_ROCE, "ptp": TRAFFIC_PTP, "probe": TRAFFIC_PROBE}
_TRAFFIC_NAMES = {number: name for name, number in TRAFFIC.items()}

LIMIT_NS = SolveOptions().asymmetric_ns
CONFIDENCE = math.erf(CONDITIONAL_SIGMAS / math.sqrt(2))
"""Share of a normal error within the conditional bound."""


def asymmetry(link: FabricLink, estimate: LinkEstimate | None) -> LinkAsymmetry:
    """One cable with its interval and verdict."""
    a_uv, bound = _interval(estimate)
    limit = None
    if estimate is not None:
        round_trip = estimate.delay_ab_ns + estimate.delay_ba_ns
        limit = round_trip / 2 if math.isfinite(round_trip) and round_trip >= 0 else None
    return LinkAsymmetry(
        link=link.name,
        a=link.a,
        b=link.b,
        access=link.access,
        a_uv_ns=a_uv,
        a_uv_bound_conditional_ns=bound,
        a_uv_limit_hard_ns=limit,
        confidence=None if bound is None else round(CONFIDENCE, 6),
        verdict=_verdict(a_uv, bound),
        bad=estimate.bad if estimate else False,
        samples_ab=estimate.samples_ab if estimate else 0,
        samples_ba=estimate.samples_ba if estimate else 0,
    )


def _interval(estimate: LinkEstimate | None) -> tuple[float | None, float | None]:
    if estimate is None or not math.isfinite(estimate.a_uv_ns):
        return None, None
    bound = CONDITIONAL_SIGMAS * estimate.sigma_ns
    return estimate.a_uv_ns, bound if math.isfinite(bound) else None


def _verdict(a_uv_ns: float | None, bound_ns: float | None) -> str:
    if a_uv_ns is None or bound_ns is None:
        return "unknown"
    if abs(a_uv_ns) - bound_ns >= LIMIT_NS:
        return "asymmetric"
    return "symmetric" if abs(a_uv_ns) + bound_ns < LIMIT_NS else "undecided"


class PathNames:
    """Names of what a hop says in numbers."""

    def __init__(
        self,
        nodes: Sequence[FabricNode],
        links: Sequence[FabricLink],
        estimates: Mapping[str, LinkEstimate],
    ) -> None:
        self._node = {node.node_id: node.name for node in nodes if node.node_id}
        self._host = {node.ip: node.name for node in nodes if node.ip}
        self._link = {(link.a, link.a_port): link for link in links}
        self._link |= {(link.b, link.b_port): link for link in links}
        self._estimates = estimates

    def flows(self, paths: Sequence[FlowPath]) -> list[FlowItem]:
        """Flows with their paths, in order."""
        return [
            FlowItem(
                traffic=_TRAFFIC_NAMES.get(flow[0], ""),
                src_ip=str(ipaddress.IPv4Address(flow[1])),
                dst_ip=str(ipaddress.IPv4Address(flow[2])),
                src_port=flow[3],
                dst_port=flow[4],
                src_host=self._host.get(flow[1], ""),
                dst_host=self._host.get(flow[2], ""),
                paths=[self._path(path) for path in ways],
            )
            for flow, ways in groupby(paths, key=lambda path: path.flow)
        ]

    def _path(self, path: FlowPath) -> FlowPathItem:
        cables = self._cables(path.hops)
        parts = [self._along(link, sender) for link, sender in cables]
        values = [a_uv for a_uv, _ in parts if a_uv is not None]
        bounds = [bound for _, bound in parts if bound is not None]
        return FlowPathItem(
            hops=[
                PathHop(
                    node_id=node_id,
                    node=self._node.get(node_id, ""),
                    ingress_port=ingress_port,
                    egress_port=egress_port,
                )
                for node_id, ingress_port, egress_port in path.hops
            ],
            links=[link.name if link else None for link, _ in cables],
            packets=path.packet_count,
            first_collector_ns=path.first_collector_ns,
            last_collector_ns=path.last_collector_ns,
            a_uv_ns=sum(values) if len(values) == len(parts) else None,
            a_uv_bound_conditional_ns=sum(bounds) if len(bounds) == len(parts) else None,
        )

    def _cables(self, hops: Sequence[Hop]) -> list[tuple[FabricLink | None, str]]:
        """Each cable with the node that sends into it, the first one from the sender."""
        first_node, first_port, _ = hops[0]
        entered = self._node.get(first_node, "")
        first = self._link.get((entered, first_port))
        sender = "" if first is None else first.b if first.a == entered else first.a
        found: list[tuple[FabricLink | None, str]] = [(first, sender)]
        for node_id, _, egress_port in hops:
            name = self._node.get(node_id, "")
            found.append((self._link.get((name, egress_port)), name))
        return found

    def _along(self, link: FabricLink | None, sender: str) -> tuple[float | None, float | None]:
        """Asymmetry of a cable in the direction of travel, with its bound."""
        if link is None:
            return None, None
        a_uv, bound = _interval(self._estimates.get(link.name))
        return (a_uv if a_uv is None or link.a == sender else -a_uv), bound
