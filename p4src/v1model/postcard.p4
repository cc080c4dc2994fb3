// SPDX-License-Identifier: Apache-2.0
// Egress postcards (INT-XD): this node's view of a packet, in a clone. The packet itself is not touched.

control Postcard(inout headers_t hdr,
                 inout local_metadata_t meta,
                 inout standard_metadata_t standard_metadata) {

    @id(DIRECT_COUNTER_PTP_WATCHLIST)
    direct_counter(CounterType.packets_and_bytes) ptp_watchlist_counter;

    @id(ACTION_PTP_POSTCARD)
    action ptp_postcard(@id(1) int_bitmap_t report_metadata_bits) {
        meta.postcard_bits = report_metadata_bits & REPORT_BITS_SUPPORTED;
        meta.report_domain_specific_id = meta.domain_specific_id;
    }

    // Filled by the controller, on every switch alike: the PTP domains whose event messages are traced.
    @id(TABLE_PTP_WATCHLIST)
    table ptp_watchlist {
        key = {
            hdr.ptp.domain_number: ternary @id(1) @name("domain_number");
            hdr.ptp.message_type: ternary @id(2) @name("message_type");
            hdr.ipv4.src_addr: ternary @id(3) @name("src_addr");
            hdr.ipv4.dst_addr: ternary @id(4) @name("dst_addr");
        }
        actions = { ptp_postcard; @defaultonly NoAction; }
        default_action = NoAction();
        counters = ptp_watchlist_counter;
        size = PTP_WATCHLIST_SIZE;
    }

    @id(REGISTER_EGRESS_REPORT_SEQ)
    register<report_seq_t, bit<32>>(1) egress_report_seq;

    // As for the ingress register: one action, in the pass of the original packet.
    @hidden
    action take_egress_report_seq() {
        report_seq_t sequence_number;
        egress_report_seq.read(sequence_number, 0);
        egress_report_seq.write(0, sequence_number + 1);
        meta.report_seq = sequence_number;
    }

    @hidden
    action send_postcard() {
        meta.report_bits = meta.postcard_bits;
        meta.report_metadata_words = (bit<8>)meta.postcard_bits[14:14] + (bit<8>)meta.postcard_bits[13:13]
                                   + (bit<8>)meta.postcard_bits[12:12]
                                   + ((bit<8>)meta.postcard_bits[11:11] << 1)
                                   + ((bit<8>)meta.postcard_bits[10:10] << 1);
        meta.report_ingress_port = standard_metadata.ingress_port;
        meta.report_egress_port = standard_metadata.egress_port;
        meta.report_ingress_tstamp = standard_metadata.ingress_global_timestamp;
        meta.report_egress_tstamp = standard_metadata.egress_global_timestamp;
        meta.report_queue_id = meta.queue_id;
        meta.report_queue_depth = (queue_depth_t)standard_metadata.deq_qdepth;
        clone_preserving_field_list(CloneType.E2E, EGRESS_CLONE_SESSION, FIELD_LIST_REPORT);
    }

    apply {
        // A packet that carries INT-MD is traced already: one mode per packet, no hop twice.
        if (meta.ptp_event == 1 && meta.sink_postcard == 0
            && meta.int_transit == 0 && meta.int_source == 0) {
            ptp_watchlist.apply();
        }
        if (meta.postcard_bits != 0) {
            take_egress_report_seq();
            send_postcard();
        }
    }
}
