// SPDX-License-Identifier: Apache-2.0
// An L2 switch that had nothing to do with INT, with the tracing blocks put in: see docs/p4-blocks.md.
// Its own parts are the table mac_forward, a storm counter in its metadata, and where reports leave.

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

// ---- what this program adds to the structs of the blocks ----
#define TEMPOTRACE_HOST_METADATA bit<16> host_l2_domain;

#include "../include/types.p4"
#include "../include/ids.p4"
#include "../v1model/target.p4"
#include "../v1model/table_sizes.p4"
#include "../v1model/headers.p4"
#include "../v1model/metadata.p4"
#include "../v1model/parser.p4"
#include "../v1model/checksums.p4"
#include "../v1model/ip_check.p4"
#include "../v1model/edge.p4"
#include "../v1model/qos.p4"
#include "../v1model/flow_hash.p4"
#include "../v1model/filter_config.p4"
#include "../v1model/destination.p4"
#include "../v1model/watchlist.p4"
#include "../v1model/sink.p4"
#include "../v1model/drop_report.p4"
#include "../v1model/ingress_report.p4"
#include "../v1model/int_ingress.p4"
#include "../v1model/node.p4"
#include "../v1model/interfaces.p4"
#include "../v1model/transparent_clock.p4"
#include "../v1model/int_push.p4"
#include "../v1model/flow_filter.p4"
#include "../v1model/queue_report.p4"
#include "../v1model/postcard.p4"
#include "../v1model/report.p4"
#include "../v1model/int_egress.p4"

control HostIngress(inout headers_t hdr,
                    inout local_metadata_t meta,
                    inout standard_metadata_t standard_metadata) {

    IpCheck() ip_check;
    Edge() edge;
    Qos() qos;
    FlowHash() flow_hash;
    IntIngress() tracing;

    action to_port(port_t port, bit<16> l2_domain) {
        standard_metadata.egress_spec = port;
        meta.host_l2_domain = l2_domain;
        meta.routed = 1;                      // the blocks want to know that there is an egress port
    }

    table mac_forward {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { to_port; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    action report_to(port_t port, mac_addr_t dst_mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst_addr = dst_mac;
        meta.routed = 1;
    }

    // A report is addressed to this switch; an L2 switch has no route, so it is told where reports leave.
    table report_way {
        key = { }
        actions = { report_to; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (meta.is_report == 1) {
            report_way.apply();
        } else {
            ip_check.apply(hdr, meta, standard_metadata);
            if (meta.drop_reason == 0) {
                edge.apply(hdr, meta, standard_metadata);
                mac_forward.apply();
            }
        }
        if (meta.routed == 0 && meta.drop_reason == 0) {
            meta.drop_reason = DROP_NO_ROUTE;
        }
        qos.apply(meta, standard_metadata);
        flow_hash.apply(hdr, meta);
        tracing.apply(hdr, meta, standard_metadata);
    }
}

control HostEgress(inout headers_t hdr,
                   inout local_metadata_t meta,
                   inout standard_metadata_t standard_metadata) {

    IntEgress() tracing;

    apply {
        tracing.apply(hdr, meta, standard_metadata);
    }
}

@pkginfo(name = "l2_switch", version = "1.0.0")
V1Switch(TempoParser(),
         TempoVerifyChecksum(),
         HostIngress(),
         HostEgress(),
         TempoComputeChecksum(),
         TempoDeparser()) main;
