// SPDX-License-Identifier: Apache-2.0
// What is left to do for a routed packet: its VLAN tag, or the reason why there is no route.

control Tag(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @hidden
    action no_route() {
        meta.drop_reason = DROP_NO_ROUTE;
    }

    @hidden
    action nothing() {
    }

    // A tag belongs to its link: it ends at the router. Priority bits are kept from tag to tag.
    @hidden
    action take_tag_off() {
        hdr.ethernet.ether_type = hdr.vlan.ether_type;
        hdr.vlan.setInvalid();
    }

    @hidden
    action put_tag_on() {
        hdr.vlan.setValid();
        hdr.vlan.pcp = meta.egress_tag[15:13];
        hdr.vlan.dei = meta.egress_tag[12:12];
        hdr.vlan.vlan_id = meta.egress_tag[11:0];
        hdr.vlan.ether_type = meta.ether_type;
        hdr.ethernet.ether_type = ETHER_TYPE_VLAN;
    }

    @hidden
    action change_tag() {
        hdr.vlan.vlan_id = meta.egress_tag[11:0];
    }

    @hidden
    table tag {
        key = {
            meta.way: ternary;
            meta.routed: ternary;
            meta.egress_tagged: ternary;
            hdr.vlan.isValid(): ternary;
            meta.drop_reason: ternary;
        }
        actions = { nothing; take_tag_off; put_tag_on; change_tag; no_route; }
        const default_action = nothing();
        const entries = {
            (_, 1, 0, true, _): take_tag_off();
            (_, 1, 1, true, _): change_tag();
            (_, 1, 1, false, _): put_tag_on();
            (WAY_IPV4, 0, _, _, NOT_DROPPED): no_route();
            (WAY_IPV6, 0, _, _, NOT_DROPPED): no_route();
        }
    }

    apply {
        tag.apply();
    }
}
