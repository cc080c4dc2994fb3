// SPDX-License-Identifier: Apache-2.0
// Per-packet state of the pipeline.
#ifndef TEMPOTRACE_METADATA_P4
#define TEMPOTRACE_METADATA_P4

#include "../include/types.p4"
#include "field_lists.p4"

struct local_metadata_t {
    // ---- parser results (a clone does not get them: BMv2 clears metadata after it parses the clone) ----
    bit<1>    ip_malformed;         // version or header length is impossible
    bit<1>    int_parsed;           // shim, an INT header of version 2 and what follows it were read
    bit<1>    ptp_event;            // PTP version 2 event message, over UDP port 319 or Ethernet
    ether_type_t ether_type;        // behind a VLAN tag if there is one
    bit<8>    ip_protocol;          // IPv4 protocol or IPv6 next header
    dscp_t    dscp;                 // as received
    l4_port_t l4_src_port;          // UDP or TCP; 0 otherwise and in fragments
    l4_port_t l4_dst_port;
    bit<8>    icmp_type;            // ICMPv6 only
    bit<2>    controller_bytes;     // header of a packet-out, in front of the frame: counted in packet_length

    // ---- ingress decisions, used up to the end of egress ----
    drop_reason_t drop_reason;      // 0: not dropped by ingress
    bit<32>   ip_bytes;             // IP packet as received, header included
    bit<32>   ip_header_bytes;
    bit<1>    edge_port;            // the packet came from a host
    bit<1>    int_marked;           // arrived with a marked DSCP over a fabric link
    bit<1>    int_transit;          // carries an INT-MD stack that this node extends
    bit<1>    int_source;           // this node starts INT on the packet
    bit<1>    int_source_mx;        // INT-MX instead of INT-MD
    bit<1>    int_exempt;           // neither INT nor a report, whatever other tables say
    bit<1>    sink_port;            // the packet leaves towards a host
    bit<1>    sink_reports;         // that port reports what it strips
    bit<1>    int_discard;          // D bit of the stripped header: drop after the postcard
    bit<1>    dscp_cleaned;         // a host sent a marked DSCP
    bit<1>    punted;
    bit<1>    routed;               // has an egress port that forwarding chose
    bit<1>    probe_bounced;
    bit<1>    probe_ended;
    bit<1>    egress_tagged;        // leaves with a VLAN tag
    vlan_id_t egress_vlan_id;
    bit<1>    tag_added;            // in egress, to a copy of PTP over Ethernet
    bit<1>    tag_removed;
    dscp_t    dscp_unmarked;        // what the marked DSCP stands for
    dscp_t    dscp_marked;          // what the source writes
    int_bitmap_t source_bitmap;     // instruction bitmap that the source writes
    bit<8>    source_remaining_hop_count;
    queue_id_t queue_id;            // egress queue, higher = served first
    flow_hash_t flow_hash;          // the same on every switch: report destination, entropy, filters
    bit<32>   ecmp_hash;            // differs per tier: next hop

    // ---- what is to be reported ----
    int_bitmap_t postcard_bits;     // RepMdBits of the egress postcard; 0: none
    bit<1>    postcard_change_only; // report only what is new in this interval
    bit<1>    received_report;      // ingress: report the packet as received (sink, end of a probe)
    bit<8>    destination_id;       // index of the sequence registers

    // ---- configuration of this node ----
    bit<1>    node_configured;
    node_id_t node_id;
    bit<16>   domain_specific_id;
    bit<1>    ecmp_by_flow_label;
    length_bytes_t mtu_bytes;       // largest IP packet of the egress port
    bit<1>    report_configured;
    mac_addr_t  switch_mac;
    ipv4_addr_t switch_ip;
    dscp_t      report_dscp;
    length_bytes_t truncate_bytes;  // bytes of the reported packet that are kept, INT not counted
    bit<1>    destination_configured;
    bit<1>    filter_mx;            // change-only for INT-MX as well
    bit<1>    filter_drops;         // one drop report per flow, reason and interval
    bit<8>    latency_shift;        // latency counts as changed in steps of 2^shift stamp units
    bit<8>    interval_shift;       // everything is new again after 2^shift stamp units
    queue_depth_t ecn_threshold;    // CE from this depth on; in the depth unit of the target
    interface_t ingress_interface;
    interface_t egress_interface;

    // ---- work values ----
    bit<16>   int_words_checksum;   // csum16 over the stripped shim, header and what follows it
    bit<5>    hop_words;            // words of one hop for the packet's instruction bitmap

    // ---- a report on its way back through the pipeline ----
    @field_list(FIELD_LIST_RECIRCULATED)
    bit<1>        is_report;

    // ---- carried into the clone, written in the pass of the original packet ----
    @field_list(FIELD_LIST_REPORT)
    report_seq_t  report_seq;
    @field_list(FIELD_LIST_REPORT)
    ipv4_addr_t   collector_ip;
    @field_list(FIELD_LIST_REPORT)
    l4_port_t     report_udp_port;
    @field_list(FIELD_LIST_REPORT)
    bit<14>       report_entropy;         // low bits of the flow hash
    @field_list(FIELD_LIST_REPORT)
    bit<1>        report_dropped;         // D
    @field_list(FIELD_LIST_REPORT)
    bit<1>        report_congested;       // Q
    @field_list(FIELD_LIST_REPORT)
    bit<1>        report_tracked;         // F
    @field_list(FIELD_LIST_REPORT)
    bit<4>        report_inner_type;
    @field_list(FIELD_LIST_REPORT)
    length_bytes_t report_inner_bytes;    // of the whole inner packet
    @field_list(FIELD_LIST_REPORT)
    int_bitmap_t  report_bits;            // RepMdBits
    @field_list(FIELD_LIST_REPORT)
    bit<8>        report_metadata_words;  // words that these bits stand for
    @field_list(FIELD_LIST_REPORT)
    bit<1>        report_domain_known;    // the packet's INT header names one; else this node's own
    @field_list(FIELD_LIST_REPORT)
    bit<16>       report_domain_specific_id;
    @field_list(FIELD_LIST_REPORT)
    bit<16>       report_ingress_port;
    @field_list(FIELD_LIST_REPORT)
    bit<16>       report_egress_port;     // all ones: none was chosen
    @field_list(FIELD_LIST_REPORT)
    tstamp_t      report_ingress_tstamp;  // switch clock, switch unit
    @field_list(FIELD_LIST_REPORT)
    tstamp_t      report_egress_tstamp;   // switch clock, switch unit
    @field_list(FIELD_LIST_REPORT)
    queue_id_t    report_queue_id;
    @field_list(FIELD_LIST_REPORT)
    queue_depth_t report_queue_depth;
    @field_list(FIELD_LIST_REPORT)
    drop_reason_t report_drop_reason;
    @field_list(FIELD_LIST_REPORT)
    interface_t   report_ingress_interface;
    @field_list(FIELD_LIST_REPORT)
    interface_t   report_egress_interface;

#ifdef TEMPOTRACE_HOST_METADATA
    TEMPOTRACE_HOST_METADATA        // of the program that includes these blocks (docs/p4-blocks.md)
#endif
}

#endif
