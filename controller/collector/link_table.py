# SPDX-License-Identifier: Apache-2.0
"""What the links have shown, in the table that the compiled joiner uses too."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.collector import columns as c
from controller.collector.fabric_tables import FabricArrays
from controller.collector.join_state import (
    REFERENCE_COLLECTOR_NS,
    REFERENCE_DIFFERENCE_NS,
    REFERENCE_KNOWN,
)
from controller.telemetry.link_references import LinkReferences, Reference
from controller.telemetry.stamp_timelines import StampTimelines
from controller.telemetry.topology import PortKey


class TableReferences(LinkReferences):
    """`LinkReferences` whose differences are rows of a table, one per sending port."""

    def __init__(
        self, timelines: StampTimelines, fabric: FabricArrays, table: NDArray[np.int64]
    ) -> None:
        super().__init__(timelines)
        self._references = _Rows(timelines.node_ids.tolist(), fabric, table)


class _Rows(dict[tuple[PortKey, PortKey], Reference]):
    """By egress and ingress port of a cable; ports that no cable joins have none."""

    def __init__(self, node_ids: list[int], fabric: FabricArrays, table: NDArray[np.int64]) -> None:
        super().__init__()
        self._node_rows = {node_id: row for row, node_id in enumerate(node_ids)}
        self._fabric = fabric
        self._table = table

    def get(self, ports: tuple[PortKey, PortKey], default: Any = None) -> Any:  # noqa: ANN401
        """What the link has shown last."""
        row = self._row(ports)
        if row is None or not row[REFERENCE_KNOWN]:
            return default
        return Reference(int(row[REFERENCE_DIFFERENCE_NS]), int(row[REFERENCE_COLLECTOR_NS]))

    def __getitem__(self, ports: tuple[PortKey, PortKey]) -> Reference:
        reference = self.get(ports)
        if reference is None:
            raise KeyError(ports)
        assert isinstance(reference, Reference)
        return reference

    def __setitem__(self, ports: tuple[PortKey, PortKey], reference: Reference) -> None:
        row = self._row(ports)
        assert row is not None, "only hops that a cable joins teach something"
        row[REFERENCE_KNOWN] = 1
        row[REFERENCE_DIFFERENCE_NS] = reference.difference_ns
        row[REFERENCE_COLLECTOR_NS] = reference.collector_ns

    def update(self, other: Any = (), **_more: Any) -> None:  # noqa: ANN401
        """Take several."""
        for ports, reference in dict(other).items():
            self[ports] = reference

    def _row(self, ports: tuple[PortKey, PortKey]) -> NDArray[np.int64] | None:
        (node_id, port), (far_node_id, far_port) = ports
        nodes = self._fabric.nodes
        node = self._node_rows[node_id]
        if port >= nodes[node, c.N_PORTS]:
            return None
        place = int(nodes[node, c.N_FIRST_PORT]) + port
        far = self._node_rows.get(far_node_id, -1) << 16 | far_port
        if int(self._fabric.far_ends[place]) != far:
            return None
        row: NDArray[np.int64] = self._table[place]
        return row
