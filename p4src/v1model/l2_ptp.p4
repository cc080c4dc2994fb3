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

    // The ingress port gets no copy.
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
