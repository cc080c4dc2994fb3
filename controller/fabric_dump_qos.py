# SPDX-License-Identifier: Apache-2.0
"""`qos_maps` of a `fabric.yaml`; used by `fabric_dump.py` only."""

from collections.abc import Iterable

from controller.fabric_qos import EcnProfile, QosMaps
from controller.yaml_text import Fields, flow, flow_list


def qos_map_fields(maps: QosMaps) -> Fields:
    """All maps that are not empty, each on one line, and defaults other than 0."""
    fields: Fields = []
    if maps.queues:
        fields.append(("queues", _rows(maps.queues, "queue")))
    if maps.default_queue or not maps.queues:
        fields.append(("default_queue", str(maps.default_queue)))
    if maps.priorities:
        fields.append(("priorities", _rows(maps.priorities, "priority")))
    if maps.default_priority:
        fields.append(("default_priority", str(maps.default_priority)))
    if maps.pfc_priorities:
        fields.append(("pfc_priorities", flow_list(map(str, maps.pfc_priorities))))
    if maps.ecn:
        fields.append(("ecn", flow_list(flow(_ecn_fields(profile)) for profile in maps.ecn)))
    return fields


def _rows(rows: Iterable[tuple[tuple[int, ...], int]], key: str) -> str:
    return flow_list(
        flow([("dscps", flow_list(map(str, dscps))), (key, str(value))]) for dscps, value in rows
    )


def _ecn_fields(profile: EcnProfile) -> Fields:
    fields: Fields = [("dscps", flow_list(map(str, profile.dscps)))]
    if profile.queue is not None:
        fields = [("queue", str(profile.queue))]
    fields += [("min_bytes", str(profile.min_bytes)), ("max_bytes", str(profile.max_bytes))]
    if profile.max_percent != 100:
        fields.append(("max_percent", str(profile.max_percent)))
    return fields
