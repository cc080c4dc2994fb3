// SPDX-License-Identifier: Apache-2.0
// Which drops are reported, and how often. BMv2 does not tell of drops in its traffic manager.

control DropReport(in headers_t hdr,
                   inout local_metadata_t meta,
                   inout standard_metadata_t standard_metadata,
                   out bit<1> wanted,
                   out bit<1> filtered) {

    ipv4_addr_t src_addr = 0;
    ipv4_addr_t dst_addr = 0;
    bit<32> fingerprint = 0;
    bit<32> index_a = 0;
    bit<32> index_b = 0;
    bit<32> seen_a = 0;
    bit<32> seen_b = 0;

    @id(DIRECT_COUNTER_DROP_REPORT)
    direct_counter(CounterType.packets_and_bytes) drop_report_counter;

    @id(ACTION_REPORT_DROP)
    action report_drop() {
        wanted = 1;
    }

    // Filled by the controller: reasons and flows whose drops are reported, and above them, with NoAction, flows
    // whose drops are not: those to the collectors.
    @id(TABLE_DROP_REPORT)
    table drop_report {
        key = {
            meta.drop_reason: ternary @id(1) @name("reason");
            src_addr: ternary @id(2) @name("src_addr");   // 0 unless IPv4
            dst_addr: ternary @id(3) @name("dst_addr");   // 0 unless IPv4
        }
        actions = { report_drop; NoAction; }
        default_action = NoAction();
        counters = drop_report_counter;
        size = DROP_REPORT_SIZE;
    }

    @id(REGISTER_DROP_FILTER_A)
    register<bit<32>, bit<32>>(FLOW_FILTER_SIZE) drop_filter_a;
    @id(REGISTER_DROP_FILTER_B)
    register<bit<32>, bit<32>>(FLOW_FILTER_SIZE) drop_filter_b;

    @hidden
    action hash_drop() {
        hash(fingerprint, HashAlgorithm.crc32, 32w0,
             { meta.flow_hash, meta.drop_reason, 7w0, standard_metadata.ingress_port,
               standard_metadata.ingress_global_timestamp >> meta.interval_shift }, 64w0x100000000);
        fingerprint = fingerprint | 1;   // an empty register holds 0
        hash(index_a, HashAlgorithm.crc32, 32w0, { meta.flow_hash, meta.drop_reason }, 32w16384);
        hash(index_b, HashAlgorithm.crc16, 32w0, { meta.flow_hash, meta.drop_reason }, 32w16384);
    }

    @hidden
    action look_at_a() {
        drop_filter_a.read(seen_a, index_a);
        drop_filter_a.write(index_a, fingerprint);
    }

    @hidden
    action look_at_b() {
        drop_filter_b.read(seen_b, index_b);
        drop_filter_b.write(index_b, fingerprint);
    }

    apply {
        wanted = 0;
        filtered = 0;
        if (hdr.ipv4.isValid()) {
            src_addr = hdr.ipv4.src_addr;
            dst_addr = hdr.ipv4.dst_addr;
        }
        drop_report.apply();
        if (wanted == 1 && meta.filter_drops == 1) {
            hash_drop();
            look_at_a();
            look_at_b();
            if (seen_a == fingerprint || seen_b == fingerprint) {
                wanted = 0;
                filtered = 1;
            }
        }
    }
}
