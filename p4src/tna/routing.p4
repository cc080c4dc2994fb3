// SPDX-License-Identifier: Apache-2.0
// IPv4 and IPv6 routing: longest prefix, then one bucket of an ECMP group.

control Routing(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    // The bucket is hash modulo size. Groups keep their size, so a failed member is replaced by rewriting
    // its buckets, and no other flow moves. Both tables share the members, so they share a stage.
    Hash<bit<16>>(HashAlgorithm_t.IDENTITY) bucket_hash;
    ActionProfile(ECMP_SELECTOR_SIZE) ecmp_selector;
    ActionSelector(ecmp_selector, bucket_hash, SelectorMode_t.FAIR, ECMP_GROUP_SIZE_MAX,
                   ECMP_GROUPS_SIZE) ecmp_groups;

    @id(ACTION_FORWARD)
    action forward(@id(1) port_t port, @id(2) mac_addr_t dst_mac) {
        hdr.bridged.egress_port = port;
        // A routed frame is addressed to this switch: its destination is our own address on the next link.
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst_mac;
        meta.routed = 1;
    }

    @id(ACTION_FORWARD_VLAN)
    action forward_vlan(@id(1) port_t port, @id(2) mac_addr_t dst_mac, @id(3) vlan_id_t vlan_id) {
        hdr.bridged.egress_port = port;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst_mac;
        meta.egress_tagged = 1;
        meta.egress_tag = 4w0 ++ vlan_id;
        meta.routed = 1;
    }

    @id(ACTION_DROP)
    action drop() {
        meta.drop_reason = DROP_ROUTE_ACTION;
    }

    // Filled by the controller. Every route points to a member or a group of ecmp_selector. No direct counter:
    // an action counts for one table only, and these actions serve two.
    @id(TABLE_IPV4_LPM)
    table ipv4_lpm {
        key = {
            hdr.ipv4.dst_addr: lpm @id(1) @name("dst_addr");
            meta.ecmp_hash: selector;
        }
        actions = { forward; forward_vlan; drop; @defaultonly NoAction; }
        const default_action = NoAction();
        implementation = ecmp_groups;
        size = IPV4_LPM_SIZE;
    }

    // Filled by the controller, as ipv4_lpm.
    @id(TABLE_IPV6_LPM)
    table ipv6_lpm {
        key = {
            hdr.ipv6.dst_addr: lpm @id(1) @name("dst_addr");
            meta.ecmp_hash: selector;
        }
        actions = { forward; forward_vlan; drop; @defaultonly NoAction; }
        const default_action = NoAction();
        implementation = ecmp_groups;
        size = IPV6_LPM_SIZE;
    }

    apply {
        if (meta.way == WAY_IPV4) {
            ipv4_lpm.apply();
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        } else if (meta.way == WAY_IPV6) {
            ipv6_lpm.apply();
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
        }
    }
}
