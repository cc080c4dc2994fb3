// SPDX-License-Identifier: Apache-2.0
// Egress: after the queue, with the egress stamp at hand.

control TempoEgress(inout headers_t hdr,
                    inout local_metadata_t meta,
                    inout standard_metadata_t standard_metadata) {

    Ecn() ecn;
    L2PtpTag() l2_ptp_tag;
    IntEgress() tracing;

    apply {
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.pad = 0;
        } else if (standard_metadata.instance_type == INSTANCE_TYPE_REPLICATED
                   && standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);   // no way back: as intended, so nobody is told
        } else {
            if (standard_metadata.instance_type == INSTANCE_TYPE_REPLICATED
                && meta.ether_type == ETHER_TYPE_PTP) {
                l2_ptp_tag.apply(hdr, meta, standard_metadata);
            }
            if (standard_metadata.instance_type != INSTANCE_TYPE_INGRESS_CLONE
                && standard_metadata.instance_type != INSTANCE_TYPE_EGRESS_CLONE) {
                ecn.apply(hdr, meta, standard_metadata);
            }
            tracing.apply(hdr, meta, standard_metadata);
        }
    }
}
