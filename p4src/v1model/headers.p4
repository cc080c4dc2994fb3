// SPDX-License-Identifier: Apache-2.0
// All headers that this target parses or emits, in the order in which they leave.
#ifndef TEMPOTRACE_V1MODEL_HEADERS_P4
#define TEMPOTRACE_V1MODEL_HEADERS_P4

#include "../include/headers.p4"

struct headers_t {
    packet_in_t           packet_in;
    packet_out_t          packet_out;
    // Report encapsulation, valid in clones only.
    ethernet_t            report_ethernet;
    ipv4_t                report_ipv4;
    udp_t                 report_udp;
    report_group_t        report_group;
    report_individual_t   report_individual;
    report_main_t         report_main;
    int_level1_ports_t        report_level1_ports;
    int_hop_latency_t         report_hop_latency;
    int_queue_t               report_queue;
    int_ingress_tstamp_t      report_ingress_tstamp;
    int_egress_tstamp_t       report_egress_tstamp;
    int_level2_ports_t        report_level2_ports;
    report_drop_t             report_drop;
    // The packet.
    ethernet_t            ethernet;
    vlan_t                vlan;
    ipv4_t                ipv4;
    ipv4_options_t        ipv4_options;
    ipv6_t                ipv6;
    icmp_t                icmp;
    tcp_ports_t           tcp_ports;
    udp_t                 udp;
    int_shim_t            int_shim;
    int_md_t              int_md;
    int_mx_t              int_mx;
    // This node's stack entry, written in egress.
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
    int_stack_t           int_stack;
    bth_t                 bth;
    reth_t                reth;
    aeth_t                aeth;
    cnp_t                 cnp;
    ptp_t                 ptp;
    probe_t               probe;
#ifdef TEMPOTRACE_HOST_HEADERS
    TEMPOTRACE_HOST_HEADERS         // of the program that includes these blocks (docs/p4-blocks.md)
#endif
}

#endif
