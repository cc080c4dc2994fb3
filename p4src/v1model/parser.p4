// SPDX-License-Identifier: Apache-2.0
// Parser and deparser.

parser TempoParser(packet_in packet,
                   out headers_t hdr,
                   inout local_metadata_t meta,
                   inout standard_metadata_t standard_metadata) {

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl) {
            (4w4, 4w5): parse_l4;
            (4w4, 4w0 &&& 4w0xC): ipv4_malformed;
            (4w4, 4w4): ipv4_malformed;
            (4w4, _): parse_ipv4_options;
            default: ipv4_malformed;
        }
    }

    state ipv4_malformed {
        meta.ipv4_malformed = 1;
        transition accept;
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) << 5);
        transition parse_l4;
    }

    // Only the first fragment has a transport header, and its length covers bytes that are not there:
    // fragments are routed by addresses alone, all on one path.
    state parse_l4 {
        transition select(hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (3w0 &&& 3w1, 13w0, IP_PROTOCOL_UDP): parse_udp;
            (3w0 &&& 3w1, 13w0, IP_PROTOCOL_TCP): parse_tcp_ports;
            default: accept;
        }
    }

    state parse_tcp_ports {
        packet.extract(hdr.tcp_ports);
        meta.l4_src_port = hdr.tcp_ports.src_port;
        meta.l4_dst_port = hdr.tcp_ports.dst_port;
        transition accept;
    }

    // Marked code points are odd by convention (docs/p4.md): the parser cannot look into the table that
    // declares them, and that table decides afterwards whether what was read here is INT at all.
    state parse_udp {
        packet.extract(hdr.udp);
        meta.l4_src_port = hdr.udp.src_port;
        meta.l4_dst_port = hdr.udp.dst_port;
        transition select(hdr.ipv4.dscp) {
            6w1 &&& 6w1: parse_int_shim;
            default: parse_udp_payload;
        }
    }

    state parse_int_shim {
        packet.extract(hdr.int_shim);
        transition select(hdr.int_shim.shim_type, hdr.int_shim.npt, hdr.int_shim.length_words) {
            (INT_SHIM_TYPE_MD, 2w0, 8w0 &&& 8w0xFE): accept;   // shorter than an INT-MD header
            (INT_SHIM_TYPE_MD, 2w0, 8w2): accept;
            (INT_SHIM_TYPE_MD, 2w0, _): parse_int_md;
            default: accept;
        }
    }

    state parse_int_md {
        packet.extract(hdr.int_md);
        transition select(hdr.int_md.version, hdr.int_shim.length_words) {
            (INT_MD_VERSION, INT_MD_LENGTH_WORDS): int_parsed;
            (INT_MD_VERSION, _): parse_int_stack;
            default: accept;
        }
    }

    state parse_int_stack {
        packet.extract(hdr.int_stack,
            ((bit<32>)hdr.int_shim.length_words - (bit<32>)INT_MD_LENGTH_WORDS) << 5);
        transition int_parsed;
    }

    state int_parsed {
        meta.int_parsed = 1;
        transition parse_udp_payload;
    }

    state parse_udp_payload {
        transition select(hdr.udp.dst_port) {
            UDP_PORT_ROCEV2: parse_bth;
            UDP_PORT_PTP_EVENT: parse_ptp;
            UDP_PORT_PTP_GENERAL: parse_ptp;
            default: accept;
        }
    }

    state parse_bth {
        packet.extract(hdr.bth);
        transition accept;
    }

    state parse_ptp {
        packet.extract(hdr.ptp);
        transition select(hdr.udp.dst_port, hdr.ptp.version_ptp, hdr.ptp.message_type) {
            (UDP_PORT_PTP_EVENT, PTP_VERSION, 4w0 &&& 4w0xC): ptp_event;
            default: accept;
        }
    }

    state ptp_event {
        meta.ptp_event = 1;
        transition accept;
    }
}

control TempoDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.report_ethernet);
        packet.emit(hdr.report_ipv4);
        packet.emit(hdr.report_udp);
        packet.emit(hdr.report_group);
        packet.emit(hdr.report_individual);
        packet.emit(hdr.report_main);
        packet.emit(hdr.report_level1_ports);
        packet.emit(hdr.report_hop_latency);
        packet.emit(hdr.report_queue);
        packet.emit(hdr.report_ingress_tstamp);
        packet.emit(hdr.report_egress_tstamp);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.tcp_ports);
        packet.emit(hdr.udp);
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
        packet.emit(hdr.int_stack);
        packet.emit(hdr.bth);
        packet.emit(hdr.ptp);
    }
}
