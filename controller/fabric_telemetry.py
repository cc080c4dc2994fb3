# SPDX-License-Identifier: Apache-2.0
"""What an operator declares about measuring: collectors, watchlists, reports, probes, punting.

Parts of `Fabric` (`fabric.py`), with the meaning of `fabric.yaml`'s keys (docs/fabric.md). Times
are nanoseconds; `desired.py` turns them into a switch's stamp units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique
from ipaddress import IPv4Network, IPv6Network
from types import MappingProxyType
from typing import Self, TypeAlias

IpNetwork: TypeAlias = IPv4Network | IPv6Network
HostOrPrefix: TypeAlias = str | IPv4Network | IPv6Network
"""A host by its name, or a range of addresses."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LinkEnd:
    """A port of a switch or host."""

    node: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `node:port`.

        >>> LinkEnd.parse("leaf1:11")
        LinkEnd(node='leaf1', port=11)
        """
        node, _, port = text.rpartition(":")
        return cls(node=node, port=int(port))

    def __str__(self) -> str:
        return f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """A place where the switches send telemetry reports."""

    ip: int
    mac: int
    udp_port: int
    attached: LinkEnd | None = None
    """Switch port that it is cabled to; None: reached out of band over each `report_port`."""
    destination_id: int = 0
    """Sequence numbers of reports count per node, hw id and this number (0 to 63)."""


@unique
class WatchTraffic(Enum):
    """Which packets a watchlist selects."""

    ROCE = "roce"
    """RoCEv2: UDP to port 4791."""
    PTP = "ptp"
    """PTP event messages, reported by postcards; the packet stays untouched."""


@unique
class WatchMode(Enum):
    """How the packets of a RoCE watchlist are instrumented (INT v2.1 section 3)."""

    MD = "md"
    """Instructions and metadata in the packet; the last switch takes out and reports both."""
    MX = "mx"
    """Instructions in the packet; every switch reports by postcard."""
    XD = "xd"
    """Nothing in the packet; every switch that has the entry reports by postcard."""
    EXEMPT = "exempt"
    """Never instrumented, whatever watchlists further down say."""


@unique
class Syndrome(Enum):
    """Kinds of negative acknowledgement: bits 6 and 5 of the AETH syndrome."""

    RNR_NAK = "rnr_nak"
    NAK = "nak"

    @property
    def bits(self) -> int:
        """The two bits, in place."""
        return 0x20 if self is Syndrome.RNR_NAK else 0x60


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchlist:
    """Packets to instrument, and what to ask of each hop."""

    name: str
    traffic: WatchTraffic
    instruction_bitmap: int = 0
    """INT instructions (RoCE), or RepMdBits of the postcards (PTP)."""
    mode: WatchMode = WatchMode.MD
    """RoCE only."""
    traffic_class: str | None = None
    """RoCE: the class whose DSCP is matched, and whose marked DSCP marks MD and MX packets."""
    remaining_hop_count: int | None = None
    """RoCE, MD: the number of hops that may push."""
    change_only: bool = False
    """RoCE, XD: report only when latency or path changed, or the interval of the filter is over."""
    tenants: tuple[str, ...] = ()
    """RoCE: only packets sent by hosts of these tenants; empty: of all."""
    sources: tuple[HostOrPrefix, ...] = ()
    """RoCE: only packets from these; empty: from all."""
    destinations: tuple[HostOrPrefix, ...] = ()
    """RoCE: only packets to these; empty: to all."""
    opcodes: tuple[int, ...] = ()
    """RoCE: only these BTH opcodes; empty: all."""
    dest_qps: tuple[int, ...] = ()
    """RoCE: only to these queue pairs; empty: to all."""
    syndromes: tuple[Syndrome, ...] = ()
    """RoCE: only acknowledgements of these kinds; empty: all packets."""
    sample_psn_bits: int = 0
    """RoCE: of each queue pair, one packet in 2^this (those whose low PSN bits are zero)."""
    message_types: tuple[int, ...] = ()
    """PTP: message types reported (0 Sync, 1 Delay_Req, 2 Pdelay_Req, 3 Pdelay_Resp)."""
    sample_sequence_bits: int = 0
    """PTP: of each sender, one message in 2^this (those whose low sequenceId bits are zero)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFilter:
    """When a report says nothing new and is left out: same path, same latency, same interval."""

    mx: bool = False
    """Filter the postcards of INT-MX packets too (those of XD: `change_only`)."""
    drops: bool = True
    """One drop report per flow, reason and interval."""
    latency_quantum_ns: int = 256
    """Hop latencies in the same quantum are the same; rounded down to a power of two of units."""
    interval_ns: int = 1_000_000_000
    """A flow is reported at least once in this time; rounded down likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """When a queue counts as congested, and how many packets of an episode are reported."""

    queue: int
    depth_packets: int | None = None
    """Congested at this depth or more; None: the depth alone says nothing."""
    latency_ns: int | None = None
    """Congested at this hop latency or more; None: the latency alone says nothing."""
    quota: int = 64
    """Reports per episode of congestion."""
    ports: tuple[LinkEnd, ...] = ()
    """Only these switch ports; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropReport:
    """Dropped packets to report."""

    reasons: tuple[str, ...] = ()
    """Names of `DROP_REASONS`; empty: all."""
    source: IPv4Network | None = None
    destination: IPv4Network | None = None


DROP_REASONS: Mapping[str, int] = MappingProxyType(
    {
        "ip_version_invalid": 25,
        "ttl_expired": 26,
        "no_route": 29,
        "ip_header_length_invalid": 30,
        "ip_checksum_invalid": 31,
        "traffic_manager": 71,
        "ip_length_invalid": 128,
        "unknown_ether_type": 129,
        "int_not_strippable": 130,
        "route_action": 131,
        "l2_ptp_not_forwarded": 132,
        "probe_invalid": 133,
    }
)
"""`DROP_*` of p4src/include/ids.p4, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """How all switches report."""

    dscp: int = 0
    """DSCP of the reports themselves; the class that has it gives their queue."""
    filter: ReportFilter = ReportFilter()
    queues: tuple[QueueReport, ...] = ()
    drops: tuple[DropReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Probes that bounce between neighbouring switches, so that quiet links are measured too."""

    budget_pps: int
    """Probes a second, all links of the fabric together."""
    dscp: int = 0
    """Gives the queue, the same in both directions."""
    payload_bytes: int = 64
    """Bytes after the probe header; the frame has the same length in both directions."""
    report_metadata_bits: int = 0x7C00


ETHER_TYPE_IPV4 = 0x0800
ETHER_TYPE_IPV6 = 0x86DD
IP_ETHER_TYPES: Mapping[int, int] = MappingProxyType({ETHER_TYPE_IPV4: 4, ETHER_TYPE_IPV6: 6})
"""IP version by EtherType."""
PROTOCOL_ICMPV6 = 58
PROTOCOLS_WITH_PORTS = (6, 17)
"""TCP and UDP: what the switch reads ports of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PuntRule:
    """Packets that go to the CPU port; a field that is None (or empty) matches everything.

    A field matches only packets that have it.
    """

    name: str
    ether_type: int | None = None
    protocol: int | None = None
    """IPv4 protocol or IPv6 next header."""
    l4_dst_port: int | None = None
    icmp_types: tuple[int, ...] = ()
    """ICMPv6 only."""
    destination: IpNetwork | None = None

    @property
    def of_ip(self) -> bool:
        """It names something that only IP packets have."""
        return bool(
            self.icmp_types
            or self.destination is not None
            or self.protocol is not None
            or self.l4_dst_port is not None
        )

    @property
    def ip_versions(self) -> tuple[int, ...]:
        """IP versions of the packets that it can match; none for other packets."""
        versions = {4, 6} if self.of_ip else set()
        if self.ether_type is not None:
            versions &= {IP_ETHER_TYPES.get(self.ether_type, 0)}
        if self.destination is not None:
            versions &= {self.destination.version}
        if self.icmp_types:
            versions &= {6}
        return tuple(sorted(versions))


DEFAULT_PUNT = (
    PuntRule(name="lldp", ether_type=0x88CC),
    PuntRule(name="arp", ether_type=0x0806),
    PuntRule(
        name="neighbour-discovery",
        ether_type=0x86DD,
        protocol=58,
        icmp_types=(133, 134, 135, 136, 137),
    ),
)
"""What a router must see whatever is written: neighbours, their addresses (RFC 4861 section 4)."""


@unique
class EthernetPtp(Enum):
    """What switches do with PTP over Ethernet (EtherType 0x88F7), apart from peer delay."""

    DROP = "drop"
    """A routed fabric has no path for it."""
    TREE = "tree"
    """Flooded along the shortest-path tree of the grandmaster: no loops, one path for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ecmp:
    """Groups of the ECMP selector."""

    buckets: int = 64
    seed: int = 0
    """Goes into every switch's hash together with its node id; another one moves all flows."""
    hash_flow_label: bool = False
    """IPv6: source, destination and flow label (RFC 6438) in place of protocol and ports."""


DEFAULT_ECMP = Ecmp()
DEFAULT_REPORTS = Reports()
