// SPDX-License-Identifier: Apache-2.0
// INT sink: the parser has skipped shim, header and stack; the lengths follow here. The DSCP is the sender's already.

control Strip(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    apply {
        meta.removed_bytes[9:2] = meta.removed_words;
        meta.removed_bytes = meta.removed_bytes + 4;     // the shim
        hdr.udp.length = hdr.udp.length - meta.removed_bytes;
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.total_length = hdr.ipv4.total_length - meta.removed_bytes;
        } else {
            hdr.ipv6.payload_length = hdr.ipv6.payload_length - meta.removed_bytes;
        }
    }
}
