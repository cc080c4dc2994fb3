// SPDX-License-Identifier: Apache-2.0
// The egress half of the transparent clock: the egress MAC is told where to put the sum that ingress began, and the
// correctionField leaves the packet. The UDP checksum is that of a packet with 0 in its place.

control TransmitCorrection(inout egress_headers_t hdr,
                           inout egress_metadata_t meta,
                           inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {

    // Where the correctionField and the UDP checksum are, in bytes from the start of the Ethernet header.
    @hidden
    action tell_mac(bit<8> correction_offset, bit<8> checksum_offset) {
        hdr.ptp_for_mac.checksum_offset = checksum_offset;
        hdr.ptp_for_mac.correction_offset = correction_offset;
        hdr.ptp_correction.setInvalid();
        eg_oport_md.update_delay_on_tx = 1;
        meta.corrected = 1;
        meta.event = EVENT_PTP_CORRECTED;
    }

    @hidden
    action too_big() {
        meta.event = EVENT_PTP_TOO_BIG;
    }

    @hidden
    table ptp_offsets {
        key = {
            meta.kind: ternary;
            hdr.vlan.isValid(): ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv6.isValid(): ternary;
            hdr.udp.checksum: ternary;
        }
        actions = { tell_mac; too_big; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (KIND_PTP_TOO_BIG, _, _, _, _): too_big();
            (KIND_PTP_CORRECTED, false, false, false, _): tell_mac(22, PTP_NO_UDP_CHECKSUM);
            (KIND_PTP_CORRECTED, true, false, false, _): tell_mac(26, PTP_NO_UDP_CHECKSUM);
            (KIND_PTP_CORRECTED, false, true, false, 0): tell_mac(50, PTP_NO_UDP_CHECKSUM);
            (KIND_PTP_CORRECTED, true, true, false, 0): tell_mac(54, PTP_NO_UDP_CHECKSUM);
            (KIND_PTP_CORRECTED, false, false, true, 0): tell_mac(70, PTP_NO_UDP_CHECKSUM);
            (KIND_PTP_CORRECTED, true, false, true, 0): tell_mac(74, PTP_NO_UDP_CHECKSUM);
            (KIND_PTP_CORRECTED, false, true, false, _): tell_mac(50, 40);
            (KIND_PTP_CORRECTED, true, true, false, _): tell_mac(54, 44);
            (KIND_PTP_CORRECTED, false, false, true, _): tell_mac(70, 60);
            (KIND_PTP_CORRECTED, true, false, true, _): tell_mac(74, 64);
        }
    }

    apply {
        ptp_offsets.apply();
    }
}
