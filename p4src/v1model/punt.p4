// SPDX-License-Identifier: Apache-2.0
// Packets for the controller: LLDP, ARP, neighbour discovery, packets to the switch itself.

control Punt(in headers_t hdr,
             inout local_metadata_t meta,
             inout standard_metadata_t standard_metadata) {

    ipv4_addr_t ipv4_dst_addr = 0;
    ipv6_addr_t ipv6_dst_addr = 0;

    @id(DIRECT_COUNTER_PUNT)
    direct_counter(CounterType.packets_and_bytes) punt_counter;

    @id(ACTION_PUNT_TO_CPU)
    action punt_to_cpu() {
        standard_metadata.egress_spec = CPU_PORT;
        meta.punted = 1;
    }

    // Filled by the controller. Fields that a packet lacks are 0.
    @id(TABLE_PUNT)
    table punt {
        key = {
            standard_metadata.ingress_port: ternary @id(1) @name("ingress_port");
            meta.ether_type: ternary @id(2) @name("ether_type");      // behind a VLAN tag
            ipv4_dst_addr: ternary @id(3) @name("dst_addr");
            meta.ip_protocol: ternary @id(4) @name("protocol");       // IPv6: next header
            meta.l4_dst_port: ternary @id(5) @name("l4_dst_port");
            ipv6_dst_addr: ternary @id(6) @name("ipv6_dst_addr");
            meta.icmp_type: ternary @id(7) @name("icmp_type");        // ICMPv6
        }
        actions = { punt_to_cpu; @defaultonly NoAction; }
        default_action = NoAction();
        counters = punt_counter;
        size = PUNT_SIZE;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            ipv4_dst_addr = hdr.ipv4.dst_addr;
        } else if (hdr.ipv6.isValid()) {
            ipv6_dst_addr = hdr.ipv6.dst_addr;
        }
        punt.apply();
    }
}
