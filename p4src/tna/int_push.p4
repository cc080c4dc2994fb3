// SPDX-License-Identifier: Apache-2.0
// INT source and transit in egress: writes the INT headers and makes room for this node's entry of the stack. Whatever
// does not fit is left out as a whole: nothing is cut, nothing is fragmented. The UDP checksum follows in the deparser.

control IntPush(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) int_egress_mtu_counter;

    @id(ACTION_SET_MTU)
    action set_mtu(@id(1) length_bytes_t mtu_bytes) {
        meta.mtu_bytes = mtu_bytes;
        int_egress_mtu_counter.count();
    }

    // Filled by the controller: the IP MTU of a link where it is smaller than any packet plus its INT.
    @id(TABLE_INT_EGRESS_MTU)
    table int_egress_mtu {
        key = { meta.egress_port[8:0]: exact @id(1) @name("egress_port"); }
        actions = { set_mtu; }
        default_action = set_mtu(0xFFFF);
        counters = int_egress_mtu_counter;
        size = INT_EGRESS_MTU_SIZE;
    }

    @hidden
    action start_shim(bit<4> shim_type) {
        hdr.int_shim.setValid();
        hdr.int_shim.shim_type = shim_type;
        hdr.int_shim.npt = 0;
        hdr.int_shim.reserved1 = 0;
        hdr.int_shim.length_words = INT_HEADER_WORDS;
        hdr.int_shim.reserved2 = 0;
    }

    @hidden
    action keep_dscp() {
        hdr.int_shim.dscp = meta.shim_dscp[7:2];
        hdr.int_shim.reserved3 = meta.shim_dscp[1:0];
    }

    // INT-MX has the same header, without a hop length and a hop count.
    @hidden
    action start_header() {
        hdr.int_md.setValid();
        hdr.int_md.version = INT_VERSION;
        hdr.int_md.discard = 0;
        hdr.int_md.max_hop_count_exceeded = 0;
        hdr.int_md.mtu_exceeded = 0;
        hdr.int_md.reserved[11:3] = 0;
        hdr.int_md.ds_instruction = 0;
        hdr.int_md.ds_flags = 0;
    }

    @hidden
    action name_domain() {
        hdr.int_md.instruction_bitmap = meta.bitmap;
        hdr.int_md.domain_specific_id = meta.domain_specific_id;
    }

    @hidden
    action start_md() {
        hdr.int_md.reserved[2:0] = meta.hop_words[7:5];
        hdr.int_md.hop_metadata_len_words = meta.hop_words[4:0];
        hdr.int_md.remaining_hop_count = hdr.bridged.remaining_hop_count;
    }

    @hidden
    action start_mx() {
        hdr.int_md.reserved[2:0] = 0;
        hdr.int_md.hop_metadata_len_words = 0;
        hdr.int_md.remaining_hop_count = 0;
        meta.hop_bytes = 0;
        meta.postcard = 1;
    }

    @hidden
    action mark_ipv4() {
        @in_hash { hdr.ipv4.dscp = hdr.bridged.marked_dscp; }
    }

    // By the hash unit: the field lies in two bytes.
    @hidden
    action mark_ipv6() {
        @in_hash { hdr.ipv6.dscp = hdr.bridged.marked_dscp; }
    }

    // ---- is there an entry of ours ----

    @hidden
    action push() {
        meta.write_hop = 1;
    }

    @hidden
    action hop_limit() {
        meta.hop_limit_reached = 1;
        meta.hop_bytes = 0;
        meta.event = EVENT_INT_HOP_LIMIT;
    }

    @hidden
    action unknown() {
        meta.hop_bytes = 0;
        meta.event = EVENT_INT_UNKNOWN;
    }

    @hidden
    action too_long() {
        meta.mtu_reached = 1;
        meta.hop_bytes = 0;
        meta.event = EVENT_INT_MTU;
    }

    // Reserved bits, or metadata of a domain that we do not know: the packet is passed on without an entry and
    // without lowering the hop count (INT v2.1 section 5.4 allows it).
    @hidden
    table push_decision {
        key = {
            hdr.bridged.remaining_hop_count: ternary;
            meta.bitmap: ternary;
            meta.hop_words: ternary;
            meta.hop_words_agree: ternary;
            meta.hop_beyond_mtu: ternary;        // 0: it fits
            meta.stack_beyond_shim: ternary;     // 0: it fits into the shim's length
        }
        actions = { push; hop_limit; unknown; too_long; }
        const default_action = too_long();
        const entries = {
            (0, _, _, _, _, _): hop_limit();
            (_, _, 0, _, _, _): unknown();
            (_, _, _, 0, _, _): unknown();
            (_, 16w0x0040 &&& 16w0x0040, _, _, _, _): unknown();
            (_, 16w0x0020 &&& 16w0x0020, _, _, _, _): unknown();
            (_, 16w0x0010 &&& 16w0x0010, _, _, _, _): unknown();
            (_, 16w0x0008 &&& 16w0x0008, _, _, _, _): unknown();
            (_, 16w0x0004 &&& 16w0x0004, _, _, _, _): unknown();
            (_, 16w0x0002 &&& 16w0x0002, _, _, _, _): unknown();
            (_, _, _, _, 0, 0): push();
        }
    }

    @hidden
    action agree() {
        meta.hop_words_agree = 1;
    }

    @hidden
    table hop_length {
        key = {
            hdr.int_md.hop_metadata_len_words: exact;
            meta.hop_words: exact;
        }
        actions = { agree; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (1, 1): agree();   (2, 2): agree();   (3, 3): agree();   (4, 4): agree();   (5, 5): agree();
            (6, 6): agree();   (7, 7): agree();   (8, 8): agree();   (9, 9): agree();   (10, 10): agree();
            (11, 11): agree(); (12, 12): agree(); (13, 13): agree();
        }
    }

    // ---- lengths, a stage each ----

    @hidden
    action measure_ipv4() {
        meta.ip_bytes = hdr.ipv4.total_length;
        meta.shim_dscp[7:2] = hdr.ipv4.dscp;
    }

    @hidden
    action measure_ipv6() {
        meta.ip_bytes = hdr.ipv6.payload_length + 40;
    }

    @hidden
    action take_ipv6_dscp() {
        @in_hash { meta.shim_dscp[7:2] = hdr.ipv6.dscp; }      // it lies in two bytes
    }

    @hidden
    action add_headers() {
        meta.ip_bytes = meta.ip_bytes + meta.added_bytes;
    }

    @hidden
    action add_hop() {
        meta.headers_beyond_mtu = meta.ip_bytes |-| meta.mtu_bytes;
        meta.ip_bytes = meta.ip_bytes + meta.hop_bytes;
    }

    @hidden
    action compare_with_mtu() {
        meta.hop_beyond_mtu = meta.ip_bytes |-| meta.mtu_bytes;
    }

    @hidden
    action no_room() {
        meta.event = EVENT_INT_NO_ROOM;
        meta.added_bytes = 0;
        meta.postcard = 0;
        meta.hop_bytes = 0;
        meta.update_udp_checksum = 0;
    }

    @hidden
    action measure_stack_room() {
        meta.stack_room = 255 - meta.hop_words;
    }

    @hidden
    action compare_stack() {
        meta.stack_beyond_shim = hdr.int_shim.length_words |-| meta.stack_room;
    }

    @hidden
    action sum_added_bytes() {
        meta.added_bytes = meta.added_bytes + meta.hop_bytes;
    }

    @hidden
    action account_for_hop() {
        hdr.int_md.remaining_hop_count = hdr.int_md.remaining_hop_count - 1;
        hdr.int_shim.length_words = hdr.int_shim.length_words + meta.hop_words;
    }

    apply {
        int_egress_mtu.apply();
        if (meta.kind == KIND_INT_SOURCE) {
            meta.added_bytes = 16;
        }
        if (hdr.ipv4.isValid()) {
            measure_ipv4();
        } else {
            measure_ipv6();
            take_ipv6_dscp();
        }
        add_headers();
        add_hop();
        compare_with_mtu();
        measure_stack_room();

        if (meta.kind == KIND_INT_SOURCE) {
            meta.hop_words_agree = 1;
            if (meta.headers_beyond_mtu != 0) {
                no_room();
            } else {
                start_header();
                name_domain();
                if (hdr.bridged.source_mx == 1) {
                    start_shim(INT_SHIM_TYPE_MX);
                    start_mx();
                } else {
                    start_shim(INT_SHIM_TYPE_MD);
                    start_md();
                }
                keep_dscp();
                if (hdr.ipv4.isValid()) {
                    mark_ipv4();
                } else {
                    mark_ipv6();
                }
            }
        } else {
            hop_length.apply();
            compare_stack();
        }
        if (hdr.int_md.isValid() && hdr.bridged.source_mx == 0) {
            push_decision.apply();
            if (meta.write_hop == 1) {
                account_for_hop();
            } else if (meta.hop_limit_reached == 1) {
                hdr.int_md.max_hop_count_exceeded = 1;
            } else if (meta.mtu_reached == 1) {
                hdr.int_md.mtu_exceeded = 1;
            }
        }
        sum_added_bytes();
    }
}
