// SPDX-License-Identifier: Apache-2.0
// Queue congestion: a packet that met a deep or slow queue is reported, up to a quota per episode. An episode
// of a queue ends with the first packet below both thresholds.

control QueueReport(inout egress_metadata_t meta) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) queue_report_counter;

    @id(ACTION_SET_QUEUE_REPORT)
    action set_queue_report(@id(1) queue_depth_t depth, @id(2) bit<32> latency, @id(3) bit<16> quota) {
        meta.queue_watched = 1;
        meta.depth_threshold = depth[18:0];
        meta.latency_threshold = latency;
        meta.episode_quota = quota;
        queue_report_counter.count();
    }

    // Filled by the controller: depth in cells (at most 2^19 - 1, or all ones), latency in ns.
    @id(TABLE_QUEUE_REPORT)
    table queue_report {
        key = {
            meta.egress_port[8:0]: ternary @id(1) @name("egress_port");
            meta.queue_id: ternary @id(2) @name("queue_id");
        }
        actions = { set_queue_report; @defaultonly NoAction; }
        default_action = NoAction();
        counters = queue_report_counter;
        size = QUEUE_REPORT_SIZE;
    }

    // Reports of the running episode, by egress port and the low 3 bits of the queue.
    Register<bit<16>, bit<12>>(QUEUE_REPORTS_SIZE, 0) queue_reports;

    RegisterAction<bit<16>, bit<12>, bit<1>>(queue_reports) count_in_episode = {
        void apply(inout bit<16> reported, out bit<1> within_quota) {
            within_quota = 0;
            if (reported < meta.episode_quota) {
                reported = reported + 1;
                within_quota = 1;
            }
        }
    };

    RegisterAction<bit<16>, bit<12>, bit<1>>(queue_reports) end_episode = {
        void apply(inout bit<16> reported, out bit<1> within_quota) {
            within_quota = 0;
            reported = 0;
        }
    };

    @hidden
    action compare() {
        meta.below_depth = meta.depth_threshold |-| meta.cells;
        meta.below_latency = meta.latency_threshold |-| meta.latency;
    }

    @hidden
    action count_congested() {
        meta.congested = count_in_episode.execute(meta.egress_port[8:0] ++ meta.queue_id[2:0]);
    }

    @hidden
    action not_congested() {
        meta.congested = end_episode.execute(meta.egress_port[8:0] ++ meta.queue_id[2:0]);
    }

    apply {
        queue_report.apply();
        compare();
        if (meta.queue_watched == 1) {
            if (meta.below_depth == 0) {
                meta.above_threshold = 1;
            } else if (meta.below_latency == 0) {
                meta.above_threshold = 1;
            }
            if (meta.above_threshold == 1) {
                count_congested();
                if (meta.congested == 0) {
                    meta.event = EVENT_QUEUE_QUOTA;
                }
            } else {
                not_congested();
            }
        }
    }
}
