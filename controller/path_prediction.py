# SPDX-License-Identifier: Apache-2.0
"""Which way a packet goes by the switches' hash, and whether that has been right so far.

Pure. The arithmetic is that of `p4src/v1model/flow_hash.p4`: CRC-32 of the 5-tuple, plus the
switch's offset, through the finaliser of MurmurHash3; the remainder by the number of buckets
chooses one (`ecmp.buckets_in_use`). A prediction is a guess about switches' state: only where it
agreed with what packets reported may it stand in for a report (`HashCheck`).
"""

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from controller.ecmp import buckets_in_use
from controller.fabric import PROTOCOL_UDP, Fabric, LinkEnd, cabling
from controller.routing import Route, compute_routes, tiers
from controller.targets import BMV2
from correction.flow_paths import Flow, FlowPaths, Path, PathHop
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE

TIER_STEP = 0x9E37_79B9
_U32 = 0xFFFF_FFFF
HOPS_MAX = 64
"""A packet that crosses more switches goes in circles."""

AGREED_SHARE_MIN = 0.999
"""Share of the reported packets whose path must have been the predicted one."""
CHECKED_PACKETS_MIN = 1_000
"""Fewer cannot show a share of 99.9 %."""
CHECKED_FLOWS_MIN = 10
"""Many packets of few flows are few draws of the hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What switches hash of a UDP packet."""

    src_ip: int
    dst_ip: int
    src_port: int
    dst_port: int
    flow_label: int = 0
    """IPv6 alone."""
    ipv6: bool = False


def flow_hash(header: Header, *, by_flow_label: bool) -> int:
    """32 bits that are the same on every switch.

    >>> header = Header(src_ip=1, dst_ip=2, src_port=3, dst_port=4)
    >>> wire = bytes.fromhex("00000001 00000002 11 0003 0004")
    >>> flow_hash(header, by_flow_label=False) == zlib.crc32(wire)
    True
    """
    width = 16 if header.ipv6 else 4
    data = header.src_ip.to_bytes(width, "big") + header.dst_ip.to_bytes(width, "big")
    if header.ipv6 and by_flow_label:
        return zlib.crc32(data + header.flow_label.to_bytes(4, "big"))
    data += bytes([PROTOCOL_UDP])
    data += header.src_port.to_bytes(2, "big") + header.dst_port.to_bytes(2, "big")
    return zlib.crc32(data)


def mixed(hashed: int, *, tier: int, seed: int) -> int:
    """The hash that a switch chooses its bucket by."""
    value = (hashed + seed + tier * TIER_STEP) & _U32
    value ^= value >> 16
    value = value * 0x85EB_CA6B & _U32
    value ^= value >> 13
    value = value * 0xC2B2_AE35 & _U32
    return value ^ value >> 16


class PathPredictor:
    """Paths of a fabric whose switches hold what `compute_routes` says."""

    def __init__(self, fabric: Fabric, failed_links: Collection[str] = ()) -> None:
        self._fabric = fabric
        self._routes = compute_routes(fabric, failed_links).routes
        self._tiers = tiers(fabric)
        self._far = cabling(fabric)
        self._switches = {switch.name: switch for switch in fabric.switches}
        self._known = {
            switch.name
            for switch in fabric.switches
            if fabric.model(switch.model).target == BMV2.name
        }
        self._entries: dict[int, list[LinkEnd]] = {}
        for end, far in self._far.items():
            if end.node not in self._switches and far.node in self._switches:
                host = fabric.host(end.node)
                for address in (host.ip, host.ipv6):
                    if address is not None:
                        self._entries.setdefault(address, []).append(far)
        self._buckets: dict[tuple[str, int, bool], tuple[int, ...]] = {}

    def path_of(self, flow: Flow) -> Path | None:
        """Of a flow that was reported, or could be: IPv4 between declared hosts."""
        return self.path(
            Header(
                src_ip=flow.src_ip,
                dst_ip=flow.dst_ip,
                src_port=flow.src_port,
                dst_port=flow.dst_port,
            )
        )

    def path(
        self, header: Header, *, src_host: int | None = None, dst_host: int | None = None
    ) -> Path | None:
        """The switches that a packet crosses; None where that does not follow from the fabric.

        src_host, dst_host: declared addresses of the hosts where the header has others of theirs
        (secondary ones, routed alike). None is predicted for hosts with several cables, which
        choose one by themselves, and through switches that run another program than BMv2's.
        """
        entries = self._entries.get(header.src_ip if src_host is None else src_host, [])
        if len(entries) != 1:
            return None
        at, target = entries[0], header.dst_ip if dst_host is None else dst_host
        hashed = flow_hash(header, by_flow_label=self._fabric.ecmp.hash_flow_label)
        hops: list[PathHop] = []
        while at.node in self._switches:
            if at.node not in self._known or len(hops) == HOPS_MAX:
                return None
            buckets = self._buckets_to(at.node, target, header.ipv6)
            if not buckets:
                return None
            switch = self._switches[at.node]
            seed = (self._fabric.ecmp.seed + switch.node_id) & _U32
            value = mixed(hashed, tier=self._tiers[at.node], seed=seed)
            port = buckets[value % len(buckets)]
            hops.append(PathHop(switch.node_id, at.port, port))
            far = self._far.get(LinkEnd(node=at.node, port=port))
            if far is None:
                return None
            at = far
        return tuple(hops)

    def _buckets_to(self, switch: str, target: int, ipv6: bool) -> tuple[int, ...]:
        """The port of every bucket of the route; empty without one."""
        key = (switch, target, ipv6)
        if key not in self._buckets:
            address = IPv6Address(target) if ipv6 else IPv4Address(target)
            matching = [route for route in self._routes[switch] if address in route.prefix]
            route = max(matching, key=lambda one: one.prefix.prefixlen, default=None)
            self._buckets[key] = _ports(route, self._fabric.ecmp.buckets) if route else ()
        return self._buckets[key]


def _ports(route: Route, bucket_count: int) -> tuple[int, ...]:
    if len(route.next_hops) == 1:
        return (route.next_hops[0].port,)
    weights = {hop.port: hop.weight for hop in route.next_hops}
    usable = weights.keys() - set(route.failed_ports)
    return buckets_in_use(weights, usable, bucket_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashCheck:
    """How often packets went where the hash said."""

    flows: int
    packets: int
    agreed: int

    @property
    def share(self) -> float:
        """Of the reported packets; 0 without any."""
        return self.agreed / self.packets if self.packets else 0.0

    @property
    def trusted(self) -> bool:
        """Enough reports, and as good as all of them as predicted."""
        enough = self.packets >= CHECKED_PACKETS_MIN and self.flows >= CHECKED_FLOWS_MIN
        return enough and self.share >= AGREED_SHARE_MIN

    @property
    def reason(self) -> str:
        """Why it is not trusted; empty if it is."""
        if self.trusted:
            return ""
        if self.packets < CHECKED_PACKETS_MIN or self.flows < CHECKED_FLOWS_MIN:
            return f"only {self.packets} packets of {self.flows} flows were reported"
        return f"the hash model was right for {100 * self.share:.2f} % of the reported packets"


def check_hash(predictor: PathPredictor, paths: FlowPaths) -> HashCheck:
    """Compare with all paths that were reported; what is not predicted counts as wrong.

    Probes are not routed, and PTP over Ethernet follows a tree: neither is hashed.
    """
    flows = [
        flow
        for flow in paths.flows()
        if flow.traffic in (TRAFFIC_ROCE, TRAFFIC_PTP) and flow.dst_port
    ]
    packets = agreed = 0
    for flow in flows:
        expected = predictor.path_of(flow)
        for use in paths.paths_of(flow):
            packets += use.packets
            agreed += use.packets if use.path == expected else 0
    return HashCheck(flows=len(flows), packets=packets, agreed=agreed)
