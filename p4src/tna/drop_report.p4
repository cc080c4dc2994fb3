// SPDX-License-Identifier: Apache-2.0
// Which drops are reported, and how often. A packet that ingress does not drop is asked for with the traffic
// manager's reason: on a hit that drop is deflected to egress, which reports it.

control DropReport(in ingress_headers_t hdr,
                   inout ingress_metadata_t meta,
                   in ingress_intrinsic_metadata_t ig_intr_md) {

    Hash<bit<32>>(HashAlgorithm_t.CRC32) fingerprint_hash;
    Hash<bit<14>>(HashAlgorithm_t.CRC32) index_hash_a;
    Hash<bit<14>>(HashAlgorithm_t.CRC16) index_hash_b;

    @id(ACTION_REPORT_DROP)
    action report_drop() {
        meta.drop_wanted = 1;
    }

    // Filled by the controller: reasons and flows whose drops are reported, and above them, with NoAction, flows
    // whose drops are not: those to the collectors. No direct counter: it would have to count in NoAction.
    @id(TABLE_DROP_REPORT)
    table drop_report {
        key = {
            meta.drop_reason: ternary @id(1) @name("reason");
            hdr.ipv4.src_addr: ternary @id(2) @name("src_addr");   // 0 unless IPv4
            hdr.ipv4.dst_addr: ternary @id(3) @name("dst_addr");   // 0 unless IPv4
        }
        actions = { report_drop; NoAction; }
        default_action = NoAction();
        size = DROP_REPORT_SIZE;
    }

    // What was reported last, by flow and reason, in two places: a drop is known if either remembers it.
    Register<bit<32>, bit<14>>(FLOW_FILTER_SIZE, 0) drop_filter_a;
    Register<bit<32>, bit<14>>(FLOW_FILTER_SIZE, 0) drop_filter_b;

    RegisterAction<bit<32>, bit<14>, bit<1>>(drop_filter_a) look_at_a = {
        void apply(inout bit<32> value, out bit<1> known) {
            known = 0;
            if (value == meta.fingerprint) {
                known = 1;
            }
            value = meta.fingerprint;
        }
    };

    RegisterAction<bit<32>, bit<14>, bit<1>>(drop_filter_b) look_at_b = {
        void apply(inout bit<32> value, out bit<1> known) {
            known = 0;
            if (value == meta.fingerprint) {
                known = 1;
            }
            value = meta.fingerprint;
        }
    };

    @hidden
    action hash_drop() {
        meta.fingerprint = fingerprint_hash.get({ hdr.bridged.flow_hash, meta.drop_reason,
                                                  ig_intr_md.ingress_port, hdr.bridged.interval });
    }

    @hidden
    action ask_a() {
        meta.drop_known_a = look_at_a.execute(index_hash_a.get({ hdr.bridged.flow_hash, meta.drop_reason }));
    }

    @hidden
    action ask_b() {
        meta.drop_known_b = look_at_b.execute(index_hash_b.get({ hdr.bridged.flow_hash, meta.drop_reason }));
    }

    apply {
        if (meta.is_report == 0 && hdr.bridged.to_cpu == 0 && hdr.bridged.exempt == 0
            && hdr.bridged.destination_configured == 1) {
            drop_report.apply();
        }
        hash_drop();
        if (meta.drop_wanted == 1 && meta.filter_drops == 1 && meta.drop_reason != NOT_DROPPED) {
            ask_a();
            ask_b();
        }
    }
}
