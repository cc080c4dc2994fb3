// SPDX-License-Identifier: Apache-2.0
// Change-only postcards: a flow is reported again when its path or its latency step changes, and once an
// interval. Two registers with different hashes: a flow is known if either remembers it, so that two flows
// that share a slot of one do not wake each other all the time.

control FlowFilter(in egress_headers_t hdr, inout egress_metadata_t meta) {

    Hash<bit<32>>(HashAlgorithm_t.CRC32) fingerprint_hash;
    Hash<bit<14>>(HashAlgorithm_t.CRC32) index_hash_a;
    Hash<bit<14>>(HashAlgorithm_t.CRC16) index_hash_b;

    Register<bit<32>, bit<14>>(FLOW_FILTER_SIZE, 0) flow_filter_a;
    Register<bit<32>, bit<14>>(FLOW_FILTER_SIZE, 0) flow_filter_b;

    RegisterAction<bit<32>, bit<14>, bit<1>>(flow_filter_a) look_at_a = {
        void apply(inout bit<32> value, out bit<1> known) {
            known = 0;
            if (value == meta.fingerprint) {
                known = 1;
            }
            value = meta.fingerprint;
        }
    };

    RegisterAction<bit<32>, bit<14>, bit<1>>(flow_filter_b) look_at_b = {
        void apply(inout bit<32> value, out bit<1> known) {
            known = 0;
            if (value == meta.fingerprint) {
                known = 1;
            }
            value = meta.fingerprint;
        }
    };

    // TNA shifts by constants only: the low bits of the latency are cleared instead.
    @hidden
    action set_latency_mask(bit<32> bits) {
        meta.latency_step = meta.latency & bits;
    }

    @hidden
    table latency_mask {
        key = { hdr.bridged.latency_shift: exact; }
        actions = { set_latency_mask; }
        const default_action = set_latency_mask(0xFFFFFFFF);
        const entries = {
             0: set_latency_mask(0xFFFFFFFF);  1: set_latency_mask(0xFFFFFFFE);
             2: set_latency_mask(0xFFFFFFFC);  3: set_latency_mask(0xFFFFFFF8);
             4: set_latency_mask(0xFFFFFFF0);  5: set_latency_mask(0xFFFFFFE0);
             6: set_latency_mask(0xFFFFFFC0);  7: set_latency_mask(0xFFFFFF80);
             8: set_latency_mask(0xFFFFFF00);  9: set_latency_mask(0xFFFFFE00);
            10: set_latency_mask(0xFFFFFC00); 11: set_latency_mask(0xFFFFF800);
            12: set_latency_mask(0xFFFFF000); 13: set_latency_mask(0xFFFFE000);
            14: set_latency_mask(0xFFFFC000); 15: set_latency_mask(0xFFFF8000);
            16: set_latency_mask(0xFFFF0000); 17: set_latency_mask(0xFFFE0000);
            18: set_latency_mask(0xFFFC0000); 19: set_latency_mask(0xFFF80000);
            20: set_latency_mask(0xFFF00000); 21: set_latency_mask(0xFFE00000);
            22: set_latency_mask(0xFFC00000); 23: set_latency_mask(0xFF800000);
            24: set_latency_mask(0xFF000000); 25: set_latency_mask(0xFE000000);
            26: set_latency_mask(0xFC000000); 27: set_latency_mask(0xF8000000);
            28: set_latency_mask(0xF0000000); 29: set_latency_mask(0xE0000000);
            30: set_latency_mask(0xC0000000); 31: set_latency_mask(0x80000000);
        }
    }

    @hidden
    action hash_flow() {
        meta.fingerprint = fingerprint_hash.get({ hdr.bridged.flow_hash, meta.ingress_port, meta.egress_port,
                                                  meta.latency_step, hdr.bridged.interval });
    }

    @hidden
    action ask_a() {
        meta.known_a = look_at_a.execute(index_hash_a.get({ hdr.bridged.flow_hash }));
    }

    @hidden
    action ask_b() {
        meta.known_b = look_at_b.execute(index_hash_b.get({ hdr.bridged.flow_hash }));
    }

    apply {
        latency_mask.apply();
        hash_flow();
        if (hdr.bridged.exempt == 0 && hdr.bridged.destination_configured == 1
            && (hdr.bridged.change_only == 1 || (hdr.bridged.mx == 1 && hdr.bridged.filter_mx == 1))) {
            ask_a();
            ask_b();
        }
    }
}
