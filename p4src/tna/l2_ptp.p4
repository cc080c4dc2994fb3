// SPDX-License-Identifier: Apache-2.0
// PTP over Ethernet (EtherType 0x88F7, IEEE 1588-2019 annex E): not routed, so its way is configured.

control L2Ptp(inout ingress_headers_t hdr,
              inout ingress_metadata_t meta,
              in ingress_intrinsic_metadata_t ig_intr_md,
              inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) l2_ptp_counter;

    @id(ACTION_FORWARD_L2)
    action forward_l2(@id(1) port_t port) {
        hdr.bridged.egress_port = port;
        l2_ptp_counter.count();
    }

    // The ingress port gets no copy.
    @id(ACTION_MULTICAST_L2)
    action multicast_l2(@id(1) bit<16> multicast_group) {
        ig_tm_md.mcast_grp_a = multicast_group;
        hdr.bridged.replicated = 1;
        l2_ptp_counter.count();
    }

    @id(ACTION_PUNT_L2)
    action punt_l2() {
        hdr.bridged.egress_port = CPU_PORT;
        hdr.bridged.to_cpu = 1;
        l2_ptp_counter.count();
    }

    @id(ACTION_DROP_L2)
    action drop_l2() {
        meta.drop_reason = DROP_L2_PTP_NOT_FORWARDED;
        l2_ptp_counter.count();
    }

    // Filled by the controller: peer delay (01-80-C2-00-00-0E) must not be forwarded, the rest may be.
    @id(TABLE_L2_PTP)
    table l2_ptp {
        key = {
            ig_intr_md.ingress_port: ternary @id(1) @name("ingress_port");
            hdr.ethernet.dst_addr: ternary @id(2) @name("dst_addr");
            meta.ptp_message_type: ternary @id(3) @name("message_type");
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
