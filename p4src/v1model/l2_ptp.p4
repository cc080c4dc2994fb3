// SPDX-License-Identifier: Apache-2.0
// PTP over Ethernet (EtherType 0x88F7, IEEE 1588-2019 annex E): not routed, so its way is configured.

control L2Ptp(inout headers_t hdr,
              inout local_metadata_t meta,
              inout standard_metadata_t standard_metadata) {

    @id(DIRECT_COUNTER_L2_PTP)
    direct_counter(CounterType.packets_and_bytes) l2_ptp_counter;

    @id(ACTION_FORWARD_L2)
    action forward_l2(@id(1) port_t port) {
        standard_metadata.egress_spec = port;
    }

    // The ingress port gets no copy. Instances of the group's replicas are tags: L2PtpTag.
    @id(ACTION_MULTICAST_L2)
    action multicast_l2(@id(1) bit<16> multicast_group) {
        standard_metadata.mcast_grp = multicast_group;
    }

    @id(ACTION_PUNT_L2)
    action punt_l2() {
        standard_metadata.egress_spec = CPU_PORT;
        meta.punted = 1;
    }

    @id(ACTION_DROP_L2)
    action drop_l2() {
        meta.drop_reason = DROP_L2_PTP_NOT_FORWARDED;
    }

    // Filled by the controller: peer delay (01-80-C2-00-00-0E) must not be forwarded, the rest may be.
    @id(TABLE_L2_PTP)
    table l2_ptp {
        key = {
            standard_metadata.ingress_port: ternary @id(1) @name("ingress_port");
            hdr.ethernet.dst_addr: ternary @id(2) @name("dst_addr");
            hdr.ptp.message_type: ternary @id(3) @name("message_type");
        }
        actions = { forward_l2; multicast_l2; punt_l2; drop_l2; }
        default_action = drop_l2();
        counters = l2_ptp_counter;
        size = L2_PTP_SIZE;
    }

    apply {
        l2_ptp.apply();
    }
}

// Each copy leaves with the tag of its link. The replica's instance names it: 1 to 4094 that VLAN, 4095 no tag,
// 0 whatever the frame came with. Priority bits are kept from tag to tag.
control L2PtpTag(inout headers_t hdr,
                 inout local_metadata_t meta,
                 in standard_metadata_t standard_metadata) {

    @hidden
    action take_tag_off() {
        hdr.ethernet.ether_type = hdr.vlan.ether_type;
        hdr.vlan.setInvalid();
        meta.tag_removed = 1;
    }

    @hidden
    action put_tag_on() {
        hdr.vlan.setValid();
        hdr.vlan.pcp = 0;
        hdr.vlan.dei = 0;
        hdr.vlan.ether_type = hdr.ethernet.ether_type;
        hdr.ethernet.ether_type = ETHER_TYPE_VLAN;
        meta.tag_added = 1;
    }

    apply {
        if (standard_metadata.egress_rid == L2_PTP_INSTANCE_UNTAGGED) {
            if (hdr.vlan.isValid()) {
                take_tag_off();
            }
        } else if (standard_metadata.egress_rid != 0) {
            if (!hdr.vlan.isValid()) {
                put_tag_on();
            }
            hdr.vlan.vlan_id = (vlan_id_t)standard_metadata.egress_rid;
        }
    }
}
