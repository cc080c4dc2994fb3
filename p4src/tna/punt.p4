// SPDX-License-Identifier: Apache-2.0
// Packets for the controller: LLDP, ARP, neighbour discovery, packets to the switch itself.

control Punt(inout ingress_headers_t hdr,
             inout ingress_metadata_t meta,
             in ingress_intrinsic_metadata_t ig_intr_md) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) punt_counter;

    @id(ACTION_PUNT_TO_CPU)
    action punt_to_cpu() {
        hdr.bridged.egress_port = CPU_PORT;
        hdr.bridged.to_cpu = 1;
        punt_counter.count();
    }

    // Filled by the controller. Fields that a packet lacks are 0: they share no container with others
    // (pa_no_overlay in metadata.p4), and Tofino clears the containers of every packet.
    @id(TABLE_PUNT)
    table punt {
        key = {
            ig_intr_md.ingress_port: ternary @id(1) @name("ingress_port");
            meta.ether_type: ternary @id(2) @name("ether_type");      // behind a VLAN tag
            hdr.ipv4.dst_addr: ternary @id(3) @name("dst_addr");
            meta.ip_protocol: ternary @id(4) @name("protocol");       // IPv6: next header
            hdr.l4_ports.dst_port: ternary @id(5) @name("l4_dst_port");
            hdr.ipv6.dst_addr: ternary @id(6) @name("ipv6_dst_addr");
            meta.icmp_type: ternary @id(7) @name("icmp_type");        // ICMPv6
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
