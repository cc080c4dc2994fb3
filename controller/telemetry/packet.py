# SPDX-License-Identifier: Apache-2.0
"""The reported packet: its key, its original length and the INT header that it carries.

A report holds only the packet's first bytes, so lengths come from its headers, not from the data.
"""

from collections.abc import Mapping
from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.datagram import (
    ETHER_TYPE_IPV4,
    ETHER_TYPE_IPV6,
    ETHER_TYPE_PTP,
    IP_FLAG_MORE_FRAGMENTS,
    IP_PROTOCOL_TCP,
    IP_PROTOCOL_UDP,
    UDP_PORT_PROBE,
    UDP_PORT_PTP_EVENT,
    UDP_PORT_ROCEV2,
    frame_bytes_on_wire,
    unwrap_link,
)
from controller.telemetry.int_headers import (
    NPT_INSERTED_UDP,
    NPT_UDP_PORT,
    IntHeaders,
    IntStack,
    decode_int_headers,
)
from controller.telemetry.int_headers_old import decode_int_v05, decode_int_v1
from controller.telemetry.layout import BTH, IPV4, IPV6, PROBE, PTP, TCP_PORTS, UDP
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.profiles import STANDARD, Dialect, IntFormat
from controller.telemetry.ptp import PTP_EVENT_TYPE_MAX, PTP_VERSION
from correction.records import TRAFFIC_PROBE, TRAFFIC_PTP, TRAFFIC_ROCE

TRAFFIC_OTHER = 0
"""Nothing that is timed: decodes, but is no sample of a link."""

NETWORK_IPV4 = 4
NETWORK_IPV6 = 6
NETWORK_ETHERNET = 2
"""What a key's addresses are: IPv4, IPv6 or MAC addresses."""
MAC_GROUP_BIT = 40
"""Set in the MAC address of a group (IEEE 802 clause 8.2)."""

PROBE_VERSION = 1


class PacketKey(NamedTuple):
    """What tells one packet from another wherever it is reported; unused parts are 0."""

    traffic: int
    src_addr: int
    """Of the kind that `network` names. 0 for a probe, whose addresses change places."""
    dst_addr: int
    protocol: int
    """IP protocol; the EtherType of a packet without IP."""
    src_port: int
    dst_port: int
    bth_opcode: int = 0
    dest_qp: int = 0
    psn: int = 0
    ptp_domain: int = 0
    ptp_message_type: int = 0
    ptp_clock_identity: int = 0
    ptp_port_number: int = 0
    ptp_sequence_id: int = 0
    network: int = NETWORK_IPV4
    probe_node_id: int = 0
    """The switch that sent the probe."""
    probe_egress_port: int = 0
    probe_sequence_number: int = 0

    @property
    def is_multicast(self) -> bool:
        """PTP over Ethernet to a group address (IEEE 1588-2019 annex E): each copy has a path."""
        return self.network == NETWORK_ETHERNET and bool(self.dst_addr >> MAC_GROUP_BIT & 1)


class ReportedPacket(NamedTuple):
    """The packet that a report is about, as it was before INT touched it."""

    key: PacketKey
    dscp: int
    """The packet's own, marking removed."""
    wire_bytes: int
    """Frame without INT, with FCS, from the IP total length (the report holds only its start);
    0 where the headers do not say."""
    stack: IntStack | None = None
    int_bytes: int = 0
    """What INT had added to the frame where it was reported."""
    src_addr: int = 0
    """Addresses in the direction in which the packet was first sent, of the kind `key.network`."""
    dst_addr: int = 0
    vlan_id: int | None = None
    probe_returning: bool = False
    problem: DecodeReason | None = None
    """Why less than the whole packet was read; only where it was dropped or is not tracked, and
    where the report holds none."""
    node_values: HopMetadata | None = None
    """What the reporting node says of itself inside the packet (`Dialect.mx_values_follow`)."""


NO_PACKET = ReportedPacket(
    PacketKey(TRAFFIC_OTHER, 0, 0, 0, 0, 0), 0, 0, problem=DecodeReason.NO_PACKET
)
"""In place of the packet of a report that holds none."""


class IntMarking(NamedTuple):
    """How packets with INT are recognised in a domain; use one kind only."""

    original_dscp: Mapping[int, int]
    """Marked DSCP -> DSCP of the same class."""
    udp_port: int | None = None
    """INT's UDP destination port."""


NO_MARKING = IntMarking({})
"""Nothing is taken for INT."""


class _Ip(NamedTuple):
    """What the decoder needs of an IP header of either version."""

    network: int
    src_addr: int
    dst_addr: int
    protocol: int
    dscp: int
    transport_start: int
    packet_bytes: int
    """Header included, as the header says."""
    header_bytes: int
    tagged: bool


def decode_packet(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> ReportedPacket:
    """The IPv4 packet that starts at `offset`, of which `data` may hold only the beginning."""
    return _decode_ip_payload(_ipv4(data, offset), data, marking, dialect)


def decode_ipv6_packet(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> ReportedPacket:
    """The same for IPv6; behind an extension header there is no transport header for us."""
    return _decode_ip_payload(_ipv6(data, offset), data, marking, dialect)


def decode_frame(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> ReportedPacket:
    """The Ethernet frame that starts at `offset`, with a VLAN tag or without."""
    link = unwrap_link(data, offset)
    tagged, start = link.vlan is not None, link.payload_start
    if link.ether_type == ETHER_TYPE_IPV4:
        packet = _decode_ip_payload(_ipv4(data, start, tagged), data, marking, dialect)
    elif link.ether_type == ETHER_TYPE_IPV6:
        packet = _decode_ip_payload(_ipv6(data, start, tagged), data, marking, dialect)
    elif link.ether_type == ETHER_TYPE_PTP:
        ethernet = link.ethernet
        addresses = (ethernet.src_addr, ethernet.dst_addr, link.ether_type, 0, 0)
        key, ptp_bytes = _ptp_key(data, start, addresses, NETWORK_ETHERNET)
        wire_bytes = frame_bytes_on_wire(ptp_bytes, tagged=tagged)
        packet = ReportedPacket(
            key, 0, wire_bytes, src_addr=ethernet.src_addr, dst_addr=ethernet.dst_addr
        )
    else:
        raise DecodeError(DecodeReason.INNER_ETHER_TYPE, start - 2)
    return packet if link.vlan is None else packet._replace(vlan_id=link.vlan.vlan_id)


def _ipv4(data: Buffer, offset: int, tagged: bool = False) -> _Ip:
    ipv4 = decode(IPV4, data, offset)
    header_bytes = ipv4.ihl * 4
    if ipv4.version != 4 or ipv4.ihl < 5 or ipv4.total_length < header_bytes:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset)
    if ipv4.fragment_offset or ipv4.flags & IP_FLAG_MORE_FRAGMENTS:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset + 6)
    return _Ip(
        NETWORK_IPV4,
        ipv4.src_addr,
        ipv4.dst_addr,
        ipv4.protocol,
        ipv4.dscp,
        offset + header_bytes,
        ipv4.total_length,
        header_bytes,
        tagged,
    )


def _ipv6(data: Buffer, offset: int, tagged: bool = False) -> _Ip:
    ipv6 = decode(IPV6, data, offset)
    if ipv6.version != 6:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset)
    return _Ip(
        NETWORK_IPV6,
        ipv6.src_addr,
        ipv6.dst_addr,
        ipv6.next_header,
        ipv6.dscp,
        offset + IPV6.byte_count,
        IPV6.byte_count + ipv6.payload_length,
        IPV6.byte_count,
        tagged,
    )


def _decode_ip_payload(
    ip: _Ip, data: Buffer, marking: IntMarking, dialect: Dialect
) -> ReportedPacket:
    """The packet of a decoded IP header."""
    protocol, dscp, transport = ip.protocol, ip.dscp, ip.transport_start
    if protocol == IP_PROTOCOL_UDP:
        src_port, dst_port, _length, _checksum = decode(UDP, data, transport)
        payload = transport + UDP.byte_count
    elif protocol == IP_PROTOCOL_TCP:
        src_port, dst_port = decode(TCP_PORTS, data, transport)
        payload = transport
    else:
        return _packet(ip, _other_key(ip, protocol), ip.dscp, None, 0)
    stack = None
    int_bytes = 0
    node_values = None
    by_dscp = dscp in marking.original_dscp
    has_int = by_dscp or dst_port == marking.udp_port
    if not has_int and dialect.int_always_embedded:
        has_int = marking is not NO_MARKING
    if has_int and protocol == IP_PROTOCOL_UDP:
        headers = _int_headers(data, payload, dialect)
        stack, node_values = headers.stack, headers.node_values
        payload += headers.byte_count
        int_bytes = headers.byte_count - headers.appended_bytes
        if headers.appended_bytes:
            # a node counts what it appends; a source, whose copy is not marked, not its header
            uncounted = int_bytes if dscp == headers.original_dscp else 0
            ip = ip._replace(packet_bytes=ip.packet_bytes - headers.appended_bytes + uncounted)
        if by_dscp:
            dscp = marking.original_dscp[dscp]
        elif headers.original_dscp is not None and dialect.int_always_embedded:
            dscp = headers.original_dscp
        if headers.npt == NPT_UDP_PORT:
            dst_port = headers.npt_value
        elif headers.npt == NPT_INSERTED_UDP:
            # the added UDP header in front of the shim goes too; the original one follows
            int_bytes += UDP.byte_count
            if stack is not None:
                stack = stack._replace(source_bytes=stack.source_bytes + UDP.byte_count)
            protocol = headers.npt_value
            if protocol not in (IP_PROTOCOL_UDP, IP_PROTOCOL_TCP):
                return _packet(ip, _other_key(ip, protocol), dscp, stack, int_bytes)
            src_port, dst_port = decode(TCP_PORTS, data, payload)  # first word of UDP too
            payload += UDP.byte_count if protocol == IP_PROTOCOL_UDP else 0
    if int_bytes > ip.packet_bytes - ip.header_bytes:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, transport - ip.header_bytes)
    addresses = (ip.src_addr, ip.dst_addr, protocol, src_port, dst_port)
    if protocol == IP_PROTOCOL_UDP:
        if dst_port == UDP_PORT_ROCEV2:
            bth = decode(BTH, data, payload)
            key = PacketKey(
                TRAFFIC_ROCE, *addresses, bth.opcode, bth.dest_qp, bth.psn, network=ip.network
            )
            return _packet(ip, key, dscp, stack, int_bytes, node_values)
        if dst_port == UDP_PORT_PTP_EVENT:
            key, _ptp_bytes = _ptp_key(data, payload, addresses, ip.network)
            return _packet(ip, key, dscp, stack, int_bytes, node_values)
        if dst_port == UDP_PORT_PROBE and stack is None:
            return _probe(ip, data, payload, dscp, addresses)
    key = PacketKey(TRAFFIC_OTHER, *addresses, network=ip.network)
    return _packet(ip, key, dscp, stack, int_bytes, node_values)


def _int_headers(data: Buffer, offset: int, dialect: Dialect) -> IntHeaders:
    """INT headers at `offset` in the layout of the dialect."""
    if dialect.int_format is IntFormat.V2:
        return decode_int_headers(data, offset, dialect)
    if dialect.int_format is IntFormat.V1:
        return decode_int_v1(data, offset, dialect)
    return decode_int_v05(data, offset)


def _packet(
    ip: _Ip,
    key: PacketKey,
    dscp: int,
    stack: IntStack | None,
    int_bytes: int,
    node_values: HopMetadata | None = None,
) -> ReportedPacket:
    return ReportedPacket(
        key,
        dscp,
        frame_bytes_on_wire(ip.packet_bytes - int_bytes, tagged=ip.tagged),
        stack,
        int_bytes,
        ip.src_addr,
        ip.dst_addr,
        node_values=node_values,
    )


def _other_key(ip: _Ip, protocol: int) -> PacketKey:
    """Of a packet without ports."""
    return PacketKey(TRAFFIC_OTHER, ip.src_addr, ip.dst_addr, protocol, 0, 0, network=ip.network)


def _ptp_key(
    data: Buffer, offset: int, addresses: tuple[int, int, int, int, int], network: int
) -> tuple[PacketKey, int]:
    """(key, bytes of the message) of PTP at `offset`: event messages are timed, others are not."""
    ptp = decode(PTP, data, offset)
    if ptp.version_ptp != PTP_VERSION:
        raise DecodeError(DecodeReason.PTP_VERSION, offset + 1)
    if ptp.message_type > PTP_EVENT_TYPE_MAX:
        return PacketKey(TRAFFIC_OTHER, *addresses, network=network), ptp.message_length
    key = PacketKey(
        TRAFFIC_PTP,
        *addresses,
        ptp_domain=ptp.domain_number,
        ptp_message_type=ptp.message_type,
        ptp_clock_identity=ptp.source_clock_identity,
        ptp_port_number=ptp.source_port_number,
        ptp_sequence_id=ptp.sequence_id,
        network=network,
    )
    return key, ptp.message_length


def _probe(
    ip: _Ip, data: Buffer, offset: int, dscp: int, addresses: tuple[int, int, int, int, int]
) -> ReportedPacket:
    """A link probe: one key both ways, though the switch that returns it swaps the addresses."""
    probe = decode(PROBE, data, offset)
    if probe.version != PROBE_VERSION:
        raise DecodeError(DecodeReason.PROBE_VERSION, offset)
    key = PacketKey(
        TRAFFIC_PROBE,
        0,
        0,
        *addresses[2:],
        network=ip.network,
        probe_node_id=probe.node_id,
        probe_egress_port=probe.egress_port,
        probe_sequence_number=probe.sequence_number,
    )
    packet = _packet(ip, key, dscp, None, 0)
    if not probe.returning:
        return packet
    return packet._replace(src_addr=ip.dst_addr, dst_addr=ip.src_addr, probe_returning=True)
