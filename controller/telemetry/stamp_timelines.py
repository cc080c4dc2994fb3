# SPDX-License-Identifier: Apache-2.0
"""The stamp timelines of all nodes, shared by everything that turns their stamps into ns."""

from controller.telemetry.dialect import StampTimeline
from controller.telemetry.topology import TelemetryFabric


class StampTimelines:
    """One timeline per node, so that a stamp means the same wherever it is reported."""

    def __init__(self, fabric: TelemetryFabric) -> None:
        self._timelines = {
            node.node_id: StampTimeline(
                unit_ns=node.stamp_unit_ns, width_bits=node.stamp_width_bits
            )
            for node in fabric.nodes.values()
        }

    def of(self, node_id: int) -> StampTimeline:
        """The timeline of a node of the fabric."""
        return self._timelines[node_id]
