// SPDX-License-Identifier: Apache-2.0
// Ingress: what a packet is and where it goes; int_ingress.p4 says what is measured of it.

control TempoIngress(inout headers_t hdr,
                     inout local_metadata_t meta,
                     inout standard_metadata_t standard_metadata) {

    IpCheck() ip_check;
    Edge() edge;
    Punt() punting;
    Qos() qos;
    FlowHash() flow_hash;
    Probe() probe;
    Routing() routing;
    L2Ptp() l2_ptp_forwarding;
    IntIngress() tracing;

    bit<1> direct = 0;
    bit<1> is_probe = 0;

    apply {
        if (hdr.packet_out.isValid()) {
            if (hdr.packet_out.submit_to_ingress == 0) {
                direct = 1;
                standard_metadata.egress_spec = hdr.packet_out.egress_port;
            }
            hdr.packet_out.setInvalid();
        }

        // ---- what is it ----
        if (direct == 0 && meta.is_report == 0) {
            ip_check.apply(hdr, meta, standard_metadata);
            if (meta.drop_reason == 0) {
                edge.apply(hdr, meta, standard_metadata);
                punting.apply(hdr, meta, standard_metadata);
            }
        }

        // ---- where does it go ----
        if (meta.drop_reason == 0 && meta.punted == 0) {
            qos.apply(meta, standard_metadata);
            flow_hash.apply(hdr, meta);
            if (hdr.probe.isValid() && meta.int_marked == 0) {
                probe.apply(hdr, meta, standard_metadata, direct, is_probe);
            }
            if (direct == 0 && is_probe == 0) {
                if (hdr.ipv4.isValid() || hdr.ipv6.isValid()) {
                    routing.apply(hdr, meta, standard_metadata);
                } else if (meta.ether_type == ETHER_TYPE_PTP && hdr.ptp.isValid()) {
                    l2_ptp_forwarding.apply(hdr, meta, standard_metadata);
                } else {
                    meta.drop_reason = DROP_UNKNOWN_ETHER_TYPE;
                }
            }
        }

        // ---- what is measured, and what ends here ----
        if (meta.punted == 0) {
            tracing.apply(hdr, meta, standard_metadata);
        }
    }
}
