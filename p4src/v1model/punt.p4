// SPDX-License-Identifier: Apache-2.0
// Packets for the controller.

control Punt(in headers_t hdr,
             inout local_metadata_t meta,
             inout standard_metadata_t standard_metadata,
             in ipv4_addr_t dst_addr,
             in bit<8> protocol) {

    @id(DIRECT_COUNTER_PUNT)
    direct_counter(CounterType.packets_and_bytes) punt_counter;

    @id(ACTION_PUNT_TO_CPU)
    action punt_to_cpu() {
        standard_metadata.egress_spec = CPU_PORT;
        meta.punted = 1;
    }

    // Filled by the controller: what it wants to see itself (ARP, LLDP, packets to the switch).
    @id(TABLE_PUNT)
    table punt {
        key = {
            standard_metadata.ingress_port: ternary @id(1) @name("ingress_port");
            hdr.ethernet.ether_type: ternary @id(2) @name("ether_type");
            dst_addr: ternary @id(3) @name("dst_addr");             // 0 unless IPv4
            protocol: ternary @id(4) @name("protocol");             // 0 unless IPv4
            meta.l4_dst_port: ternary @id(5) @name("l4_dst_port");  // 0 unless UDP or TCP
        }
        actions = { punt_to_cpu; @defaultonly NoAction; }
        default_action = NoAction();
        counters = punt_counter;
        size = PUNT_SIZE;
    }

    apply {
        punt.apply();
    }
}
