// SPDX-License-Identifier: Apache-2.0
// Parser and deparser. Bytes that cannot be read as what they claim to be stay payload, untouched.

parser TempoParser(packet_in packet,
                   out headers_t hdr,
                   inout local_metadata_t meta,
                   inout standard_metadata_t standard_metadata) {

    state start {
        transition select(standard_metadata.instance_type, standard_metadata.ingress_port) {
            // BMv2: only with port 0. An ingress clone is parsed with its port set, but everything else in its metadata
            // left over from another packet, a recirculated one perhaps. Ports are numbered from 1.
            (INSTANCE_TYPE_RECIRCULATED, 0): parse_report;
            (_, CPU_PORT): parse_packet_out;
            default: parse_ethernet;
        }
    }

    // A report of this node, on its way to be routed: Ethernet, IPv4, UDP, and nothing that could be INT.
    state parse_report {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        meta.ether_type = ETHER_TYPE_IPV4;
        meta.ip_protocol = IP_PROTOCOL_UDP;
        meta.dscp = hdr.ipv4.dscp;
        meta.l4_src_port = hdr.udp.src_port;
        meta.l4_dst_port = hdr.udp.dst_port;
        transition accept;
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        meta.controller_bytes = 2;
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        meta.ether_type = hdr.ethernet.ether_type;
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            ETHER_TYPE_IPV6: parse_ipv6;
            ETHER_TYPE_VLAN: parse_vlan;
            ETHER_TYPE_PTP: parse_l2_ptp;
            default: accept;
        }
    }

    // One tag; a second one is an EtherType that nobody here routes.
    state parse_vlan {
        packet.extract(hdr.vlan);
        meta.ether_type = hdr.vlan.ether_type;
        transition select(hdr.vlan.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            ETHER_TYPE_IPV6: parse_ipv6;
            ETHER_TYPE_PTP: parse_l2_ptp;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        meta.ip_protocol = hdr.ipv4.protocol;
        meta.dscp = hdr.ipv4.dscp;
        transition select(hdr.ipv4.version, hdr.ipv4.ihl) {
            (4w4, 4w5): parse_ipv4_l4;
            (4w4, 4w0 &&& 4w0xC): ip_malformed;
            (4w4, 4w4): ip_malformed;
            (4w4, _): parse_ipv4_options;
            default: ip_malformed;
        }
    }

    state ip_malformed {
        meta.ip_malformed = 1;
        transition accept;
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) << 5);
        transition parse_ipv4_l4;
    }

    // Only the first fragment has a transport header, and its length covers bytes that are not there:
    // fragments are routed by addresses alone, all on one path.
    state parse_ipv4_l4 {
        transition select(hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (3w0 &&& 3w1, 13w0, IP_PROTOCOL_UDP): parse_udp;
            (3w0 &&& 3w1, 13w0, IP_PROTOCOL_TCP): parse_tcp_ports;
            default: accept;
        }
    }

    // Extension headers are not looked into: such packets are routed by addresses (and flow label) alone.
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.ip_protocol = hdr.ipv6.next_header;
        meta.dscp = hdr.ipv6.dscp;
        transition select(hdr.ipv6.version, hdr.ipv6.next_header) {
            (4w6, IP_PROTOCOL_UDP): parse_udp;
            (4w6, IP_PROTOCOL_TCP): parse_tcp_ports;
            (4w6, IP_PROTOCOL_ICMPV6): parse_icmp;
            (4w6, _): accept;
            default: ip_malformed;
        }
    }

    state parse_icmp {
        packet.extract(hdr.icmp);
        meta.icmp_type = hdr.icmp.type;
        transition accept;
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
        transition select(meta.dscp) {
            6w1 &&& 6w1: parse_int_shim;
            default: parse_udp_payload;
        }
    }

    state parse_int_shim {
        packet.extract(hdr.int_shim);
        transition select(hdr.int_shim.shim_type, hdr.int_shim.npt, hdr.int_shim.length_words) {
            (_, _, 8w0 &&& 8w0xFE): accept;                     // shorter than an INT header
            (_, _, 8w2): accept;
            (INT_SHIM_TYPE_MD, 2w0, _): parse_int_md;
            (INT_SHIM_TYPE_MX, 2w0, _): parse_int_mx;
            default: accept;
        }
    }

    state parse_int_md {
        packet.extract(hdr.int_md);
        transition select(hdr.int_md.version, hdr.int_shim.length_words) {
            (INT_VERSION, INT_HEADER_WORDS): int_parsed;
            (INT_VERSION, _): parse_int_stack;
            default: accept;
        }
    }

    state parse_int_mx {
        packet.extract(hdr.int_mx);
        transition select(hdr.int_mx.version, hdr.int_shim.length_words) {
            (INT_VERSION, INT_HEADER_WORDS): int_parsed;
            (INT_VERSION, _): parse_int_stack;
            default: accept;
        }
    }

    state parse_int_stack {
        packet.extract(hdr.int_stack,
            ((bit<32>)hdr.int_shim.length_words - (bit<32>)INT_HEADER_WORDS) << 5);
        transition int_parsed;
    }

    state int_parsed {
        meta.int_parsed = 1;
        transition parse_udp_payload;
    }

    state parse_udp_payload {
        transition select(hdr.udp.dst_port) {
            UDP_PORT_ROCEV2: parse_bth;
            UDP_PORT_PTP_EVENT: parse_udp_ptp_event;
            UDP_PORT_PTP_GENERAL: parse_udp_ptp_general;
            UDP_PORT_PROBE: parse_probe;
            default: accept;
        }
    }

    state parse_bth {
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            ROCE_RC_RDMA_WRITE_FIRST: parse_reth;
            ROCE_RC_RDMA_WRITE_ONLY: parse_reth;
            ROCE_RC_RDMA_WRITE_ONLY_IMMEDIATE: parse_reth;
            ROCE_RC_RDMA_READ_REQUEST: parse_reth;
            ROCE_RC_RDMA_READ_RESPONSE_FIRST: parse_aeth;
            ROCE_RC_RDMA_READ_RESPONSE_LAST: parse_aeth;
            ROCE_RC_RDMA_READ_RESPONSE_ONLY: parse_aeth;
            ROCE_RC_ACKNOWLEDGE: parse_aeth;
            ROCE_RC_ATOMIC_ACKNOWLEDGE: parse_aeth;
            ROCE_CNP: parse_cnp;
            default: accept;
        }
    }

    state parse_reth {
        packet.extract(hdr.reth);
        transition accept;
    }

    state parse_aeth {
        packet.extract(hdr.aeth);
        transition accept;
    }

    state parse_cnp {
        packet.extract(hdr.cnp);
        transition accept;
    }

    state parse_udp_ptp_event {
        packet.extract(hdr.ptp);
        transition select_ptp_event;
    }

    state parse_udp_ptp_general {
        packet.extract(hdr.ptp);
        transition accept;
    }

    state parse_l2_ptp {
        packet.extract(hdr.ptp);
        transition select_ptp_event;
    }

    state select_ptp_event {
        transition select(hdr.ptp.version_ptp, hdr.ptp.message_type) {
            (PTP_VERSION, 4w0 &&& 4w0xC): ptp_event;
            default: accept;
        }
    }

    state ptp_event {
        meta.ptp_event = 1;
        transition accept;
    }

    state parse_probe {
        packet.extract(hdr.probe);
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
        packet.emit(hdr.report_level2_ports);
        packet.emit(hdr.report_drop);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.icmp);
        packet.emit(hdr.tcp_ports);
        packet.emit(hdr.udp);
        packet.emit(hdr.int_shim);
        packet.emit(hdr.int_md);
        packet.emit(hdr.int_mx);
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
        packet.emit(hdr.reth);
        packet.emit(hdr.aeth);
        packet.emit(hdr.cnp);
        packet.emit(hdr.ptp);
        packet.emit(hdr.probe);
    }
}
