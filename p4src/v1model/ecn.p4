// SPDX-License-Identifier: Apache-2.0
// Explicit congestion notification (RFC 3168): CE from a queue depth on.

control Ecn(inout headers_t hdr,
            inout local_metadata_t meta,
            inout standard_metadata_t standard_metadata) {

    ecn_t ecn = ECN_NOT_ECT;

    @id(DIRECT_COUNTER_ECN_CONFIG)
    direct_counter(CounterType.packets_and_bytes) ecn_config_counter;

    @id(ACTION_SET_ECN_THRESHOLD)
    action set_ecn_threshold(@id(1) queue_depth_t depth) {
        meta.ecn_threshold = depth;
    }

    // Filled by the controller: a threshold per queue in the target's depth unit; a queue without an entry
    // is never marked. The depth compared is the one that INT reports.
    @id(TABLE_ECN_CONFIG)
    table ecn_config {
        key = { meta.queue_id: exact @id(1) @name("queue_id"); }
        actions = { set_ecn_threshold; }
        default_action = set_ecn_threshold(0xFFFFFF);
        counters = ecn_config_counter;
        size = ECN_CONFIG_SIZE;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            ecn = hdr.ipv4.ecn;
        } else if (hdr.ipv6.isValid()) {
            ecn = hdr.ipv6.ecn;
        }
        if (ecn != ECN_NOT_ECT && ecn != ECN_CE) {
            ecn_config.apply();
            if ((queue_depth_t)standard_metadata.deq_qdepth >= meta.ecn_threshold) {
                if (hdr.ipv4.isValid()) {
                    hdr.ipv4.ecn = ECN_CE;
                } else {
                    hdr.ipv6.ecn = ECN_CE;
                }
            }
        }
    }
}
