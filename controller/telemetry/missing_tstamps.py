# SPDX-License-Identifier: Apache-2.0
"""Stamps that a device marks as not available: zero, all-ones of the field or of its own width."""

from collections import Counter

from controller.telemetry.metadata import BIT_EGRESS_TSTAMP, BIT_INGRESS_TSTAMP, HopMetadata
from controller.telemetry.report import Report
from controller.telemetry.topology import TelemetryFabric

_TSTAMP_BITS = ((BIT_INGRESS_TSTAMP, "ingress_tstamp"), (BIT_EGRESS_TSTAMP, "egress_tstamp"))


_STRANGER = (-1, -1)


class MissingTstamps:
    """Removes the missing stamps of reports, and counts them.

    Zero and 64 ones are none already when a hop is decoded. A device whose stamps are narrower
    than the field may extend its own all-ones with zeros; only its declared width tells.
    """

    def __init__(self, fabric: TelemetryFabric) -> None:
        self._ones = {
            node.node_id: (
                (1 << node.stamp_width_bits) - 1,
                (1 << (node.egress_stamp_width_bits or node.stamp_width_bits)) - 1,
            )
            for node in fabric.nodes.values()
        }
        self.counts: Counter[str] = Counter()
        """Missing stamps that were asked for, by field."""

    def removed(self, node_id: int, report: Report) -> Report:
        """The report with its missing stamps None; a stranger's own width is not known."""
        metadata, packet = report.metadata, report.packet
        if metadata is not None:
            available = self._available(node_id, metadata)
            if available is not metadata:
                report = report._replace(metadata=available)
        if packet.stack is not None:
            hops = packet.stack.hops
            checked = tuple(self._available(hop.node_id or 0, hop) for hop in hops)
            if any(new is not old for new, old in zip(checked, hops, strict=True)):
                stack = packet.stack._replace(hops=checked)
                report = report._replace(packet=packet._replace(stack=stack))
        return report

    def _available(self, node_id: int, hop: HopMetadata) -> HopMetadata:
        ingress_ones, egress_ones = self._ones.get(node_id, _STRANGER)
        if hop.ingress_tstamp == ingress_ones:
            bits = hop.unavailable_bits | BIT_INGRESS_TSTAMP
            hop = hop._replace(ingress_tstamp=None, unavailable_bits=bits)
        if hop.egress_tstamp == egress_ones:
            bits = hop.unavailable_bits | BIT_EGRESS_TSTAMP
            hop = hop._replace(egress_tstamp=None, unavailable_bits=bits)
        if hop.unavailable_bits:
            for bit, name in _TSTAMP_BITS:
                if hop.unavailable_bits & bit:
                    self.counts[name] += 1
        return hop
