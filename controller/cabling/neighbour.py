# SPDX-License-Identifier: Apache-2.0
"""Who a heard LLDP frame is from, in the terms of the fabric file. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.cabling.lldp import LldpFrame, PortSubtype
from controller.fabric import Fabric, programmed_switches


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Neighbour:
    """The sender at the other end of a cable."""

    nodes: tuple[str, ...]
    """Nodes of the file that it may be: the NICs of a machine, say; none: nobody of the file."""
    port: int | None
    """Its port by the file's numbers; None: it tells another name."""
    label: str
    """What it calls itself."""

    @property
    def is_ours(self) -> bool:
        """A switch that sends what this controller has given it."""
        return self.port is not None


class Directory:
    """The nodes of a fabric by what they say of themselves."""

    def __init__(self, fabric: Fabric) -> None:
        self._by_mac = {node.mac: node.name for node in fabric.nodes}
        self._names: dict[str, list[str]] = {}
        for node in fabric.nodes:
            self._names.setdefault(node.name, []).append(node.name)
        nodes = {*self._names}
        for host in fabric.hosts:
            if host.machine is not None and host.machine not in nodes:
                self._names.setdefault(host.machine, []).append(host.name)
        self._ours = {switch.name: switch.mac for switch in programmed_switches(fabric)}

    def neighbour(self, frame: LldpFrame) -> Neighbour:
        """The sender; MAC addresses are looked at before names, since those can be any."""
        port = self._own_port(frame)
        if port is not None:
            name = frame.system_name
            return Neighbour(nodes=(name,), port=port, label=f"{name}:{port}")
        nodes = next((found for found in self._nodes(frame) if found), ())
        return Neighbour(nodes=tuple(nodes), port=None, label=frame.label)

    def _own_port(self, frame: LldpFrame) -> int | None:
        """The port's number in a frame as `switch_lldp_frame` makes it."""
        mac = self._ours.get(frame.system_name)
        number = frame.port_id
        if mac is None or frame.chassis_mac != mac or frame.port_subtype != PortSubtype.LOCAL:
            return None
        return int(number) if number.isdigit() and len(number) <= len("65535") else None

    def _nodes(self, frame: LldpFrame) -> Iterator[list[str]]:
        for mac in (frame.port_mac, frame.src_mac, frame.chassis_mac):
            if mac in self._by_mac:
                yield [self._by_mac[mac]]
        yield self._names.get(frame.system_name, [])
        yield self._names.get(frame.system_name.partition(".")[0], [])
