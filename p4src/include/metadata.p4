// SPDX-License-Identifier: Apache-2.0
// Per-packet state of the pipeline.
#ifndef TEMPOTRACE_METADATA_P4
#define TEMPOTRACE_METADATA_P4

#include "types.p4"
#include "ids.p4"

struct local_metadata_t {
    // ---- parser results (a clone does not get them: BMv2 clears metadata after it parses the clone) ----
    bit<1>    ipv4_malformed;       // version or header length is impossible
    bit<1>    int_parsed;           // shim, INT-MD v2 header and the whole stack were read
    bit<1>    ptp_event;            // PTP version 2 on port 319 with an event message type
    l4_port_t l4_src_port;          // UDP or TCP; 0 otherwise and in fragments
    l4_port_t l4_dst_port;

    // ---- ingress decisions, used up to the end of egress ----
    bit<1>    edge_port;            // the packet came from a host
    bit<1>    int_marked;           // arrived with a marked DSCP over a fabric link
    bit<1>    int_transit;          // carries an INT stack that this node extends
    bit<1>    int_source;           // this node starts INT on the packet
    bit<1>    int_exempt;           // neither INT nor a postcard, whatever other tables say
    bit<1>    sink_port;            // the packet leaves towards a host
    bit<1>    sink_reports;         // that port reports what it strips
    bit<1>    sink_postcard;        // this node's own hop goes into an egress postcard
    bit<1>    int_discard;          // D bit of the stripped header: drop after the postcard
    bit<1>    punted;
    dscp_t    dscp_unmarked;        // what the marked DSCP stands for
    dscp_t    dscp_marked;          // what the source writes
    int_bitmap_t source_bitmap;     // instruction bitmap that the source writes
    bit<8>    source_remaining_hop_count;
    queue_id_t queue_id;            // egress queue, higher = served first

    // ---- configuration of this node (egress) ----
    bit<1>    node_configured;
    node_id_t node_id;
    bit<16>   domain_specific_id;
    length_bytes_t mtu_bytes;       // largest IPv4 packet of the egress port
    bit<1>    report_configured;
    mac_addr_t  collector_mac;
    ipv4_addr_t collector_ip;
    mac_addr_t  switch_mac;
    ipv4_addr_t switch_ip;
    l4_port_t   report_udp_port;
    length_bytes_t truncate_bytes;  // bytes of the reported IPv4 packet that are kept, INT not counted
    queue_depth_t ecn_threshold;    // CE from this depth on; in the depth unit of the target

    // ---- work values ----
    bit<16>   int_words_checksum;   // csum16 over the stripped shim, header and stack
    bit<5>    hop_words;            // words of one hop for the packet's instruction bitmap
    int_bitmap_t postcard_bits;     // RepMdBits of the egress postcard

    // ---- carried into the clone, written in the pass of the original packet ----
    @field_list(FIELD_LIST_REPORT)
    report_seq_t  report_seq;
    @field_list(FIELD_LIST_REPORT)
    int_bitmap_t  report_bits;            // RepMdBits
    @field_list(FIELD_LIST_REPORT)
    bit<8>        report_metadata_words;  // words that these bits stand for
    @field_list(FIELD_LIST_REPORT)
    bit<16>       report_domain_specific_id;
    @field_list(FIELD_LIST_REPORT)
    port_t        report_ingress_port;
    @field_list(FIELD_LIST_REPORT)
    port_t        report_egress_port;
    @field_list(FIELD_LIST_REPORT)
    tstamp_t      report_ingress_tstamp;  // switch clock, switch unit
    @field_list(FIELD_LIST_REPORT)
    tstamp_t      report_egress_tstamp;   // switch clock, switch unit
    @field_list(FIELD_LIST_REPORT)
    queue_id_t    report_queue_id;
    @field_list(FIELD_LIST_REPORT)
    queue_depth_t report_queue_depth;
}

#endif
