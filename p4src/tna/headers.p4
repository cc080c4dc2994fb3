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
    bit<1>    source_mx;                   // KIND_INT_SOURCE: INT-MX instead of INT-MD
    bit<1>    carries_int;                 // leaves with INT headers inside; where a report has its F flag
    bit<1>    postcard;                    // report this hop, with the bits of bitmap
    bit<1>    change_only;                 // the postcard only if it is news
    bit<1>    own_hop;                     // it joins a stack report: the ingress stamp is in it
    bit<1>    discard;                     // D bit of what is stripped: drop after the postcard
    bit<1>    to_cpu;
    bit<1>    replicated;                  // drop the copy that would go back
    bit<1>    destination_configured;
    bit<6>    destination_id;
    @padding bit<2> pad_1;
    dscp_t    marked_dscp;
    @padding bit<3> pad_2;
    bit<5>    latency_shift;
    queue_id_t queue_id;
    bit<8>    remaining_hop_count;
    int_bitmap_t bitmap;                   // instruction bitmap, or RepMdBits of the postcard
    @padding bit<7> pad_3;
    port_t    ingress_port;
    @padding bit<7> pad_4;
    port_t    egress_port;                 // as chosen; that of a deflected packet is another
    tstamp_t  ingress_tstamp;              // ns, at the ingress MAC
    flow_hash_t flow_hash;
    bit<8>    bucket;
    l4_port_t source_port;                 // of a report
    bit<16>   interval_id;                 // another one in another interval of the change-only filters
}

// From a packet to the report about it. Whole bytes only, so that their sizes are known below. Sizes count: the
// copy's length less these bytes is the inner packet's.
header mirror_received_t {
    packet_kind_t kind;
    drop_reason_t drop_reason;
    queue_id_t queue_id;
    bit<8>    bucket;
    l4_port_t source_port;
    bit<32>   sequence_number;             // its low 22 bits are sent
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
}
#define MIRROR_RECEIVED_BYTES 20

header mirror_hop_t {
    packet_kind_t kind;
    drop_reason_t drop_reason;
    queue_id_t queue_id;
    bit<8>    bucket;
    l4_port_t source_port;
    bit<32>   sequence_number;
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
    int_bitmap_t bitmap;
    queue_depth_t queue_depth;
    tstamp_t  egress_tstamp;
}
#define MIRROR_HOP_BYTES 31

// As mirror_hop_t, and behind it what the egress MAC is about to replace: ptp_correction_t.
header mirror_ptp_t {
    packet_kind_t kind;
    drop_reason_t drop_reason;
    queue_id_t queue_id;
    bit<8>    bucket;
    l4_port_t source_port;
    bit<32>   sequence_number;
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
    int_bitmap_t bitmap;
    queue_depth_t queue_depth;
    tstamp_t  egress_tstamp;
    bit<16>   correction_ns_high;
    bit<32>   correction_ns_low;
    bit<16>   correction_fraction;
}
// Its size; the header for the MAC, mirrored too, has the size of the correctionField that is put back.
#define MIRROR_PTP_BYTES 39

// In front of a report that starts over to be routed.
header recirculated_t {
    bit<8> mark;                           // RECIRCULATED_REPORT
    bit<8> bucket;                         // of the reported flow
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
    bit<16> ns_high;                       // 48 bits of nanoseconds in two pieces: no adder is wider than 32 bits
    bit<32> ns_low;
    bit<16> fraction;                      // 2^-16 ns
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
    packet_out_t          packet_out;      // taken off: not emitted
    ethernet_t            ethernet;
    vlan_t                vlan;
    ipv4_t                ipv4;
    ipv6_t                ipv6;
    tcp_ports_t           l4_ports;        // of TCP or UDP
    udp_tail_t            udp_tail;
    probe_t               probe;
}

// A checksum unit of Tofino 2's deparser looks at four bytes of validity bits at most: those of what is in the UDP
// checksum lie in two.
@pa_byte_pack("egress", "hdr.hop_node_id.$valid", "hdr.hop_level1_ports.$valid", "hdr.hop_latency.$valid",
              "hdr.hop_queue.$valid", "hdr.hop_ingress_tstamp.$valid", "hdr.hop_egress_tstamp.$valid",
              "hdr.hop_level2_ports.$valid", "hdr.hop_tx_utilization.$valid")
@pa_byte_pack("egress", "hdr.hop_buffer.$valid", "hdr.hop_checksum_complement.$valid", "hdr.int_shim.$valid",
              "hdr.int_md.$valid", "hdr.udp.$valid", "hdr.ipv4.$valid", "hdr.ipv6.$valid", 1)
// A report has the headers of an ordinary datagram; INT's values serve stack entries and reports alike. int_md is
// INT-MX's header as well, with zeros where that has reserved bits.
struct egress_headers_t {
    bridged_t             bridged;
    recirculated_t        recirculated;
    packet_in_t           packet_in;
    ptp_metadata_t        ptp_metadata;    // for the egress MAC
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
