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
        hdr.ipv4.dscp = meta.report_tos[7:2];
        hdr.ipv4.ecn = meta.report_tos[1:0];
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
        hdr.report_group.version = meta.report_seq[31:28];
        hdr.report_group.hw_id = meta.report_seq[27:22];
        hdr.report_group.sequence_number = meta.report_seq[21:0];
        hdr.report_group.node_id = meta.node_id;
        hdr.report_individual.setValid();
        hdr.report_individual.report_type = meta.types[7:4];
        hdr.report_individual.inner_type = meta.types[3:0];
        hdr.report_individual.report_length_words = length_words[7:0];
        hdr.report_individual.metadata_length_words = meta.hop_words;
        hdr.report_individual.dropped = meta.flags[7:7];
        hdr.report_individual.congested_queue = meta.flags[6:6];
        hdr.report_individual.tracked_flow = meta.flags[5:5];
        hdr.report_individual.intermediate_report = meta.flags[4:4];
        hdr.report_individual.reserved = meta.flags[3:0];
        hdr.report_main.setValid();
        hdr.report_main.report_metadata_bits = meta.bitmap;
        hdr.report_main.domain_specific_id = meta.domain_specific_id;
        hdr.report_main.ds_metadata_bits = 0;
        hdr.report_main.ds_metadata_status = 0;
    }

    // The first word of the group header: version and hardware id above the 22 bits that are left of the counter.
    @hidden
    action cut_sequence_number() {
        meta.report_seq = meta.report_seq & 0x003FFFFF;
    }

    @hidden
    action complete_group_word(bit<32> version_and_hw_id) {
        meta.report_seq = meta.report_seq | version_and_hw_id;
    }

    apply {
        // A PTP message has its correctionField again, as it came; what the MAC writes is not known here.
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
        cut_sequence_number();
        if (meta.kind == KIND_RECEIVED || meta.kind == KIND_RECEIVED_L2) {
            complete_group_word(((bit<32>)REPORT_VERSION << 28) | (HW_ID_INGRESS << 22));
        } else {
            complete_group_word(((bit<32>)REPORT_VERSION << 28) | (HW_ID_EGRESS << 22));
        }
        write_outer_headers();
        write_lengths();
        write_report_headers();
    }
}
