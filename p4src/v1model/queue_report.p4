// SPDX-License-Identifier: Apache-2.0
// Queue congestion: a packet that met a deep or slow queue is reported, up to a quota per episode. An episode
// of a queue ends with the first packet below both thresholds.

control QueueReport(inout local_metadata_t meta,
                    inout standard_metadata_t standard_metadata,
                    out bit<1> congested,
                    out bit<1> over_quota) {

    bit<1>  enabled = 0;
    bit<24> depth_threshold = 0;
    bit<32> latency_threshold = 0;
    bit<16> episode_quota = 0;
    bit<16> reported = 0;
    bit<32> index = 0;

    @id(DIRECT_COUNTER_QUEUE_REPORT)
    direct_counter(CounterType.packets_and_bytes) queue_report_counter;

    @id(ACTION_SET_QUEUE_REPORT)
    action set_queue_report(@id(1) queue_depth_t depth, @id(2) bit<32> latency, @id(3) bit<16> quota) {
        enabled = 1;
        depth_threshold = depth;
        latency_threshold = latency;
        episode_quota = quota;
    }

    // Filled by the controller: depth in the target's unit, latency in stamp units.
    @id(TABLE_QUEUE_REPORT)
    table queue_report {
        key = {
            standard_metadata.egress_port: ternary @id(1) @name("egress_port");
            meta.queue_id: ternary @id(2) @name("queue_id");
        }
        actions = { set_queue_report; @defaultonly NoAction; }
        default_action = NoAction();
        counters = queue_report_counter;
        size = QUEUE_REPORT_SIZE;
    }

    // Reports of the running episode, by egress port and queue.
    @id(REGISTER_QUEUE_REPORTS)
    register<bit<16>, bit<32>>(QUEUE_REPORTS_SIZE) queue_reports;

    @hidden
    action count_in_episode() {
        queue_reports.read(reported, index);
        queue_reports.write(index, reported |+| 1);
    }

    @hidden
    action end_episode() {
        queue_reports.write(index, 0);
    }

    apply {
        congested = 0;
        over_quota = 0;
        queue_report.apply();
        if (enabled == 1) {
            index = (bit<32>)(standard_metadata.egress_port ++ meta.queue_id[2:0]);
            if ((queue_depth_t)standard_metadata.deq_qdepth >= depth_threshold
                || (bit<32>)(standard_metadata.egress_global_timestamp
                             - standard_metadata.ingress_global_timestamp) >= latency_threshold) {
                count_in_episode();
                if (reported < episode_quota) {
                    congested = 1;
                } else {
                    over_quota = 1;
                }
            } else {
                end_episode();
            }
        }
    }
}
