// SPDX-License-Identifier: Apache-2.0
// Is this an IP packet that can be routed? Names the reason if not, and the lengths if it is.

control IpCheck(inout headers_t hdr,
                inout local_metadata_t meta,
                inout standard_metadata_t standard_metadata) {

    bit<32> l2_bytes = 14;

    apply {
        if (hdr.vlan.isValid()) {
            l2_bytes = 18;
        }
        l2_bytes = l2_bytes + (bit<32>)meta.controller_bytes;
        if (hdr.ipv4.isValid()) {
            meta.ip_bytes = (bit<32>)hdr.ipv4.total_length;
            meta.ip_header_bytes = (bit<32>)hdr.ipv4.ihl << 2;
            if (meta.ip_malformed == 1) {
                if (hdr.ipv4.version != 4) {
                    meta.drop_reason = DROP_IP_VERSION_INVALID;
                } else {
                    meta.drop_reason = DROP_IP_HEADER_LENGTH_INVALID;
                }
            } else if (meta.ip_bytes + l2_bytes > standard_metadata.packet_length
                       || meta.ip_bytes < meta.ip_header_bytes) {
                meta.drop_reason = DROP_IP_LENGTH_INVALID;
            } else if (standard_metadata.checksum_error == 1) {
                meta.drop_reason = DROP_IP_CHECKSUM_INVALID;
            }
        } else if (hdr.ipv6.isValid()) {
            meta.ip_bytes = (bit<32>)hdr.ipv6.payload_length + 40;
            meta.ip_header_bytes = 40;
            if (meta.ip_malformed == 1) {
                meta.drop_reason = DROP_IP_VERSION_INVALID;
            } else if (meta.ip_bytes + l2_bytes > standard_metadata.packet_length) {
                meta.drop_reason = DROP_IP_LENGTH_INVALID;
            }
        } else if (meta.ether_type == ETHER_TYPE_IPV4 || meta.ether_type == ETHER_TYPE_IPV6) {
            meta.drop_reason = DROP_IP_LENGTH_INVALID;   // the frame ends inside the IP header
        }
    }
}
