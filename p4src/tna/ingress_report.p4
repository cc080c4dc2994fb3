// SPDX-License-Identifier: Apache-2.0
// Reports of the packet as it was received: a stack at its sink, the end of a probe, or a drop. The mirrored copy is
// the frame as it came in, with a header in front that says what ingress knows of this hop.

control IngressReport(in ingress_headers_t hdr,
                      inout ingress_metadata_t meta,
                      in ingress_intrinsic_metadata_t ig_intr_md,
                      inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {

    Register<bit<32>, bit<6>>(REPORT_DESTINATION_SIZE, 0) ingress_report_seq;

    // Read and written in one action, in the pass of the original packet: a report that the traffic manager
    // loses then shows as a gap.
    RegisterAction<bit<32>, bit<6>, bit<32>>(ingress_report_seq) take_ingress_report_seq = {
        void apply(inout bit<32> value, out bit<32> sequence_number) {
            sequence_number = value;
            value = value + 1;
        }
    };

    @hidden
    action report_stack() {
        meta.report_bits = REPORT_BITS_STACK;
        meta.report_flags = REPORT_FLAG_TRACKED;
        meta.report_egress_port[8:0] = meta.egress_port;
    }

    @hidden
    action report_dropped_packet() {
        meta.report_bits = REPORT_BITS_DROP;
        meta.report_flags = REPORT_FLAG_DROPPED;
    }

    @hidden
    action name_egress_port() {
        meta.report_egress_port[8:0] = meta.egress_port;
    }

    @hidden
    action name_no_port() {
        meta.report_egress_port = 0xFFFF;
    }

    @hidden
    action track() {
        meta.report_flags = REPORT_FLAG_DROPPED | REPORT_FLAG_TRACKED;   // F = 0: no telemetry is inside
    }

    @hidden
    action inner_ethernet() {
        meta.mirror_kind = KIND_RECEIVED_L2;
        meta.report_types = REPORT_TYPES_ETHERNET;
    }

    @hidden
    action inner_ipv4() {
        meta.mirror_kind = KIND_RECEIVED;
        meta.report_types = REPORT_TYPES_IPV4;
    }

    @hidden
    action inner_ipv6() {
        meta.mirror_kind = KIND_RECEIVED;
        meta.report_types = REPORT_TYPES_IPV6;
    }

    // A packet whose IP header cannot be trusted is reported from its Ethernet header on.
    @hidden
    table inner_packet {
        key = {
            meta.drop_reason: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv6.isValid(): ternary;
        }
        actions = { inner_ethernet; inner_ipv4; inner_ipv6; }
        const default_action = inner_ethernet();
        const entries = {
            (DROP_IP_VERSION_INVALID, _, _): inner_ethernet();
            (DROP_IP_HEADER_LENGTH_INVALID, _, _): inner_ethernet();
            (DROP_IP_LENGTH_INVALID, _, _): inner_ethernet();
            (DROP_IP_CHECKSUM_INVALID, _, _): inner_ethernet();
            (_, true, _): inner_ipv4();
            (_, _, true): inner_ipv6();
        }
    }

    @hidden
    action mirror() {
        meta.report_ingress_port[8:0] = ig_intr_md.ingress_port;
        ig_dprsr_md.mirror_type = MIRROR_RECEIVED;
        meta.mirror_session = INGRESS_CLONE_SESSION;
        meta.report_seq = take_ingress_report_seq.execute(hdr.bridged.destination_id);
    }

    apply {
        if (meta.drop_reason != NOT_DROPPED) {
            report_dropped_packet();
            if (meta.int_marked == 1) {
                track();
            }
            if (meta.routed == 1) {
                name_egress_port();
            } else {
                name_no_port();
            }
        } else {
            report_stack();
        }
        inner_packet.apply();
        mirror();
    }
}
