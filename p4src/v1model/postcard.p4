// SPDX-License-Identifier: Apache-2.0
// Egress postcards (INT-XD, INT-MX, PTP, congestion): this node's view of a packet, in a clone. The packet itself
// is not touched. One packet makes one postcard, whatever asked for it.

control Postcard(inout headers_t hdr,
                 inout local_metadata_t meta,
                 inout standard_metadata_t standard_metadata,
                 out bit<32> event) {   // 0: none, else 1 + its index

    FlowFilter() flow_filter;
    QueueReport() queue_reports;

    bit<1> known = 0;
    bit<1> congested = 0;
    bit<1> over_quota = 0;
    ipv4_addr_t ptp_src_addr = 0;
    ipv4_addr_t ptp_dst_addr = 0;

    @id(DIRECT_COUNTER_PTP_WATCHLIST)
    direct_counter(CounterType.packets_and_bytes) ptp_watchlist_counter;

    @id(ACTION_PTP_POSTCARD)
    action ptp_postcard(@id(1) int_bitmap_t report_metadata_bits) {
        meta.postcard_bits = report_metadata_bits & REPORT_BITS_SUPPORTED;
        meta.postcard_change_only = 0;
    }

    // Filled by the controller, on every switch alike: the PTP domains whose event messages are traced.
    // Sampling is a ternary match on low bits of the sequenceId, which all hops see alike.
    @id(TABLE_PTP_WATCHLIST)
    table ptp_watchlist {
        key = {
            hdr.ptp.domain_number: ternary @id(1) @name("domain_number");
            hdr.ptp.message_type: ternary @id(2) @name("message_type");
            ptp_src_addr: ternary @id(3) @name("src_addr");   // 0 unless over IPv4
            ptp_dst_addr: ternary @id(4) @name("dst_addr");   // 0 unless over IPv4
            hdr.ptp.sequence_id: ternary @id(5) @name("sequence_id");
        }
        actions = { ptp_postcard; @defaultonly NoAction; }
        default_action = NoAction();
        counters = ptp_watchlist_counter;
        size = PTP_WATCHLIST_SIZE;
    }

    @id(REGISTER_EGRESS_REPORT_SEQ)
    register<report_seq_t, bit<32>>(REPORT_DESTINATION_SIZE) egress_report_seq;

    // As for the ingress register: one action, in the pass of the original packet.
    @hidden
    action take_egress_report_seq() {
        report_seq_t sequence_number;
        egress_report_seq.read(sequence_number, (bit<32>)meta.destination_id);
        egress_report_seq.write((bit<32>)meta.destination_id, sequence_number + 1);
        meta.report_seq = sequence_number;
    }

    @hidden
    action describe_hop() {
        meta.report_bits = meta.postcard_bits;
        meta.report_metadata_words = (bit<8>)meta.postcard_bits[14:14] + (bit<8>)meta.postcard_bits[13:13]
                                   + (bit<8>)meta.postcard_bits[12:12]
                                   + ((bit<8>)meta.postcard_bits[11:11] << 1)
                                   + ((bit<8>)meta.postcard_bits[10:10] << 1)
                                   + ((bit<8>)meta.postcard_bits[9:9] << 1);
        meta.report_ingress_port = (bit<16>)standard_metadata.ingress_port;
        meta.report_egress_port = (bit<16>)standard_metadata.egress_port;
        meta.report_ingress_tstamp = standard_metadata.ingress_global_timestamp;
        meta.report_egress_tstamp = standard_metadata.egress_global_timestamp;
        meta.report_queue_id = meta.queue_id;
        meta.report_queue_depth = (queue_depth_t)standard_metadata.deq_qdepth;
        meta.report_ingress_interface = meta.ingress_interface;
        meta.report_egress_interface = meta.egress_interface;
        meta.report_dropped = 0;
        meta.report_drop_reason = 0;
    }

    apply {
        event = 0;
        // A packet that carries INT-MD is traced already: one mode per packet, no hop twice.
        if (meta.ptp_event == 1 && meta.postcard_bits == 0
            && meta.int_transit == 0 && meta.int_source == 0) {
            if (hdr.ipv4.isValid()) {
                ptp_src_addr = hdr.ipv4.src_addr;
                ptp_dst_addr = hdr.ipv4.dst_addr;
            }
            ptp_watchlist.apply();
        }
        if (meta.postcard_bits != 0 && meta.postcard_change_only == 1) {
            flow_filter.apply(meta, standard_metadata, known);
            if (known == 1) {
                meta.postcard_bits = 0;
                event = 1 + EVENT_REPORT_FILTERED;
            }
        }
        if (meta.postcard_bits & INT_BIT_LEVEL2_PORTS != 0
            && meta.ingress_interface == 0xFFFFFFFF && meta.egress_interface == 0xFFFFFFFF) {
            meta.postcard_bits = meta.postcard_bits & ~INT_BIT_LEVEL2_PORTS;   // not known: cleared
        }
        if (standard_metadata.ingress_port != CPU_PORT) {
            queue_reports.apply(meta, standard_metadata, congested, over_quota);
            if (over_quota == 1) {
                event = 1 + EVENT_QUEUE_QUOTA;
            }
        }

        if (meta.postcard_bits != 0 || congested == 1) {
            meta.report_congested = congested;
            if (meta.postcard_bits != 0) {
                meta.report_tracked = 1;
            } else {
                meta.postcard_bits = REPORT_BITS_CONGESTION;
                // F = 0 promises that no telemetry is inside.
                meta.report_tracked = (bit<1>)hdr.int_shim.isValid();
            }
            if (hdr.ipv4.isValid()) {
                meta.report_inner_type = REPORT_INNER_TYPE_IPV4;
                meta.report_inner_bytes = hdr.ipv4.total_length;
            } else if (hdr.ipv6.isValid()) {
                meta.report_inner_type = REPORT_INNER_TYPE_IPV6;
                meta.report_inner_bytes = hdr.ipv6.payload_length + 40;
            } else {
                meta.report_inner_type = REPORT_INNER_TYPE_ETHERNET;
                meta.report_inner_bytes = (length_bytes_t)standard_metadata.packet_length
                                        - (length_bytes_t)meta.controller_bytes
                                        + ((length_bytes_t)meta.tag_added << 2)
                                        - ((length_bytes_t)meta.tag_removed << 2);
            }
            describe_hop();
            take_egress_report_seq();
            clone_preserving_field_list(CloneType.E2E, EGRESS_CLONE_SESSION, FIELD_LIST_REPORT);
        }
    }
}
