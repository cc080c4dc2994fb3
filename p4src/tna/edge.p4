// SPDX-License-Identifier: Apache-2.0
// Edge ports: which packets come from a host, and what a marked DSCP means. A host's packet never keeps a
// marked DSCP, so inside the fabric the mark can be trusted.

control Edge(inout ingress_headers_t hdr,
             inout ingress_metadata_t meta,
             in ingress_intrinsic_metadata_t ig_intr_md) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) int_edge_ports_counter;
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) int_marked_dscp_counter;

    @id(ACTION_SET_INT_SOURCE_EDGE)
    action set_int_source_edge() {
        meta.edge_port = 1;
        int_edge_ports_counter.count();
    }

    // Filled by the controller: every port with a host behind it.
    @id(TABLE_INT_EDGE_PORTS)
    table int_edge_ports {
        key = { ig_intr_md.ingress_port: exact @id(1) @name("ingress_port"); }
        actions = { set_int_source_edge; @defaultonly NoAction; }
        default_action = NoAction();
        counters = int_edge_ports_counter;
        size = EDGE_PORTS_SIZE;
    }

    @id(ACTION_SET_MARKED)
    action set_marked(@id(1) dscp_t unmarked_dscp) {
        meta.int_marked = 1;
        meta.dscp_unmarked = unmarked_dscp;
        int_marked_dscp_counter.count();
    }

    // Filled by the controller: the marked DSCP of each traffic class. Marked code points are odd.
    @id(TABLE_INT_MARKED_DSCP)
    table int_marked_dscp {
        key = { meta.dscp: exact @id(1) @name("dscp"); }
        actions = { set_marked; @defaultonly NoAction; }
        default_action = NoAction();
        counters = int_marked_dscp_counter;
        size = MARKED_DSCP_SIZE;
    }

    apply {
        if (meta.direct == 0) {
            int_edge_ports.apply();
        }
        if (meta.dscp[0:0] == 1) {
            int_marked_dscp.apply();
        }
        if (meta.int_marked == 1 && meta.edge_port == 1) {
            // Whatever follows UDP is the host's own bytes and is passed on as it is.
            meta.int_marked = 0;
            meta.cleaned = 1;
            meta.rewrite_dscp = 1;
            meta.new_dscp = meta.dscp_unmarked;
            meta.dscp = meta.dscp_unmarked;
            meta.event = EVENT_DSCP_CLEANED;
        }
    }
}
