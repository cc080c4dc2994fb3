// SPDX-License-Identifier: Apache-2.0
// Telemetry Report v2.0: turns a clone into a datagram for the collector, and cuts it to size.

#define REPORT_INNER_BYTES_MIN 40    // IPv4, UDP and base transport header: what identifies the packet
#define REPORT_FIXED_BYTES     20    // group header 8, individual header 4, main header 8
#define REPORT_LENGTH_WORDS_MAX 255

control Report(inout headers_t hdr,
               inout local_metadata_t meta,
               inout standard_metadata_t standard_metadata) {

    length_bytes_t inner_bytes = 0;
    length_bytes_t kept_bytes = 0;
    length_bytes_t metadata_bytes = 0;
    length_bytes_t length_words = 0;

    @hidden
    action write_outer_headers() {
        hdr.report_ethernet.setValid();
        hdr.report_ethernet.dst_addr = meta.collector_mac;
        hdr.report_ethernet.src_addr = meta.switch_mac;
        hdr.report_ethernet.ether_type = ETHER_TYPE_IPV4;
        hdr.report_ipv4.setValid();
        hdr.report_ipv4.version = 4;
        hdr.report_ipv4.ihl = 5;
        hdr.report_ipv4.dscp = 0;
        hdr.report_ipv4.ecn = 0;
        hdr.report_ipv4.total_length = 28 + REPORT_FIXED_BYTES + metadata_bytes + inner_bytes;
        hdr.report_ipv4.identification = 0;
        hdr.report_ipv4.flags = 2;           // never fragment
        hdr.report_ipv4.fragment_offset = 0;
        hdr.report_ipv4.ttl = 64;
        hdr.report_ipv4.protocol = IP_PROTOCOL_UDP;
        hdr.report_ipv4.header_checksum = 0;
        hdr.report_ipv4.src_addr = meta.switch_ip;
        hdr.report_ipv4.dst_addr = meta.collector_ip;
        hdr.report_udp.setValid();
        hdr.report_udp.src_port = meta.report_udp_port;
        hdr.report_udp.dst_port = meta.report_udp_port;
        hdr.report_udp.length = 8 + REPORT_FIXED_BYTES + metadata_bytes + inner_bytes;
        hdr.report_udp.checksum = 0;
    }

    @hidden
    action write_report_headers(in bit<6> hw_id) {
        hdr.report_group.setValid();
        hdr.report_group.version = REPORT_VERSION;
        hdr.report_group.hw_id = hw_id;
        hdr.report_group.sequence_number = meta.report_seq;
        hdr.report_group.node_id = meta.node_id;
        hdr.report_individual.setValid();
        hdr.report_individual.report_type = REPORT_TYPE_INT;
        hdr.report_individual.inner_type = REPORT_INNER_TYPE_IPV4;
        hdr.report_individual.report_length_words = (bit<8>)length_words;
        hdr.report_individual.metadata_length_words = meta.report_metadata_words;
        hdr.report_individual.dropped = 0;
        hdr.report_individual.congested_queue = 0;
        hdr.report_individual.tracked_flow = 1;
        hdr.report_individual.intermediate_report = 0;
        hdr.report_individual.reserved = 0;
        hdr.report_main.setValid();
        hdr.report_main.report_metadata_bits = meta.report_bits;
        hdr.report_main.domain_specific_id = meta.report_domain_specific_id;
        hdr.report_main.ds_metadata_bits = 0;
        hdr.report_main.ds_metadata_status = 0;
        hdr.ethernet.setInvalid();           // the inner packet starts at its IPv4 header
    }

    @hidden
    action write_level1_ports() {
        hdr.report_level1_ports.setValid();
        hdr.report_level1_ports.ingress_port = (bit<16>)meta.report_ingress_port;
        hdr.report_level1_ports.egress_port = (bit<16>)meta.report_egress_port;
    }

    @hidden
    action write_hop_latency() {
        hdr.report_hop_latency.setValid();
        hdr.report_hop_latency.hop_latency =
            (bit<32>)(meta.report_egress_tstamp - meta.report_ingress_tstamp);
    }

    @hidden
    action write_queue() {
        hdr.report_queue.setValid();
        hdr.report_queue.queue_id = meta.report_queue_id;
        hdr.report_queue.queue_depth = meta.report_queue_depth;
    }

    @hidden
    action write_ingress_tstamp() {
        hdr.report_ingress_tstamp.setValid();
        hdr.report_ingress_tstamp.ingress_tstamp = (bit<64>)meta.report_ingress_tstamp;
    }

    @hidden
    action write_egress_tstamp() {
        hdr.report_egress_tstamp.setValid();
        hdr.report_egress_tstamp.egress_tstamp = (bit<64>)meta.report_egress_tstamp;
    }

    apply {
        // The inner packet is cut to whole words, and the stack is never cut: INT is not counted.
        kept_bytes = meta.truncate_bytes;
        if (kept_bytes < REPORT_INNER_BYTES_MIN) {
            kept_bytes = REPORT_INNER_BYTES_MIN;
        }
        if (hdr.int_shim.isValid()) {
            kept_bytes = kept_bytes |+| (((length_bytes_t)hdr.int_shim.length_words + 1) << 2);
        }
        inner_bytes = hdr.ipv4.total_length;
        if (inner_bytes > kept_bytes) {
            inner_bytes = kept_bytes;
        }
        inner_bytes = inner_bytes & 0xFFFC;
        metadata_bytes = (length_bytes_t)meta.report_metadata_words << 2;
        length_words = 2 + (length_bytes_t)meta.report_metadata_words + (inner_bytes >> 2);
        if (length_words > REPORT_LENGTH_WORDS_MAX) {
            length_words = REPORT_LENGTH_WORDS_MAX;
        }

        write_outer_headers();
        if (standard_metadata.instance_type == INSTANCE_TYPE_INGRESS_CLONE) {
            write_report_headers(HW_ID_INGRESS);
        } else {
            write_report_headers(HW_ID_EGRESS);
        }
        if (meta.report_bits & INT_BIT_LEVEL1_PORTS != 0) { write_level1_ports(); }
        if (meta.report_bits & INT_BIT_HOP_LATENCY != 0) { write_hop_latency(); }
        if (meta.report_bits & INT_BIT_QUEUE != 0) { write_queue(); }
        if (meta.report_bits & INT_BIT_INGRESS_TSTAMP != 0) { write_ingress_tstamp(); }
        if (meta.report_bits & INT_BIT_EGRESS_TSTAMP != 0) { write_egress_tstamp(); }

        // BMv2: counts bytes of the frame as it leaves the deparser; clone sessions cannot truncate.
        truncate(14 + (bit<32>)hdr.report_ipv4.total_length);
    }
}
