// SPDX-License-Identifier: Apache-2.0
// Queue congestion: a packet that met a deep or slow queue is reported, up to a quota per episode. An episode
// of a queue ends with the first packet below both thresholds.

control QueueReport(in egress_headers_t hdr,
                    inout egress_metadata_t meta,
                    in egress_intrinsic_metadata_t eg_intr_md) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) queue_report_counter;

    @id(ACTION_SET_QUEUE_REPORT)
    action set_queue_report(@id(1) queue_depth_t depth, @id(2) bit<32> latency, @id(3) bit<16> quota) {
        meta.queue_watched = 1;
        meta.below_depth = depth[18:0] |-| meta.cells;
        meta.below_latency = latency |-| meta.latency;
        meta.episode_quota = quota;
        queue_report_counter.count();
    }

    // Filled by the controller: depth in cells (at most 2^19 - 1, or all ones), latency in ns.
    @id(TABLE_QUEUE_REPORT)
    table queue_report {
        key = {
            eg_intr_md.egress_port: ternary @id(1) @name("egress_port");
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
    action count_congested() {
        meta.above_threshold = 1;
        meta.congested = count_in_episode.execute(eg_intr_md.egress_port ++ meta.queue_id[2:0]);
    }

    @hidden
    action not_congested() {
        meta.congested = end_episode.execute(eg_intr_md.egress_port ++ meta.queue_id[2:0]);
    }

    @hidden
    table episode {
        key = {
            meta.queue_watched: ternary;
            meta.below_depth: ternary;
            meta.below_latency: ternary;
        }
        actions = { count_congested; not_congested; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (1, 0, _): count_congested();
            (1, _, 0): count_congested();
            (1, _, _): not_congested();
        }
    }

    apply {
        if (meta.deflected == 0 && hdr.bridged.exempt == 0 && hdr.bridged.destination_configured == 1
            && hdr.bridged.ingress_port != CPU_PORT) {
            queue_report.apply();
        }
        episode.apply();
    }
}
