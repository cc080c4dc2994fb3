// SPDX-License-Identifier: Apache-2.0
// Reports of the packet as it was received: a stack at its sink, the end of a probe, or a drop. The mirrored copy is
// the frame as it came in, with a header in front that says what ingress knows of this hop.

control IngressReport(in ingress_headers_t hdr,
                      inout ingress_metadata_t meta,
                      inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {

    Register<bit<32>, bit<6>>(REPORT_DESTINATION_SIZE, FIRST_OF_INGRESS) ingress_report_seq;

    // Read and written in one action, in the pass of the original packet: a report that the traffic manager
    // loses then shows as a gap.
    RegisterAction<bit<32>, bit<6>, bit<32>>(ingress_report_seq) take_ingress_report_seq = {
        void apply(inout bit<32> value, out bit<32> sequence_number) {
            sequence_number = value;
            if (value == LAST_OF_INGRESS) {
                value = FIRST_OF_INGRESS;
            } else {
                value = value + 1;
            }
        }
    };

    @hidden
    action none() {
    }

    @hidden
    action known() {
        meta.event = EVENT_DROP_FILTERED;
    }

    // Where it goes is known.
    @hidden
    action report(packet_kind_t kind, int_bitmap_t bits) {
        ig_dprsr_md.mirror_type = MIRROR_RECEIVED;
        meta.mirror_session = INGRESS_CLONE_SESSION;
        meta.mirror_kind = kind;
        meta.report_bits = bits;
        meta.report_egress_port[8:0] = hdr.bridged.egress_port;
        meta.report_seq = take_ingress_report_seq.execute(hdr.bridged.destination_id);
    }

    @hidden
    action report_without_port(packet_kind_t kind) {
        ig_dprsr_md.mirror_type = MIRROR_RECEIVED;
        meta.mirror_session = INGRESS_CLONE_SESSION;
        meta.mirror_kind = kind;
        meta.report_bits = REPORT_BITS_DROP;
        meta.report_egress_port = 0xFFFF;
        meta.report_seq = take_ingress_report_seq.execute(hdr.bridged.destination_id);
    }

    // A packet whose IP header cannot be trusted is reported from its Ethernet header on. F = 0 promises that no
    // telemetry is inside.
    @hidden
    table report_decision {
        key = {
            meta.drop_reason: ternary;
            meta.stack_report: ternary;
            hdr.bridged.exempt: ternary;
            hdr.bridged.destination_configured: ternary;
            meta.drop_wanted: ternary;
            meta.drop_known_a: ternary;
            meta.drop_known_b: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv6.isValid(): ternary;
            meta.int_marked: ternary;
            meta.routed: ternary;
        }
        actions = { none; known; report; report_without_port; }
        const default_action = none();
        const entries = {
            // reason, stack, exempt, destination, wanted, known, known, ipv4, ipv6, marked, routed
            (NOT_DROPPED, 1, 0, 1, _, _, _, true, _, _, _):
                report(KIND_RECEIVED | KIND_TRACKED | KIND_IPV4, REPORT_BITS_STACK);
            (NOT_DROPPED, 1, 0, 1, _, _, _, _, _, _, _):
                report(KIND_RECEIVED | KIND_TRACKED | KIND_IPV6, REPORT_BITS_STACK);
            (NOT_DROPPED, _, _, _, _, _, _, _, _, _, _): none();
            (_, _, _, _, 0, _, _, _, _, _, _): none();
            (_, _, _, _, _, 1, _, _, _, _, _): known();
            (_, _, _, _, _, _, 1, _, _, _, _): known();
            (DROP_IP_VERSION_INVALID, _, _, _, _, _, _, _, _, _, _):
                report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (DROP_IP_HEADER_LENGTH_INVALID, _, _, _, _, _, _, _, _, _, _):
                report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (DROP_IP_LENGTH_INVALID, _, _, _, _, _, _, _, _, _, _):
                report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (DROP_IP_CHECKSUM_INVALID, _, _, _, _, _, _, _, _, _, _):
                report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (_, _, _, _, _, _, _, true, _, 1, 1):
                report(KIND_RECEIVED | KIND_DROPPED | KIND_TRACKED | KIND_IPV4, REPORT_BITS_DROP);
            (_, _, _, _, _, _, _, _, true, 1, 1):
                report(KIND_RECEIVED | KIND_DROPPED | KIND_TRACKED | KIND_IPV6, REPORT_BITS_DROP);
            (_, _, _, _, _, _, _, true, _, 1, _):
                report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_TRACKED | KIND_IPV4);
            (_, _, _, _, _, _, _, _, true, 1, _):
                report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_TRACKED | KIND_IPV6);
            (_, _, _, _, _, _, _, true, _, _, 1): report(KIND_RECEIVED | KIND_DROPPED | KIND_IPV4, REPORT_BITS_DROP);
            (_, _, _, _, _, _, _, _, true, _, 1): report(KIND_RECEIVED | KIND_DROPPED | KIND_IPV6, REPORT_BITS_DROP);
            (_, _, _, _, _, _, _, true, _, _, _): report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_IPV4);
            (_, _, _, _, _, _, _, _, true, _, _): report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_IPV6);
            (_, _, _, _, _, _, _, _, _, _, _):
                report_without_port(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
        }
    }

    apply {
        report_decision.apply();
    }
}
