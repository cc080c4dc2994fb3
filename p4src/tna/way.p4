// SPDX-License-Identifier: Apache-2.0
// Which way a packet goes that nothing has dropped or taken to the controller: one table instead of a chain of
// questions, because each question takes a table of its own.

control Way(in ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @hidden
    action choose(bit<3> way) {
        meta.way = way;
    }

    @hidden
    action ttl_expired() {
        meta.drop_reason = DROP_TTL_EXPIRED;
    }

    @hidden
    action unknown_ether_type() {
        meta.drop_reason = DROP_UNKNOWN_ETHER_TYPE;
    }

    @hidden
    table ways {
        key = {
            meta.drop_reason: ternary;
            hdr.bridged.to_cpu: ternary;
            meta.is_probe: ternary;
            meta.direct: ternary;
            meta.l2_ptp: ternary;
            hdr.ipv4.isValid(): ternary;
            hdr.ipv4.ttl: ternary;
            hdr.ipv6.isValid(): ternary;
            hdr.ipv6.hop_limit: ternary;
        }
        actions = { choose; ttl_expired; unknown_ether_type; }
        const default_action = choose(WAY_NONE);
        const entries = {
            (_, 1, _, _, _, _, _, _, _): choose(WAY_NONE);
            (NOT_DROPPED, _, 1, _, _, _, _, _, _): choose(WAY_PROBE);
            (NOT_DROPPED, _, _, 1, _, _, _, _, _): choose(WAY_NONE);
            (NOT_DROPPED, _, _, _, _, true, 0, _, _): ttl_expired();
            (NOT_DROPPED, _, _, _, _, true, 1, _, _): ttl_expired();
            (NOT_DROPPED, _, _, _, _, true, _, _, _): choose(WAY_IPV4);
            (NOT_DROPPED, _, _, _, _, _, _, true, 0): ttl_expired();
            (NOT_DROPPED, _, _, _, _, _, _, true, 1): ttl_expired();
            (NOT_DROPPED, _, _, _, _, _, _, true, _): choose(WAY_IPV6);
            (NOT_DROPPED, _, _, _, 1, _, _, _, _): choose(WAY_L2);
            (NOT_DROPPED, _, _, _, _, _, _, _, _): unknown_ether_type();
        }
    }

    apply {
        ways.apply();
    }
}
