// SPDX-License-Identifier: Apache-2.0
// Traffic class: DSCP to egress queue.

control Qos(inout ingress_headers_t hdr,
            inout ingress_metadata_t meta,
            inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) qos_class_counter;

    @id(ACTION_SET_QUEUE)
    action set_queue(@id(1) queue_id_t queue_id) {
        hdr.bridged.queue_id = queue_id;
        ig_tm_md.qid = (QueueId_t)queue_id;
        qos_class_counter.count();
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
