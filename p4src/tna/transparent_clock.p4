// SPDX-License-Identifier: Apache-2.0
// End-to-end transparent clock (IEEE 1588-2019 clause 10.2), wire to wire. The correctionField less the ingress stamp
// travels in front of the frame to the egress MAC, which adds the moment of transmission to it and puts the sum, in
// whole nanoseconds, where the correctionField was taken out (transmit_correction.p4). twoStepFlag makes no difference.
// With a delay per ingress port, the estimated one-way delay of the link that the message came over is added here.

control TransparentClock(inout ingress_headers_t hdr,
                         inout ingress_metadata_t meta,
                         in ingress_intrinsic_metadata_t ig_intr_md) {

    // TNA does not multiply, and its unit is 1 ns whatever scaled_ns_per_unit says. Fractions are left out.
    // Adders have 32 bits and no carry: 48 bits are two pieces of 24, and carries gather above the lower one.
    @id(ACTION_SET_TRANSPARENT_CLOCK)
    action set_transparent_clock(@id(1) bit<32> scaled_ns_per_unit,
                                 @id(2) scaled_ns_t residence_offset) {
        meta.clock_enabled = 1;
        meta.delta_high = 8w0 ++ residence_offset[63:40];
        meta.delta_low = 8w0 ++ residence_offset[39:16];
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
        meta.delta_high = 8w0 ++ delay[63:40];
        meta.delta_low = 8w0 ++ delay[39:16];
    }

    // Filled by the controller: estimated one-way delay of the link behind each port, in 2^-16 ns, two's
    // complement, less a constant that all ports of the fabric share.
    @id(TABLE_PTP_LINK_DELAY)
    table ptp_link_delay {
        key = { ig_intr_md.ingress_port: exact @id(1) @name("ingress_port"); }
        actions = { set_link_delay; @defaultonly NoAction; }
        default_action = NoAction();
        size = PTP_LINK_DELAY_SIZE;
    }

    // The parser took whole words; what is above 24 bits is not theirs. Above the higher piece it does no harm.
    @hidden
    action cut_words() {
        meta.ns_low = meta.ns_low & 0x00FFFFFF;
        meta.stamp_low = meta.stamp_low & 0x00FFFFFF;
    }

    @hidden
    action subtract_stamp() {
        meta.ns_high = meta.ns_high - meta.stamp_high;
        meta.ns_low = meta.ns_low - meta.stamp_low;
    }

    @hidden
    action add_offset() {
        meta.ns_high = meta.ns_high + meta.delta_high;
        meta.ns_low = meta.ns_low + meta.delta_low;
    }

    @hidden
    action add_link() {
        meta.ns_high = meta.ns_high + meta.delta_high;
        meta.ns_low = meta.ns_low + meta.delta_low;
    }

    // Carries and borrows, with their sign.
    @hidden
    action take_carry() {
        meta.delta_high = (bit<32>)((int<32>)meta.ns_low >> 24);
    }

    @hidden
    action add_carry() {
        hdr.bridged_ptp.ns_high = meta.ns_high + meta.delta_high;
        hdr.bridged_ptp.ns_low = meta.ns_low;
    }

    @hidden
    action leave_alone() {
        hdr.bridged.kind = KIND_PTP_EVENT;
    }

    @hidden
    action correct() {
        hdr.bridged_ptp.setValid();
        hdr.bridged.kind = KIND_PTP_CORRECTED;
    }

    @hidden
    action too_big() {
        hdr.bridged.kind = KIND_PTP_TOO_BIG;
    }

    // A message that carries INT is none here: the parser has not looked behind its DSCP. Those of the controller have
    // no ingress stamp.
    @hidden
    table ptp_kind {
        key = {
            meta.ptp_event: ternary;
            meta.clock_enabled: ternary;
            meta.ptp_too_big: ternary;
            ig_intr_md.ingress_port: ternary;
        }
        actions = { leave_alone; correct; too_big; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (1, 0, _, _): leave_alone();
            (1, _, _, CPU_PORT): leave_alone();
            (1, _, 1, _): too_big();
            (1, _, 0, _): correct();
        }
    }

    apply {
        cut_words();
        subtract_stamp();
        ptp_link_delay.apply();
        add_link();
        transparent_clock.apply();
        add_offset();
        take_carry();
        add_carry();
        ptp_kind.apply();
    }
}
