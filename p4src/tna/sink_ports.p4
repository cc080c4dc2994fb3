// SPDX-License-Identifier: Apache-2.0
// Which ports lead to a host. Independent of the watchlist: a marked packet never reaches a NIC, which
// would read the shim as a transport header.

control IntSinkPorts(in ingress_headers_t hdr, inout ingress_metadata_t meta) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) int_sink_ports_counter;

    @id(ACTION_SET_INT_SINK)
    action set_int_sink() {
        meta.sink_port = 1;
        meta.sink_reports = 1;
        int_sink_ports_counter.count();
    }

    @id(ACTION_SET_INT_STRIP)
    action set_int_strip() {
        meta.sink_port = 1;
        int_sink_ports_counter.count();
    }

    // Filled by the controller: every port with a host behind it; set_int_strip where reports are off.
    @id(TABLE_INT_SINK_PORTS)
    table int_sink_ports {
        key = { hdr.bridged.egress_port: exact @id(1) @name("egress_port"); }
        actions = { set_int_sink; set_int_strip; @defaultonly NoAction; }
        default_action = NoAction();
        counters = int_sink_ports_counter;
        size = INT_SINK_PORTS_SIZE;
    }

    apply {
        int_sink_ports.apply();
    }
}
