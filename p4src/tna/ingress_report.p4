// SPDX-License-Identifier: Apache-2.0
// Reports of the packet as it was received: a stack at its sink, the end of a probe, or a drop. The mirrored copy is
// the frame as it came in, with a header in front that says what ingress knows of this hop.

control IngressReport(in ingress_headers_t hdr,
                      inout ingress_metadata_t meta,
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
    action mirror_as(packet_kind_t kind) {
        meta.mirror_kind = kind;
    }

    // A packet whose IP header cannot be trusted is reported from its Ethernet header on. F = 0 promises that no
    // telemetry is inside.
    @hidden
    table report_kind {
        key = {
            meta.drop_reason: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv6.isValid(): ternary;
            meta.int_marked: ternary;
            meta.routed: ternary;
        }
        actions = { mirror_as; }
        const default_action = mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
        const entries = {
            (NOT_DROPPED, true, _, _, _): mirror_as(KIND_RECEIVED | KIND_PORT_KNOWN | KIND_TRACKED | KIND_IPV4);
            (NOT_DROPPED, _, _, _, _): mirror_as(KIND_RECEIVED | KIND_PORT_KNOWN | KIND_TRACKED | KIND_IPV6);
            (DROP_IP_VERSION_INVALID, _, _, _, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (DROP_IP_HEADER_LENGTH_INVALID, _, _, _, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (DROP_IP_LENGTH_INVALID, _, _, _, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (DROP_IP_CHECKSUM_INVALID, _, _, _, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_ETHERNET);
            (_, true, _, 1, 1): mirror_as(KIND_RECEIVED | KIND_PORT_KNOWN | KIND_DROPPED | KIND_TRACKED | KIND_IPV4);
            (_, _, true, 1, 1): mirror_as(KIND_RECEIVED | KIND_PORT_KNOWN | KIND_DROPPED | KIND_TRACKED | KIND_IPV6);
            (_, true, _, 1, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_TRACKED | KIND_IPV4);
            (_, _, true, 1, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_TRACKED | KIND_IPV6);
            (_, true, _, _, 1): mirror_as(KIND_RECEIVED | KIND_PORT_KNOWN | KIND_DROPPED | KIND_IPV4);
            (_, _, true, _, 1): mirror_as(KIND_RECEIVED | KIND_PORT_KNOWN | KIND_DROPPED | KIND_IPV6);
            (_, true, _, _, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_IPV4);
            (_, _, true, _, _): mirror_as(KIND_RECEIVED | KIND_DROPPED | KIND_IPV6);
        }
    }

    @hidden
    action mirror() {
        ig_dprsr_md.mirror_type = MIRROR_RECEIVED;
        meta.mirror_session = INGRESS_CLONE_SESSION;
        meta.report_seq = take_ingress_report_seq.execute(hdr.bridged.destination_id);
    }

    apply {
        report_kind.apply();
        mirror();
    }
}
