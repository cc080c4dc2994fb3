// SPDX-License-Identifier: Apache-2.0
// Hashes of the flow: one that is the same on every switch, and one per tier for ECMP.

control FlowHash(in headers_t hdr, inout local_metadata_t meta) {

    bit<32> tier_offset = 0;
    bit<32> mixed = 0;

    @id(ACTION_SET_ECMP_CONFIG)
    action set_ecmp_config(@id(1) bit<8> tier, @id(2) bit<32> seed, @id(3) bit<1> hash_flow_label) {
        tier_offset = seed + (bit<32>)tier * 0x9E3779B9;
        meta.ecmp_by_flow_label = hash_flow_label;
    }

    // Filled by the controller (default action): the tier of this switch, so that tiers choose differently.
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
        hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
               meta.l4_src_port, meta.l4_dst_port }, 64w0x100000000);
    }

    @hidden
    action hash_ipv6() {
        hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
             { hdr.ipv6.src_addr, hdr.ipv6.dst_addr, hdr.ipv6.next_header,
               meta.l4_src_port, meta.l4_dst_port }, 64w0x100000000);
    }

    // RFC 6438: source, destination and flow label.
    @hidden
    action hash_flow_label() {
        hash(mixed, HashAlgorithm.crc32, 32w0,
             { hdr.ipv6.src_addr, hdr.ipv6.dst_addr, 12w0, hdr.ipv6.flow_label }, 64w0x100000000);
    }

    @hidden
    action hash_addresses() {
        hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
             { hdr.ethernet.src_addr, hdr.ethernet.dst_addr }, 64w0x100000000);
    }

    // A CRC is linear: with another seed, flows that shared a member at one tier share one at the next.
    // Multiplications and shifts are not (the finaliser of MurmurHash3), so a tier's offset does its work.
    @hidden
    action mix() {
        mixed = mixed + tier_offset;
        mixed = mixed ^ (mixed >> 16);
        mixed = mixed * 0x85EBCA6B;
        mixed = mixed ^ (mixed >> 13);
        mixed = mixed * 0xC2B2AE35;
        meta.ecmp_hash = mixed ^ (mixed >> 16);
    }

    apply {
        ecmp_config.apply();
        if (hdr.ipv4.isValid()) {
            hash_ipv4();
            mixed = meta.flow_hash;
        } else if (hdr.ipv6.isValid()) {
            hash_ipv6();
            mixed = meta.flow_hash;
            if (meta.ecmp_by_flow_label == 1) {
                hash_flow_label();
            }
        } else if (hdr.ethernet.isValid()) {
            hash_addresses();
            mixed = meta.flow_hash;
        }
        mix();
    }
}
