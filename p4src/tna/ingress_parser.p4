// SPDX-License-Identifier: Apache-2.0
// Ingress parser. Only what ingress changes is taken out of the packet; INT, RoCEv2 and PTP are looked at and left
// where they are, so that they need no room in the pipeline. Bytes that cannot be read as what they claim to
// be stay payload, untouched.

parser TempoIngressParser(packet_in packet,
                          out ingress_headers_t hdr,
                          out ingress_metadata_t meta,
                          out ingress_intrinsic_metadata_t ig_intr_md) {

    Checksum() ipv4_checksum;
    Checksum() ipv4_rest;

    state start {
        stamp_high_word_t stamp_high = packet.lookahead<stamp_high_word_t>();
        stamp_low_word_t stamp_low = packet.lookahead<stamp_low_word_t>();
        meta.stamp_high = stamp_high.word;
        meta.stamp_low = stamp_low.word;
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        hdr.bridged.setValid();
        hdr.bridged.kind = KIND_PLAIN;
        hdr.bridged.ingress_port = ig_intr_md.ingress_port;
        hdr.bridged.ingress_tstamp = ig_intr_md.ingress_mac_tstamp;
        meta.drop_reason = NOT_DROPPED;
        meta.event = NO_EVENT;
        transition select(ig_intr_md.ingress_port) {
            CPU_PORT: parse_packet_out;
            INTERNAL_PORT &&& INTERNAL_PORT_MASK: parse_internal;
            default: parse_ethernet;
        }
    }

    // ---- packets from inside the switch ----

    state parse_internal {
        transition select(packet.lookahead<bit<8>>()) {
            RECIRCULATED_REPORT: parse_report;
            8w0 &&& 8w0xE0: parse_generated;
            default: reject;
        }
    }

    // A report of this node, on its way to be routed: Ethernet, IPv4, UDP, and nothing that could be INT.
    state parse_report {
        recirculated_t recirculated;
        packet.extract(recirculated);
        meta.is_report = 1;
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.l4_ports);
        packet.extract(hdr.udp_tail);
        ipv4_rest.subtract(hdr.ipv4);
        meta.ipv4_residual = ipv4_rest.get();
        meta.ether_type = ETHER_TYPE_IPV4;
        meta.ip_protocol = IP_PROTOCOL_UDP;
        transition accept;
    }

    // The packet generator's buffer holds a packet-out header and a probe. The egress port in that header is
    // a multicast group: one generated packet becomes one probe per port of the group.
    state parse_generated {
        pktgen_timer_header_t generator;
        packet.extract(generator);
        packet.extract(hdr.packet_out);
        meta.generated = 1;
        meta.direct = 1;
        transition parse_ethernet;
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition select(hdr.packet_out.submit_to_ingress) {
            0: direct_packet_out;
            default: parse_ethernet;
        }
    }

    state direct_packet_out {
        meta.direct = 1;
        transition parse_ethernet;
    }

    // ---- every packet ----

    // The EtherType is looked at before anything is taken, so that meta.ether_type is written once.
    state parse_ethernet {
        ethernet_t ethernet = packet.lookahead<ethernet_t>();
        transition select(ethernet.ether_type) {
            ETHER_TYPE_VLAN: parse_tagged;
            default: parse_untagged;
        }
    }

    state parse_untagged {
        packet.extract(hdr.ethernet);
        meta.ether_type = hdr.ethernet.ether_type;
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            ETHER_TYPE_IPV6: parse_ipv6;
            ETHER_TYPE_PTP: parse_l2_ptp;
            default: accept;
        }
    }

    // One tag; a second one is an EtherType that nobody here routes.
    state parse_tagged {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.vlan);
        meta.ether_type = hdr.vlan.ether_type;
        transition select(hdr.vlan.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            ETHER_TYPE_IPV6: parse_ipv6;
            ETHER_TYPE_PTP: parse_l2_ptp;
            default: accept;
        }
    }

    // The header checksum is kept up incrementally, so options need not be read; they are not verified either.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        meta.ip_protocol = hdr.ipv4.protocol;
        ipv4_checksum.add(hdr.ipv4);
        ipv4_rest.subtract(hdr.ipv4);
        meta.ipv4_residual = ipv4_rest.get();
        transition select(hdr.ipv4.version, hdr.ipv4.ihl) {
            (4w4, 4w5): parse_ipv4_l4;
            (4w4, 4w0 &&& 4w0xC): ip_header_length_wrong;
            (4w4, 4w4): ip_header_length_wrong;
            (4w4, _): accept;
            default: ip_version_wrong;
        }
    }

    state ip_header_length_wrong {
        meta.ip_form = IP_HEADER_LENGTH_WRONG;
        transition accept;
    }

    state ip_version_wrong {
        meta.ip_form = IP_VERSION_WRONG;
        transition accept;
    }

    // Only the first fragment has a transport header, and its length covers bytes that are not there:
    // fragments are routed by addresses alone, all on one path.
    state parse_ipv4_l4 {
        meta.checksum_error = ipv4_checksum.verify();   // true: wrong
        transition select(hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol,
                          hdr.ipv4.dscp) {
            (3w0 &&& 3w1, 13w0, IP_PROTOCOL_UDP, 6w1 &&& 6w1): parse_udp_with_odd_dscp;
            (3w0 &&& 3w1, 13w0, IP_PROTOCOL_UDP, _): parse_udp;
            (3w0 &&& 3w1, 13w0, IP_PROTOCOL_TCP, _): parse_tcp_ports;
            default: accept;
        }
    }

    // Extension headers are not looked into: such packets are routed by addresses (and flow label) alone.
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.ip_protocol = hdr.ipv6.next_header;
        transition select(hdr.ipv6.version, hdr.ipv6.next_header, hdr.ipv6.dscp) {
            (4w6, IP_PROTOCOL_UDP, 6w1 &&& 6w1): parse_udp_with_odd_dscp;
            (4w6, IP_PROTOCOL_UDP, _): parse_udp;
            (4w6, IP_PROTOCOL_TCP, _): parse_tcp_ports;
            (4w6, IP_PROTOCOL_ICMPV6, _): parse_icmp;
            (4w6, _, _): accept;
            default: ip_version_wrong;
        }
    }

    state parse_icmp {
        icmp_t icmp = packet.lookahead<icmp_t>();
        meta.icmp_type = icmp.type;
        transition accept;
    }

    state parse_tcp_ports {
        packet.extract(hdr.l4_ports);
        transition accept;
    }

    // Marked code points are odd by convention (docs/p4.md): the parser cannot look into the table that
    // declares them, and that table decides afterwards whether what was read here is INT at all.
    state parse_udp_with_odd_dscp {
        packet.extract(hdr.l4_ports);
        packet.extract(hdr.udp_tail);
        transition look_at_int;
    }

    state parse_udp {
        packet.extract(hdr.l4_ports);
        packet.extract(hdr.udp_tail);
        transition select(hdr.l4_ports.dst_port) {
            UDP_PORT_ROCEV2: look_at_roce;
            UDP_PORT_PTP_EVENT: look_at_ptp;
            UDP_PORT_PTP_GENERAL: look_at_general_ptp;
            UDP_PORT_PROBE: parse_probe;
            default: accept;
        }
    }

    state look_at_int {
        int_start_t int_start = packet.lookahead<int_start_t>();
        meta.int_possible = 1;
        meta.int_start = int_start.type_and_length;
        meta.int_dscp = int_start.dscp;
        meta.int_hops = int_start.remaining_hop_count;
        meta.int_bitmap = int_start.instruction_bitmap;
        transition select(int_start.type_and_length, int_start.version) {
            (16w0 &&& 16w0x00FE, _): accept;                  // shorter than an INT header
            (16w2 &&& 16w0x00FF, _): accept;
            (INT_MD_TYPE_AND_LENGTH &&& INT_TYPE_MASK, INT_VERSION): found_int_md;
            (INT_MX_TYPE_AND_LENGTH &&& INT_TYPE_MASK, INT_VERSION): found_int_mx;
            default: accept;
        }
    }

    state found_int_md {
        meta.int_found = INT_FOUND_MD;
        transition accept;
    }

    state found_int_mx {
        meta.int_found = INT_FOUND_MX;
        transition accept;
    }

    state look_at_roce {
        roce_start_t roce = packet.lookahead<roce_start_t>();
        meta.roce_opcode = roce.opcode;
        meta.roce_psn = roce.psn;
        meta.roce_dest_qp = roce.dest_qp;
        transition select(roce.opcode) {
            ROCE_RC_RDMA_READ_RESPONSE_FIRST: look_at_aeth;
            ROCE_RC_RDMA_READ_RESPONSE_LAST: look_at_aeth;
            ROCE_RC_RDMA_READ_RESPONSE_ONLY: look_at_aeth;
            ROCE_RC_ACKNOWLEDGE: look_at_aeth;
            ROCE_RC_ATOMIC_ACKNOWLEDGE: look_at_aeth;
            default: accept;
        }
    }

    state look_at_aeth {
        roce_start_t roce = packet.lookahead<roce_start_t>();
        meta.roce_syndrome = roce.syndrome;
        transition accept;
    }

    state parse_l2_ptp {
        meta.l2_ptp = 1;
        transition look_at_ptp;
    }

    state look_at_ptp {
        ptp_start_t ptp = packet.lookahead<ptp_start_t>();
        meta.ptp_message_type = ptp.message_type;
        transition select(ptp.version_ptp, ptp.message_type) {
            (PTP_VERSION, 4w0 &&& 4w0xC): found_ptp_event;
            (PTP_VERSION, _): accept;
            default: found_other_ptp_version;
        }
    }

    state look_at_general_ptp {
        ptp_start_t ptp = packet.lookahead<ptp_start_t>();
        transition select(ptp.version_ptp) {
            PTP_VERSION: accept;
            default: found_other_ptp_version;
        }
    }

    state found_ptp_event {
        ptp_high_word_t high = packet.lookahead<ptp_high_word_t>();
        ptp_low_word_t low = packet.lookahead<ptp_low_word_t>();
        meta.ptp_event = 1;
        meta.ns_high = high.word;
        meta.ns_low = low.word;
        transition look_at_correction;
    }

    // At its limit, a correctionField is left alone (IEEE 1588-2019 section 13.3.2.9).
    state look_at_correction {
        ptp_correction_look_t correction = packet.lookahead<ptp_correction_look_t>();
        transition select(correction.high) {
            0x7FFFFFFF: look_at_correction_low;
            default: accept;
        }
    }

    state look_at_correction_low {
        ptp_correction_look_t correction = packet.lookahead<ptp_correction_look_t>();
        transition select(correction.low) {
            0xFFFFFFFF: found_too_big;
            default: accept;
        }
    }

    state found_too_big {
        meta.ptp_too_big = 1;
        transition accept;
    }

    state found_other_ptp_version {
        meta.ptp_other_version = 1;
        transition accept;
    }

    state parse_probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control TempoIngressDeparser(packet_out packet,
                             inout ingress_headers_t hdr,
                             in ingress_metadata_t meta,
                             in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {

    Checksum() ipv4_checksum;
    Mirror() mirror;

    apply {
        if (ig_dprsr_md.mirror_type == MIRROR_RECEIVED) {
            mirror.emit<mirror_received_t>(meta.mirror_session, {
                meta.mirror_kind, meta.drop_reason, hdr.bridged.queue_id, hdr.bridged.collector_ip,
                hdr.bridged.collector_port, hdr.bridged.source_port, meta.report_seq, meta.report_bits,
                7w0 ++ hdr.bridged.ingress_port, meta.report_egress_port, hdr.bridged.ingress_tstamp });
        }
        hdr.ipv4.header_checksum = ipv4_checksum.update({
            hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
            hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
            hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr, meta.ipv4_residual });
        packet.emit(hdr.bridged);
        packet.emit(hdr.bridged_ptp);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.l4_ports);
        packet.emit(hdr.udp_tail);
        packet.emit(hdr.probe);
    }
}
