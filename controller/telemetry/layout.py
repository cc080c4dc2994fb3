# SPDX-License-Identifier: Apache-2.0
"""The wire format, once: every header as an ordered table of (field, bits, meaning).

A header is a `NamedTuple` whose annotations are the rows of its table, so the type that mypy
checks and the layout on the wire cannot drift apart. From these tables come the decoder and the
encoder (`codec`), docs/wire-format.md (`layout_docs`) and the conformance test against the
`header_types` of the compiled P4 program; names are those of p4src/include/headers.p4.
Values are NamedTuples rather than frozen dataclasses because millions are built per run and a
frozen dataclass costs about six times as much to build.

All fields are unsigned and big-endian; the first row holds the most significant bits.
Clauses: INT = "In-band Network Telemetry Dataplane Specification" v2.1, TR = "Telemetry Report
Format Specification" v2.0, PTP = IEEE 1588-2019, IBTA = InfiniBand Architecture, annex A17.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Generic, NamedTuple, TypeVar, get_type_hints


@dataclass(frozen=True, slots=True)
class Wire:
    """Annotation of one header field: its width and its meaning."""

    bits: int
    doc: str


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a header table."""

    name: str
    bits: int
    doc: str

    @property
    def value_max(self) -> int:
        """The largest value the field holds: all ones."""
        return (1 << self.bits) - 1


HeaderT_co = TypeVar("HeaderT_co", bound=NamedTuple, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeaderLayout(Generic[HeaderT_co]):
    """A header: its P4 type name, its rows in wire order and the type of its values.

    Compared by identity: each table exists once, and its compiled codec is looked up by it.
    """

    name: str
    fields: tuple[Field, ...]
    doc: str
    value_type: type[HeaderT_co]
    make: Callable[[Iterable[int]], HeaderT_co] = field(repr=False)
    byte_count: int
    """Width of the header; every header is a whole number of bytes."""


def header_layout(name: str, value_type: type[HeaderT_co]) -> HeaderLayout[HeaderT_co]:
    """The table of a header, read from the annotations of its value type."""
    rows = []
    for field_name, hint in get_type_hints(value_type, include_extras=True).items():
        (wire,) = hint.__metadata__
        assert isinstance(wire, Wire), f"{name}.{field_name} has no width"
        rows.append(Field(field_name, wire.bits, wire.doc))
    bit_count = sum(row.bits for row in rows)
    assert bit_count % 8 == 0, f"{name} is not a whole number of bytes"
    return HeaderLayout(
        name=name,
        fields=tuple(rows),
        doc=(value_type.__doc__ or "").strip(),
        value_type=value_type,
        make=value_type._make,
        byte_count=bit_count // 8,
    )


# ---------------------------------------------------------------- outer and inner headers


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


# ---------------------------------------------------------------- in-band telemetry


class IntShim(NamedTuple):
    """INT shim after UDP or TCP, in the form of NPT 0: marked by DSCP (INT 5.6)."""

    shim_type: Annotated[int, Wire(4, "1 INT-MD, 2 destination, 3 INT-MX")]
    npt: Annotated[int, Wire(2, "Next protocol type: 0 DSCP, 1 UDP port, 2 inserted UDP header")]
    reserved1: Annotated[int, Wire(2, "0")]
    length_words: Annotated[int, Wire(8, "Words of INT header and stack; this word not counted")]
    reserved2: Annotated[int, Wire(8, "0; high byte of the original port for NPT 1")]
    dscp: Annotated[int, Wire(6, "DSCP before marking; port or protocol for NPT 1, 2")]
    reserved3: Annotated[int, Wire(2, "0")]


class IntMd(NamedTuple):
    """INT-MD header after the shim; the metadata stack follows, newest hop first (INT 5.7)."""

    version: Annotated[int, Wire(4, "2 in INT v2.1")]
    discard: Annotated[int, Wire(1, "D: sink discards the packet after extraction")]
    max_hop_count_exceeded: Annotated[
        int, Wire(1, "E: a node could not add: remaining hop count was 0")
    ]
    mtu_exceeded: Annotated[int, Wire(1, "M: a node could not add: egress MTU")]
    reserved: Annotated[int, Wire(12, "0")]
    hop_metadata_len_words: Annotated[int, Wire(5, "Words that each hop adds (HopML)")]
    remaining_hop_count: Annotated[int, Wire(8, "Lowered only by a node that adds metadata")]
    instruction_bitmap: Annotated[int, Wire(16, "Values each node adds; bit 0 is the highest")]
    domain_specific_id: Annotated[int, Wire(16, "0 = no domain specific instructions")]
    ds_instruction: Annotated[int, Wire(16, "Domain specific instruction bitmap")]
    ds_flags: Annotated[int, Wire(16, "Domain specific flags")]


class IntMx(NamedTuple):
    """INT-MX header after the shim: nothing is added, each node sends a report (INT 5.8)."""

    version: Annotated[int, Wire(4, "2 in INT v2.1")]
    discard: Annotated[int, Wire(1, "D: sink discards the packet")]
    reserved: Annotated[int, Wire(27, "0")]
    instruction_bitmap: Annotated[int, Wire(16, "Values each node reports; bit 0 is the highest")]
    domain_specific_id: Annotated[int, Wire(16, "0 = no domain specific instructions")]
    ds_instruction: Annotated[int, Wire(16, "Domain specific instruction bitmap")]
    ds_flags: Annotated[int, Wire(16, "Domain specific flags")]


class IntNodeId(NamedTuple):
    """Instruction bit 0."""

    node_id: Annotated[int, Wire(32, "The reporting device, unique in its domain")]


class IntLevel1Ports(NamedTuple):
    """Instruction bit 1."""

    ingress_port: Annotated[int, Wire(16, "Level 1 ingress interface")]
    egress_port: Annotated[int, Wire(16, "Level 1 egress interface")]


class IntHopLatency(NamedTuple):
    """Instruction bit 2."""

    hop_latency: Annotated[int, Wire(32, "In the device's stamp unit, modulo 2^32")]


class IntQueue(NamedTuple):
    """Instruction bit 3."""

    queue_id: Annotated[int, Wire(8, "Egress queue")]
    queue_depth: Annotated[int, Wire(24, "In the device's unit: bytes, cells or packets")]


class IntIngressTstamp(NamedTuple):
    """Instruction bit 4."""

    ingress_tstamp: Annotated[int, Wire(64, "On the node's local clock, in its stamp unit")]


class IntEgressTstamp(NamedTuple):
    """Instruction bit 5."""

    egress_tstamp: Annotated[int, Wire(64, "On the node's local clock, in its stamp unit")]


class IntLevel2Ports(NamedTuple):
    """Instruction bit 6."""

    ingress_interface: Annotated[int, Wire(32, "Level 2 ingress interface; all ones = not known")]
    egress_interface: Annotated[int, Wire(32, "Level 2 egress interface; all ones = not known")]


class IntTxUtilization(NamedTuple):
    """Instruction bit 7."""

    tx_utilization: Annotated[int, Wire(32, "Egress interface TX utilisation, device's unit")]


class IntBuffer(NamedTuple):
    """Instruction bit 8."""

    buffer_id: Annotated[int, Wire(8, "Buffer pool")]
    buffer_depth: Annotated[int, Wire(24, "In the device's unit")]


class IntChecksumComplement(NamedTuple):
    """Instruction bit 15 inside a packet; always last of a hop."""

    checksum_complement: Annotated[int, Wire(32, "All ones = not used")]


class ReportDrop(NamedTuple):
    """RepMdBits bit 15 of a report: why a packet was dropped (TR 3.4)."""

    queue_id: Annotated[int, Wire(8, "Queue that the packet was meant for")]
    drop_reason: Annotated[int, Wire(8, "Why it did not leave: docs/p4.md")]
    reserved: Annotated[int, Wire(16, "0")]


# ---------------------------------------------------------------- telemetry report v2.0


class ReportGroup(NamedTuple):
    """Report group header, first in the UDP payload (TR 3.2)."""

    version: Annotated[int, Wire(4, "2 in Telemetry Report v2.0")]
    hw_id: Annotated[int, Wire(6, "Part of the device that counts the sequence")]
    sequence_number: Annotated[int, Wire(22, "Per node, hw_id and destination; wraps")]
    node_id: Annotated[int, Wire(32, "The reporting device")]


class ReportIndividual(NamedTuple):
    """Individual report header; one or more follow the group header (TR 3.3)."""

    report_type: Annotated[int, Wire(4, "0 inner only, 1 INT, 2 IOAM")]
    inner_type: Annotated[int, Wire(4, "0 none, 1 TLV, 2 DS extension, 3 Ethernet, 4 IPv4, 5 IPv6")]
    report_length_words: Annotated[int, Wire(8, "Words after this header; 255 = to the end")]
    metadata_length_words: Annotated[int, Wire(8, "Words of metadata after report_main_t")]
    dropped: Annotated[int, Wire(1, "D: dropped packet")]
    congested_queue: Annotated[int, Wire(1, "Q: congested queue")]
    tracked_flow: Annotated[int, Wire(1, "F: tracked; 0 = no telemetry embedded in the packet")]
    intermediate_report: Annotated[int, Wire(1, "I: intermediate report")]
    reserved: Annotated[int, Wire(4, "0")]


class ReportMain(NamedTuple):
    """Fixed words of an INT report (RepType 1); baseline and DS metadata follow (TR 3.4)."""

    report_metadata_bits: Annotated[int, Wire(16, "Which metadata follow; bit 0 is the highest")]
    domain_specific_id: Annotated[int, Wire(16, "0 = no domain specific metadata")]
    ds_metadata_bits: Annotated[int, Wire(16, "Domain specific metadata bitmap")]
    ds_metadata_status: Annotated[int, Wire(16, "Domain specific status")]


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
INT_SHIM = header_layout("int_shim_t", IntShim)
INT_MD = header_layout("int_md_t", IntMd)
INT_MX = header_layout("int_mx_t", IntMx)
INT_NODE_ID = header_layout("int_node_id_t", IntNodeId)
INT_LEVEL1_PORTS = header_layout("int_level1_ports_t", IntLevel1Ports)
INT_HOP_LATENCY = header_layout("int_hop_latency_t", IntHopLatency)
INT_QUEUE = header_layout("int_queue_t", IntQueue)
INT_INGRESS_TSTAMP = header_layout("int_ingress_tstamp_t", IntIngressTstamp)
INT_EGRESS_TSTAMP = header_layout("int_egress_tstamp_t", IntEgressTstamp)
INT_LEVEL2_PORTS = header_layout("int_level2_ports_t", IntLevel2Ports)
INT_TX_UTILIZATION = header_layout("int_tx_utilization_t", IntTxUtilization)
INT_BUFFER = header_layout("int_buffer_t", IntBuffer)
INT_CHECKSUM_COMPLEMENT = header_layout("int_checksum_complement_t", IntChecksumComplement)
REPORT_DROP = header_layout("report_drop_t", ReportDrop)
REPORT_GROUP = header_layout("report_group_t", ReportGroup)
REPORT_INDIVIDUAL = header_layout("report_individual_t", ReportIndividual)
REPORT_MAIN = header_layout("report_main_t", ReportMain)

ALL_LAYOUTS: tuple[HeaderLayout[NamedTuple], ...] = (
    ETHERNET, VLAN, IPV4, IPV6, ICMP, UDP, TCP_PORTS, BTH, RETH, AETH, CNP, PROBE, PTP,
    PTP_TIMESTAMP, PTP_DELAY_RESP, INT_SHIM, INT_MD, INT_MX, INT_NODE_ID, INT_LEVEL1_PORTS,
    INT_HOP_LATENCY, INT_QUEUE, INT_INGRESS_TSTAMP, INT_EGRESS_TSTAMP, INT_LEVEL2_PORTS,
    INT_TX_UTILIZATION, INT_BUFFER, INT_CHECKSUM_COMPLEMENT, REPORT_DROP, REPORT_GROUP,
    REPORT_INDIVIDUAL, REPORT_MAIN,
)  # fmt: skip
"""Every header, in the order of docs/wire-format.md."""
