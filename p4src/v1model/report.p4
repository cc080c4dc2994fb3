// SPDX-License-Identifier: Apache-2.0
// Telemetry Report v2.0: turns a clone into a datagram for the collector. It is recirculated then, to be routed
// like any packet; the end of that second pass cuts it to size.

#define REPORT_FIXED_BYTES     20    // group header 8, individual header 4, main header 8
#define REPORT_LENGTH_WORDS_MAX 255

// Kept whatever the configuration says: what identifies a RoCEv2 or PTP packet.
#define REPORT_INNER_BYTES_MIN_ETHERNET 80   // Ethernet, tag, and whatever of PTP
#define REPORT_INNER_BYTES_MIN_IPV4     64   // IPv4, UDP, PTP common header
#define REPORT_INNER_BYTES_MIN_IPV6     84   // IPv6, UDP, PTP common header

control Report(inout headers_t hdr,
               inout local_metadata_t meta,
               inout standard_metadata_t standard_metadata) {

    length_bytes_t inner_bytes = 0;
    length_bytes_t kept_bytes = 0;
    length_bytes_t kept_bytes_min = 0;
    length_bytes_t metadata_bytes = 0;
    length_bytes_t length_words = 0;

    @hidden
    action write_outer_headers() {
        // Addressed to this switch itself: routing gives it the next hop.
        hdr.report_ethernet.setValid();
        hdr.report_ethernet.dst_addr = meta.switch_mac;
        hdr.report_ethernet.src_addr = meta.switch_mac;
        hdr.report_ethernet.ether_type = ETHER_TYPE_IPV4;
        hdr.report_ipv4.setValid();
        hdr.report_ipv4.version = 4;
        hdr.report_ipv4.ihl = 5;
        hdr.report_ipv4.dscp = meta.report_dscp;
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
        hdr.report_udp.src_port = 2w3 ++ meta.report_entropy;   // a flow's reports stay in order, flows spread
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
        hdr.report_individual.inner_type = meta.report_inner_type;
        hdr.report_individual.report_length_words = (bit<8>)length_words;
        hdr.report_individual.metadata_length_words = meta.report_metadata_words;
        hdr.report_individual.dropped = meta.report_dropped;
        hdr.report_individual.congested_queue = meta.report_congested;
        hdr.report_individual.tracked_flow = meta.report_tracked;
        hdr.report_individual.intermediate_report = 0;
        hdr.report_individual.reserved = 0;
        hdr.report_main.setValid();
        hdr.report_main.report_metadata_bits = meta.report_bits;
        hdr.report_main.domain_specific_id = meta.report_domain_specific_id;
        hdr.report_main.ds_metadata_bits = 0;
        hdr.report_main.ds_metadata_status = 0;
    }

    @hidden
    action write_level1_ports() {
        hdr.report_level1_ports.setValid();
        hdr.report_level1_ports.ingress_port = meta.report_ingress_port;
        hdr.report_level1_ports.egress_port = meta.report_egress_port;
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

    @hidden
    action write_level2_ports() {
        hdr.report_level2_ports.setValid();
        hdr.report_level2_ports.ingress_interface = meta.report_ingress_interface;
        hdr.report_level2_ports.egress_interface = meta.report_egress_interface;
    }

    @hidden
    action write_drop() {
        hdr.report_drop.setValid();
        hdr.report_drop.queue_id = meta.report_queue_id;
        hdr.report_drop.drop_reason = meta.report_drop_reason;
        hdr.report_drop.reserved = 0;
    }

    apply {
        // The inner packet is cut to whole words, and the stack is never cut: INT is not counted.
        if (meta.report_inner_type == REPORT_INNER_TYPE_IPV4) {
            kept_bytes_min = REPORT_INNER_BYTES_MIN_IPV4;
        } else if (meta.report_inner_type == REPORT_INNER_TYPE_IPV6) {
            kept_bytes_min = REPORT_INNER_BYTES_MIN_IPV6;
        } else {
            kept_bytes_min = REPORT_INNER_BYTES_MIN_ETHERNET;
        }
        kept_bytes = meta.truncate_bytes;
        if (kept_bytes < kept_bytes_min) {
            kept_bytes = kept_bytes_min;
        }
        if (hdr.int_shim.isValid()) {
            kept_bytes = kept_bytes |+| (((length_bytes_t)hdr.int_shim.length_words + 1) << 2);
        }
        inner_bytes = meta.report_inner_bytes;
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
        if (meta.report_bits & INT_BIT_LEVEL2_PORTS != 0) { write_level2_ports(); }
        if (meta.report_bits & REPORT_BIT_DROP != 0) { write_drop(); }

        if (meta.report_domain_known == 0) {
            hdr.report_main.domain_specific_id = meta.domain_specific_id;
        }

        // What the inner packet starts with; a packet-out header is not part of any packet.
        hdr.packet_out.setInvalid();
        if (meta.report_inner_type != REPORT_INNER_TYPE_ETHERNET) {
            hdr.ethernet.setInvalid();
            hdr.vlan.setInvalid();
        }
        meta.is_report = 1;
        recirculate_preserving_field_list(FIELD_LIST_RECIRCULATED);
    }
}
