// SPDX-License-Identifier: Apache-2.0
// Telemetry Report v2.0: turns a mirrored copy into a datagram for the collector. It is recirculated then, to be routed
// like any packet. What the copy carried along for the report's headers the parser has put there.

control Report(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    // Constants and fields are written apart: a container takes only one of both in a stage.

    @hidden
    action write_constants() {
        hdr.recirculated.setValid();
        hdr.recirculated.mark = RECIRCULATED_REPORT;
        hdr.recirculated.pad = 0;
        hdr.ethernet.setValid();
        hdr.ethernet.ether_type = ETHER_TYPE_IPV4;
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.ecn = 0;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 2;           // never fragment
        hdr.ipv4.fragment_offset = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = IP_PROTOCOL_UDP;
        hdr.udp.checksum = 0;
        hdr.report_individual.setValid();
        hdr.report_main.setValid();
        hdr.report_main.ds_metadata_bits = 0;
        hdr.report_main.ds_metadata_status = 0;
    }

    @hidden
    action write_fields() {
        hdr.report_group.node_id = meta.node_id;
        hdr.report_individual.metadata_length_words = meta.hop_words;
        hdr.report_main.domain_specific_id = meta.domain_specific_id;
        hdr.report_main.report_metadata_bits = meta.bitmap;
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

    // ---- lengths, a stage each ----

    @hidden
    action add_headers() {
        meta.report_bytes = meta.report_bytes + meta.report_overhead;
    }

    @hidden
    action add_hop() {
        meta.report_bytes = meta.report_bytes + meta.hop_bytes;
    }

    @hidden
    action write_lengths() {
        hdr.ipv4.total_length = meta.report_bytes;
        hdr.udp.length = meta.report_bytes - 20;
        meta.report_rest = meta.report_bytes - 40;
    }

    // In whole words. By the hash unit: nothing else moves bits between fields of 16 and of 8 bits.
    @hidden
    action write_report_length() {
        @in_hash { hdr.report_individual.report_length_words = meta.report_rest[9:2]; }
    }

    @hidden
    action write_no_report_length() {
        hdr.report_individual.report_length_words = 255;       // up to the end of the datagram
    }

    apply {
        // A PTP message has its correctionField again, as it came; what the MAC writes is not known here.
        // The mirror session has cut the copy already. Bytes beyond the last whole word belong to the inner
        // packet, and are not in the report's length.
        write_constants();
        write_fields();
        inner_packet.apply();
        report_flags.apply();
        add_headers();
        add_hop();
        write_lengths();
        if (meta.report_rest[15:10] == 0) {
            write_report_length();
        } else {
            write_no_report_length();
        }
    }
}
