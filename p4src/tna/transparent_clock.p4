// SPDX-License-Identifier: Apache-2.0
// End-to-end transparent clock (IEEE 1588-2019 clause 10.2), wire to wire. The correctionField less the ingress stamp
// goes into a header in front of the frame; the egress MAC adds the moment of transmission to it and puts the
// sum, in whole nanoseconds, where the correctionField was taken out. twoStepFlag makes no difference. With a
// delay per ingress port, the estimated one-way delay of the link that the message came over is added here.

control TransparentClock(inout egress_headers_t hdr,
                         inout egress_metadata_t meta,
                         inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {

    // TNA does not multiply, and its unit is 1 ns whatever scaled_ns_per_unit says. Fractions are left out.
    @id(ACTION_SET_TRANSPARENT_CLOCK)
    action set_transparent_clock(@id(1) bit<32> scaled_ns_per_unit,
                                 @id(2) scaled_ns_t residence_offset) {
        meta.clock_enabled = 1;
        meta.ns_low = hdr.ptp_correction.ns_low + residence_offset[47:16];
        meta.ns_low_next = hdr.ptp_correction.ns_low + residence_offset[47:16];   // unless there is a link delay
        meta.ns_high = hdr.ptp_correction.ns_high + residence_offset[63:48];
    }

    // Filled by the controller (default action): what lies outside of the two MAC stamps.
    @id(TABLE_TRANSPARENT_CLOCK)
    table transparent_clock {
        key = { }
        actions = { set_transparent_clock; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    @id(ACTION_SET_LINK_DELAY)
    action set_link_delay(@id(1) scaled_ns_t delay) {
        meta.ns_low_next = meta.ns_low + delay[47:16];
        meta.ns_high = meta.ns_high + delay[63:48];
    }

    // Filled by the controller: estimated one-way delay of the link behind each port, in 2^-16 ns, two's
    // complement, less a constant that all ports of the fabric share.
    @id(TABLE_PTP_LINK_DELAY)
    table ptp_link_delay {
        key = { meta.ingress_port[8:0]: exact @id(1) @name("ingress_port"); }
        actions = { set_link_delay; @defaultonly NoAction; }
        default_action = NoAction();
        size = PTP_LINK_DELAY_SIZE;
    }

    @hidden
    action compare_offset() {
        meta.beyond = hdr.ptp_correction.ns_low |-| meta.ns_low;
    }

    @hidden
    action compare_delay() {
        meta.beyond = meta.ns_low |-| meta.ns_low_next;
    }

    @hidden
    action subtract_stamp() {
        meta.ns_low = meta.ns_low_next - meta.ingress_tstamp[31:0];
        meta.beyond = meta.ingress_tstamp[31:0] |-| meta.ns_low_next;
        meta.ns_high = meta.ns_high - meta.ingress_tstamp[47:32];
    }

    // Adders are 32 bits wide. A sum that is smaller than its first summand has a carry; differences stop at 0,
    // so it is 0 unless there is a carry or a borrow.
    @hidden
    action carry_into_high(bit<16> carry) {
        meta.ns_high = meta.ns_high + carry;
    }

    @hidden
    table carries {
        key = {
            meta.carry_1: exact;
            meta.carry_2: exact;
            meta.borrow: exact;
        }
        actions = { carry_into_high; }
        const default_action = carry_into_high(0);
        const entries = {
            (0, 0, 1): carry_into_high(0xFFFF);
            (0, 1, 0): carry_into_high(1);
            (1, 0, 0): carry_into_high(1);
            (1, 1, 0): carry_into_high(2);
            (1, 1, 1): carry_into_high(1);
        }
    }

    // Where the correctionField and the UDP checksum are, in bytes from the start of the Ethernet header.
    @hidden
    action tell_mac(bit<8> correction_offset, bit<8> checksum_offset) {
        hdr.ptp_metadata.setValid();
        hdr.ptp_metadata.udp_cksum_byte_offset = checksum_offset;
        hdr.ptp_metadata.cf_byte_offset = correction_offset;
        hdr.ptp_metadata.updated_cf = meta.ns_high ++ meta.ns_low;
        hdr.ptp_correction.setInvalid();
        eg_oport_md.update_delay_on_tx = 1;
        meta.corrected = 1;
        meta.event = EVENT_PTP_CORRECTED;
    }

    @hidden
    table ptp_offsets {
        key = {
            hdr.vlan.isValid(): exact;
            hdr.ipv4.isValid(): exact;
            hdr.ipv6.isValid(): exact;
            meta.update_udp_checksum: exact;
        }
        actions = { tell_mac; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (false, false, false, 0): tell_mac(22, PTP_NO_UDP_CHECKSUM);
            (true,  false, false, 0): tell_mac(26, PTP_NO_UDP_CHECKSUM);
            (false, true,  false, 0): tell_mac(50, PTP_NO_UDP_CHECKSUM);
            (true,  true,  false, 0): tell_mac(54, PTP_NO_UDP_CHECKSUM);
            (false, false, true,  0): tell_mac(70, PTP_NO_UDP_CHECKSUM);
            (true,  false, true,  0): tell_mac(74, PTP_NO_UDP_CHECKSUM);
            (false, true,  false, 1): tell_mac(50, 40);
            (true,  true,  false, 1): tell_mac(54, 44);
            (false, false, true,  1): tell_mac(70, 60);
            (true,  false, true,  1): tell_mac(74, 64);
        }
    }

    // At its limit, a correctionField is left alone.
    @hidden
    action too_big() {
        meta.clock_enabled = 0;
        meta.event = EVENT_PTP_TOO_BIG;
    }

    @hidden
    table correction_limit {
        key = {
            hdr.ptp_correction.ns_high: exact;
            hdr.ptp_correction.ns_low: exact;
            hdr.ptp_correction.fraction: exact;
        }
        actions = { too_big; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (0x7FFF, 0xFFFFFFFF, 0xFFFF): too_big();
        }
    }

    apply {
        transparent_clock.apply();
        correction_limit.apply();
        if (meta.clock_enabled == 1) {
            compare_offset();
            if (meta.beyond != 0) {
                meta.carry_1 = 1;
            }
            ptp_link_delay.apply();
            compare_delay();
            if (meta.beyond != 0) {
                meta.carry_2 = 1;
            }
            subtract_stamp();
            if (meta.beyond != 0) {
                meta.borrow = 1;
            }
            carries.apply();
            ptp_offsets.apply();
        } else {
            meta.update_udp_checksum = 0;
        }
    }
}
