# SPDX-License-Identifier: Apache-2.0
"""Tables of the headers around and inside a report: Ethernet to UDP, RoCEv2, PTP, link probe.

Clauses: PTP = IEEE 1588-2019, IBTA = InfiniBand Architecture, annex A17.
"""

from typing import Annotated, NamedTuple

from controller.telemetry.layout_table import Wire, header_layout


class Ethernet(NamedTuple):
    """Ethernet II header (IEEE 802.3 clause 3)."""

    dst_addr: Annotated[int, Wire(48, "Destination MAC address")]
    src_addr: Annotated[int, Wire(48, "Source MAC address")]
    ether_type: Annotated[int, Wire(16, "0x0800 IPv4, 0x86DD IPv6, 0x8100 VLAN, 0x88F7 PTP")]


class Vlan(NamedTuple):
    """VLAN tag behind the EtherType 0x8100 (IEEE 802.1Q clause 9.6)."""

    pcp: Annotated[int, Wire(3, "Priority")]
    dei: Annotated[int, Wire(1, "Drop eligible")]
    vlan_id: Annotated[int, Wire(12, "VLAN; 0 = priority tag only")]
    ether_type: Annotated[int, Wire(16, "What follows the tag")]


class Ipv4(NamedTuple):
    """IPv4 header without options (RFC 791)."""

    version: Annotated[int, Wire(4, "4")]
    ihl: Annotated[int, Wire(4, "Header length in words; 5 without options")]
    dscp: Annotated[int, Wire(6, "Traffic class; marks packets that carry INT")]
    ecn: Annotated[int, Wire(2, "Explicit congestion notification; 3 = congestion experienced")]
    total_length: Annotated[int, Wire(16, "Bytes of this header and all that follows it")]
    identification: Annotated[int, Wire(16, "Covered by the RoCEv2 ICRC: never rewritten")]
    flags: Annotated[int, Wire(3, "Bit 1 = don't fragment, bit 2 = more fragments")]
    fragment_offset: Annotated[int, Wire(13, "Fragment offset in units of 8 bytes")]
    ttl: Annotated[int, Wire(8, "Hops left")]
    protocol: Annotated[int, Wire(8, "6 TCP, 17 UDP")]
    header_checksum: Annotated[int, Wire(16, "Ones' complement sum of the header")]
    src_addr: Annotated[int, Wire(32, "Source address")]
    dst_addr: Annotated[int, Wire(32, "Destination address")]


class Ipv6(NamedTuple):
    """IPv6 header (RFC 8200); extension headers are not looked into."""

    version: Annotated[int, Wire(4, "6")]
    dscp: Annotated[int, Wire(6, "Traffic class; marks packets that carry INT")]
    ecn: Annotated[int, Wire(2, "Explicit congestion notification; 3 = congestion experienced")]
    flow_label: Annotated[int, Wire(20, "Entropy of the flow; not covered by the RoCEv2 ICRC")]
    payload_length: Annotated[int, Wire(16, "Bytes after this header")]
    next_header: Annotated[int, Wire(8, "6 TCP, 17 UDP, 58 ICMPv6")]
    hop_limit: Annotated[int, Wire(8, "Hops left")]
    src_addr: Annotated[int, Wire(128, "Source address")]
    dst_addr: Annotated[int, Wire(128, "Destination address")]


class Icmp(NamedTuple):
    """First bytes of an ICMPv6 message (RFC 4443)."""

    type: Annotated[int, Wire(8, "133 to 137: neighbour discovery")]
    code: Annotated[int, Wire(8, "Depends on the type")]
    checksum: Annotated[int, Wire(16, "Over pseudo header and message")]


class Udp(NamedTuple):
    """UDP header (RFC 768)."""

    src_port: Annotated[int, Wire(16, "Source port; RoCEv2 entropy for ECMP")]
    dst_port: Annotated[int, Wire(16, "4791 RoCEv2, 319 and 320 PTP, 32767 link probe")]
    length: Annotated[int, Wire(16, "Bytes of this header and its payload")]
    checksum: Annotated[int, Wire(16, "0 = not computed")]


class TcpPorts(NamedTuple):
    """First word of a TCP header: enough for the 5-tuple (RFC 9293)."""

    src_port: Annotated[int, Wire(16, "Source port")]
    dst_port: Annotated[int, Wire(16, "Destination port")]


class Bth(NamedTuple):
    """Base transport header of RoCEv2 (IBTA)."""

    opcode: Annotated[int, Wire(8, "Transport and operation; 0x11 = RC acknowledge")]
    solicited_event: Annotated[int, Wire(1, "Responder raises an event")]
    migration_request: Annotated[int, Wire(1, "Path migration state")]
    pad_count: Annotated[int, Wire(2, "Padding bytes before the ICRC")]
    transport_version: Annotated[int, Wire(4, "0")]
    partition_key: Annotated[int, Wire(16, "0xFFFF = default partition")]
    fecn: Annotated[int, Wire(1, "Forward congestion; not covered by the ICRC")]
    becn: Annotated[int, Wire(1, "Backward congestion; not covered by the ICRC")]
    reserved1: Annotated[int, Wire(6, "Not covered by the ICRC")]
    dest_qp: Annotated[int, Wire(24, "Destination queue pair")]
    ack_request: Annotated[int, Wire(1, "Sender asks for an acknowledgement")]
    reserved2: Annotated[int, Wire(7, "0")]
    psn: Annotated[int, Wire(24, "Packet sequence number")]


class Reth(NamedTuple):
    """RDMA extended transport header: first packet of a write, and read requests (IBTA)."""

    virtual_address: Annotated[int, Wire(64, "Where the data lie at the responder")]
    remote_key: Annotated[int, Wire(32, "Right to access that memory")]
    dma_length: Annotated[int, Wire(32, "Bytes of the whole transfer")]


class Aeth(NamedTuple):
    """ACK extended transport header: acknowledgements and read responses (IBTA)."""

    syndrome: Annotated[int, Wire(8, "0x00-0x1F ACK with credits, 0x20-0x3F RNR, 0x60-0x7F NAK")]
    msn: Annotated[int, Wire(24, "Message sequence number")]


class Cnp(NamedTuple):
    """Rest of a congestion notification packet, BTH opcode 0x81 (IBTA)."""

    reserved: Annotated[int, Wire(128, "0")]


class Probe(NamedTuple):
    """Link probe after UDP port 32767: bounced once between two neighbours (docs/p4.md)."""

    version: Annotated[int, Wire(4, "1")]
    returning: Annotated[int, Wire(1, "Set by the switch that sends it back")]
    reserved: Annotated[int, Wire(11, "0")]
    egress_port: Annotated[int, Wire(16, "Port by which it left the switch that sent it")]
    node_id: Annotated[int, Wire(32, "The switch that sent it")]
    sequence_number: Annotated[int, Wire(32, "Counted per node and port")]


class Ptp(NamedTuple):
    """Common header of every PTP message (PTP 13.3)."""

    major_sdo_id: Annotated[int, Wire(4, "0 for the default profiles")]
    message_type: Annotated[int, Wire(4, "0-3 event: Sync, Delay_Req, Pdelay_Req, Pdelay_Resp")]
    minor_version_ptp: Annotated[int, Wire(4, "1 in the 2019 edition")]
    version_ptp: Annotated[int, Wire(4, "2")]
    message_length: Annotated[int, Wire(16, "Bytes of the message, this header included")]
    domain_number: Annotated[int, Wire(8, "PTP domain")]
    minor_sdo_id: Annotated[int, Wire(8, "0")]
    flag_field: Annotated[int, Wire(16, "0x0200 = twoStepFlag, 0x0400 = unicastFlag")]
    correction_field: Annotated[int, Wire(64, "Signed, in 2^-16 ns; largest = too big to state")]
    message_type_specific: Annotated[int, Wire(32, "0")]
    source_clock_identity: Annotated[int, Wire(64, "sourcePortIdentity.clockIdentity")]
    source_port_number: Annotated[int, Wire(16, "sourcePortIdentity.portNumber")]
    sequence_id: Annotated[int, Wire(16, "Pairs Sync with Follow_Up, Delay_Req with Delay_Resp")]
    control_field: Annotated[int, Wire(8, "Ignored by receivers of the 2019 edition")]
    log_message_interval: Annotated[int, Wire(8, "Signed power of two of seconds; 0x7F = none")]


class PtpTimestampBody(NamedTuple):
    """originTimestamp: the body of Sync, Delay_Req and Follow_Up (PTP 13.6, 13.7)."""

    seconds: Annotated[int, Wire(48, "Seconds of the PTP epoch")]
    nanoseconds: Annotated[int, Wire(32, "Less than 10^9")]


class PtpDelayRespBody(NamedTuple):
    """Body of Delay_Resp (PTP 13.8)."""

    seconds: Annotated[int, Wire(48, "receiveTimestamp, seconds of the PTP epoch")]
    nanoseconds: Annotated[int, Wire(32, "receiveTimestamp, less than 10^9")]
    requesting_clock_identity: Annotated[int, Wire(64, "requestingPortIdentity.clockIdentity")]
    requesting_port_number: Annotated[int, Wire(16, "requestingPortIdentity.portNumber")]


ETHERNET = header_layout("ethernet_t", Ethernet)
VLAN = header_layout("vlan_t", Vlan)
IPV4 = header_layout("ipv4_t", Ipv4)
IPV6 = header_layout("ipv6_t", Ipv6)
ICMP = header_layout("icmp_t", Icmp)
UDP = header_layout("udp_t", Udp)
TCP_PORTS = header_layout("tcp_ports_t", TcpPorts)
BTH = header_layout("bth_t", Bth)
RETH = header_layout("reth_t", Reth)
AETH = header_layout("aeth_t", Aeth)
CNP = header_layout("cnp_t", Cnp)
PROBE = header_layout("probe_t", Probe)
PTP = header_layout("ptp_t", Ptp)
PTP_TIMESTAMP = header_layout("ptp_timestamp_t", PtpTimestampBody)
PTP_DELAY_RESP = header_layout("ptp_delay_resp_t", PtpDelayRespBody)
