// SPDX-License-Identifier: Apache-2.0
// Egress postcards (INT-XD, INT-MX, PTP, congestion) and drops of the traffic manager: this node's view of a packet, in
// a mirrored copy. The packet itself is not touched. One packet makes one report, whatever asked for it.

control Postcard(in egress_headers_t hdr,
                 inout egress_metadata_t meta,
                 in egress_intrinsic_metadata_t eg_intr_md,
                 inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {

    FlowFilter() flow_filter;
    QueueReport() queue_reports;

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) ptp_watchlist_counter;

    @id(ACTION_PTP_POSTCARD)
    action ptp_postcard(@id(1) int_bitmap_t report_metadata_bits) {
        meta.postcard = 1;
        meta.report_bits = report_metadata_bits[15:8];
        ptp_watchlist_counter.count();
    }

    // Filled by the controller, on every switch alike: the PTP domains whose event messages are traced.
    // Sampling is a ternary match on low bits of the sequenceId, which all hops see alike.
    @id(TABLE_PTP_WATCHLIST)
    table ptp_watchlist {
        key = {
            hdr.ptp_start.domain_number: ternary @id(1) @name("domain_number");
            hdr.ptp_start.message_type: ternary @id(2) @name("message_type");
            hdr.ipv4.src_addr: ternary @id(3) @name("src_addr");   // 0 unless over IPv4
            hdr.ipv4.dst_addr: ternary @id(4) @name("dst_addr");   // 0 unless over IPv4
            meta.ptp_sequence_id: ternary @id(5) @name("sequence_id");
        }
        actions = { ptp_postcard; @defaultonly NoAction; }
        default_action = NoAction();
        counters = ptp_watchlist_counter;
        size = PTP_WATCHLIST_SIZE;
    }

    Register<bit<32>, bit<6>>(REPORT_DESTINATION_SIZE, FIRST_OF_EGRESS) egress_report_seq;

    // As for the ingress register: one action, in the pass of the original packet.
    RegisterAction<bit<32>, bit<6>, bit<32>>(egress_report_seq) take_egress_report_seq = {
        void apply(inout bit<32> value, out bit<32> sequence_number) {
            sequence_number = value;
            if (value == LAST_OF_EGRESS) {
                value = FIRST_OF_EGRESS;
            } else {
                value = value + 1;
            }
        }
    };

    @hidden
    action take_bits_of_entry() {
        meta.report_bits = hdr.bridged.bitmap[15:8];
    }

    // What is not known is cleared.
    @hidden
    action keep_bits(bit<8> bits) {
        meta.report_bits = meta.report_bits & bits;
    }

    @hidden
    table available_bits {
        key = {
            meta.ingress_interface: ternary;
            meta.egress_interface: ternary;
        }
        actions = { keep_bits; }
        const default_action = keep_bits(REPORT_BITS_SUPPORTED[15:8]);
        const entries = {
            (0xFFFFFFFF, 0xFFFFFFFF): keep_bits((REPORT_BITS_SUPPORTED & ~INT_BIT_LEVEL2_PORTS)[15:8]);
        }
    }

    // ---- is there a report, and why; one packet makes one report ----

    @hidden
    action mirror(bit<8> flags) {
        meta.mirrored = 1;
        meta.report_flags = flags;
    }

    @hidden
    action mirror_congested(bit<8> flags) {
        meta.mirrored = 1;
        meta.report_flags = flags;
        meta.report_bits = REPORT_BITS_CONGESTION[15:8];
    }

    @hidden
    action mirror_dropped(bit<8> flags) {
        meta.mirrored = 1;
        meta.report_flags = flags;
        meta.report_bits = REPORT_BITS_DROP[15:8];
        meta.egress_port[8:0] = hdr.bridged.egress_port;   // not the port of the deflection
    }

    @hidden
    action filtered() {
        meta.event = EVENT_REPORT_FILTERED;
    }

    @hidden
    action beyond_quota() {
        meta.event = EVENT_QUEUE_QUOTA;
    }

    // F = 0 promises that no telemetry is inside.
    @hidden
    table report_decision {
        key = {
            meta.node_configured: ternary;
            hdr.bridged.exempt: ternary;
            hdr.bridged.destination_configured: ternary;
            meta.deflected: ternary;
            hdr.bridged.carries_int: ternary;
            meta.congested: ternary;
            meta.above_threshold: ternary;
            hdr.bridged.postcard: ternary;
            meta.postcard: ternary;
            meta.start_mx: ternary;
            meta.known_a: ternary;
            meta.known_b: ternary;
            meta.report_bits: ternary;
        }
        actions = { mirror; mirror_congested; mirror_dropped; filtered; beyond_quota; NoAction; }
        const default_action = NoAction();
        const entries = {
            // node, exempt, destination, deflected, INT, congested, above, asked, by PTP, by MX, known twice, bits
            (0, _, _, _, _, _, _, _, _, _, _, _, _): NoAction();
            (_, 1, _, _, _, _, _, _, _, _, _, _, _): NoAction();
            (_, _, 0, _, _, _, _, _, _, _, _, _, _): NoAction();
            (_, _, _, 1, 0, _, _, _, _, _, _, _, _): mirror_dropped(KIND_DROPPED);
            (_, _, _, 1, 1, _, _, _, _, _, _, _, _): mirror_dropped(KIND_DROPPED | KIND_TRACKED);
            // Nothing new: only congestion is left to be said.
            (_, _, _, _, 0, 1, _, _, _, _, 1, _, _): mirror_congested(KIND_CONGESTED);
            (_, _, _, _, 1, 1, _, _, _, _, 1, _, _): mirror_congested(KIND_CONGESTED | KIND_TRACKED);
            (_, _, _, _, 0, 1, _, _, _, _, _, 1, _): mirror_congested(KIND_CONGESTED);
            (_, _, _, _, 1, 1, _, _, _, _, _, 1, _): mirror_congested(KIND_CONGESTED | KIND_TRACKED);
            (_, _, _, _, _, _, _, _, _, _, 1, _, _): filtered();
            (_, _, _, _, _, _, _, _, _, _, _, 1, _): filtered();
            (_, _, _, _, _, 1, _, 1, _, _, _, _, _): mirror(KIND_CONGESTED | KIND_TRACKED);
            (_, _, _, _, _, 1, _, _, 1, _, _, _, _): mirror(KIND_CONGESTED | KIND_TRACKED);
            (_, _, _, _, _, 1, _, _, _, 1, _, _, _): mirror(KIND_CONGESTED | KIND_TRACKED);
            (_, _, _, _, 0, 1, _, _, _, _, _, _, _): mirror_congested(KIND_CONGESTED);
            (_, _, _, _, 1, 1, _, _, _, _, _, _, _): mirror_congested(KIND_CONGESTED | KIND_TRACKED);
            (_, _, _, _, _, _, 1, _, _, _, _, _, 0): beyond_quota();
            (_, _, _, _, _, _, _, _, _, _, _, _, 0): NoAction();
            (_, _, _, _, _, _, _, 1, _, _, _, _, _): mirror(KIND_TRACKED);
            (_, _, _, _, _, _, _, _, 1, _, _, _, _): mirror(KIND_TRACKED);
            (_, _, _, _, _, _, _, _, _, 1, _, _, _): mirror(KIND_TRACKED);
            (_, _, _, _, _, _, 1, _, _, _, _, _, _): beyond_quota();
        }
    }

    // ---- the copy: a corrected PTP message has lost its correctionField to the MAC ----

    @hidden
    action mirror_as(packet_kind_t kind) {
        eg_dprsr_md.mirror_type = MIRROR_HOP;
        meta.mirror_session = EGRESS_CLONE_SESSION;
        meta.mirror_kind = meta.report_flags | kind;
    }

    @hidden
    table copy {
        key = {
            meta.corrected: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv6.isValid(): ternary;
        }
        actions = { mirror_as; }
        const default_action = mirror_as(KIND_HOP | KIND_ETHERNET);
        const entries = {
            (1, true, _): mirror_as(KIND_PTP | KIND_IPV4);
            (1, _, true): mirror_as(KIND_PTP | KIND_IPV6);
            (1, _, _): mirror_as(KIND_PTP | KIND_ETHERNET);
            (_, true, _): mirror_as(KIND_HOP | KIND_IPV4);
            (_, _, true): mirror_as(KIND_HOP | KIND_IPV6);
        }
    }

    @hidden
    action take_sequence_number() {
        meta.report_seq = take_egress_report_seq.execute(hdr.bridged.destination_id);
    }

    apply {
        if (hdr.bridged.postcard == 1 || hdr.bridged.mx == 1) {
            take_bits_of_entry();
        } else if (hdr.ptp_start.isValid() && hdr.bridged.exempt == 0
                   && hdr.bridged.destination_configured == 1) {
            ptp_watchlist.apply();
        }
        available_bits.apply();
        flow_filter.apply(hdr, meta);
        queue_reports.apply(hdr, meta, eg_intr_md);
        report_decision.apply();
        if (meta.mirrored == 1) {
            copy.apply();
            take_sequence_number();
        }
    }
}
