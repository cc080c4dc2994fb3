// SPDX-License-Identifier: Apache-2.0
// Explicit congestion notification (RFC 3168): CE from a queue depth on.

control Ecn(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) ecn_config_counter;

    @id(ACTION_SET_ECN_THRESHOLD)
    action set_ecn_threshold(@id(1) queue_depth_t depth) {
        meta.below_ecn_threshold = depth[18:0] |-| meta.cells;
        ecn_config_counter.count();
    }

    // Filled by the controller: a threshold per queue in cells; a queue without an entry is never marked. The
    // depth compared is the one that INT reports.
    @id(TABLE_ECN_CONFIG)
    table ecn_config {
        key = { meta.queue_id: exact @id(1) @name("queue_id"); }
        actions = { set_ecn_threshold; }
        default_action = set_ecn_threshold(0xFFFFFF);
        counters = ecn_config_counter;
        size = ECN_CONFIG_SIZE;
    }

    @hidden
    action mark_ipv4() {
        hdr.ipv4.ecn = ECN_CE;
    }

    @hidden
    action mark_ipv6() {
        hdr.ipv6.ecn = ECN_CE;
    }

    // ECT(1) and ECT(0) become CE; a sender without ECN is left alone.
    @hidden
    table ecn_mark {
        key = {
            meta.below_ecn_threshold: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv4.ecn: ternary;
            hdr.ipv6.isValid(): ternary;
            hdr.ipv6.ecn: ternary;
        }
        actions = { mark_ipv4; mark_ipv6; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0, true, 1, _, _): mark_ipv4();
            (0, true, 2, _, _): mark_ipv4();
            (0, _, _, true, 1): mark_ipv6();
            (0, _, _, true, 2): mark_ipv6();
        }
    }

    apply {
        ecn_config.apply();
        ecn_mark.apply();
    }
}
