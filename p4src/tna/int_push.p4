// SPDX-License-Identifier: Apache-2.0
// INT source and transit in egress: writes the INT headers and makes room for this node's entry of the stack. Whatever
// does not fit is left out as a whole: nothing is cut, nothing is fragmented. The UDP checksum follows in the deparser.

control IntPush(inout egress_headers_t hdr,
                inout egress_metadata_t meta,
                in egress_intrinsic_metadata_t eg_intr_md) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) int_egress_mtu_counter;

    @id(ACTION_SET_MTU)
    action set_mtu(@id(1) length_bytes_t mtu_bytes) {
        meta.mtu_bytes = mtu_bytes;
        int_egress_mtu_counter.count();
    }

    // Filled by the controller: the IP MTU of a link where it is smaller than any packet plus its INT.
    @id(TABLE_INT_EGRESS_MTU)
    table int_egress_mtu {
        key = { eg_intr_md.egress_port: exact @id(1) @name("egress_port"); }
        actions = { set_mtu; }
        default_action = set_mtu(0xFFFF);
        counters = int_egress_mtu_counter;
        size = INT_EGRESS_MTU_SIZE;
    }

    // ---- what fits, in one table; its range keys stand for comparisons, each of which takes a stage ----

    @hidden
    action push(bit<8> words, length_bytes_t bytes) {
        meta.write_hop = 1;
        meta.added_bytes = bytes;
        hdr.int_shim.length_words = hdr.int_shim.length_words + words;
        hdr.int_md.remaining_hop_count = hdr.int_md.remaining_hop_count - 1;
    }

    @hidden
    action hop_limit() {
        hdr.int_md.max_hop_count_exceeded = 1;
        meta.event = EVENT_INT_HOP_LIMIT;
    }

    @hidden
    action too_long() {
        hdr.int_md.mtu_exceeded = 1;
        meta.event = EVENT_INT_MTU;
    }

    @hidden
    action unknown() {
        meta.event = EVENT_INT_UNKNOWN;
    }

    @hidden
    action no_room() {
        meta.event = EVENT_INT_NO_ROOM;
    }

    @hidden
    action start_with_hop(bit<8> words, length_bytes_t bytes) {
        meta.start_md = 1;
        meta.write_hop = 1;
        meta.shim_words = words;
        meta.added_bytes = bytes;
        hdr.bridged.remaining_hop_count = hdr.bridged.remaining_hop_count - 1;
        hdr.int_md.max_hop_count_exceeded = 0;
        hdr.int_md.mtu_exceeded = 0;
    }

    @hidden
    action start_without_hop(bit<1> hop_limit_reached, bit<1> mtu_reached, bit<4> event) {
        meta.start_md = 1;
        meta.shim_words = INT_HEADER_WORDS;
        meta.added_bytes = 16;
        hdr.int_md.max_hop_count_exceeded = hop_limit_reached;
        hdr.int_md.mtu_exceeded = mtu_reached;
        meta.event = event;
    }

    // INT-MX: every node reports, the source too.
    @hidden
    action start_without_stack() {
        meta.start_mx = 1;
        meta.added_bytes = 16;
        hdr.int_md.max_hop_count_exceeded = 0;
        hdr.int_md.mtu_exceeded = 0;
    }

    // Reserved bits, or metadata of a domain that we do not know: the packet is passed on without an entry and
    // without lowering the hop count (INT v2.1 section 5.4 allows it).
    @hidden
    table push_decision {
        key = {
            meta.kind: ternary;
            hdr.bridged.mx: ternary;
            hdr.bridged.remaining_hop_count: ternary;
            meta.bitmap: ternary;
            meta.hop_words: ternary;
            hdr.int_md.hop_metadata_len_words: ternary;
            meta.headroom: range;
            hdr.int_shim.length_words: range;
        }
        actions = {
            push; hop_limit; too_long; unknown; no_room; start_with_hop; start_without_hop; start_without_stack;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            // kind, MX, hops, bitmap, words, words in the header, bytes up to the MTU, words in the shim
            (KIND_INT_SOURCE, _, _, _, _, _, 0 .. 15, _): no_room();
            (KIND_INT_SOURCE, 1, _, _, _, _, _, _): start_without_stack();
            (KIND_INT_SOURCE, 0, 0, _, _, _, _, _): start_without_hop(1, 0, EVENT_INT_HOP_LIMIT);
            (KIND_INT_SOURCE, 0, _, 16w0x0040 &&& 16w0x0040, _, _, _, _): start_without_hop(0, 0, EVENT_INT_UNKNOWN);
            (KIND_INT_SOURCE, 0, _, 16w0x0020 &&& 16w0x0020, _, _, _, _): start_without_hop(0, 0, EVENT_INT_UNKNOWN);
            (KIND_INT_SOURCE, 0, _, 16w0x0010 &&& 16w0x0010, _, _, _, _): start_without_hop(0, 0, EVENT_INT_UNKNOWN);
            (KIND_INT_SOURCE, 0, _, 16w0x0008 &&& 16w0x0008, _, _, _, _): start_without_hop(0, 0, EVENT_INT_UNKNOWN);
            (KIND_INT_SOURCE, 0, _, 16w0x0004 &&& 16w0x0004, _, _, _, _): start_without_hop(0, 0, EVENT_INT_UNKNOWN);
            (KIND_INT_SOURCE, 0, _, 16w0x0002 &&& 16w0x0002, _, _, _, _): start_without_hop(0, 0, EVENT_INT_UNKNOWN);
            (KIND_INT_SOURCE, 0, _, _, 0, _, _, _): start_without_hop(0, 0, EVENT_INT_UNKNOWN);
            (KIND_INT_SOURCE, 0, _, _, 1, _, 20 .. 0xFFFF, _): start_with_hop(4, 20);
            (KIND_INT_SOURCE, 0, _, _, 2, _, 24 .. 0xFFFF, _): start_with_hop(5, 24);
            (KIND_INT_SOURCE, 0, _, _, 3, _, 28 .. 0xFFFF, _): start_with_hop(6, 28);
            (KIND_INT_SOURCE, 0, _, _, 4, _, 32 .. 0xFFFF, _): start_with_hop(7, 32);
            (KIND_INT_SOURCE, 0, _, _, 5, _, 36 .. 0xFFFF, _): start_with_hop(8, 36);
            (KIND_INT_SOURCE, 0, _, _, 6, _, 40 .. 0xFFFF, _): start_with_hop(9, 40);
            (KIND_INT_SOURCE, 0, _, _, 7, _, 44 .. 0xFFFF, _): start_with_hop(10, 44);
            (KIND_INT_SOURCE, 0, _, _, 8, _, 48 .. 0xFFFF, _): start_with_hop(11, 48);
            (KIND_INT_SOURCE, 0, _, _, 9, _, 52 .. 0xFFFF, _): start_with_hop(12, 52);
            (KIND_INT_SOURCE, 0, _, _, 10, _, 56 .. 0xFFFF, _): start_with_hop(13, 56);
            (KIND_INT_SOURCE, 0, _, _, 11, _, 60 .. 0xFFFF, _): start_with_hop(14, 60);
            (KIND_INT_SOURCE, 0, _, _, 12, _, 64 .. 0xFFFF, _): start_with_hop(15, 64);
            (KIND_INT_SOURCE, 0, _, _, 13, _, 68 .. 0xFFFF, _): start_with_hop(16, 68);
            (KIND_INT_SOURCE, 0, _, _, _, _, _, _): start_without_hop(0, 1, EVENT_INT_MTU);
            (KIND_INT_TRANSIT, _, 0, _, _, _, _, _): hop_limit();
            (KIND_INT_TRANSIT, _, _, 16w0x0040 &&& 16w0x0040, _, _, _, _): unknown();
            (KIND_INT_TRANSIT, _, _, 16w0x0020 &&& 16w0x0020, _, _, _, _): unknown();
            (KIND_INT_TRANSIT, _, _, 16w0x0010 &&& 16w0x0010, _, _, _, _): unknown();
            (KIND_INT_TRANSIT, _, _, 16w0x0008 &&& 16w0x0008, _, _, _, _): unknown();
            (KIND_INT_TRANSIT, _, _, 16w0x0004 &&& 16w0x0004, _, _, _, _): unknown();
            (KIND_INT_TRANSIT, _, _, 16w0x0002 &&& 16w0x0002, _, _, _, _): unknown();
            (KIND_INT_TRANSIT, _, _, _, 1, 1, 4 .. 0xFFFF, 0 .. 254): push(1, 4);
            (KIND_INT_TRANSIT, _, _, _, 2, 2, 8 .. 0xFFFF, 0 .. 253): push(2, 8);
            (KIND_INT_TRANSIT, _, _, _, 3, 3, 12 .. 0xFFFF, 0 .. 252): push(3, 12);
            (KIND_INT_TRANSIT, _, _, _, 4, 4, 16 .. 0xFFFF, 0 .. 251): push(4, 16);
            (KIND_INT_TRANSIT, _, _, _, 5, 5, 20 .. 0xFFFF, 0 .. 250): push(5, 20);
            (KIND_INT_TRANSIT, _, _, _, 6, 6, 24 .. 0xFFFF, 0 .. 249): push(6, 24);
            (KIND_INT_TRANSIT, _, _, _, 7, 7, 28 .. 0xFFFF, 0 .. 248): push(7, 28);
            (KIND_INT_TRANSIT, _, _, _, 8, 8, 32 .. 0xFFFF, 0 .. 247): push(8, 32);
            (KIND_INT_TRANSIT, _, _, _, 9, 9, 36 .. 0xFFFF, 0 .. 246): push(9, 36);
            (KIND_INT_TRANSIT, _, _, _, 10, 10, 40 .. 0xFFFF, 0 .. 245): push(10, 40);
            (KIND_INT_TRANSIT, _, _, _, 11, 11, 44 .. 0xFFFF, 0 .. 244): push(11, 44);
            (KIND_INT_TRANSIT, _, _, _, 12, 12, 48 .. 0xFFFF, 0 .. 243): push(12, 48);
            (KIND_INT_TRANSIT, _, _, _, 13, 13, 52 .. 0xFFFF, 0 .. 242): push(13, 52);
            (KIND_INT_TRANSIT, _, _, _, 1, 1, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 2, 2, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 3, 3, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 4, 4, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 5, 5, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 6, 6, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 7, 7, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 8, 8, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 9, 9, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 10, 10, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 11, 11, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 12, 12, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, 13, 13, _, _): too_long();
            (KIND_INT_TRANSIT, _, _, _, _, _, _, _): unknown();
        }
    }

    // ---- what the decision is made from ----

    @hidden
    action measure_ipv4() {
        meta.ip_bytes = hdr.ipv4.total_length;
        meta.shim_dscp[7:2] = hdr.ipv4.dscp;
    }

    // By the hash unit: IPv6's DSCP lies in two bytes.
    @hidden
    action measure_ipv6() {
        meta.ip_bytes = hdr.ipv6.payload_length + 40;
    }

    @hidden
    action take_ipv6_dscp() {
        @in_hash { meta.shim_dscp[7:2] = hdr.ipv6.dscp; }
    }

    @hidden
    action measure_headroom() {
        meta.headroom = meta.mtu_bytes |-| meta.ip_bytes;
    }

    // ---- the source's headers ----

    // INT-MX has the same header, without a hop length and a hop count.
    @hidden
    action start_shim_and_header() {
        hdr.int_shim.setValid();
        hdr.int_shim.npt = 0;
        hdr.int_shim.reserved1 = 0;
        hdr.int_shim.reserved2 = 0;
        hdr.int_md.setValid();
        hdr.int_md.version = INT_VERSION;
        hdr.int_md.discard = 0;
        hdr.int_md.reserved[11:3] = 0;
        hdr.int_md.ds_instruction = 0;
        hdr.int_md.ds_flags = 0;
    }

    @hidden
    action copy_fields() {
        hdr.int_shim.dscp = meta.shim_dscp[7:2];
        hdr.int_shim.reserved3 = meta.shim_dscp[1:0];
        hdr.int_md.instruction_bitmap = meta.bitmap;
        hdr.int_md.domain_specific_id = meta.domain_specific_id;
    }

    @hidden
    action write_md() {
        hdr.int_shim.shim_type = INT_SHIM_TYPE_MD;
        hdr.int_shim.length_words = meta.shim_words;
        hdr.int_md.reserved[2:0] = meta.hop_words[7:5];
        hdr.int_md.hop_metadata_len_words = meta.hop_words[4:0];
        hdr.int_md.remaining_hop_count = hdr.bridged.remaining_hop_count;
    }

    @hidden
    action write_mx() {
        hdr.int_shim.shim_type = INT_SHIM_TYPE_MX;
        hdr.int_shim.length_words = INT_HEADER_WORDS;
        hdr.int_md.reserved[2:0] = 0;
        hdr.int_md.hop_metadata_len_words = 0;
        hdr.int_md.remaining_hop_count = 0;
    }

    @hidden
    action mark_ipv4() {
        hdr.ipv4.dscp = hdr.bridged.marked_dscp;
    }

    @hidden
    action mark_ipv6() {
        @in_hash { hdr.ipv6.dscp = hdr.bridged.marked_dscp; }
    }

    apply {
        if (meta.kind == KIND_INT_SOURCE || meta.kind == KIND_INT_TRANSIT) {
            int_egress_mtu.apply();
        }
        if (hdr.ipv4.isValid()) {
            measure_ipv4();
        } else {
            measure_ipv6();
            take_ipv6_dscp();
        }
        measure_headroom();
        if (hdr.bridged.exempt == 0 && meta.node_configured == 1) {
            push_decision.apply();
        }
        if (meta.start_md == 1) {
            write_md();
        } else if (meta.start_mx == 1) {
            write_mx();
        }
        if (meta.start_md == 1 || meta.start_mx == 1) {
            start_shim_and_header();
            copy_fields();
        }
        if ((meta.start_md == 1 || meta.start_mx == 1) && hdr.ipv4.isValid()) {
            mark_ipv4();
        } else if (meta.start_md == 1 || meta.start_mx == 1) {
            mark_ipv6();
        }
    }
}
