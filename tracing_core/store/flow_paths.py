# SPDX-License-Identifier: Apache-2.0
"""Which ways the packets of each flow took, from the hops that switches reported."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracing_core.store.engine import Engine, Parameters

Flow = tuple[int, int, int, int, int]
"""traffic, src_ip, dst_ip, src_port, dst_port."""
Hop = tuple[int, int, int]
"""node_id, ingress_port, egress_port."""

_FLOW = "traffic, src_ip, dst_ip, src_port, dst_port"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPath:
    """One way of one flow."""

    flow: Flow
    hops: tuple[Hop, ...]
    packet_count: int
    first_collector_ns: int
    last_collector_ns: int


class FlowPathStore:
    """Reads flows and their paths; packets of which a hop is missing are left out."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def flows(
        self, *, src_ip: int = 0, dst_ip: int = 0, traffic: int = 0, after: Flow | None = None,
        limit: int = 100,
    ) -> list[Flow]:  # fmt: skip
        """Flows in order, those behind `after`; 0 does not restrict."""
        one, src, dst, src_port, dst_port = after or (0, 0, 0, 0, 0)
        rows = self._engine.rows(
            f"SELECT DISTINCT {_FLOW} FROM packets WHERE complete = 1 AND hop_count > 0"
            " AND ({src_ip:UInt32} = 0 OR src_ip = {src_ip:UInt32})"
            " AND ({dst_ip:UInt32} = 0 OR dst_ip = {dst_ip:UInt32})"
            " AND ({traffic:UInt8} = 0 OR traffic = {traffic:UInt8})"
            f" AND ({{first:UInt8}} OR ({_FLOW}) > ({{one:UInt8}}, {{src:UInt32}}, {{dst:UInt32}},"
            " {src_port:UInt16}, {dst_port:UInt16}))"
            f" ORDER BY {_FLOW} LIMIT {{limit:UInt32}}",
            {
                "src_ip": src_ip, "dst_ip": dst_ip, "traffic": traffic, "limit": limit,
                "first": int(after is None), "one": one, "src": src, "dst": dst,
                "src_port": src_port, "dst_port": dst_port,
            },
        )  # fmt: skip
        return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]

    def paths(self, flows: Sequence[Flow]) -> list[FlowPath]:
        """All ways of the flows, by flow, the busiest first."""
        parameters: Parameters = {
            name: [flow[index] for flow in flows]
            for index, name in enumerate(("traffics", "srcs", "dsts", "src_ports", "dst_ports"))
        }
        chosen = (
            f"SELECT packet_id, {_FLOW}, capture_collector_ns FROM packets"
            f" WHERE complete = 1 AND hop_count > 0 AND ({_FLOW}) IN ("
            " SELECT one.1, one.2, one.3, one.4, one.5 FROM (SELECT arrayJoin(arrayZip("
            "{traffics:Array(UInt8)}, {srcs:Array(UInt32)}, {dsts:Array(UInt32)},"
            " {src_ports:Array(UInt16)}, {dst_ports:Array(UInt16)})) AS one))"
        )
        rows = self._engine.rows(
            f"SELECT {_FLOW}, way, count(), min(capture_collector_ns), max(capture_collector_ns)"
            " FROM (SELECT packet_id, arraySort(groupArray("
            "(hop_index, node_id, ingress_port, egress_port))) AS way FROM hops"
            f" WHERE packet_id IN (SELECT packet_id FROM ({chosen})) GROUP BY packet_id"
            f") AS hop_lists INNER JOIN ({chosen}) AS packet USING packet_id"
            f" GROUP BY {_FLOW}, way ORDER BY {_FLOW}, count() DESC, way"
            " SETTINGS optimize_aggregation_in_order = 1",
            parameters,
        )
        return [
            FlowPath(
                flow=(row[0], row[1], row[2], row[3], row[4]),
                hops=tuple((hop[1], hop[2], hop[3]) for hop in row[5]),
                packet_count=row[6],
                first_collector_ns=row[7],
                last_collector_ns=row[8],
            )
            for row in rows
        ]
