# SPDX-License-Identifier: Apache-2.0
"""Tables of INT headers inside packets: v2.1, v1.0, v0.5, and where senders deviate.

Clauses: INT = "In-band Network Telemetry Dataplane Specification" v2.1 unless another is named.
"""

from typing import Annotated, NamedTuple

from controller.telemetry.layout_table import Wire, header_layout


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


# ---------------------------------------------------------------- INT v1.0 and v0.5, deviations


class IntShimV1(NamedTuple):
    """INT v1.0 shim after UDP or TCP (INT v1.0 4.6.1)."""

    shim_type: Annotated[int, Wire(8, "1 hop by hop, 2 destination")]
    reserved1: Annotated[int, Wire(8, "0")]
    length_words: Annotated[int, Wire(8, "Words of this shim, INT header and stack")]
    dscp: Annotated[int, Wire(6, "DSCP before marking")]
    reserved2: Annotated[int, Wire(2, "0")]


class IntHopByHopV1(NamedTuple):
    """INT v1.0 metadata header; the stack follows, newest hop first (INT v1.0 4.7)."""

    version: Annotated[int, Wire(4, "1 in INT v1.0")]
    replication: Annotated[int, Wire(2, "Replication requested")]
    copy: Annotated[int, Wire(1, "C: this packet is a replica")]
    max_hop_count_exceeded: Annotated[
        int, Wire(1, "E: a node could not add: remaining hop count was 0")
    ]
    mtu_exceeded: Annotated[int, Wire(1, "M: a node could not add: egress MTU")]
    reserved1: Annotated[int, Wire(10, "0")]
    hop_metadata_len_words: Annotated[int, Wire(5, "Words that each hop adds (Hop ML)")]
    remaining_hop_count: Annotated[int, Wire(8, "Lowered only by a node that adds metadata")]
    instruction_bitmap: Annotated[int, Wire(16, "Values each node adds; bit 0 is the highest")]
    reserved2: Annotated[int, Wire(16, "0")]


class IntShimV05(NamedTuple):
    """INT v0.5 shim after UDP or TCP; a tail ends what it starts (INT v0.5 5.3.1)."""

    shim_type: Annotated[int, Wire(8, "1 hop by hop, 2 destination")]
    reserved1: Annotated[int, Wire(8, "0")]
    length_words: Annotated[int, Wire(8, "Words of this shim, INT header, stack and tail")]
    reserved2: Annotated[int, Wire(8, "0")]


class IntHopByHopV05(NamedTuple):
    """INT v0.5 metadata header; the stack follows, newest hop first (INT v0.5 5.3.4)."""

    version: Annotated[int, Wire(4, "0 in INT v0.5")]
    replication: Annotated[int, Wire(2, "Replication requested")]
    copy: Annotated[int, Wire(1, "C: this packet is a replica")]
    max_hop_count_exceeded: Annotated[int, Wire(1, "E: a node could not add: maximum reached")]
    reserved1: Annotated[int, Wire(3, "0")]
    instruction_count: Annotated[int, Wire(5, "Bits set in the bitmap: words that each hop adds")]
    max_hop_count: Annotated[int, Wire(8, "Hops that may add")]
    total_hop_count: Annotated[int, Wire(8, "Hops that have added")]
    instruction_bitmap: Annotated[int, Wire(16, "Values each node adds; bit 0 is the highest")]
    reserved2: Annotated[int, Wire(16, "0")]


class IntTailV05(NamedTuple):
    """INT v0.5 tail behind the stack (INT v0.5 5.3.1)."""

    protocol: Annotated[int, Wire(8, "Copy of the IP protocol")]
    dst_port: Annotated[int, Wire(16, "Original destination port")]
    dscp: Annotated[int, Wire(8, "Original DSCP where DSCP marks INT, else 0")]


class IntMdLateFlags(NamedTuple):
    """INT-MD header with D, E and M two bits late, as one public emitter sends it."""

    version: Annotated[int, Wire(4, "2 in INT v2.1")]
    reserved1: Annotated[int, Wire(2, "0")]
    discard: Annotated[int, Wire(1, "D: sink discards the packet after extraction")]
    max_hop_count_exceeded: Annotated[
        int, Wire(1, "E: a node could not add: remaining hop count was 0")
    ]
    mtu_exceeded: Annotated[int, Wire(1, "M: a node could not add: egress MTU")]
    reserved: Annotated[int, Wire(10, "0")]
    hop_metadata_len_words: Annotated[int, Wire(5, "Words that each hop adds (HopML)")]
    remaining_hop_count: Annotated[int, Wire(8, "Lowered only by a node that adds metadata")]
    instruction_bitmap: Annotated[int, Wire(16, "Values each node adds; bit 0 is the highest")]
    domain_specific_id: Annotated[int, Wire(16, "0 = no domain specific instructions")]
    ds_instruction: Annotated[int, Wire(16, "Domain specific instruction bitmap")]
    ds_flags: Annotated[int, Wire(16, "Domain specific flags")]


class IntIngressTstamp32(NamedTuple):
    """Instruction bit 4 of INT v1.0 and v0.5."""

    ingress_tstamp: Annotated[int, Wire(32, "On the node's local clock, in its stamp unit")]


class IntEgressTstamp32(NamedTuple):
    """Instruction bit 5 of INT v1.0 and v0.5, and RepMdBits bit 3 of report v1.0."""

    egress_tstamp: Annotated[int, Wire(32, "On the node's local clock, in its stamp unit")]


class IntLevel2Ports16(NamedTuple):
    """Instruction bit 6 as some INT v1.0 senders have it: half as wide."""

    ingress_interface: Annotated[int, Wire(16, "Level 2 ingress interface; all ones = not known")]
    egress_interface: Annotated[int, Wire(16, "Level 2 egress interface; all ones = not known")]


class IntQueueCongestion(NamedTuple):
    """Instruction bit 6 of INT v0.5."""

    congestion_queue_id: Annotated[int, Wire(8, "Egress queue")]
    queue_congestion: Annotated[int, Wire(24, "Congestion status, in the device's terms")]


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
INT_SHIM_V1 = header_layout("int_shim_v1_t", IntShimV1)
INT_HOP_BY_HOP_V1 = header_layout("int_hop_by_hop_v1_t", IntHopByHopV1)
INT_SHIM_V05 = header_layout("int_shim_v05_t", IntShimV05)
INT_HOP_BY_HOP_V05 = header_layout("int_hop_by_hop_v05_t", IntHopByHopV05)
INT_TAIL_V05 = header_layout("int_tail_v05_t", IntTailV05)
INT_MD_LATE_FLAGS = header_layout("int_md_late_flags_t", IntMdLateFlags)
INT_INGRESS_TSTAMP_32 = header_layout("int_ingress_tstamp_32_t", IntIngressTstamp32)
INT_EGRESS_TSTAMP_32 = header_layout("int_egress_tstamp_32_t", IntEgressTstamp32)
INT_LEVEL2_PORTS_16 = header_layout("int_level2_ports_16_t", IntLevel2Ports16)
INT_QUEUE_CONGESTION = header_layout("int_queue_congestion_t", IntQueueCongestion)
