// SPDX-License-Identifier: Apache-2.0
// Headers that exist inside the switch only, excerpts that the parsers look at without taking them out of the
// packet, and the two lists of headers, in the order in which they leave.
#ifndef TEMPOTRACE_TNA_HEADERS_P4
#define TEMPOTRACE_TNA_HEADERS_P4

#include "../include/headers.p4"

// ---- inside the switch ----

// From ingress to egress, in whole bytes. (The compiler of docs/tofino.md crashes on @flexible here.)
header bridged_t {
    packet_kind_t kind;
    bit<1>    exempt;                      // neither INT nor a report
    bit<1>    mx;                          // INT-MX, with KIND_INT_SOURCE: to be started
    bit<1>    carries_int;                 // leaves with INT headers inside; where a report has its F flag
    bit<1>    postcard;                    // report this hop, with the bits of bitmap
    bit<1>    change_only;                 // the postcard only if it is news
    bit<1>    to_cpu;
    bit<1>    replicated;                  // drop the copy that would go back
    @padding bit<1> pad_1;
    @padding bit<1> pad_2;
    bit<1>    destination_configured;
    bit<6>    destination_id;
    dscp_t    marked_dscp;                 // where IPv4 has it
    @padding bit<2> pad_3;
    @padding bit<2> pad_6;
    bit<1>    filter_mx;                   // what one action writes lies together: it may be one container
    bit<5>    latency_shift;
    queue_id_t queue_id;
    bit<8>    remaining_hop_count;
    int_bitmap_t bitmap;                   // instruction bitmap, or RepMdBits of the postcard
    @padding bit<7> pad_4;
    port_t    ingress_port;
    @padding bit<7> pad_5;
    port_t    egress_port;                 // as chosen; that of a deflected packet is another
    tstamp_t  ingress_tstamp;              // ns, at the ingress MAC
    flow_hash_t flow_hash;
    ipv4_addr_t collector_ip;              // of a report
    l4_port_t collector_port;
    l4_port_t source_port;
    bit<32>   interval;                    // another one in another interval of the change-only filters
    length_bytes_t int_bytes;              // KIND_INT_STRIP: what the sink takes away
}

// Behind it for KIND_PTP_CORRECTED: nanoseconds in two pieces of 24 bits, as ingress computes them.
header bridged_ptp_t {
    bit<32>   ns_high;
    bit<32>   ns_low;
}

// The same as the egress parser reads it.
header read_ptp_t {
    bit<8>    above_high;
    bit<24>   ns_high;
    bit<8>    above_low;
    bit<24>   ns_low;
}

// What the egress MAC takes off the front of the frame: the compiler's own ptp_metadata_t, with the nanoseconds in two
// pieces.
header ptp_for_mac_t {
    bit<8>    checksum_offset;             // of the UDP checksum, from the start of the frame
    bit<8>    correction_offset;
    bit<24>   ns_high;
    bit<24>   ns_low;
}

// From a packet to the report about it: 32 bytes are the limit on Tofino 1. Whole bytes only, so that their sizes are
// known below. Sizes count: the copy's length less these bytes is the inner packet's.
header mirror_received_t {
    packet_kind_t kind;
    drop_reason_t drop_reason;
    queue_id_t queue_id;
    ipv4_addr_t collector_ip;
    l4_port_t collector_port;
    l4_port_t source_port;
    bit<32>   report_seq;                  // version, hardware id, 22 bits of sequence number
    int_bitmap_t bitmap;
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
}
#define MIRROR_RECEIVED_BYTES 27

header mirror_hop_t {
    packet_kind_t kind;
    bit<8>    bitmap_high;                 // no other bits are ever set but that of a drop, which kind tells
    queue_id_t queue_id;
    queue_depth_t queue_depth;
    ipv4_addr_t collector_ip;
    l4_port_t collector_port;
    l4_port_t source_port;
    bit<32>   report_seq;
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
    bit<32>   egress_tstamp_low;
}
#define MIRROR_HOP_BYTES 32

// The same as the egress parser reads them: with the fields of a report's first word.
header mirrored_received_t {
    packet_kind_t kind;
    drop_reason_t drop_reason;
    queue_id_t queue_id;
    ipv4_addr_t collector_ip;
    l4_port_t collector_port;
    l4_port_t source_port;
    bit<4>    version;
    bit<6>    hw_id;
    report_seq_t sequence_number;
    int_bitmap_t bitmap;
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
}

header mirrored_hop_t {
    packet_kind_t kind;
    bit<8>    bitmap_high;
    queue_id_t queue_id;
    queue_depth_t queue_depth;
    ipv4_addr_t collector_ip;
    l4_port_t collector_port;
    l4_port_t source_port;
    bit<4>    version;
    bit<6>    hw_id;
    report_seq_t sequence_number;
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
    bit<32>   egress_tstamp_low;
}

// In front of a corrected PTP message is the header for the MAC, mirrored too. It is as long as the correctionField
// that is put back for it.

// In front of a report that starts over to be routed.
header recirculated_t {
    bit<8> mark;                           // RECIRCULATED_REPORT
    bit<8> pad;
}

// ---- excerpts, looked at and left where they are ----

// The shim and the first two words behind it, which INT-MD and INT-MX share.
header int_start_t {
    bit<16> type_and_length;               // shim type 4, npt 2, reserved 2, length in words 8
    bit<8>  reserved2;
    dscp_t  dscp;
    bit<2>  reserved3;
    bit<4>  version;
    bit<1>  discard;
    bit<19> reserved;
    bit<8>  remaining_hop_count;           // INT-MD only
    int_bitmap_t instruction_bitmap;
}

// Base transport header, and the byte behind it, which is the syndrome where there is an AETH.
header roce_start_t {
    bit<8>  opcode;
    bit<32> flags;
    bit<24> dest_qp;
    bit<8>  ack_request;
    psn_t   psn;
    bit<8>  syndrome;
}

// Pieces of the correctionField of a PTP message, 24 bits of nanoseconds each in a word of 32 bits.
header ptp_high_word_t {
    bit<56> before;
    bit<32> word;                          // its low 24 bits
}

header ptp_low_word_t {
    bit<80> before;
    bit<32> word;                          // its low 24 bits
}

// The same of the ingress stamp, which is behind 16 bits of the intrinsic metadata.
header stamp_high_word_t {
    bit<8>  before;
    bit<32> word;
}

header stamp_low_word_t {
    bit<32> before;
    bit<32> word;
}

// Both halves of a correctionField.
header ptp_correction_look_t {
    bit<64> before;
    bit<32> high;
    bit<32> low;
}

// What the sink skips: the shim, its type and length as a number of 16 bits, and so many words.
header shim_to_skip_t {
    bit<16> type_and_length;
    bit<16> rest;
}

header words_1_t   { bit<32>   words; }
header words_2_t   { bit<64>   words; }
header words_4_t   { bit<128>  words; }
header words_8_t   { bit<256>  words; }

// ---- parts ----

// udp_t behind its ports, which are read like TCP's.
header udp_tail_t {
    length_bytes_t length;
    bit<16>        checksum;
}

// ptp_t cut in three, because the correctionField leaves the packet here and the egress MAC puts it back.
header ptp_start_t {
    bit<4>  major_sdo_id;
    bit<4>  message_type;
    bit<4>  minor_version_ptp;
    bit<4>  version_ptp;
    bit<16> message_length;
    bit<8>  domain_number;
    bit<8>  minor_sdo_id;
    bit<16> flag_field;
}

header ptp_correction_t {
    bit<64> correction_field;
}

header ptp_rest_t {
    bit<32> message_type_specific;
    bit<64> source_clock_identity;
    bit<16> source_port_number;
    bit<16> sequence_id;
}

// ---- header lists ----

struct ingress_headers_t {
    bridged_t             bridged;
    bridged_ptp_t         bridged_ptp;
    packet_out_t          packet_out;      // taken off: not emitted
    ethernet_t            ethernet;
    vlan_t                vlan;
    ipv4_t                ipv4;
    ipv6_t                ipv6;
    tcp_ports_t           l4_ports;        // of TCP or UDP
    udp_tail_t            udp_tail;
    probe_t               probe;
}

// The compiler takes headers for exclusive that no two states of a parser read both, even if the pipeline fills one of
// them in. A report has this field next to its IP header.
@pa_no_overlay("egress", "hdr.report_group.node_id")
// Validity bits of a hop's values lie in the order of the bitmap.
@pa_byte_pack("egress", "hdr.hop_node_id.$valid", "hdr.hop_level1_ports.$valid", "hdr.hop_latency.$valid",
              "hdr.hop_queue.$valid", "hdr.hop_ingress_tstamp.$valid", "hdr.hop_egress_tstamp.$valid",
              "hdr.hop_level2_ports.$valid", "hdr.hop_tx_utilization.$valid")
PACK_OTHER_VALIDITY_BITS
// A report has the headers of an ordinary datagram; INT's values serve stack entries and reports alike. int_md is
// INT-MX's header as well, with zeros where that has reserved bits.
struct egress_headers_t {
    bridged_t             bridged;
    recirculated_t        recirculated;
    packet_in_t           packet_in;
    ptp_for_mac_t         ptp_for_mac;
    ethernet_t            ethernet;
    vlan_t                vlan;
    ipv4_t                ipv4;
    ipv6_t                ipv6;
    udp_t                 udp;
    report_group_t        report_group;
    report_individual_t   report_individual;
    report_main_t         report_main;
    int_shim_t            int_shim;
    int_md_t              int_md;
    int_node_id_t             hop_node_id;
    int_level1_ports_t        hop_level1_ports;
    int_hop_latency_t         hop_latency;
    int_queue_t               hop_queue;
    int_ingress_tstamp_t      hop_ingress_tstamp;
    int_egress_tstamp_t       hop_egress_tstamp;
    int_level2_ports_t        hop_level2_ports;
    int_tx_utilization_t      hop_tx_utilization;
    int_buffer_t              hop_buffer;
    int_checksum_complement_t hop_checksum_complement;
    report_drop_t             report_drop;
    // The inner packet of a report on a PTP message, up to its correctionField.
    ethernet_t            inner_ethernet;
    vlan_t                inner_vlan;
    ipv4_t                inner_ipv4;
    ipv6_t                inner_ipv6;
    udp_t                 inner_udp;
    ptp_start_t           ptp_start;
    ptp_correction_t      ptp_correction;
    probe_t               probe;
}

#endif
