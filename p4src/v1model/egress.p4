// SPDX-License-Identifier: Apache-2.0
// Egress: after the queue, with the egress stamp at hand.

control TempoEgress(inout headers_t hdr,
                    inout local_metadata_t meta,
                    inout standard_metadata_t standard_metadata) {

    NodeConfig() node;
    Ecn() ecn;
    IntPush() int_push;
    Postcard() postcard;
    Report() report;

    bit<1> is_clone = 0;

    @hidden
    action drop_in_egress() {
        mark_to_drop(standard_metadata);
    }

    apply {
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.pad = 0;
        } else {
            if (standard_metadata.instance_type == INSTANCE_TYPE_INGRESS_CLONE
                || standard_metadata.instance_type == INSTANCE_TYPE_EGRESS_CLONE) {
                is_clone = 1;
            }
            if (is_clone == 1 || meta.int_transit == 1 || meta.int_source == 1
                || meta.sink_postcard == 1 || meta.ptp_event == 1) {
                node.apply(meta);
            }

            if (is_clone == 1) {
                // A clone never gets here a second time and is never cloned: no report about a report.
                if (meta.node_configured == 1 && meta.report_configured == 1) {
                    report.apply(hdr, meta, standard_metadata);
                } else {
                    drop_in_egress();
                }
            } else if (hdr.ipv4.isValid()) {
                ecn.apply(hdr, meta, standard_metadata);
                // The flow to the collector is exempt on every switch, even if its watchlist entry is missing.
                if (meta.report_configured == 1 && hdr.ipv4.dst_addr == meta.collector_ip) {
                    meta.int_exempt = 1;
                }
                if (meta.node_configured == 1 && meta.int_exempt == 0) {
                    if (meta.int_transit == 1 || meta.int_source == 1) {
                        int_push.apply(hdr, meta, standard_metadata);
                    }
                    postcard.apply(hdr, meta, standard_metadata);
                }
                if (meta.int_discard == 1) {
                    drop_in_egress();
                }
            }
        }
    }
}
