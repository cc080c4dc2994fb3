// SPDX-License-Identifier: Apache-2.0
// Egress parser: reads as far as the packet's kind asks for, and the rest stays payload. At the sink, shim, header
// and stack are skipped, and so leave the packet without ever having been in the pipeline.

// In front of a mirrored packet: its header; behind it, the frame check sequence is counted in its length.
#define FCS_BYTES 4

// IP, UDP, and the group, individual and main headers of a report.
const length_bytes_t REPORT_HEADERS_BYTES = 48;

parser TempoEgressParser(packet_in packet,
                         out egress_headers_t hdr,
                         out egress_metadata_t meta,
                         out egress_intrinsic_metadata_t eg_intr_md) {

    Checksum() ipv4_rest;
    Checksum() udp_rest;
    shim_to_skip_t shim;
    words_8_t words_8;
    words_4_t words_4;
    words_2_t words_2;
    words_1_t words_1;

    state start {
        packet.extract(eg_intr_md);
        meta.event = NO_EVENT;
        meta.report_bytes = eg_intr_md.pkt_length;
        meta.cells = eg_intr_md.deq_qdepth;
        transition select(eg_intr_md.deflection_flag, packet.lookahead<packet_kind_t>()) {
            (1w1, _): parse_deflected;
            (_, KIND_RECEIVED &&& 8w0xC0): parse_received;
            (_, KIND_HOP &&& 8w0xC0): parse_hop;
            default: parse_bridged;
        }
    }

    // ---- packets ----

    state parse_bridged {
        packet.extract(hdr.bridged);
        meta.kind = hdr.bridged.kind;
        meta.ingress_tstamp = hdr.bridged.ingress_tstamp;
        meta.queue_id = hdr.bridged.queue_id;
        meta.bitmap = hdr.bridged.bitmap;
        transition select(hdr.bridged.kind) {
            KIND_PLAIN: parse_ethernet;
            KIND_PTP_CORRECTED: parse_ptp_for_mac;
            default: parse_l4_ethernet;
        }
    }

    state parse_ptp_for_mac {
        read_ptp_t read_ptp;
        packet.extract(read_ptp);
        hdr.ptp_for_mac.setValid();
        hdr.ptp_for_mac.checksum_offset = 0;
        hdr.ptp_for_mac.correction_offset = 0;
        hdr.ptp_for_mac.ns_high = read_ptp.ns_high;
        hdr.ptp_for_mac.ns_low = read_ptp.ns_low;
        transition parse_l4_ethernet;
    }

    // Dropped by the traffic manager, which hands it over instead: reported, then dropped.
    state parse_deflected {
        packet.extract(hdr.bridged);
        meta.kind = KIND_PLAIN;
        meta.ingress_tstamp = hdr.bridged.ingress_tstamp;
        meta.queue_id = hdr.bridged.queue_id;
        meta.deflected = 1;
        transition select(hdr.bridged.kind) {
            KIND_PTP_CORRECTED: skip_ptp_for_mac;
            default: parse_ethernet;
        }
    }

    state skip_ptp_for_mac {
        packet.advance(64);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            ETHER_TYPE_IPV6: parse_ipv6;
            ETHER_TYPE_VLAN: parse_vlan;
            default: accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            ETHER_TYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_rest.subtract(hdr.ipv4);
        meta.ipv4_residual = ipv4_rest.get();
        transition accept;
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }

    // ---- packets that are read further: ingress knows that there is UDP behind the IP header ----

    state parse_l4_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_l4_ipv4;
            ETHER_TYPE_IPV6: parse_l4_ipv6;
            ETHER_TYPE_VLAN: parse_l4_vlan;
            ETHER_TYPE_PTP: parse_l2_ptp;
            default: accept;
        }
    }

    state parse_l4_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHER_TYPE_IPV4: parse_l4_ipv4;
            ETHER_TYPE_IPV6: parse_l4_ipv6;
            ETHER_TYPE_PTP: parse_l2_ptp;
            default: accept;
        }
    }

    state parse_l4_ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_rest.subtract(hdr.ipv4);
        meta.ipv4_residual = ipv4_rest.get();
        udp_rest.subtract({ hdr.ipv4.total_length });
        transition parse_udp;
    }

    state parse_l4_ipv6 {
        packet.extract(hdr.ipv6);
        udp_rest.subtract({ hdr.ipv6.payload_length });
        transition parse_udp;
    }

    // The residual is the checksum without the fields that may change here. The IP length takes the place of
    // the pseudo header's, from which it differs by a constant.
    state parse_udp {
        packet.extract(hdr.udp);
        udp_rest.subtract({ hdr.udp.length, hdr.udp.checksum });
        transition select(hdr.bridged.kind) {
            KIND_INT_TRANSIT: parse_int_md;
            KIND_INT_STRIP: skip_shim;
            KIND_PTP_EVENT: parse_udp_ptp;
            KIND_PTP_TOO_BIG: parse_udp_ptp;
            KIND_PTP_CORRECTED: parse_udp_ptp;
            KIND_PROBE_OUT: parse_probe;
            default: parse_udp_payload;
        }
    }

    state parse_udp_payload {
        meta.udp_residual = udp_rest.get();
        transition accept;
    }

    state parse_int_md {
        packet.extract(hdr.int_shim);
        packet.extract(hdr.int_md);
        udp_rest.subtract(hdr.int_shim);
        udp_rest.subtract(hdr.int_md);
        meta.udp_residual = udp_rest.get();
        transition accept;
    }

    state parse_udp_ptp {
        packet.extract(hdr.ptp_start);
        packet.extract(hdr.ptp_correction);
        udp_rest.subtract(hdr.ptp_correction);
        meta.udp_residual = udp_rest.get();
        transition look_at_ptp;
    }

    state parse_l2_ptp {
        packet.extract(hdr.ptp_start);
        packet.extract(hdr.ptp_correction);
        transition look_at_ptp;
    }

    state look_at_ptp {
        ptp_rest_t ptp_rest = packet.lookahead<ptp_rest_t>();
        meta.ptp_sequence_id = ptp_rest.sequence_id;
        transition accept;
    }

    state parse_probe {
        packet.extract(hdr.probe);
        transition accept;
    }

    // ---- the sink: shim, header and stack go, and their sum out of the UDP checksum; the shim's length in words is
    // taken bit by bit, and skipped 8 words at a time at most: more than 32 bytes no state can read ----

    state skip_shim {
        int_start_t int_start = packet.lookahead<int_start_t>();
        meta.int_discard = int_start.discard;
        packet.extract(shim);
        udp_rest.subtract(shim);
        transition select(shim.type_and_length) {
            16w0x0080 &&& 16w0x0080: skip_128_words;
            16w0x0040 &&& 16w0x0040: skip_64_words;
            16w0x0020 &&& 16w0x0020: skip_32_words;
            16w0x0010 &&& 16w0x0010: skip_16_words;
            16w0x0008 &&& 16w0x0008: skip_8_words;
            16w0x0004 &&& 16w0x0004: skip_4_words;
            16w0x0002 &&& 16w0x0002: skip_2_words;
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_128_words {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_2;
    }

    state skip_128_words_2 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_3;
    }

    state skip_128_words_3 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_4;
    }

    state skip_128_words_4 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_5;
    }

    state skip_128_words_5 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_6;
    }

    state skip_128_words_6 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_7;
    }

    state skip_128_words_7 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_8;
    }

    state skip_128_words_8 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_9;
    }

    state skip_128_words_9 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_10;
    }

    state skip_128_words_10 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_11;
    }

    state skip_128_words_11 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_12;
    }

    state skip_128_words_12 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_13;
    }

    state skip_128_words_13 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_14;
    }

    state skip_128_words_14 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_15;
    }

    state skip_128_words_15 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_128_words_16;
    }

    state skip_128_words_16 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition select(shim.type_and_length) {
            16w0x0040 &&& 16w0x0040: skip_64_words;
            16w0x0020 &&& 16w0x0020: skip_32_words;
            16w0x0010 &&& 16w0x0010: skip_16_words;
            16w0x0008 &&& 16w0x0008: skip_8_words;
            16w0x0004 &&& 16w0x0004: skip_4_words;
            16w0x0002 &&& 16w0x0002: skip_2_words;
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_64_words {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_64_words_2;
    }

    state skip_64_words_2 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_64_words_3;
    }

    state skip_64_words_3 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_64_words_4;
    }

    state skip_64_words_4 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_64_words_5;
    }

    state skip_64_words_5 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_64_words_6;
    }

    state skip_64_words_6 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_64_words_7;
    }

    state skip_64_words_7 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_64_words_8;
    }

    state skip_64_words_8 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition select(shim.type_and_length) {
            16w0x0020 &&& 16w0x0020: skip_32_words;
            16w0x0010 &&& 16w0x0010: skip_16_words;
            16w0x0008 &&& 16w0x0008: skip_8_words;
            16w0x0004 &&& 16w0x0004: skip_4_words;
            16w0x0002 &&& 16w0x0002: skip_2_words;
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_32_words {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_32_words_2;
    }

    state skip_32_words_2 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_32_words_3;
    }

    state skip_32_words_3 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_32_words_4;
    }

    state skip_32_words_4 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition select(shim.type_and_length) {
            16w0x0010 &&& 16w0x0010: skip_16_words;
            16w0x0008 &&& 16w0x0008: skip_8_words;
            16w0x0004 &&& 16w0x0004: skip_4_words;
            16w0x0002 &&& 16w0x0002: skip_2_words;
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_16_words {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition skip_16_words_2;
    }

    state skip_16_words_2 {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition select(shim.type_and_length) {
            16w0x0008 &&& 16w0x0008: skip_8_words;
            16w0x0004 &&& 16w0x0004: skip_4_words;
            16w0x0002 &&& 16w0x0002: skip_2_words;
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_8_words {
        packet.extract(words_8);
        udp_rest.subtract(words_8);
        transition select(shim.type_and_length) {
            16w0x0004 &&& 16w0x0004: skip_4_words;
            16w0x0002 &&& 16w0x0002: skip_2_words;
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_4_words {
        packet.extract(words_4);
        udp_rest.subtract(words_4);
        transition select(shim.type_and_length) {
            16w0x0002 &&& 16w0x0002: skip_2_words;
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_2_words {
        packet.extract(words_2);
        udp_rest.subtract(words_2);
        transition select(shim.type_and_length) {
            16w0x0001 &&& 16w0x0001: skip_1_word;
            default: skipped;
        }
    }

    state skip_1_word {
        packet.extract(words_1);
        udp_rest.subtract(words_1);
        transition skipped;
    }

    state skipped {
        meta.udp_residual = udp_rest.get();
        transition accept;
    }

    // ---- mirrored packets, to be made reports: everything of the inner packet is payload ----

    state parse_received {
        mirrored_received_t mirrored;
        packet.extract(mirrored);
        meta.kind = mirrored.kind;
        meta.is_report = 1;
        meta.write_hop = 1;
        hdr.ipv4.setValid();
        hdr.ipv4.dst_addr = mirrored.collector_ip;
        hdr.udp.setValid();
        hdr.udp.dst_port = mirrored.collector_port;
        hdr.udp.src_port = mirrored.source_port;       // a flow's reports stay in order, flows spread
        hdr.report_group.setValid();
        hdr.report_group.version = mirrored.version;
        hdr.report_group.hw_id = mirrored.hw_id;
        hdr.report_group.sequence_number = mirrored.sequence_number;
        hdr.report_group.node_id = 0;
        meta.ingress_port = mirrored.ingress_port;
        meta.egress_port = mirrored.egress_port;
        meta.ingress_tstamp = mirrored.ingress_tstamp;
        meta.queue_id = mirrored.queue_id;
        meta.bitmap = mirrored.bitmap;
        meta.drop_reason = mirrored.drop_reason;
        transition select(mirrored.kind) {
            KIND_ETHERNET &&& 8w3: received_with_ethernet;
            default: received_without_ethernet;
        }
    }

    state received_with_ethernet {
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_RECEIVED_BYTES + FCS_BYTES);
        transition accept;
    }

    state received_without_ethernet {
        ethernet_t ethernet = packet.lookahead<ethernet_t>();
        transition select(ethernet.ether_type) {
            ETHER_TYPE_VLAN: received_without_tag;
            default: received_without_14;
        }
    }

    state received_without_14 {
        packet.advance(112);
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_RECEIVED_BYTES + FCS_BYTES + 14);
        transition accept;
    }

    state received_without_tag {
        packet.advance(144);
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_RECEIVED_BYTES + FCS_BYTES + 18);
        transition accept;
    }

    state parse_hop {
        mirrored_hop_t mirrored;
        packet.extract(mirrored);
        meta.kind = mirrored.kind;
        meta.is_report = 1;
        meta.write_hop = 1;
        hdr.ipv4.setValid();
        hdr.ipv4.dst_addr = mirrored.collector_ip;
        hdr.udp.setValid();
        hdr.udp.dst_port = mirrored.collector_port;
        hdr.udp.src_port = mirrored.source_port;       // a flow's reports stay in order, flows spread
        hdr.report_group.setValid();
        hdr.report_group.version = mirrored.version;
        hdr.report_group.hw_id = mirrored.hw_id;
        hdr.report_group.sequence_number = mirrored.sequence_number;
        hdr.report_group.node_id = 0;
        meta.ingress_port = mirrored.ingress_port;
        meta.egress_port = mirrored.egress_port;
        meta.ingress_tstamp = mirrored.ingress_tstamp;
        meta.queue_id = mirrored.queue_id;
        meta.bitmap[15:8] = mirrored.bitmap_high;
        meta.queue_depth = mirrored.queue_depth;
        meta.egress_tstamp[31:0] = mirrored.egress_tstamp_low;
        transition select(mirrored.kind) {
            (KIND_PTP | KIND_ETHERNET) &&& 8w0xE3: parse_mirrored_l2_ptp;
            KIND_PTP &&& 8w0xE0: parse_mirrored_ptp;
            KIND_ETHERNET &&& 8w3: hop_with_ethernet;
            default: hop_without_ethernet;
        }
    }

    state hop_with_ethernet {
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_HOP_BYTES + FCS_BYTES);
        transition accept;
    }

    state hop_without_ethernet {
        ethernet_t ethernet = packet.lookahead<ethernet_t>();
        transition select(ethernet.ether_type) {
            ETHER_TYPE_VLAN: hop_without_tag;
            default: hop_without_14;
        }
    }

    state hop_without_14 {
        packet.advance(112);
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_HOP_BYTES + FCS_BYTES + 14);
        transition accept;
    }

    state hop_without_tag {
        packet.advance(144);
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_HOP_BYTES + FCS_BYTES + 18);
        transition accept;
    }

    // ---- mirrored PTP messages: the header for the MAC is in front of them, and their correctionField, which
    // the MAC would have put in, is missing; it is 0 in the report ----

    state parse_mirrored_ptp {
        packet.advance(64);
        hdr.ptp_correction.setValid();
        hdr.ptp_correction.correction_field = 0;
        transition parse_inner_ip;
    }

    state parse_mirrored_l2_ptp {
        packet.advance(64);
        hdr.ptp_correction.setValid();
        hdr.ptp_correction.correction_field = 0;
        transition parse_inner_ethernet;
    }

    state parse_inner_ip {
        ethernet_t ethernet = packet.lookahead<ethernet_t>();
        transition select(ethernet.ether_type) {
            ETHER_TYPE_VLAN: inner_without_tag;
            default: inner_without_14;
        }
    }

    state inner_without_14 {
        packet.advance(112);
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_HOP_BYTES + FCS_BYTES + 14);
        transition select(packet.lookahead<bit<4>>()) {
            4: parse_inner_ipv4;
            default: parse_inner_ipv6;
        }
    }

    state inner_without_tag {
        packet.advance(144);
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_HOP_BYTES + FCS_BYTES + 18);
        transition select(packet.lookahead<bit<4>>()) {
            4: parse_inner_ipv4;
            default: parse_inner_ipv6;
        }
    }

    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition parse_inner_udp;
    }

    state parse_inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition parse_inner_udp;
    }

    state parse_inner_udp {
        packet.extract(hdr.inner_udp);
        transition parse_inner_ptp;
    }

    state parse_inner_ethernet {
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.ether_type) {
            ETHER_TYPE_VLAN: parse_inner_vlan;
            default: inner_with_ethernet;
        }
    }

    state parse_inner_vlan {
        packet.extract(hdr.inner_vlan);
        transition inner_with_ethernet;
    }

    state inner_with_ethernet {
        meta.report_overhead = REPORT_HEADERS_BYTES - (MIRROR_HOP_BYTES + FCS_BYTES);
        transition parse_inner_ptp;
    }

    state parse_inner_ptp {
        packet.extract(hdr.ptp_start);
        transition accept;
    }
}

control TempoEgressDeparser(packet_out packet,
                            inout egress_headers_t hdr,
                            in egress_metadata_t meta,
                            in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {

    Checksum() ipv4_checksum;
    Checksum() udp_checksum;
    Mirror() mirror;

    apply {
        if (eg_dprsr_md.mirror_type == MIRROR_HOP) {
            mirror.emit<mirror_hop_t>(meta.mirror_session, {
                meta.mirror_kind, meta.report_bits, meta.queue_id, meta.queue_depth, hdr.bridged.collector_ip,
                hdr.bridged.collector_port, hdr.bridged.source_port, meta.report_seq, meta.ingress_port,
                meta.egress_port, meta.ingress_tstamp, meta.egress_tstamp[31:0] });
        }
        hdr.ipv4.header_checksum = ipv4_checksum.update({
            hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
            hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
            hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr, meta.ipv4_residual });
        if (meta.update_udp_checksum == 1) {
            hdr.udp.checksum = udp_checksum.update(data = {
                meta.udp_residual, hdr.udp.length, hdr.ipv4.total_length, hdr.ipv6.payload_length,
                hdr.int_shim, hdr.int_md, hdr.hop_node_id, hdr.hop_level1_ports,
                hdr.hop_latency, hdr.hop_queue, hdr.hop_ingress_tstamp, hdr.hop_egress_tstamp,
                hdr.hop_level2_ports }, zeros_as_ones = true);     // the others are all ones, which is 0
        }
        packet.emit(hdr.recirculated);
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ptp_for_mac);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.report_group);
        packet.emit(hdr.report_individual);
        packet.emit(hdr.report_main);
        packet.emit(hdr.int_shim);
        packet.emit(hdr.int_md);
        packet.emit(hdr.hop_node_id);
        packet.emit(hdr.hop_level1_ports);
        packet.emit(hdr.hop_latency);
        packet.emit(hdr.hop_queue);
        packet.emit(hdr.hop_ingress_tstamp);
        packet.emit(hdr.hop_egress_tstamp);
        packet.emit(hdr.hop_level2_ports);
        packet.emit(hdr.hop_tx_utilization);
        packet.emit(hdr.hop_buffer);
        packet.emit(hdr.hop_checksum_complement);
        packet.emit(hdr.report_drop);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_vlan);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.inner_udp);
        packet.emit(hdr.ptp_start);
        packet.emit(hdr.ptp_correction);
        packet.emit(hdr.probe);
    }
}
