// SPDX-License-Identifier: Apache-2.0
// Per-packet state, one struct per gress: what crosses the traffic manager is in headers.p4.
#ifndef TEMPOTRACE_TNA_METADATA_P4
#define TEMPOTRACE_TNA_METADATA_P4

#include "../include/types.p4"

// What the ingress parser made of an IP header.
const bit<2> IP_WELL_FORMED           = 0;
const bit<2> IP_VERSION_WRONG         = 1;
const bit<2> IP_HEADER_LENGTH_WRONG   = 2;

// First 16 bits of a shim: type, NPT 0, and a length that the mask leaves out.
const bit<16> INT_MD_TYPE_AND_LENGTH = INT_SHIM_TYPE_MD ++ 12w0;
const bit<16> INT_MX_TYPE_AND_LENGTH = INT_SHIM_TYPE_MX ++ 12w0;
const bit<16> INT_TYPE_MASK          = 0xFC00;

// What the ingress parser found behind UDP on an odd DSCP.
const bit<2> INT_FOUND_NOTHING = 0;
const bit<2> INT_FOUND_MD      = 1;
const bit<2> INT_FOUND_MX      = 2;

// Until ingress finds a reason, only the traffic manager can drop a packet: drop_report is asked with that.
const drop_reason_t NOT_DROPPED = DROP_TRAFFIC_MANAGER;

// An index that no event has.
const bit<4> NO_EVENT = 15;

// Which way a packet goes that nothing keeps from leaving.
const bit<3> WAY_NONE  = 0;                       // no further: it is dropped, or its port is known
const bit<3> WAY_IPV4  = 1;
const bit<3> WAY_IPV6  = 2;
const bit<3> WAY_L2    = 3;
const bit<3> WAY_PROBE = 4;

// What the watchlist asks a source for.
const bit<2> SOURCE_NONE = 0;
const bit<2> SOURCE_MD   = 1;
const bit<2> SOURCE_MX   = 2;

// What a packet lacks is 0 in a key: such a field shares its container with no other, and Tofino clears the
// containers of every packet. Flags start at 0.
@pa_no_overlay("ingress", "hdr.ipv4.src_addr")
@pa_no_overlay("ingress", "hdr.ipv4.dst_addr")
@pa_no_overlay("ingress", "hdr.ipv6.dst_addr")
@pa_no_overlay("ingress", "hdr.l4_ports.src_port")
@pa_no_overlay("ingress", "hdr.l4_ports.dst_port")
@pa_no_overlay("egress", "hdr.ipv4.src_addr")
@pa_no_overlay("egress", "hdr.ipv4.dst_addr")
// What moves between fields of the same size needs no hash unit, of which a stage has six.
@pa_container_size("ingress", "meta.dscp", 16)
@pa_container_size("ingress", "meta.new_dscp", 16)
@pa_container_size("ingress", "hdr.ipv4.dscp", 16)
@pa_container_size("ingress", "hdr.ipv6.dscp", 16)
@pa_container_size("ingress", "hdr.packet_out.egress_port", 16)
@pa_container_size("ingress", "hdr.bridged.egress_port", 16)
@pa_container_size("ingress", "meta.report_egress_port", 16)
@pa_container_size("ingress", "meta.int_start", 16)
@pa_container_size("ingress", "meta.int_bytes", 16)
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
    bit<8>    icmp_type;            // ICMPv6 only
    bit<1>    int_possible;         // odd DSCP on UDP: a shim may be there
    bit<2>    int_found;            // INT_FOUND_*
    bit<8>    int_hops;             // remaining hop count
    int_bitmap_t int_bitmap;
    bit<16>   int_start;            // the shim's first 16 bits; the low 8 are a length in words
    dscp_t    int_dscp;             // the sender's
    bit<8>    roce_opcode;          // 0 unless RoCEv2
    psn_t     roce_psn;
    bit<24>   roce_dest_qp;
    bit<8>    roce_syndrome;        // 0 unless there is an AETH
    bit<16>   ipv4_residual;        // checksum of what the IPv4 header has beyond its 20 bytes
    bit<1>    ptp_too_big;          // correctionField at its limit
    bit<32>   ns_high;              // of the correctionField: 48 bits of nanoseconds, in two pieces of 24 bits
    bit<32>   ns_low;
    bit<32>   stamp_high;           // of the ingress stamp, likewise
    bit<32>   stamp_low;

    // ---- decisions ----
    drop_reason_t drop_reason;      // NOT_DROPPED, or why
    bit<4>    event;                // index in ingress_events, or NO_EVENT; the last one wins
    bit<1>    edge_port;            // the packet came from a host
    bit<1>    int_marked;           // arrived with a marked DSCP over a fabric link
    bit<1>    cleaned;
    bit<3>    way;                  // WAY_*
    bit<1>    routed;
    bit<1>    egress_tagged;        // leaves with a VLAN tag
    bit<16>   egress_tag;           // priority 0 and the VLAN id
    dscp_t    dscp_unmarked;        // what the marked DSCP stands for
    bit<1>    rewrite_dscp;
    dscp_t    new_dscp;
    bit<1>    sink_port;            // the packet leaves towards a host
    bit<1>    sink_reports;         // that port reports what it strips
    bit<2>    source;               // SOURCE_*
    bit<1>    postcard;             // the watchlist wants one
    bit<1>    stack_report;         // report the packet as received (sink, end of a probe)
    bit<1>    is_probe;
    bit<1>    probe_ended;
    bit<1>    drop_wanted;
    bit<1>    drop_known_a;         // it was reported in this interval
    bit<1>    drop_known_b;

    // ---- lengths; subtractions stop at 0, so 0 means "not longer" ----
    length_bytes_t l4_end;          // where UDP ends, counted as the IP length field counts
    length_bytes_t l4_beyond_ip;
    length_bytes_t ip_beyond_l4;
    length_bytes_t int_bytes;       // behind the shim's first word
    length_bytes_t int_end;         // where INT ends, counted as the UDP length field counts
    length_bytes_t int_beyond_udp;

    // ---- hashes ----
    flow_hash_t ecmp_input;         // the seed at first
    bit<16>   ecmp_hash;            // differs per tier: next hop
    bit<2>    tier;
    bit<1>    ecmp_by_flow_label;

    // ---- reports ----
    bit<8>    bucket;               // of the flow
    bit<1>    filter_drops;         // one drop report per flow, reason and interval
    bit<6>    interval_shift;
    bit<32>   fingerprint;
    bit<1>    probe_enabled;
    int_bitmap_t probe_bits;

    // ---- transparent clock: sums of 24-bit pieces, carries and borrows above them ----
    bit<1>    clock_enabled;
    bit<32>   delta_high;           // what is added next: link delay, offset, carry
    bit<32>   delta_low;

    // ---- the mirrored packet ----
    MirrorId_t mirror_session;
    packet_kind_t mirror_kind;
    bit<32>   report_seq;
    int_bitmap_t report_bits;
    bit<16>   report_egress_port;
}

// Sums and whole bytes in containers of their own size.
@pa_container_size("egress", "hdr.bridged.bitmap", 8)
@pa_container_size("egress", "meta.shim_dscp", 8)
@pa_container_size("egress", "meta.hop_words", 8)
@pa_container_size("egress", "meta.shim_words", 8)
@pa_container_size("egress", "meta.report_bytes", 16)
@pa_container_size("egress", "meta.report_overhead", 16)
@pa_container_size("egress", "meta.report_rest", 16)
@pa_container_size("egress", "meta.hop_bytes", 16)
@pa_container_size("egress", "meta.added_bytes", 16)
@pa_container_size("egress", "meta.ip_bytes", 16)
@pa_container_size("egress", "meta.headroom", 16)
@pa_container_size("egress", "meta.mtu_bytes", 16)
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
    bit<1>    is_report;            // mirrored: to be made a report
    bit<1>    deflected;            // the traffic manager dropped it, and handed it over
    int_bitmap_t bitmap;            // what this node writes: a stack entry, or a report's metadata

    // ---- of a report ----
    drop_reason_t drop_reason;
    length_bytes_t report_bytes;    // IP length of the report; the mirrored copy's length at first
    length_bytes_t report_overhead; // headers of the report less what is in front of the inner packet, and the FCS
    length_bytes_t report_rest;     // behind the individual header

    // ---- parser results ----
    bit<16>   ptp_sequence_id;
    bit<1>    int_discard;          // D bit of what is stripped: drop after the postcard
    bit<16>   ipv4_residual;        // checksums without the fields that may change
    bit<16>   udp_residual;
    bit<1>    update_udp_checksum;

    // ---- configuration ----
    bit<1>    node_configured;
    node_id_t node_id;
    bit<16>   domain_specific_id;
    bit<1>    report_configured;
    length_bytes_t mtu_bytes;
    interface_t ingress_interface;
    interface_t egress_interface;

    // ---- work values ----
    bit<4>    event;                // index in egress_events, or NO_EVENT; the last one wins
    bit<32>   latency;
    bit<32>   stamps_wrapped;       // the low 32 bits of the egress stamp of a mirrored copy did: not 0
    bit<19>   cells;                // queue depth at dequeue, for comparisons
    bit<8>    hop_words;
    bit<8>    hop_words_low;
    length_bytes_t hop_bytes;
    length_bytes_t hop_bytes_low;
    bit<1>    write_hop;
    bit<1>    start_md;             // the source writes INT headers
    bit<1>    start_mx;
    bit<8>    shim_dscp;            // the shim's last byte: DSCP as the packet came, and two bits 0
    bit<8>    shim_words;           // the shim's length at the source
    length_bytes_t added_bytes;     // to the packet
    length_bytes_t ip_bytes;
    length_bytes_t headroom;        // up to the MTU; 0 if there is none
    bit<19>   below_ecn_threshold;  // differences stop at 0, so 0 means "not below"
    bit<1>    queue_watched;
    bit<1>    above_threshold;
    bit<1>    congested;
    bit<16>   episode_quota;
    bit<19>   below_depth;
    bit<32>   below_latency;
    bit<32>   latency_step;
    bit<32>   fingerprint;
    bit<1>    known_a;
    bit<1>    known_b;
    bit<1>    postcard;             // asked for by the PTP watchlist
    bit<1>    corrected;

    // ---- the mirrored packet ----
    bit<1>    mirrored;
    bit<8>    report_flags;         // KIND_DROPPED, KIND_CONGESTED, KIND_TRACKED
    MirrorId_t mirror_session;
    packet_kind_t mirror_kind;
    bit<32>   report_seq;
    bit<8>    report_bits;          // the upper half of RepMdBits
}

#endif
