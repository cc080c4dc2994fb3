// SPDX-License-Identifier: Apache-2.0
// End-to-end transparent clock (IEEE 1588-2019 clause 10.2): what a PTP event message spent in this node goes
// into its correctionField, with twoStepFlag set or not. With a delay per ingress port, the estimated one-way
// delay of the link that it came over goes in as well, so that the message corrects its own ECMP path.

control TransparentClock(inout headers_t hdr,
                         inout local_metadata_t meta,
                         inout standard_metadata_t standard_metadata,
                         out bit<1> corrected,
                         out bit<1> too_big) {

    bit<1> enabled = 0;
    scaled_ns_t added = 0;
    scaled_ns_t old = 0;
    scaled_ns_t now = 0;
    bit<32> sum = 0;

    @id(ACTION_SET_TRANSPARENT_CLOCK)
    action set_transparent_clock(@id(1) bit<32> scaled_ns_per_unit,
                                 @id(2) scaled_ns_t residence_offset) {
        enabled = 1;
        // From the ingress stamp to the egress stamp, modulo 2^48, plus what lies outside of the two.
        added = (scaled_ns_t)(standard_metadata.egress_global_timestamp
                              - standard_metadata.ingress_global_timestamp)
                * (scaled_ns_t)scaled_ns_per_unit + residence_offset;
    }

    // Filled by the controller (default action): the stamp unit in 2^-16 ns, and the stamp points' latencies.
    @id(TABLE_TRANSPARENT_CLOCK)
    table transparent_clock {
        key = { }
        actions = { set_transparent_clock; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    @id(ACTION_SET_LINK_DELAY)
    action set_link_delay(@id(1) scaled_ns_t delay) {
        added = added + delay;
    }

    // Filled by the controller: estimated one-way delay of the link behind each port, in 2^-16 ns, two's
    // complement, less a constant that all ports of the fabric share.
    @id(TABLE_PTP_LINK_DELAY)
    table ptp_link_delay {
        key = { standard_metadata.ingress_port: exact @id(1) @name("ingress_port"); }
        actions = { set_link_delay; @defaultonly NoAction; }
        default_action = NoAction();
        size = PTP_LINK_DELAY_SIZE;
    }

    // C' = C - old + new, in ones' complement.
    @hidden
    action update_udp_checksum() {
        sum = (bit<32>)(~hdr.udp.checksum)
              + (bit<32>)(~old[63:48]) + (bit<32>)(~old[47:32])
              + (bit<32>)(~old[31:16]) + (bit<32>)(~old[15:0])
              + (bit<32>)now[63:48] + (bit<32>)now[47:32] + (bit<32>)now[31:16] + (bit<32>)now[15:0];
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        hdr.udp.checksum = ~sum[15:0];
    }

    apply {
        corrected = 0;
        too_big = 0;
        transparent_clock.apply();
        if (enabled == 1) {
            if (hdr.ptp.correction_field == PTP_CORRECTION_TOO_BIG) {
                too_big = 1;
            } else {
                ptp_link_delay.apply();
                old = hdr.ptp.correction_field;
                now = old + added;
                corrected = 1;
                // Two values of one sign whose sum has the other: beyond what the field can hold.
                if (old[63:63] == added[63:63] && now[63:63] != old[63:63]) {
                    now = PTP_CORRECTION_TOO_BIG;
                    corrected = 0;
                    too_big = 1;
                }
                hdr.ptp.correction_field = now;
                if (hdr.udp.isValid() && hdr.udp.checksum != 0) {   // 0: none was computed, and stays
                    update_udp_checksum();
                    if (hdr.udp.checksum == 0) {
                        hdr.udp.checksum = 0xFFFF;
                    }
                }
            }
        }
    }
}
