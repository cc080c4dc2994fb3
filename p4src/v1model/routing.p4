// SPDX-License-Identifier: Apache-2.0
// IPv4 routing: longest prefix, then ECMP by the 5-tuple.

control Routing(inout headers_t hdr,
                inout local_metadata_t meta,
                inout standard_metadata_t standard_metadata,
                out bit<1> routed) {

    // The hash takes nothing but the 5-tuple, so a flow keeps its path, and INT marking (DSCP) does not move it.
    @id(SELECTOR_ECMP)
    @max_group_size(ECMP_GROUP_SIZE_MAX)
    action_selector(HashAlgorithm.crc32, ECMP_SELECTOR_SIZE, ECMP_HASH_WIDTH) ecmp_selector;

    @id(DIRECT_COUNTER_IPV4_LPM)
    direct_counter(CounterType.packets_and_bytes) ipv4_lpm_counter;

    @id(ACTION_FORWARD)
    action forward(@id(1) port_t port, @id(2) mac_addr_t dst_mac) {
        standard_metadata.egress_spec = port;
        // A routed frame is addressed to this switch: its destination is our own address on the next link.
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        routed = 1;
    }

    @id(ACTION_DROP)
    action drop() {
        mark_to_drop(standard_metadata);
    }

    // Filled by the controller. Every route points to a member or a group of ecmp_selector.
    // BMv2: a table with a selector has no default action in the JSON; the caller drops on a miss.
    @id(TABLE_IPV4_LPM)
    table ipv4_lpm {
        key = {
            hdr.ipv4.dst_addr: lpm @id(1) @name("dst_addr");
            hdr.ipv4.src_addr: selector;
            hdr.ipv4.dst_addr: selector;
            hdr.ipv4.protocol: selector;
            meta.l4_src_port: selector;
            meta.l4_dst_port: selector;
        }
        actions = { forward; drop; }
        implementation = ecmp_selector;
        counters = ipv4_lpm_counter;
        size = IPV4_LPM_SIZE;
    }

    apply {
        routed = 0;
        ipv4_lpm.apply();
        if (routed == 0) {
            drop();
        }
    }
}
