// SPDX-License-Identifier: Apache-2.0
// Egress postcards (INT-XD, INT-MX, PTP, congestion) and drops of the traffic manager: this node's view of a packet, in
// a mirrored copy. The packet itself is not touched. One packet makes one report, whatever asked for it.

control Postcard(in egress_headers_t hdr,
                 inout egress_metadata_t meta,
                 inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {

    FlowFilter() flow_filter;
    QueueReport() queue_reports;

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) ptp_watchlist_counter;

    @id(ACTION_PTP_POSTCARD)
    action ptp_postcard(@id(1) int_bitmap_t report_metadata_bits) {
        meta.postcard = 1;
        meta.bitmap = report_metadata_bits;
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

    Register<bit<32>, bit<6>>(REPORT_DESTINATION_SIZE, 0) egress_report_seq;

    // As for the ingress register: one action, in the pass of the original packet.
    RegisterAction<bit<32>, bit<6>, bit<32>>(egress_report_seq) take_egress_report_seq = {
        void apply(inout bit<32> value, out bit<32> sequence_number) {
            sequence_number = value;
            value = value + 1;
        }
    };

    @hidden
    action report_deflected() {
        meta.postcard = 1;
        meta.report_bits = REPORT_BITS_DROP;
        meta.drop_reason = DROP_TRAFFIC_MANAGER;
        meta.egress_port[8:0] = hdr.bridged.egress_port;   // not the port of the deflection
        eg_dprsr_md.drop_ctl[0:0] = 1;
    }

    @hidden
    action report_congested() {
        meta.report_bits = REPORT_BITS_CONGESTION;
    }

    @hidden
    action report_wanted() {
        meta.report_bits = meta.bitmap & REPORT_BITS_SUPPORTED;
    }

    @hidden
    action join_stack_report() {
        meta.report_bits = meta.report_bits | INT_BIT_INGRESS_TSTAMP;
    }

    // Not known: cleared.
    @hidden
    action no_interfaces() {
        meta.report_bits = meta.report_bits & ~INT_BIT_LEVEL2_PORTS;
    }

    // What is mirrored: a corrected PTP message has lost its correctionField to the MAC.
    @hidden
    action mirror_ptp(packet_kind_t kind) {
        eg_dprsr_md.mirror_type = MIRROR_PTP;
        meta.mirror_kind = kind;
    }

    @hidden
    action mirror_hop(packet_kind_t kind) {
        eg_dprsr_md.mirror_type = MIRROR_HOP;
        meta.mirror_kind = kind;
    }

    @hidden
    table mirror_as {
        key = {
            meta.corrected: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv6.isValid(): ternary;
        }
        actions = { mirror_ptp; mirror_hop; }
        const default_action = mirror_hop(KIND_HOP | KIND_ETHERNET);
        const entries = {
            (1, true, _): mirror_ptp(KIND_PTP | KIND_IPV4);
            (1, _, true): mirror_ptp(KIND_PTP | KIND_IPV6);
            (1, _, _): mirror_ptp(KIND_PTP | KIND_ETHERNET);
            (_, true, _): mirror_hop(KIND_HOP | KIND_IPV4);
            (_, _, true): mirror_hop(KIND_HOP | KIND_IPV6);
        }
    }

    @hidden
    action add_flags(bit<8> flags) {
        meta.mirror_kind = meta.mirror_kind | flags;
    }

    // F = 0 promises that no telemetry is inside.
    @hidden
    table flags_of_report {
        key = {
            meta.deflected: ternary;
            meta.postcard: ternary;
            meta.congested: ternary;
            hdr.bridged.carries_int: ternary;
        }
        actions = { add_flags; }
        const default_action = add_flags(0);
        const entries = {
            (1, _, _, 0): add_flags(KIND_DROPPED);
            (1, _, _, 1): add_flags(KIND_DROPPED | KIND_TRACKED);
            (_, 1, 0, _): add_flags(KIND_TRACKED);
            (_, 1, 1, _): add_flags(KIND_TRACKED | KIND_CONGESTED);
            (_, _, 1, 0): add_flags(KIND_CONGESTED);
            (_, _, 1, 1): add_flags(KIND_CONGESTED | KIND_TRACKED);
        }
    }

    @hidden
    action take_sequence_number() {
        meta.report_seq = take_egress_report_seq.execute(hdr.bridged.destination_id);
        meta.mirror_session = EGRESS_CLONE_SESSION;
    }

    apply {
        if (meta.kind == KIND_PTP_EVENT && meta.postcard == 0) {
            ptp_watchlist.apply();
        }
        flow_filter.apply(hdr, meta);
        if (meta.known_a == 1 || meta.known_b == 1) {
            meta.postcard = 0;
            meta.event = EVENT_REPORT_FILTERED;
        }
        if (meta.deflected == 1) {
            report_deflected();
        } else {
            if (meta.ingress_port != CPU_PORT) {
                queue_reports.apply(meta);
            }
            if (meta.postcard == 1) {
                report_wanted();
                if (hdr.bridged.own_hop == 1) {
                    join_stack_report();
                }
                if (meta.ingress_interface == 0xFFFFFFFF) {
                    if (meta.egress_interface == 0xFFFFFFFF) {
                        no_interfaces();
                    }
                }
            } else if (meta.congested == 1) {
                report_congested();
            }
        }
        if ((meta.postcard == 1 && meta.report_bits != 0) || meta.congested == 1) {
            mirror_as.apply();
            flags_of_report.apply();
            take_sequence_number();
        }
    }
}
