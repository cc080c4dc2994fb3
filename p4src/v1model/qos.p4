// SPDX-License-Identifier: Apache-2.0
// Traffic class: DSCP to egress queue.

control Qos(inout local_metadata_t meta, inout standard_metadata_t standard_metadata) {

    @id(DIRECT_COUNTER_QOS_CLASS)
    direct_counter(CounterType.packets_and_bytes) qos_class_counter;

    @id(ACTION_SET_QUEUE)
    action set_queue(@id(1) queue_id_t queue_id) {
        meta.queue_id = queue_id;
        // BMv2: the priority is the queue (run it with --priority-queues 3); the higher is served first.
        standard_metadata.priority = (bit<3>)queue_id;
    }

    // Filled by the controller: each class, and the marked DSCP of the class with the same queue.
    @id(TABLE_QOS_CLASS)
    table qos_class {
        key = { meta.dscp: exact @id(1) @name("dscp"); }
        actions = { set_queue; }
        default_action = set_queue(0);
        counters = qos_class_counter;
        size = QOS_CLASS_SIZE;
    }

    apply {
        qos_class.apply();
    }
}
