# SPDX-License-Identifier: Apache-2.0
"""A fabric's cables as veth pairs: names of all interfaces, and the `ip` commands that make them.

Each cable is two veth pairs, one from each end to the wires' side, where something holds frames
back by the cable's delay. Ends of switches and wires are in one namespace, `eth0` of every host in
one of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bmv2_lab.backends.namespaces import Namespace
from bmv2_lab.backends.packet_port import MTU_BYTES, disable_checksum_offload
from controller.addresses import format_ip, format_mac
from controller.fabric import Fabric, Host, LinkEnd, Switch, cabling

HOST_INTERFACE = "eth0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """Interfaces of one cable: end a, the wire's side of a, the wire's side of b, end b."""

    a: LinkEnd
    b: LinkEnd
    interface_a: str
    wire_a: str
    wire_b: str
    interface_b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Both ends of a switch's way to the collector."""

    port: str
    capture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interfaces:
    """All interface names of a fabric; none depends on how long a node's name is."""

    cables: tuple[Cable, ...]
    """In the order of the fabric's links."""
    ports: Mapping[str, Mapping[int, str]]
    """By switch and port, the report port among them."""
    captures: Mapping[str, Capture]
    """By switch."""


def interfaces_of(fabric: Fabric) -> Interfaces:
    """Name everything. The n-th switch's port p is `s<n>p<p>`, the n-th cable's sides `w<n>a/b`."""
    index = {switch.name: number for number, switch in enumerate(fabric.switches, start=1)}
    ports: dict[str, dict[int, str]] = {name: {} for name in index}

    def end(one: LinkEnd) -> str:
        if one.node not in index:
            return HOST_INTERFACE
        name = f"s{index[one.node]}p{one.port}"
        ports[one.node][one.port] = name
        return name

    cables = tuple(
        Cable(
            a=link.a,
            b=link.b,
            interface_a=end(link.a),
            wire_a=f"w{number}a",
            wire_b=f"w{number}b",
            interface_b=end(link.b),
        )
        for number, link in enumerate(fabric.links, start=1)
    )
    captures = {}
    for switch in fabric.switches:
        if switch.report_port is not None:
            number = index[switch.name]
            port = f"s{number}p{switch.report_port}"
            ports[switch.name][switch.report_port] = port
            captures[switch.name] = Capture(port=port, capture=f"c{number}")
    return Interfaces(cables=cables, ports=ports, captures=captures)


@dataclass(slots=True, kw_only=True)
class Network:
    """A network that exists."""

    interfaces: Interfaces
    namespace: Namespace
    """Of switches and wires."""
    hosts: Mapping[str, Namespace]

    def close(self) -> None:
        """Let it go: the kernel removes what no process uses any more."""
        for one in (*self.hosts.values(), self.namespace):
            one.close()


def build_network(fabric: Fabric) -> Network:
    """Make all namespaces and interfaces."""
    interfaces = interfaces_of(fabric)
    hosts: dict[str, Namespace] = {}
    network = Network(interfaces=interfaces, namespace=Namespace.create(), hosts=hosts)
    try:
        network.namespace.call(quiet)
        for host in fabric.hosts:
            hosts[host.name] = Namespace.create()
            hosts[host.name].call(quiet)
        lines = link_commands(interfaces, {name: one.path for name, one in hosts.items()})
        network.namespace.command("ip", "-batch", "-", stdin="\n".join(lines) + "\n")
        configure_hosts(fabric, hosts)
    except BaseException:
        network.close()
        raise
    return network


def link_commands(interfaces: Interfaces, host_paths: Mapping[str, str]) -> list[str]:
    """Lines for `ip -batch` in the namespace of switches and wires."""
    lines = ["link set dev lo up"]
    pairs: list[tuple[str, str, str | None]] = []
    for cable in interfaces.cables:
        pairs.append((cable.wire_a, cable.interface_a, host_paths.get(cable.a.node)))
        pairs.append((cable.wire_b, cable.interface_b, host_paths.get(cable.b.node)))
    for capture in interfaces.captures.values():
        pairs.append((capture.capture, capture.port, None))
    for near, far, path in pairs:
        where = f" netns {path}" if path is not None else ""
        lines.append(
            f"link add name {near} mtu {MTU_BYTES} type veth peer name {far} mtu {MTU_BYTES}{where}"
        )
        lines.append(f"link set dev {near} up")
        if path is None:
            lines.append(f"link set dev {far} up")
    return lines


def configure_hosts(fabric: Fabric, hosts: Mapping[str, Namespace]) -> None:
    """Addresses and routes of all hosts: everything goes to the switch at the other end."""
    peers = cabling(fabric)
    for host in fabric.hosts:
        switch = fabric.switch(peers[LinkEnd(node=host.name, port=1)].node)
        inside = hosts[host.name]
        inside.command("ip", "-batch", "-", stdin="\n".join(host_commands(host, switch)) + "\n")
        inside.call(lambda: disable_checksum_offload(HOST_INTERFACE))


def host_commands(host: Host, switch: Switch) -> list[str]:
    """Lines for `ip -batch` in a host's namespace."""
    gateway = format_ip(switch.ip)
    device = f"dev {HOST_INTERFACE}"
    return [
        "link set dev lo up",
        f"link set {device} address {format_mac(host.mac)} mtu {MTU_BYTES}",
        f"link set {device} up",
        f"address add {format_ip(host.ip)}/32 {device}",
        f"neighbour replace {gateway} lladdr {format_mac(switch.mac)} {device} nud permanent",
        f"route add default via {gateway} {device} onlink",
    ]


def quiet() -> None:
    """No IPv6, so that the kernel sends nothing of its own."""
    for scope in ("all", "default"):
        path = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if path.exists():
            path.write_text("1\n", encoding="ascii")
