// SPDX-License-Identifier: Apache-2.0
// Change-only postcards: a flow is reported again when its path or its latency step changes, and once an
// interval. Two registers with different hashes: a flow is known if either remembers it, so that two flows
// that share a slot of one do not wake each other all the time.

control FlowFilter(inout local_metadata_t meta,
                   inout standard_metadata_t standard_metadata,
                   out bit<1> known) {

    bit<48> latency = 0;
    bit<48> interval = 0;
    bit<32> fingerprint = 0;
    bit<32> index_a = 0;
    bit<32> index_b = 0;
    bit<32> seen_a = 0;
    bit<32> seen_b = 0;

    @id(REGISTER_FLOW_FILTER_A)
    register<bit<32>, bit<32>>(FLOW_FILTER_SIZE) flow_filter_a;
    @id(REGISTER_FLOW_FILTER_B)
    register<bit<32>, bit<32>>(FLOW_FILTER_SIZE) flow_filter_b;

    @hidden
    action hash_flow() {
        latency = (standard_metadata.egress_global_timestamp
                   - standard_metadata.ingress_global_timestamp) >> meta.latency_shift;
        interval = standard_metadata.ingress_global_timestamp >> meta.interval_shift;
        hash(fingerprint, HashAlgorithm.crc32, 32w0,
             { meta.flow_hash, 7w0, standard_metadata.ingress_port, 7w0, standard_metadata.egress_port,
               latency, interval }, 64w0x100000000);
        fingerprint = fingerprint | 1;   // an empty register holds 0
        hash(index_a, HashAlgorithm.crc32, 32w0, { meta.flow_hash }, 32w16384);
        hash(index_b, HashAlgorithm.crc16, 32w0, { meta.flow_hash }, 32w16384);
    }

    @hidden
    action look_at_a() {
        flow_filter_a.read(seen_a, index_a);
        flow_filter_a.write(index_a, fingerprint);
    }

    @hidden
    action look_at_b() {
        flow_filter_b.read(seen_b, index_b);
        flow_filter_b.write(index_b, fingerprint);
    }

    apply {
        known = 0;
        hash_flow();
        look_at_a();
        look_at_b();
        if (seen_a == fingerprint || seen_b == fingerprint) {
            known = 1;
        }
    }
}
