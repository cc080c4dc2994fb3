// SPDX-License-Identifier: Apache-2.0
// INT source, decision: which flows from a host's port are traced. The headers are written in egress.

control IntWatchlist(in headers_t hdr, inout local_metadata_t meta) {

    bit<8> roce_opcode = 0;
    psn_t  roce_psn = 0;

    @id(DIRECT_COUNTER_INT_WATCHLIST)
    direct_counter(CounterType.packets_and_bytes) int_watchlist_counter;

    @id(ACTION_INT_SOURCE)
    action int_source(@id(1) int_bitmap_t instruction_bitmap,
                      @id(2) bit<8> remaining_hop_count,
                      @id(3) dscp_t marked_dscp) {
        meta.int_source = 1;
        meta.source_bitmap = instruction_bitmap;
        meta.source_remaining_hop_count = remaining_hop_count;
        meta.dscp_marked = marked_dscp;
    }

    @id(ACTION_INT_EXEMPT)
    action int_exempt() {
        meta.int_exempt = 1;
    }

    // Filled by the controller: exempt flows (the collector's first of all) with the highest priority, then
    // traced flows. Sampling is a ternary match on low bits of the PSN, which every hop sees alike.
    @id(TABLE_INT_WATCHLIST)
    table int_watchlist {
        key = {
            hdr.ipv4.src_addr: ternary @id(1) @name("src_addr");
            hdr.ipv4.dst_addr: ternary @id(2) @name("dst_addr");
            hdr.ipv4.protocol: ternary @id(3) @name("protocol");
            meta.l4_src_port: ternary @id(4) @name("l4_src_port");
            meta.l4_dst_port: ternary @id(5) @name("l4_dst_port");
            hdr.ipv4.dscp: ternary @id(6) @name("dscp");
            roce_opcode: ternary @id(7) @name("roce_opcode");  // 0 unless RoCEv2
            roce_psn: ternary @id(8) @name("roce_psn");        // 0 unless RoCEv2
        }
        actions = { int_source; int_exempt; @defaultonly NoAction; }
        default_action = NoAction();
        counters = int_watchlist_counter;
        size = INT_WATCHLIST_SIZE;
    }

    apply {
        if (hdr.bth.isValid()) {
            roce_opcode = hdr.bth.opcode;
            roce_psn = hdr.bth.psn;
        }
        int_watchlist.apply();
    }
}
