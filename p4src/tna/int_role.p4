// SPDX-License-Identifier: Apache-2.0
// What this node is to the packet: source, transit, sink or none, decided in one table from what all others found
// out. Egress carries it out; the packet's kind tells the egress parser how far to read.

control IntRole(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @hidden
    action none() {
    }

    @hidden
    action unsupported() {
        meta.event = EVENT_INT_UNSUPPORTED;
        hdr.bridged.carries_int = 1;
    }

    @hidden
    action not_started() {
        meta.event = EVENT_INT_NOT_STARTED;
    }

    @hidden
    action not_strippable() {
        meta.event = EVENT_INT_UNSUPPORTED;
        meta.drop_reason = DROP_INT_NOT_STRIPPABLE;
    }

    @hidden
    action unmark() {
        meta.event = EVENT_INT_UNSUPPORTED;
        meta.rewrite_dscp = 1;
        meta.new_dscp = meta.dscp_unmarked;
    }

    @hidden
    action start_md() {
        hdr.bridged.kind = KIND_INT_SOURCE;
        hdr.bridged.carries_int = 1;
    }

    @hidden
    action start_mx() {
        hdr.bridged.kind = KIND_INT_SOURCE;
        hdr.bridged.mx = 1;
        hdr.bridged.carries_int = 1;
    }

    // Source and sink in one: there is no fabric link to carry INT over.
    @hidden
    action report_only_hop_md() {
        hdr.bridged.postcard = 1;
        hdr.bridged.bitmap = hdr.bridged.bitmap | INT_BIT_INGRESS_TSTAMP;     // it joins the two reports
    }

    @hidden
    action report_only_hop_mx() {
        hdr.bridged.postcard = 1;
    }

    @hidden
    action report_hop() {
        hdr.bridged.postcard = 1;
    }

    @hidden
    action transit_md() {
        hdr.bridged.kind = KIND_INT_TRANSIT;
        hdr.bridged.bitmap = meta.int_bitmap;
        hdr.bridged.remaining_hop_count = meta.int_hops;
        hdr.bridged.carries_int = 1;
    }

    @hidden
    action transit_mx() {
        hdr.bridged.bitmap = meta.int_bitmap;
        hdr.bridged.postcard = 1;
        hdr.bridged.mx = 1;
        hdr.bridged.carries_int = 1;
    }

    // The DSCP is the sender's again; ECN stays as it arrived: a CE mark must survive.
    @hidden
    action strip() {
        hdr.bridged.kind = KIND_INT_STRIP;
        meta.rewrite_dscp = 1;
        meta.new_dscp = meta.int_dscp;
    }

    // The stack is reported as received; this node's own hop is a postcard, and the ingress stamp joins the two.
    @hidden
    action strip_md() {
        strip();
        hdr.bridged.bitmap = meta.int_bitmap | INT_BIT_INGRESS_TSTAMP;
        meta.stack_report = 1;
        hdr.bridged.postcard = 1;
    }

    @hidden
    action strip_mx() {
        strip();
        hdr.bridged.bitmap = meta.int_bitmap;
        hdr.bridged.postcard = 1;
        hdr.bridged.mx = 1;
    }

    @hidden
    table int_role {
        key = {
            meta.int_marked: ternary;
            hdr.udp_tail.isValid(): ternary;
            meta.int_found: ternary;
            meta.int_beyond_udp: ternary;      // 0: the shim's length fits into the UDP payload
            meta.l4_beyond_ip: ternary;        // 0: the UDP length fits into the IP packet
            meta.ip_beyond_l4: ternary;        // 0: and ends where that ends
            meta.int_possible: ternary;        // odd DSCP: a shim may be there, the host's own
            meta.sink_port: ternary;
            meta.sink_reports: ternary;
            meta.source: ternary;
            meta.edge_port: ternary;
            meta.ptp_event: ternary;           // its correctionField cannot be behind a stack
            meta.postcard: ternary;
            hdr.bridged.exempt: ternary;
        }
        actions = {
            none; unsupported; not_started; not_strippable; unmark; start_md; start_mx; report_only_hop_md;
            report_only_hop_mx; report_hop; transit_md; transit_mx; strip; strip_md; strip_mx;
        }
        const default_action = none();
        const entries = {
            // marked, udp, found, too long, l4, ip, shim, sink, reports, source, edge, ptp, postcard, exempt
            // ---- packets without INT: a shim of the host occupies the place of ours, a fragment has no UDP ----
            (0, _, _, _, _, _, _, _, _, _, _, _, _, 1): none();
            (0, true, _, _, 0, 0, 0, 1, 1, SOURCE_MD, 1, 0, _, _): report_only_hop_md();
            (0, true, _, _, 0, 0, 0, 1, 1, SOURCE_MX, 1, 0, _, _): report_only_hop_mx();
            (0, true, _, _, 0, 0, 0, 1, 0, SOURCE_MD, 1, 0, _, _): none();
            (0, true, _, _, 0, 0, 0, 1, 0, SOURCE_MX, 1, 0, _, _): none();
            (0, true, _, _, 0, 0, 0, _, _, SOURCE_MD, 1, 0, _, _): start_md();
            (0, true, _, _, 0, 0, 0, _, _, SOURCE_MX, 1, 0, _, _): start_mx();
            (0, _, _, _, _, _, _, _, _, SOURCE_MD, 1, _, _, _): not_started();
            (0, _, _, _, _, _, _, _, _, SOURCE_MX, 1, _, _, _): not_started();
            (0, _, _, _, _, _, _, _, _, SOURCE_NONE, _, _, 1, _): report_hop();
            (0, _, _, _, _, _, _, _, _, _, _, _, _, _): none();
            // ---- INT whose lengths agree ----
            (1, true, INT_FOUND_MD, 0, 0, _, _, 1, 1, _, _, _, _, _): strip_md();
            (1, true, INT_FOUND_MX, 0, 0, _, _, 1, 1, _, _, _, _, _): strip_mx();
            (1, true, INT_FOUND_MD, 0, 0, _, _, 1, 0, _, _, _, _, _): strip();
            (1, true, INT_FOUND_MX, 0, 0, _, _, 1, 0, _, _, _, _, _): strip();
            (1, true, INT_FOUND_MD, 0, 0, _, _, 0, _, _, _, _, _, _): transit_md();
            (1, true, INT_FOUND_MX, 0, 0, _, _, 0, _, _, _, _, _, _): transit_mx();
            // ---- marked, and not INT that we know ----
            (1, true, _, _, _, _, _, 1, _, _, _, _, _, _): not_strippable();
            (1, _, _, _, _, _, _, 1, _, _, _, _, _, _): unmark();
            (1, _, _, _, _, _, _, _, _, _, _, _, _, _): unsupported();
        }
    }

    apply {
        int_role.apply();
    }
}
