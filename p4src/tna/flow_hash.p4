// SPDX-License-Identifier: Apache-2.0
// Hashes of the flow: one that is the same on every switch, and one per tier for ECMP. A CRC is linear, so that
// another seed would only rename the members of a group; another polynomial chooses anew. There is one per tier.

control FlowHash(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    Hash<bit<32>>(HashAlgorithm_t.CRC32) ipv4_hash;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) ipv6_hash;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) flow_label_hash;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) address_hash;

    // Polynomial, reversed, most significant bit first, extended, initial value, final value.
    CRCPolynomial<bit<16>>(16w0x1021, false, false, false, 16w0xFFFF, 16w0x0000) polynomial_0;   // CCITT
    CRCPolynomial<bit<16>>(16w0x8BB7, false, false, false, 16w0x0000, 16w0x0000) polynomial_1;   // T10-DIF
    CRCPolynomial<bit<16>>(16w0x3D65, false, false, false, 16w0x0000, 16w0xFFFF) polynomial_2;   // DNP
    CRCPolynomial<bit<16>>(16w0xC867, false, false, false, 16w0xFFFF, 16w0x0000) polynomial_3;   // CDMA2000
    Hash<bit<16>>(HashAlgorithm_t.CUSTOM, polynomial_0) tier_0_hash;
    Hash<bit<16>>(HashAlgorithm_t.CUSTOM, polynomial_1) tier_1_hash;
    Hash<bit<16>>(HashAlgorithm_t.CUSTOM, polynomial_2) tier_2_hash;
    Hash<bit<16>>(HashAlgorithm_t.CUSTOM, polynomial_3) tier_3_hash;

    @id(ACTION_SET_ECMP_CONFIG)
    action set_ecmp_config(@id(1) bit<8> tier, @id(2) bit<32> seed, @id(3) bit<1> hash_flow_label) {
        meta.tier = tier[1:0];
        meta.ecmp_input = seed;
        meta.ecmp_by_flow_label = hash_flow_label;
    }

    // Filled by the controller (default action): the tier of this switch, so that tiers choose differently.
    // Tiers are taken modulo 4.
    @id(TABLE_ECMP_CONFIG)
    table ecmp_config {
        key = { }
        actions = { set_ecmp_config; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    // Only what INT leaves alone: neither marking nor INT headers move a flow.
    @hidden
    action hash_ipv4() {
        hdr.bridged.flow_hash = ipv4_hash.get({ hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                                         hdr.l4_ports.src_port, hdr.l4_ports.dst_port });
    }

    @hidden
    action hash_ipv6() {
        hdr.bridged.flow_hash = ipv6_hash.get({ hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.ipv6.next_header,
                                         hdr.l4_ports.src_port, hdr.l4_ports.dst_port });
    }

    // RFC 6438: source, destination and flow label.
    @hidden
    action hash_flow_label() {
        meta.ecmp_input = flow_label_hash.get({ hdr.ipv6.src_addr, hdr.ipv6.dst_addr, 12w0,
                                                hdr.ipv6.flow_label, meta.ecmp_input });
    }

    @hidden
    action hash_addresses() {
        hdr.bridged.flow_hash = address_hash.get({ hdr.ethernet.src_addr, hdr.ethernet.dst_addr });
    }

    @hidden
    action mix_in_flow_hash() {
        meta.ecmp_input = meta.ecmp_input ^ hdr.bridged.flow_hash;
    }

    @hidden
    action choose_0() { meta.ecmp_hash = tier_0_hash.get({ meta.ecmp_input }); }
    @hidden
    action choose_1() { meta.ecmp_hash = tier_1_hash.get({ meta.ecmp_input }); }
    @hidden
    action choose_2() { meta.ecmp_hash = tier_2_hash.get({ meta.ecmp_input }); }
    @hidden
    action choose_3() { meta.ecmp_hash = tier_3_hash.get({ meta.ecmp_input }); }

    apply {
        ecmp_config.apply();
        if (hdr.ipv4.isValid()) {
            hash_ipv4();
        } else if (hdr.ipv6.isValid()) {
            hash_ipv6();
        } else {
            hash_addresses();
        }
        if (hdr.ipv6.isValid() && meta.ecmp_by_flow_label == 1) {
            hash_flow_label();
        } else {
            mix_in_flow_hash();
        }
        if (meta.tier == 0) {
            choose_0();
        } else if (meta.tier == 1) {
            choose_1();
        } else if (meta.tier == 2) {
            choose_2();
        } else {
            choose_3();
        }
    }
}
