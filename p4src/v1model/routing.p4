// SPDX-License-Identifier: Apache-2.0
// IPv4 and IPv6 routing: longest prefix, then one bucket of an ECMP group.

control Routing(inout headers_t hdr,
                inout local_metadata_t meta,
                inout standard_metadata_t standard_metadata) {

    // The bucket is hash modulo size. Groups keep their size, so a failed member is replaced by rewriting
    // its buckets, and no other flow moves.
    @id(SELECTOR_ECMP)
    @max_group_size(ECMP_GROUP_SIZE_MAX)
    action_selector(HashAlgorithm.identity, ECMP_SELECTOR_SIZE, ECMP_HASH_WIDTH) ecmp_selector;

    @id(DIRECT_COUNTER_IPV4_LPM)
    direct_counter(CounterType.packets_and_bytes) ipv4_lpm_counter;
    @id(DIRECT_COUNTER_IPV6_LPM)
    direct_counter(CounterType.packets_and_bytes) ipv6_lpm_counter;

    @id(ACTION_FORWARD)
    action forward(@id(1) port_t port, @id(2) mac_addr_t dst_mac) {
        standard_metadata.egress_spec = port;
        // A routed frame is addressed to this switch: its destination is our own address on the next link.
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst_mac;
        meta.routed = 1;
    }

    @id(ACTION_FORWARD_VLAN)
    action forward_vlan(@id(1) port_t port, @id(2) mac_addr_t dst_mac, @id(3) vlan_id_t vlan_id) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst_mac;
        meta.egress_tagged = 1;
        meta.egress_vlan_id = vlan_id;
        meta.routed = 1;
    }

    @id(ACTION_DROP)
    action drop() {
        meta.drop_reason = DROP_ROUTE_ACTION;
    }

    // Filled by the controller. Every route points to a member or a group of ecmp_selector.
    // BMv2: a table with a selector has no default action in the JSON; the program drops on a miss.
    @id(TABLE_IPV4_LPM)
    table ipv4_lpm {
        key = {
            hdr.ipv4.dst_addr: lpm @id(1) @name("dst_addr");
            meta.ecmp_hash: selector;
        }
        actions = { forward; forward_vlan; drop; }
        implementation = ecmp_selector;
        counters = ipv4_lpm_counter;
        size = IPV4_LPM_SIZE;
    }

    // Filled by the controller, as ipv4_lpm.
    @id(TABLE_IPV6_LPM)
    table ipv6_lpm {
        key = {
            hdr.ipv6.dst_addr: lpm @id(1) @name("dst_addr");
            meta.ecmp_hash: selector;
        }
        actions = { forward; forward_vlan; drop; }
        implementation = ecmp_selector;
        counters = ipv6_lpm_counter;
        size = IPV6_LPM_SIZE;
    }

    // A tag belongs to its link: it ends at the router. Priority bits are kept from tag to tag.
    @hidden
    action take_tag_off() {
        hdr.ethernet.ether_type = hdr.vlan.ether_type;
        hdr.vlan.setInvalid();
    }

    @hidden
    action put_tag_on() {
        hdr.vlan.setValid();
        hdr.vlan.pcp = 0;
        hdr.vlan.dei = 0;
        hdr.vlan.ether_type = hdr.ethernet.ether_type;
        hdr.ethernet.ether_type = ETHER_TYPE_VLAN;
    }

    apply {
        // BMv2: what follows a table that shares its selector must depend on hit or miss, not on the action. The
        // compiler gives each table its own copy of the actions, BMv2 finds the other table's copy in the member,
        // has no next step for it, and ends.
        if (hdr.ipv4.isValid()) {
            if (hdr.ipv4.ttl <= 1) {
                meta.drop_reason = DROP_TTL_EXPIRED;
            } else {
                if (!ipv4_lpm.apply().hit) {
                    meta.drop_reason = DROP_NO_ROUTE;
                }
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            }
        } else {
            if (hdr.ipv6.hop_limit <= 1) {
                meta.drop_reason = DROP_TTL_EXPIRED;
            } else {
                if (!ipv6_lpm.apply().hit) {
                    meta.drop_reason = DROP_NO_ROUTE;
                }
                hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
            }
        }
        if (meta.routed == 1) {
            if (meta.egress_tagged == 1) {
                if (!hdr.vlan.isValid()) {
                    put_tag_on();
                }
                hdr.vlan.vlan_id = meta.egress_vlan_id;
            } else if (hdr.vlan.isValid()) {
                take_tag_off();
            }
        } else if (meta.drop_reason == 0) {
            meta.drop_reason = DROP_NO_ROUTE;
        }
    }
}
