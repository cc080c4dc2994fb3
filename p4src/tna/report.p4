// SPDX-License-Identifier: Apache-2.0
// Telemetry Report v2.0: turns a mirrored copy into a datagram for the collector. It is recirculated then, to be routed
// like any packet; ingress writes the collector's address and port from the flow's bucket.

#define REPORT_FIXED_BYTES     20    // group header 8, individual header 4, main header 8

control Report(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    Hash<bit<8>>(HashAlgorithm_t.IDENTITY) low_byte;

    // One action per step: an action does all of its work in one stage.

    @hidden
    action measure_inner_packet() {
        meta.inner_bytes = meta.inner_bytes - meta.not_inner_bytes;
    }

    @hidden
    action add_metadata() {
        hdr.ipv4.total_length = meta.inner_bytes + meta.hop_bytes;
        meta.report_words = meta.inner_bytes >> 2;
    }

    @hidden
    action add_headers() {
        hdr.ipv4.total_length = hdr.ipv4.total_length + (28 + REPORT_FIXED_BYTES);
        meta.report_words = meta.report_words + meta.report_words_high;
    }

    @hidden
    action add_main_header() {
        hdr.udp.length = hdr.ipv4.total_length - 20;
        meta.report_words = meta.report_words + meta.report_words_low;
    }

    @hidden
    action limit_length() {
        meta.report_words = 255;
    }

    // Constants and fields are written apart: a container takes only one of both in a stage.

    @hidden
    action write_outer_constants() {
        hdr.recirculated.setValid();
        hdr.recirculated.mark = RECIRCULATED_REPORT;
        hdr.ethernet.setValid();
        hdr.ethernet.ether_type = ETHER_TYPE_IPV4;
        hdr.ipv4.setValid();
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.ecn = 0;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 2;           // never fragment
        hdr.ipv4.fragment_offset = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = IP_PROTOCOL_UDP;
        hdr.ipv4.dst_addr = 0;
        hdr.udp.setValid();
        hdr.udp.dst_port = 0;
        hdr.udp.checksum = 0;
    }

    @hidden
    action write_outer_fields() {
        hdr.recirculated.bucket = meta.bucket;
        hdr.udp.src_port = meta.source_port;   // a flow's reports stay in order, flows spread
    }

    // By the hash unit: nothing else moves bits between fields of 16 and of 8 bits.
    @hidden
    action write_report_length() {
        hdr.report_individual.report_length_words = low_byte.get({ meta.report_words });
    }

    @hidden
    action write_report_headers() {
        hdr.report_group.setValid();
        hdr.report_group.version = meta.report_seq[31:28];
        hdr.report_group.hw_id = meta.report_seq[27:22];
        hdr.report_group.sequence_number = meta.report_seq[21:0];
        hdr.report_group.node_id = meta.node_id;
        hdr.report_individual.setValid();
        hdr.report_individual.metadata_length_words = meta.hop_words;
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

    @hidden
    action write_types(bit<4> inner_type) {
        hdr.report_individual.report_type = REPORT_TYPE_INT;
        hdr.report_individual.inner_type = inner_type;
    }

    @hidden
    table inner_packet {
        key = { meta.kind[1:0]: exact; }
        actions = { write_types; }
        const default_action = write_types(REPORT_INNER_TYPE_ETHERNET);
        const entries = {
            2: write_types(REPORT_INNER_TYPE_IPV4);
            3: write_types(REPORT_INNER_TYPE_IPV6);
        }
    }

    @hidden
    action write_flags(bit<1> dropped, bit<1> congested_queue, bit<1> tracked_flow) {
        hdr.report_individual.dropped = dropped;
        hdr.report_individual.congested_queue = congested_queue;
        hdr.report_individual.tracked_flow = tracked_flow;
        hdr.report_individual.intermediate_report = 0;
        hdr.report_individual.reserved = 0;
    }

    @hidden
    table report_flags {
        key = { meta.kind[4:2]: exact; }
        actions = { write_flags; }
        const default_action = write_flags(0, 0, 0);
        const entries = {
            1: write_flags(0, 0, 1);
            2: write_flags(0, 1, 0);
            3: write_flags(0, 1, 1);
            4: write_flags(1, 0, 0);
            5: write_flags(1, 0, 1);
            6: write_flags(1, 1, 0);
            7: write_flags(1, 1, 1);
        }
    }

    apply {
        // A PTP message has its correctionField again, as it came; what the MAC writes is not known here.
        // The mirror session has cut the copy already. Bytes beyond the last whole word belong to the inner
        // packet, and are not in the report's length.
        write_outer_constants();
        write_outer_fields();
        measure_inner_packet();
        add_metadata();
        add_headers();
        add_main_header();
        if (meta.report_words & 0xFF00 != 0) {
            limit_length();
        }
        cut_sequence_number();
        if (meta.kind[6:6] == 0) {
            complete_group_word(((bit<32>)REPORT_VERSION << 28) | (HW_ID_INGRESS << 22));
        } else {
            complete_group_word(((bit<32>)REPORT_VERSION << 28) | (HW_ID_EGRESS << 22));
        }
        write_report_length();
        write_report_headers();
        inner_packet.apply();
        report_flags.apply();
    }
}
