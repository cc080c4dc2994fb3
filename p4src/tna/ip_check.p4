// SPDX-License-Identifier: Apache-2.0
// Is this an IP packet that can be routed? Names the reason if not. TNA tells ingress nothing of the length of a
// frame, so an IP packet that claims to be longer than its frame is not noticed here.

control IpCheck(in ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @hidden
    action wrong(drop_reason_t reason) {
        meta.drop_reason = reason;
    }

    @hidden
    table ip_verdict {
        key = {
            hdr.ipv4.isValid(): ternary;
            hdr.ipv6.isValid(): ternary;
            meta.ip_form: ternary;
            meta.checksum_error: ternary;
            hdr.ipv4.total_length: ternary;
            meta.ether_type: ternary;
        }
        actions = { wrong; NoAction; }
        const default_action = NoAction();
        const entries = {
            (_, _, IP_VERSION_WRONG, _, _, _): wrong(DROP_IP_VERSION_INVALID);
            (_, _, IP_HEADER_LENGTH_WRONG, _, _, _): wrong(DROP_IP_HEADER_LENGTH_INVALID);
            (true, _, _, true, _, _): wrong(DROP_IP_CHECKSUM_INVALID);
            (true, _, _, _, 16w0 &&& 16w0xFFF0, _): wrong(DROP_IP_LENGTH_INVALID);      // below 16
            (true, _, _, _, 16w16 &&& 16w0xFFFC, _): wrong(DROP_IP_LENGTH_INVALID);     // below 20
            (true, _, _, _, _, _): NoAction();
            (_, true, _, _, _, _): NoAction();
            // The frame ends inside the IP header.
            (_, _, _, _, _, ETHER_TYPE_IPV4): wrong(DROP_IP_LENGTH_INVALID);
            (_, _, _, _, _, ETHER_TYPE_IPV6): wrong(DROP_IP_LENGTH_INVALID);
        }
    }

    apply {
        ip_verdict.apply();
    }
}
