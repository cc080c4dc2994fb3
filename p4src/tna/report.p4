// SPDX-License-Identifier: Apache-2.0
// Telemetry Report v2.0: turns a mirrored copy into a datagram for the collector. It is recirculated then, to be routed
// like any packet; ingress writes the collector's address and port from the flow's bucket.

#define REPORT_FIXED_BYTES     20    // group header 8, individual header 4, main header 8

control Report(inout egress_headers_t hdr,
               inout egress_metadata_t meta,
               in egress_intrinsic_metadata_t eg_intr_md) {

    bit<16> length_words = 0;
    bit<16> total_length = 0;

    @hidden
    action write_outer_headers() {
        hdr.recirculated.setValid();
        hdr.recirculated.mark = RECIRCULATED_REPORT;
        hdr.recirculated.bucket = meta.bucket;
        // Addressed to this switch itself: routing gives it the next hop.
        hdr.ethernet.setValid();
        hdr.ethernet.dst_addr = meta.switch_mac;
        hdr.ethernet.src_addr = meta.switch_mac;
        hdr.ethernet.ether_type = ETHER_TYPE_IPV4;
        hdr.ipv4.setValid();
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.dscp = meta.report_dscp;
        hdr.ipv4.ecn = 0;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 2;           // never fragment
        hdr.ipv4.fragment_offset = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = IP_PROTOCOL_UDP;
        hdr.ipv4.src_addr = meta.switch_ip;
        hdr.ipv4.dst_addr = 0;
        hdr.udp.setValid();
        hdr.udp.src_port = meta.source_port;   // a flow's reports stay in order, flows spread
        hdr.udp.dst_port = 0;
        hdr.udp.checksum = 0;
    }

    @hidden
    action write_lengths() {
        hdr.ipv4.total_length = total_length;
        hdr.udp.length = total_length - 20;
    }

    @hidden
    action write_report_headers() {
        hdr.report_group.setValid();
        hdr.report_group.version = REPORT_VERSION;
        hdr.report_group.sequence_number = meta.report_seq[21:0];
        hdr.report_group.node_id = meta.node_id;
        hdr.report_individual.setValid();
        hdr.report_individual.report_type = REPORT_TYPE_INT;
        hdr.report_individual.inner_type = meta.inner_type;
        hdr.report_individual.report_length_words = length_words[7:0];
        hdr.report_individual.metadata_length_words = meta.hop_words;
        hdr.report_individual.dropped = meta.dropped;
        hdr.report_individual.congested_queue = meta.congested;
        hdr.report_individual.tracked_flow = meta.tracked;
        hdr.report_individual.intermediate_report = 0;
        hdr.report_individual.reserved = 0;
        hdr.report_main.setValid();
        hdr.report_main.report_metadata_bits = meta.bitmap;
        hdr.report_main.domain_specific_id = meta.domain_specific_id;
        hdr.report_main.ds_metadata_bits = 0;
        hdr.report_main.ds_metadata_status = 0;
    }

    // A PTP message gets back the correctionField that it came with; what the MAC writes is not known here.
    @hidden
    action restore_correction() {
        hdr.ptp_correction.setValid();
        hdr.ptp_correction.ns_high = meta.correction_ns_high;
        hdr.ptp_correction.ns_low = meta.correction_ns_low;
        hdr.ptp_correction.fraction = meta.correction_fraction;
    }

    apply {
        // The mirror session has cut the copy already. Bytes beyond the last whole word belong to the inner
        // packet, and are not in the report's length.
        meta.inner_bytes = eg_intr_md.pkt_length - meta.not_inner_bytes;
        total_length = meta.inner_bytes + meta.hop_bytes;
        total_length = total_length + (28 + REPORT_FIXED_BYTES);
        length_words = meta.inner_bytes >> 2;
        length_words = length_words + (bit<16>)meta.hop_words;
        length_words = length_words + 2;
        if (length_words[15:8] != 0) {
            length_words = 255;
        }
        write_outer_headers();
        write_lengths();
        write_report_headers();
        if (meta.kind == KIND_RECEIVED || meta.kind == KIND_RECEIVED_L2) {
            hdr.report_group.hw_id = HW_ID_INGRESS;
        } else {
            hdr.report_group.hw_id = HW_ID_EGRESS;
        }
        if (meta.kind == KIND_PTP || meta.kind == KIND_PTP_L2) {
            restore_correction();
        }
    }
}
