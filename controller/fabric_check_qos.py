# SPDX-License-Identifier: Apache-2.0
"""What traffic classes, maps from DSCPs and MTUs must satisfy; used by `fabric_check.py` only."""

from collections.abc import Hashable, Iterator

from controller.fabric import PTP_EVENT_UDP_PORT, ROCE_UDP_PORT, Fabric
from controller.fabric_problem import ELSEWHERE, FabricProblem, SwitchIndex, device_port, repeats
from controller.fabric_qos import QosMaps
from controller.fabric_telemetry import LinkEnd
from controller.yaml_positions import KeyPath
from correction.model import ClockKind

PTP_GENERAL_UDP_PORT = 320
PROBE_UDP_PORT = 32_767
"""Of link probes (docs/wire-format.md)."""


def check_classes(fabric: Fabric) -> Iterator[FabricProblem]:
    """DSCPs and queues of the traffic classes and of ECN."""
    dscps: list[tuple[KeyPath, Hashable]] = []
    for index, traffic_class in enumerate(fabric.qos.classes):
        path: KeyPath = ("qos", "classes", index)
        dscps.append(((*path, "dscp"), traffic_class.dscp))
        if traffic_class.marked_dscp is not None:
            dscps.append(((*path, "marked_dscp"), traffic_class.marked_dscp))
            if traffic_class.dscp % 2:
                yield FabricProblem(
                    (*path, "dscp"),
                    f"{traffic_class.dscp} is odd, but has a marked_dscp; "
                    "expected an even DSCP, since odd ones mark",
                )
            elif traffic_class.marked_dscp != traffic_class.dscp + 1:
                yield FabricProblem(
                    (*path, "marked_dscp"),
                    f"{traffic_class.marked_dscp} is not the odd neighbour of dscp "
                    f"{traffic_class.dscp}; expected {traffic_class.dscp + 1}",
                )
    yield from repeats(dscps, "DSCP")
    yield from repeats(
        [(("qos", "classes", i, "name"), c.name) for i, c in enumerate(fabric.qos.classes)],
        "the name",
    )
    yield from repeats(
        [(("qos", "ecn", i, "queue"), e.queue) for i, e in enumerate(fabric.qos.ecn)], "queue"
    )


def check_switch_settings(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    """Maps from DSCPs and MTUs of models and switches, and the port that marks INT."""
    for index, model in enumerate(fabric.models):
        if model.qos_maps is None:
            continue
        path: KeyPath = ("models", index, "qos_maps")
        if model.kind is not ClockKind.SWITCH:
            yield FabricProblem(path, "it has no meaning for a NIC; expected no such key")
        yield from _maps(model.qos_maps, path)
    for index, switch in enumerate(fabric.switches):
        path = ("switches", index)
        if switch.qos_maps is not None:
            yield from _maps(switch.qos_maps, (*path, "qos_maps"))
        for position, (port, _) in enumerate(switch.port_mtus):
            end = LinkEnd(node=switch.name, port=port)
            yield from device_port((*path, "port_mtus", position, "port"), end, switches)
        yield from repeats(
            [
                ((*path, "port_mtus", position, "port"), port)
                for position, (port, _) in enumerate(switch.port_mtus)
            ],
            "the port",
        )
    yield from _int_port(fabric)


def _maps(maps: QosMaps, path: KeyPath) -> Iterator[FabricProblem]:
    for key, rows in (("queues", maps.queues), ("priorities", maps.priorities)):
        dscps: list[tuple[KeyPath, Hashable]] = [
            ((*path, key, row, "dscps", position), dscp)
            for row, (listed, _) in enumerate(rows)
            for position, dscp in enumerate(listed)
        ]
        yield from repeats(dscps, "DSCP")
    marked: list[tuple[KeyPath, Hashable]] = []
    for row, profile in enumerate(maps.ecn):
        here: KeyPath = (*path, "ecn", row)
        if profile.queue is not None:
            marked.append(((*here, "queue"), f"queue {profile.queue}"))
        marked += [
            ((*here, "dscps", position), f"DSCP {dscp}")
            for position, dscp in enumerate(profile.dscps)
        ]
        if profile.max_bytes < profile.min_bytes:
            yield FabricProblem(
                (*here, "max_bytes"),
                f"{profile.max_bytes} is less than min_bytes; "
                f"expected at least {profile.min_bytes}",
                ((*here, "min_bytes"),),
            )
    yield from repeats(marked, "ECN of")


def _int_port(fabric: Fabric) -> Iterator[FabricProblem]:
    """Packets to a port that means something else would all be taken for INT."""
    port = fabric.int_domain.udp_port
    path: KeyPath = ("int", "udp_port")
    taken = {
        ROCE_UDP_PORT: "RoCEv2's",
        PTP_EVENT_UDP_PORT: "PTP's",
        PTP_GENERAL_UDP_PORT: "PTP's",
        PROBE_UDP_PORT: "that of link probes",
    }
    if port in taken:
        yield FabricProblem(path, f"{port} is {taken[port]}; expected a port of its own")
    for index, collector in enumerate(fabric.collectors):
        if port == collector.udp_port:
            other: KeyPath = ("collectors", index, "udp_port")
            if len(fabric.collectors) == 1:
                other = ("collector", "udp_port")
            yield FabricProblem(
                path, f"{port} is {ELSEWHERE}; expected a port of its own", (other,), other
            )
