# SPDX-License-Identifier: Apache-2.0
"""A fabric as arrays: NICs, switches, cables and the ECMP groups of every switch.

Clocks are numbered as in `correction.model`: NICs first, then switches. A cable has two directed
links: 2 x link for a -> b and 2 x link + 1 for b -> a.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

import numpy as np
from numpy.typing import NDArray

from controller.ecmp import base_buckets
from controller.fabric import Fabric, cabling
from controller.routing import attached_hosts, compute_routes

BUCKETS = 64
"""Buckets of an ECMP group (`BUCKET_COUNT_MAX`)."""

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What is cabled to what, and how packets are routed. `-1` is none."""

    nic_names: tuple[str, ...]
    nic_ip: Int64s
    nic_mac: Int64s
    nic_host: Int64s
    """[nic]: number of its host."""
    nic_leaf: Int64s
    """[nic]: its switch."""
    switch_names: tuple[str, ...]
    node_id: Int64s
    tier: Int64s
    """[switch]: 0 for leaves."""
    leaf_row: Int64s
    """[switch]: its column in `group`, -1 for switches without NICs."""
    link_a: Int64s
    """[link]: clock at end a."""
    link_a_port: Int64s
    link_b: Int64s
    link_b_port: Int64s
    group: Int32s
    """[switch, leaf row]: ECMP group towards NICs of that leaf, -1 where it is the leaf itself."""
    buckets: Int32s
    """[group, bucket]: directed link."""
    access_link: Int64s
    """[nic]: directed link from its leaf to it."""
    ecmp_seed: int

    @property
    def nic_count(self) -> int:
        """Number of NICs, which come first among the clocks."""
        return len(self.nic_ip)

    @property
    def switch_count(self) -> int:
        """Number of switches."""
        return len(self.node_id)

    @property
    def link_count(self) -> int:
        """Number of cables."""
        return len(self.link_a)

    @property
    def tier_count(self) -> int:
        """Number of tiers."""
        return int(self.tier.max()) + 1

    @property
    def access(self) -> NDArray[np.bool_]:
        """[link]: whether one end is a NIC."""
        return (self.link_a < self.nic_count) | (self.link_b < self.nic_count)

    @property
    def sender(self) -> Int64s:
        """[directed link]: clock that sends on it."""
        return np.stack([self.link_a, self.link_b], axis=1).ravel()

    @property
    def sender_port(self) -> Int64s:
        """[directed link]: port that sends on it."""
        return np.stack([self.link_a_port, self.link_b_port], axis=1).ravel()

    @property
    def receiver(self) -> Int64s:
        """[directed link]: clock at its far end."""
        return np.stack([self.link_b, self.link_a], axis=1).ravel()

    @property
    def receiver_port(self) -> Int64s:
        """[directed link]: port at its far end."""
        return np.stack([self.link_b_port, self.link_a_port], axis=1).ravel()

    @property
    def stage(self) -> Int64s:
        """[directed link]: its place on any path: up links by tier, then down links.

        Packets go up, then down, so that the stages along a path only rise, and what reaches a
        port comes from lower stages alone. From a NIC: 0.
        """
        tier = np.concatenate([np.full(self.nic_count, -1), self.tier])
        here, there = tier[self.sender], tier[self.receiver]
        up = there > here
        return np.where(up, here + 1, 2 * self.tier_count - here).astype(np.int64)

    def clock_name(self, clock: int) -> str:
        """The name of a clock."""
        count = self.nic_count
        return self.nic_names[clock] if clock < count else self.switch_names[clock - count]

    def end_name(self, clock: int, port: int) -> str:
        """`node:port`, as in `fabric.yaml`."""
        return f"{self.clock_name(clock)}:{port}"

    def directed_name(self, directed: int) -> str:
        """`u:port->v:port`."""
        near = self.end_name(int(self.sender[directed]), int(self.sender_port[directed]))
        far = self.end_name(int(self.receiver[directed]), int(self.receiver_port[directed]))
        return f"{near}->{far}"


def topology_of(fabric: Fabric) -> Topology:
    """The arrays of a described fabric, with the routes that the controller computes for it.

    Hosts have one NIC. Weighted links and links of mixed speed keep their weights.
    """
    assert fabric.ecmp.buckets == BUCKETS, "only groups of full size are simulated"
    nics = {host.name: index for index, host in enumerate(fabric.hosts)}
    switches = {switch.name: index for index, switch in enumerate(fabric.switches)}
    clock = nics | {name: len(nics) + index for name, index in switches.items()}
    directed = {}
    for index, link in enumerate(fabric.links):
        directed[link.a] = 2 * index
        directed[link.b] = 2 * index + 1
    table = compute_routes(fabric)
    attached = attached_hosts(fabric)
    leaf_names = [switch.name for switch in fabric.switches if attached[switch.name]]
    row = {name: index for index, name in enumerate(leaf_names)}
    group = np.full((len(switches), len(leaf_names)), -1, np.int32)
    buckets: list[list[int]] = []
    known: dict[tuple[int, ...], int] = {}
    for name, at in switches.items():
        links = {end.port: one for end, one in directed.items() if end.node == name}
        for leaf, column in row.items():
            if leaf == name:
                continue
            ip = attached[leaf][0].host.ip
            route = next(r for r in table.routes[name] if _holds(r.prefix, ip))
            ports = base_buckets({hop.port: hop.weight for hop in route.next_hops}, BUCKETS)
            members = tuple(links[port] for port in ports)
            if members not in known:
                known[members] = len(buckets)
                buckets.append(list(members))
            group[at, column] = known[members]
    peers = cabling(fabric)
    leaf_of = {peer.node: end.node for end, peer in peers.items() if end.node in switches}
    access = {
        peer.node: directed[end]
        for end, peer in peers.items()
        if end.node in switches and peer.node in nics
    }
    return Topology(
        nic_names=tuple(nics),
        nic_ip=np.array([host.ip for host in fabric.hosts], np.int64),
        nic_mac=np.array([host.mac for host in fabric.hosts], np.int64),
        nic_host=np.arange(len(nics)),
        nic_leaf=np.array([switches[leaf_of[name]] for name in nics], np.int64),
        switch_names=tuple(switches),
        node_id=np.array([switch.node_id for switch in fabric.switches], np.int64),
        tier=np.array([table.tiers[name] for name in switches], np.int64),
        leaf_row=np.array([row.get(name, -1) for name in switches], np.int64),
        link_a=np.array([clock[link.a.node] for link in fabric.links], np.int64),
        link_a_port=np.array([link.a.port for link in fabric.links], np.int64),
        link_b=np.array([clock[link.b.node] for link in fabric.links], np.int64),
        link_b_port=np.array([link.b.port for link in fabric.links], np.int64),
        group=group,
        buckets=np.array(buckets, np.int32).reshape(-1, BUCKETS),
        access_link=np.array([access[name] for name in nics], np.int64),
        ecmp_seed=fabric.ecmp.seed,
    )


def _holds(prefix: object, ip: int) -> bool:
    return isinstance(prefix, IPv4Network) and IPv4Address(ip) in prefix
