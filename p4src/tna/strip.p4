// SPDX-License-Identifier: Apache-2.0
// INT sink: the parser has skipped shim, header and stack; the lengths follow here. The DSCP is the sender's already.
// A UDP checksum is set to 0 (none) under IPv4, because the skipped words are not known any more; under IPv6, where
// 0 is not allowed, such packets are not traced (docs/tofino.md).

control Strip(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    apply {
        meta.removed_bytes[9:2] = meta.removed_words;
        meta.removed_bytes = meta.removed_bytes + 4;
        hdr.udp.length = hdr.udp.length - meta.removed_bytes;
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.total_length = hdr.ipv4.total_length - meta.removed_bytes;
            hdr.udp.checksum = 0;
            meta.update_udp_checksum = 0;
        } else {
            hdr.ipv6.payload_length = hdr.ipv6.payload_length - meta.removed_bytes;
        }
    }
}
