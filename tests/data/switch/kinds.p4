// SPDX-License-Identifier: Apache-2.0
// One object of each kind that P4Runtime can reach, for tests of the embedded switch.
// p4c-bm2-ss --p4runtime-files kinds.p4info.txt -o kinds.json kinds.p4
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

header i_t {
    bit<8> x;
}

struct headers_t {
    h_t h;
    i_t i;
}

struct metadata_t {
    bit<2> color;
    bit<2> direct_color;
}

struct seen_t {
    bit<8> a;
    bit<9> port;
}

parser KindsParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    value_set<bit<8>>(4) extended;

    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            extended: parse_i;
            default: accept;
        }
    }

    state parse_i {
        packet.extract(hdr.i);
        transition accept;
    }
}

control KindsVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control KindsIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(8, CounterType.packets_and_bytes) packets_seen;
    meter(4, MeterType.packets) rate;
    direct_counter(CounterType.packets) acl_counter;
    direct_meter<bit<2>>(MeterType.bytes) acl_meter;
    action_profile(8) next_hops;
    action_selector(HashAlgorithm.crc16, 16, 14) spread;

    action to_port(bit<9> port) { standard_metadata.egress_spec = port; }
    action metered(bit<9> port) {
        acl_meter.read(meta.direct_color);
        standard_metadata.egress_spec = port;
    }
    action refuse() { mark_to_drop(standard_metadata); }

    table acl {
        key = {
            hdr.h.a: optional @name("a");
            hdr.h.b: range @name("b");
            hdr.h.c: ternary @name("c");
        }
        actions = { metered; refuse; }
        default_action = refuse();
        counters = acl_counter;
        meters = acl_meter;
        size = 16;
    }

    table profiled {
        key = { hdr.h.d: exact @name("d"); }
        actions = { to_port; }
        implementation = next_hops;
        size = 16;
    }

    table selected {
        key = {
            hdr.h.d: exact @name("d");
            hdr.h.c: selector;
        }
        actions = { to_port; }
        implementation = spread;
        size = 16;
    }

    table fixed {
        key = { hdr.h.d: exact @name("d"); }
        actions = { to_port; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x77: to_port(77);
        }
    }

    apply {
        acl.apply();
        profiled.apply();
        selected.apply();
        fixed.apply();
        packets_seen.count((bit<32>)hdr.h.a & 7);
        rate.execute_meter((bit<32>)hdr.h.a & 3, meta.color);
        if (hdr.h.b == 0xFF) {
            digest<seen_t>(1, { hdr.h.a, standard_metadata.ingress_port });
        }
        hdr.h.c = (bit<8>)meta.color;
        hdr.h.d = (bit<8>)meta.direct_color;
    }
}

control KindsEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) { apply { } }

control KindsCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control KindsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.i);
    }
}

V1Switch(KindsParser(), KindsVerify(), KindsIngress(), KindsEgress(), KindsCompute(),
         KindsDeparser()) main;
