// SPDX-License-Identifier: Apache-2.0
// Which flows are traced, and how. INT-MD and INT-MX start at a host's port; postcards (INT-XD) are asked
// for on every switch alike. Sampling is a ternary match on low bits of the PSN, which all hops see alike.
// No direct counters: an action counts for one table only, and these actions serve two.

control Watchlist(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @id(ACTION_INT_SOURCE)
    action int_source(@id(1) int_bitmap_t instruction_bitmap,
                      @id(2) bit<8> remaining_hop_count,
                      @id(3) dscp_t marked_dscp) {
        meta.source = SOURCE_MD;
        hdr.bridged.bitmap = instruction_bitmap;
        hdr.bridged.remaining_hop_count = remaining_hop_count;
        hdr.bridged.marked_dscp = marked_dscp;
    }

    @id(ACTION_INT_SOURCE_MX)
    action int_source_mx(@id(1) int_bitmap_t instruction_bitmap, @id(2) dscp_t marked_dscp) {
        meta.source = SOURCE_MX;
        hdr.bridged.bitmap = instruction_bitmap;
        hdr.bridged.marked_dscp = marked_dscp;
    }

    @id(ACTION_INT_POSTCARD)
    action int_postcard(@id(1) int_bitmap_t report_metadata_bits, @id(2) bit<1> change_only) {
        meta.postcard = 1;
        hdr.bridged.bitmap = report_metadata_bits;
        hdr.bridged.change_only = change_only;
    }

    @id(ACTION_INT_EXEMPT)
    action int_exempt() {
        hdr.bridged.exempt = 1;
    }

    // Filled by the controller: exempt flows (the collectors' first of all) with the highest priority, then
    // traced flows.
    @id(TABLE_INT_WATCHLIST)
    table int_watchlist {
        key = {
            hdr.ipv4.src_addr: ternary @id(1) @name("src_addr");
            hdr.ipv4.dst_addr: ternary @id(2) @name("dst_addr");
            meta.ip_protocol: ternary @id(3) @name("protocol");
            hdr.l4_ports.src_port: ternary @id(4) @name("l4_src_port");
            hdr.l4_ports.dst_port: ternary @id(5) @name("l4_dst_port");
            meta.dscp: ternary @id(6) @name("dscp");
            meta.roce_opcode: ternary @id(7) @name("roce_opcode");
            meta.roce_psn: ternary @id(8) @name("roce_psn");
            meta.roce_dest_qp: ternary @id(9) @name("roce_dest_qp");
            meta.roce_syndrome: ternary @id(10) @name("roce_syndrome");
        }
        actions = { int_source; int_source_mx; int_postcard; int_exempt; @defaultonly NoAction; }
        default_action = NoAction();
        size = INT_WATCHLIST_SIZE;
    }

    // Filled by the controller, as int_watchlist.
    @id(TABLE_INT_WATCHLIST_IPV6)
    table int_watchlist_ipv6 {
        key = {
            hdr.ipv6.src_addr: ternary @id(1) @name("src_addr");
            hdr.ipv6.dst_addr: ternary @id(2) @name("dst_addr");
            meta.ip_protocol: ternary @id(3) @name("protocol");
            hdr.l4_ports.src_port: ternary @id(4) @name("l4_src_port");
            hdr.l4_ports.dst_port: ternary @id(5) @name("l4_dst_port");
            meta.dscp: ternary @id(6) @name("dscp");
            meta.roce_opcode: ternary @id(7) @name("roce_opcode");
            meta.roce_psn: ternary @id(8) @name("roce_psn");
            meta.roce_dest_qp: ternary @id(9) @name("roce_dest_qp");
            meta.roce_syndrome: ternary @id(10) @name("roce_syndrome");
        }
        actions = { int_source; int_source_mx; int_postcard; int_exempt; @defaultonly NoAction; }
        default_action = NoAction();
        size = INT_WATCHLIST_IPV6_SIZE;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            int_watchlist.apply();
        } else if (hdr.ipv6.isValid()) {
            int_watchlist_ipv6.apply();
        }
    }
}
