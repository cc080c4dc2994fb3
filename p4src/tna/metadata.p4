// SPDX-License-Identifier: Apache-2.0
// Per-packet state, one struct per gress: what crosses the traffic manager is in headers.p4.
#ifndef TEMPOTRACE_TNA_METADATA_P4
#define TEMPOTRACE_TNA_METADATA_P4

#include "../include/types.p4"

// What the ingress parser made of an IP header.
const bit<2> IP_WELL_FORMED           = 0;
const bit<2> IP_VERSION_WRONG         = 1;
const bit<2> IP_HEADER_LENGTH_WRONG   = 2;

// What the ingress parser found behind UDP on an odd DSCP.
const bit<2> INT_FOUND_NOTHING = 0;
const bit<2> INT_FOUND_MD      = 1;
const bit<2> INT_FOUND_MX      = 2;

// Until ingress finds a reason, only the traffic manager can drop a packet: drop_report is asked with that.
const drop_reason_t NOT_DROPPED = DROP_TRAFFIC_MANAGER;

// What the watchlist asks a source for.
const bit<2> SOURCE_NONE = 0;
const bit<2> SOURCE_MD   = 1;
const bit<2> SOURCE_MX   = 2;

// What a packet lacks is 0 in a key: such a field shares its container with no other, and Tofino clears the
// containers of every packet. Flags start at 0.
@pa_no_overlay("ingress", "hdr.ipv4.src_addr")
@pa_no_overlay("ingress", "hdr.ipv4.dst_addr")
@pa_no_overlay("ingress", "hdr.ipv6.dst_addr")
@pa_no_overlay("egress", "hdr.ipv4.src_addr")
@pa_no_overlay("egress", "hdr.ipv4.dst_addr")
@pa_auto_init_metadata
struct ingress_metadata_t {
    // ---- parser results ----
    bit<2>    ip_form;              // IP_*
    bool      checksum_error;       // of the IPv4 header; not known for one with options
    bit<1>    is_report;            // recirculated, on its way to be routed
    bit<1>    direct;               // a packet-out with its egress port
    bit<1>    generated;            // made by the packet generator
    bit<1>    ptp_event;            // PTP version 2 event message
    bit<1>    ptp_other_version;
    bit<1>    l2_ptp;
    bit<4>    ptp_message_type;
    ether_type_t ether_type;        // behind a VLAN tag if there is one
    bit<8>    ip_protocol;          // IPv4 protocol or IPv6 next header
    dscp_t    dscp;                 // as received
    l4_port_t l4_src_port;          // UDP or TCP; 0 otherwise and in fragments
    l4_port_t l4_dst_port;
    bit<8>    icmp_type;            // ICMPv6 only
    bit<1>    int_possible;         // odd DSCP on UDP: a shim may be there
    bit<2>    int_found;            // INT_FOUND_*
    bit<8>    int_length_words;
    bit<8>    int_remaining_hop_count;
    bit<1>    int_discard;
    dscp_t    int_dscp;             // the sender's
    int_bitmap_t int_bitmap;
    bit<8>    roce_opcode;          // 0 unless RoCEv2
    psn_t     roce_psn;
    bit<24>   roce_dest_qp;
    bit<8>    roce_syndrome;        // 0 unless there is an AETH
    bit<9>    generated_group;      // multicast group of generated packets
    bit<32>   generated_sequence;
    bit<16>   ipv4_residual;        // checksum of what the IPv4 header has beyond its 20 bytes

    // ---- decisions ----
    drop_reason_t drop_reason;      // NOT_DROPPED, or why
    bit<4>    event;                // 1 + index in ingress_events; the last one wins
    bit<1>    edge_port;            // the packet came from a host
    bit<1>    int_marked;           // arrived with a marked DSCP over a fabric link
    bit<1>    cleaned;
    bit<1>    punted;
    bit<1>    routed;
    bit<1>    egress_tagged;        // leaves with a VLAN tag
    bit<16>   egress_tag;           // priority 0 and the VLAN id
    dscp_t    dscp_unmarked;        // what the marked DSCP stands for
    bit<1>    rewrite_dscp;
    dscp_t    new_dscp;
    queue_id_t queue_id;
    port_t    egress_port;
    bit<1>    sink_port;            // the packet leaves towards a host
    bit<1>    sink_reports;         // that port reports what it strips
    bit<2>    source;               // SOURCE_*
    bit<1>    postcard;             // the watchlist wants one
    bit<1>    change_only;
    bit<1>    exempt;               // neither INT nor a report, whatever other tables say
    int_bitmap_t source_bitmap;     // of the source, or the bits of a postcard
    bit<8>    source_remaining_hop_count;
    dscp_t    dscp_marked;          // what the source writes
    bit<1>    stack_report;         // report the packet as received (sink, end of a probe)
    bit<1>    is_probe;
    bit<1>    probe_ended;
    bit<1>    drop_wanted;
    bit<1>    drop_known_a;         // it was reported in this interval
    bit<1>    drop_known_b;
    bit<1>    replicated;           // one copy per port of a group

    // ---- lengths; subtractions stop at 0, so 0 means "not longer" ----
    length_bytes_t ip_too_short;    // bytes missing in an IPv4 header
    length_bytes_t l4_end;          // where UDP ends, counted as the IP length field counts
    length_bytes_t l4_beyond_ip;
    length_bytes_t ip_beyond_l4;
    length_bytes_t int_bytes;       // what INT takes of the UDP payload
    length_bytes_t int_beyond_udp;

    // ---- hashes ----
    flow_hash_t flow_hash;          // the same on every switch: report destination, entropy, filters
    flow_hash_t ecmp_input;
    bit<16>   ecmp_hash;            // differs per tier: next hop
    bit<8>    tier;
    bit<32>   seed;
    bit<1>    ecmp_by_flow_label;

    // ---- reports ----
    bit<8>    bucket;
    bit<1>    destination_configured;
    bit<6>    destination_id;       // index of the sequence registers
    ipv4_addr_t collector_ip;
    l4_port_t report_udp_port;
    bit<1>    filter_mx;            // change-only for INT-MX as well
    bit<1>    filter_drops;         // one drop report per flow, reason and interval
    bit<5>    latency_shift;
    bit<6>    interval_shift;
    tstamp_t  interval;
    bit<32>   fingerprint;
    bit<1>    probe_enabled;
    int_bitmap_t probe_bits;

    // ---- the mirrored packet: mirror_received_t ----
    MirrorId_t mirror_session;
    packet_kind_t mirror_kind;
    bit<32>   report_seq;
    l4_port_t report_source_port;   // entropy of the flow
    bit<8>    report_types;         // report type and inner type
    bit<8>    report_flags;         // REPORT_FLAG_*
    bit<16>   report_ingress_port;
    bit<16>   report_egress_port;
    int_bitmap_t report_bits;
}

@pa_auto_init_metadata
struct egress_metadata_t {
    // ---- from ingress, or of the reported packet ----
    packet_kind_t kind;
    bit<16>   ingress_port;
    bit<16>   egress_port;
    tstamp_t  ingress_tstamp;
    tstamp_t  egress_tstamp;
    queue_id_t queue_id;
    queue_depth_t queue_depth;
    bit<1>    postcard;             // report this hop
    bit<1>    is_report;            // mirrored: to be made a report
    bit<1>    deflected;            // the traffic manager dropped it, and handed it over
    int_bitmap_t bitmap;

    // ---- of a report ----
    bit<32>   report_seq;
    l4_port_t source_port;
    bit<8>    bucket;
    bit<8>    types;                // report type and inner type
    bit<8>    flags;                // REPORT_FLAG_*
    drop_reason_t drop_reason;
    length_bytes_t not_inner_bytes; // of the mirrored packet: what is in front of the inner packet, and the FCS
    length_bytes_t inner_bytes;

    // ---- parser results ----
    bit<16>   ptp_sequence_id;
    bit<16>   ipv4_residual;        // checksums without the fields that may change
    bit<16>   udp_residual;
    bit<1>    update_udp_checksum;
    bit<8>    removed_words;        // stripped, without the shim itself

    // ---- configuration ----
    bit<1>    node_configured;
    node_id_t node_id;
    bit<16>   domain_specific_id;
    bit<1>    report_configured;
    mac_addr_t  switch_mac;
    ipv4_addr_t switch_ip;
    bit<8>      report_tos;         // DSCP and ECN 0
    length_bytes_t mtu_bytes;
    queue_depth_t ecn_threshold;
    interface_t ingress_interface;
    interface_t egress_interface;

    // ---- work values ----
    bit<4>    event;                // 1 + index in egress_events; the last one wins
    bit<32>   latency;
    bit<8>    hop_words;
    bit<8>    hop_words_high;       // words of instruction bits 0 to 4
    bit<8>    hop_words_low;
    bit<1>    hop_words_agree;      // the header says the same as the bitmap
    bit<1>    write_hop;
    bit<1>    hop_limit_reached;
    bit<1>    mtu_reached;
    bit<8>    shim_dscp;            // the shim's last byte: DSCP as the packet came, and two bits 0
    length_bytes_t removed_bytes;
    length_bytes_t hop_bytes;
    length_bytes_t added_bytes;
    length_bytes_t ip_bytes;
    length_bytes_t bytes_with_headers;
    length_bytes_t bytes_with_hop;
    length_bytes_t headers_beyond_mtu;
    length_bytes_t hop_beyond_mtu;
    bit<16>   stack_words;
    queue_depth_t below_ecn_threshold;
    ecn_t     ecn;
    bit<1>    queue_watched;
    bit<1>    above_threshold;
    bit<1>    congested;
    queue_depth_t depth_threshold;
    bit<32>   latency_threshold;
    bit<16>   episode_quota;
    queue_depth_t below_depth;
    bit<32>   below_latency;
    bit<32>   latency_step;
    tstamp_t  interval;
    bit<32>   fingerprint;
    bit<1>    known_a;
    bit<1>    known_b;
    bit<1>    clock_enabled;
    bit<32>   ns_low_1;
    bit<32>   ns_low_2;
    bit<32>   ns_low_3;
    bit<16>   ns_high;
    bit<32>   carry_1;
    bit<32>   carry_2;
    bit<32>   borrow;
    bit<1>    corrected;

    // ---- the mirrored packet ----
    MirrorId_t mirror_session;
    packet_kind_t mirror_kind;
    int_bitmap_t report_bits;
}

#endif
