// SPDX-License-Identifier: Apache-2.0
// INT sink: the parser has skipped shim, header and stack; the lengths follow here. The DSCP is the sender's already.

control Strip(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    @hidden
    action take_length() {
        meta.removed_bytes = meta.removed_bytes & 0x00FF;
    }

    @hidden
    action words_to_bytes() {
        meta.removed_bytes = meta.removed_bytes << 2;
    }

    @hidden
    action add_shim() {
        meta.removed_bytes = meta.removed_bytes + 4;
    }

    @hidden
    action shorten_ipv4() {
        hdr.udp.length = hdr.udp.length - meta.removed_bytes;
        hdr.ipv4.total_length = hdr.ipv4.total_length - meta.removed_bytes;
    }

    @hidden
    action shorten_ipv6() {
        hdr.udp.length = hdr.udp.length - meta.removed_bytes;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length - meta.removed_bytes;
    }

    apply {
        take_length();
        words_to_bytes();
        add_shim();
        if (hdr.ipv4.isValid()) {
            shorten_ipv4();
        } else {
            shorten_ipv6();
        }
    }
}
