// SPDX-License-Identifier: Apache-2.0
// IP and UDP lengths of a packet that INT made longer, or that a sink made shorter. At the sink the parser has skipped
// shim, header and stack, and ingress has counted them.

control NewLengths(inout egress_headers_t hdr, in egress_metadata_t meta) {

    @hidden
    action lengthen_ipv4() {
        hdr.udp.length = hdr.udp.length + meta.added_bytes;
        hdr.ipv4.total_length = hdr.ipv4.total_length + meta.added_bytes;
    }

    @hidden
    action lengthen_ipv6() {
        hdr.udp.length = hdr.udp.length + meta.added_bytes;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + meta.added_bytes;
    }

    @hidden
    action shorten_ipv4() {
        hdr.udp.length = hdr.udp.length - hdr.bridged.int_bytes;
        hdr.ipv4.total_length = hdr.ipv4.total_length - hdr.bridged.int_bytes;
    }

    @hidden
    action shorten_ipv6() {
        hdr.udp.length = hdr.udp.length - hdr.bridged.int_bytes;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length - hdr.bridged.int_bytes;
    }

    @hidden
    table new_lengths {
        key = {
            meta.kind: exact;
            hdr.ipv4.isValid(): exact;
        }
        actions = { lengthen_ipv4; lengthen_ipv6; shorten_ipv4; shorten_ipv6; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            (KIND_INT_SOURCE, true): lengthen_ipv4();
            (KIND_INT_SOURCE, false): lengthen_ipv6();
            (KIND_INT_TRANSIT, true): lengthen_ipv4();
            (KIND_INT_TRANSIT, false): lengthen_ipv6();
            (KIND_INT_STRIP, true): shorten_ipv4();
            (KIND_INT_STRIP, false): shorten_ipv6();
        }
    }

    apply {
        new_lengths.apply();
    }
}
