// SPDX-License-Identifier: Apache-2.0
// Wire formats, shared by all targets. Field names are the vocabulary of controller/telemetry/layout.py,
// which a test compares with the header_types of the compiled JSON.
#ifndef TEMPOTRACE_HEADERS_P4
#define TEMPOTRACE_HEADERS_P4

#include "types.p4"

// ---- controller packets (P4Runtime packet-in and packet-out metadata) ----

@controller_header("packet_in")
header packet_in_t {
    @id(1) port_t ingress_port;
    @id(2) bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    @id(1) port_t egress_port;
    @id(2) bit<1> submit_to_ingress;  // 1: route the packet as if it had arrived; egress_port is ignored
    @id(3) bit<6> pad;
}

// ---- the packet itself ----

header ethernet_t {
    mac_addr_t   dst_addr;
    mac_addr_t   src_addr;
    ether_type_t ether_type;
}

// IEEE 802.1Q tag; ethernet_t.ether_type is 0x8100 then, and the payload's type is here.
header vlan_t {
    bit<3>       pcp;
    bit<1>       dei;
    vlan_id_t    vlan_id;
    ether_type_t ether_type;
}

header ipv4_t {
    bit<4>         version;
    bit<4>         ihl;
    dscp_t         dscp;
    ecn_t          ecn;
    length_bytes_t total_length;
    bit<16>        identification;
    bit<3>         flags;            // reserved, DF, MF
    bit<13>        fragment_offset;
    bit<8>         ttl;
    bit<8>         protocol;
    bit<16>        header_checksum;
    ipv4_addr_t    src_addr;
    ipv4_addr_t    dst_addr;
}

header ipv4_options_t {
    varbit<320> options;
}

header ipv6_t {
    bit<4>         version;
    dscp_t         dscp;
    ecn_t          ecn;
    bit<20>        flow_label;
    length_bytes_t payload_length;
    bit<8>         next_header;
    bit<8>         hop_limit;
    ipv6_addr_t    src_addr;
    ipv6_addr_t    dst_addr;
}

// First bytes of an ICMPv6 message: neighbour discovery is types 133 to 137.
header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
}

header udp_t {
    l4_port_t      src_port;
    l4_port_t      dst_port;
    length_bytes_t length;
    bit<16>        checksum;         // 0: none was computed
}

// First bytes of a TCP header: enough for the 5-tuple.
header tcp_ports_t {
    l4_port_t src_port;
    l4_port_t dst_port;
}

// RoCEv2 base transport header, 12 bytes.
header bth_t {
    bit<8>  opcode;
    bit<1>  solicited_event;
    bit<1>  migration_request;
    bit<2>  pad_count;
    bit<4>  transport_version;
    bit<16> partition_key;
    bit<1>  fecn;
    bit<1>  becn;
    bit<6>  reserved1;
    bit<24> dest_qp;
    bit<1>  ack_request;
    bit<7>  reserved2;
    psn_t   psn;
}

// RDMA extended transport header: first packet of an RDMA write, and read requests.
header reth_t {
    bit<64> virtual_address;
    bit<32> remote_key;
    bit<32> dma_length;              // bytes
}

// ACK extended transport header.
header aeth_t {
    bit<8>  syndrome;                // 0b000xxxxx ACK, 0b001xxxxx RNR NAK, 0b011xxxxx NAK
    bit<24> msn;
}

// Rest of a congestion notification packet (opcode 0x81), zero.
header cnp_t {
    bit<128> reserved;
}

// Link probe: bounced once between two neighbouring switches, stamped by postcards (docs/p4.md).
header probe_t {
    bit<4>    version;               // 1
    bit<1>    returning;             // set by the switch that bounces it
    bit<11>   reserved;
    bit<16>   egress_port;           // of the switch that sent it
    node_id_t node_id;               // of the switch that sent it
    bit<32>   sequence_number;       // of that port
}

// Common header of every PTP message, 34 bytes (IEEE 1588-2019 section 13.3).
header ptp_t {
    bit<4>  major_sdo_id;
    bit<4>  message_type;            // 0..3 are event messages: Sync, Delay_Req, Pdelay_Req, Pdelay_Resp
    bit<4>  minor_version_ptp;
    bit<4>  version_ptp;
    bit<16> message_length;          // bytes
    bit<8>  domain_number;
    bit<8>  minor_sdo_id;
    bit<16> flag_field;
    bit<64> correction_field;        // 2^-16 ns
    bit<32> message_type_specific;
    bit<64> source_clock_identity;
    bit<16> source_port_number;
    bit<16> sequence_id;
    bit<8>  control_field;
    bit<8>  log_message_interval;
}

// ---- INT v2.1 ----

// Shim after UDP, NPT 0 form (DSCP marks the packet).
header int_shim_t {
    bit<4> shim_type;                // 1 = INT-MD, 3 = INT-MX
    bit<2> npt;                      // next protocol type: 0 = the original UDP payload follows
    bit<2> reserved1;
    bit<8> length_words;             // INT header and stack; the shim's own word is not counted
    bit<8> reserved2;
    dscp_t dscp;                     // the DSCP that the sink restores
    bit<2> reserved3;
}

header int_md_t {
    bit<4>       version;
    bit<1>       discard;            // D: the sink drops the packet after reporting it
    bit<1>       max_hop_count_exceeded;  // E
    bit<1>       mtu_exceeded;       // M
    bit<12>      reserved;
    bit<5>       hop_metadata_len_words;
    bit<8>       remaining_hop_count;     // lowered only by a node that adds metadata
    int_bitmap_t instruction_bitmap;
    bit<16>      domain_specific_id;
    bit<16>      ds_instruction;
    bit<16>      ds_flags;
}

// Nothing is pushed: each node that sees the header sends a report of its own.
header int_mx_t {
    bit<4>       version;
    bit<1>       discard;            // D: the sink drops the packet
    bit<27>      reserved;
    int_bitmap_t instruction_bitmap;
    bit<16>      domain_specific_id;
    bit<16>      ds_instruction;
    bit<16>      ds_flags;
}

// INT-MD: everything that earlier hops pushed, newest first. INT-MX: domain specific metadata of
// the source. At most 255 - 3 words.
header int_stack_t {
    varbit<8064> words;
}

// One header per instruction bit; the same in a hop's stack entry and in a report's metadata.
header int_node_id_t {
    node_id_t node_id;
}

header int_level1_ports_t {
    bit<16> ingress_port;
    bit<16> egress_port;
}

header int_hop_latency_t {
    bit<32> hop_latency;             // egress - ingress stamp, low 32 bits
}

header int_queue_t {
    queue_id_t    queue_id;
    queue_depth_t queue_depth;       // as sampled at dequeue
}

header int_ingress_tstamp_t {
    bit<64> ingress_tstamp;          // 48-bit stamp, zero-extended
}

header int_egress_tstamp_t {
    bit<64> egress_tstamp;
}

header int_level2_ports_t {
    bit<32> ingress_interface;
    bit<32> egress_interface;
}

header int_tx_utilization_t {
    bit<32> tx_utilization;
}

header int_buffer_t {
    bit<8>  buffer_id;
    bit<24> buffer_depth;
}

header int_checksum_complement_t {
    bit<32> checksum_complement;
}

// ---- Telemetry Report v2.0 ----

header report_group_t {
    bit<4>       version;
    bit<6>       hw_id;              // 2p = ingress, 2p + 1 = egress of pipe p
    report_seq_t sequence_number;
    node_id_t    node_id;
}

header report_individual_t {
    bit<4> report_type;
    bit<4> inner_type;
    bit<8> report_length_words;      // after this header; 255: up to the end of the datagram
    bit<8> metadata_length_words;    // without report_main_t
    bit<1> dropped;                  // D
    bit<1> congested_queue;          // Q
    bit<1> tracked_flow;             // F
    bit<1> intermediate_report;      // I
    bit<4> reserved;
}

// Only with D set: why the packet did not leave.
header report_drop_t {
    queue_id_t    queue_id;
    drop_reason_t drop_reason;
    bit<16>       reserved;
}

header report_main_t {
    int_bitmap_t report_metadata_bits;
    bit<16>      domain_specific_id;
    bit<16>      ds_metadata_bits;
    bit<16>      ds_metadata_status;
}

#endif
