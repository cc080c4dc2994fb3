// SPDX-License-Identifier: Apache-2.0
// Reports of the packet as it was received: a stack at its sink, the end of a probe, or a drop. The clone is
// parsed anew and loses all metadata; what ingress knows of this hop travels in the field list.

control IngressReport(in headers_t hdr,
                      inout local_metadata_t meta,
                      inout standard_metadata_t standard_metadata) {

    @id(REGISTER_INGRESS_REPORT_SEQ)
    register<report_seq_t, bit<32>>(REPORT_DESTINATION_SIZE) ingress_report_seq;

    // Read and write in one action, in the pass of the original packet: a report that the traffic manager
    // loses then shows as a gap. BMv2: an action holds the lock of every register that it uses.
    @hidden
    action take_ingress_report_seq() {
        report_seq_t sequence_number;
        ingress_report_seq.read(sequence_number, (bit<32>)meta.destination_id);
        ingress_report_seq.write((bit<32>)meta.destination_id, sequence_number + 1);
        meta.report_seq = sequence_number;
    }

    @hidden
    action report_stack() {
        meta.report_bits = REPORT_BITS_STACK;
        meta.report_metadata_words = 3;
        meta.report_tracked = 1;
        meta.report_egress_port = (bit<16>)standard_metadata.egress_spec;
    }

    @hidden
    action report_dropped_packet() {
        meta.report_bits = REPORT_BITS_DROP;
        meta.report_metadata_words = 4;
        meta.report_dropped = 1;
        meta.report_tracked = meta.int_marked;   // F = 0 promises that no telemetry is inside
        meta.report_egress_port = 0xFFFF;
        meta.report_drop_reason = meta.drop_reason;
    }

    @hidden
    action clone_received() {
        meta.report_ingress_port = (bit<16>)standard_metadata.ingress_port;
        meta.report_ingress_tstamp = standard_metadata.ingress_global_timestamp;
        meta.report_egress_tstamp = 0;
        meta.report_queue_id = meta.queue_id;
        meta.report_queue_depth = 0;
        meta.report_congested = 0;
        clone_preserving_field_list(CloneType.I2E, INGRESS_CLONE_SESSION, FIELD_LIST_REPORT);
    }

    apply {
        if (meta.drop_reason != 0) {
            report_dropped_packet();
            if (meta.routed == 1) {
                meta.report_egress_port = (bit<16>)standard_metadata.egress_spec;
            }
        } else {
            report_stack();
        }
        // A packet whose IP header cannot be trusted is reported from its Ethernet header on.
        meta.report_inner_type = REPORT_INNER_TYPE_ETHERNET;
        meta.report_inner_bytes = (length_bytes_t)standard_metadata.packet_length
                                - (length_bytes_t)meta.controller_bytes;
        if (meta.drop_reason != DROP_IP_VERSION_INVALID
            && meta.drop_reason != DROP_IP_HEADER_LENGTH_INVALID
            && meta.drop_reason != DROP_IP_LENGTH_INVALID
            && meta.drop_reason != DROP_IP_CHECKSUM_INVALID) {
            if (hdr.ipv4.isValid()) {
                meta.report_inner_type = REPORT_INNER_TYPE_IPV4;
                meta.report_inner_bytes = (length_bytes_t)meta.ip_bytes;
            } else if (hdr.ipv6.isValid()) {
                meta.report_inner_type = REPORT_INNER_TYPE_IPV6;
                meta.report_inner_bytes = (length_bytes_t)meta.ip_bytes;
            }
        }
        take_ingress_report_seq();
        clone_received();
    }
}
